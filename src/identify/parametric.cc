// ParametricModel: models as functions of parameters, and the derivative of the compiler.
#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "base/parallel.h"
#include "diffmj/error.h"
#include "diffmj/identify.h"
#include "identify/attributes.h"
#include "mj/call.h"
#include "mj/handle.h"
#include "model/parameters.h"
#include "model/variant.h"

namespace diffmj {
namespace {

// Relative to the parameter's size. The compiler computes in double precision: rounding is 1e-10 of
// a field, truncation 1e-12.
constexpr double kStep = 1e-6;
// What is smaller, relative to the field's size over the parameter's, is rounding.
constexpr double kRounding = 1e-8;

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Arrays that the motion does not read, or that follow from fields that have a gradient: bounding
// volumes, pictures, keyframes, masses of subtrees, M at qpos0.
bool is_inert(std::string_view name) {
  constexpr std::string_view kNames[] = {"body_subtreemass", "dof_M0",      "dof_length",
                                         "geom_rbound",      "geom_aabb",   "site_size",
                                         "body_margin",      "numeric_data"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         starts_with_any(name, {"bvh_", "oct_", "cam_", "light_", "key_", "mat_", "tex_", "skin_",
                                "vis_", "mesh_normal", "mesh_texcoord"}) ||
         name.ends_with("_user") || name.ends_with("_rgba");
}

// Positions of free and ball joints at qpos0 are not read by the dynamics, those of hinges and
// slides are.
bool is_inert_qpos0(const mjModel* m, int entry) {
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    const int n = m->jnt_type[j] == mjJNT_FREE ? 7 : m->jnt_type[j] == mjJNT_BALL ? 4 : 1;
    if (entry < m->jnt_qposadr[j] || entry >= m->jnt_qposadr[j] + n) continue;
    return n > 1;
  }
  return false;
}

// Rows of a tendon's constraints read these.
bool has_tendon_rows(const mjModel* m, int tendon) {
  if (m->tendon_limited[tendon] || m->tendon_frictionloss[tendon] > 0) return true;
  return std::find(m->eq_type, m->eq_type + m->neq, +mjEQ_TENDON) != m->eq_type + m->neq;
}

// Orientations of sites are read by actuators, equalities and sensors.
bool reads_site_frames(const mjModel* m) {
  const auto* trn = m->actuator_trntype;
  return m->nsensor > 0 || std::find(trn, trn + m->nactuator, +mjTRN_SITE) != trn + m->nactuator ||
         std::find(m->eq_objtype, m->eq_objtype + m->neq, +mjOBJ_SITE) != m->eq_objtype + m->neq;
}

bool is_inert(const mjModel* m, const ModelArray& array, int entry) {
  const std::string_view name = array.name;
  if (name == "qpos0") return is_inert_qpos0(m, entry);
  if (name == "tendon_invweight0" || name == "tendon_length0") return !has_tendon_rows(m, entry);
  if (name == "actuator_length0") return true;
  if (name == "site_quat") return !reads_site_frames(m);
  return is_inert(name);
}

// An entry of an array, as "geom_margin of geom 'cube'".
std::string entry_name(const mjModel* m, const ModelArray& array, int entry) {
  constexpr std::pair<std::string_view, int> kKinds[] = {
      {"body_", mjOBJ_BODY},     {"jnt_", mjOBJ_JOINT},     {"geom_", mjOBJ_GEOM},
      {"site_", mjOBJ_SITE},     {"tendon_", mjOBJ_TENDON}, {"actuator_", mjOBJ_ACTUATOR},
      {"eq_", mjOBJ_EQUALITY},   {"pair_", mjOBJ_PAIR},     {"mesh_", mjOBJ_MESH},
      {"sensor_", mjOBJ_SENSOR},
  };
  const std::string text = array.name;
  const int row = entry / std::max(1, array.size / std::max(1, array.rows));
  for (const auto& [prefix, type] : kKinds) {
    if (!text.starts_with(prefix)) continue;
    const char* name = mj_id2name(m, type, row);
    const std::string kind = mju_type2Str(type) ? mju_type2Str(type) : "element";
    return text + " of " + kind + " " +
           (name && *name ? "'" + std::string(name) + "'" : std::to_string(row));
  }
  return text + "[" + std::to_string(entry) + "]";
}

}  // namespace

struct ParametricModel::Impl {
  BuildModel build;
  std::vector<double> start;
  std::vector<std::string> names;
  Model model;                                            // at the start
  std::shared_ptr<const AttributeModel> attributes = {};  // what build reads; null: a function

  std::string name(int i) const {
    const auto k = static_cast<size_t>(i);
    return k < names.size() ? "'" + names[k] + "'" : std::to_string(i);
  }
  MjModelPtr built(std::span<const double> theta) const {
    MjModelPtr made(build(theta));
    if (!made) throw MujocoError("the model cannot be built: no model was returned");
    return made;
  }
  void require(std::span<const double> theta) const {
    if (theta.size() != start.size()) {
      throw InputError("theta has " + std::to_string(theta.size()) + " numbers, expected " +
                       std::to_string(start.size()));
    }
    for (size_t i = 0; i < theta.size(); i++) {
      if (std::isfinite(theta[i])) continue;
      throw InputError("parameter " + name(static_cast<int>(i)) + " is not finite");
    }
  }
};

namespace {

Model first_model(const BuildModel& build, std::span<const double> start,
                  const ModelOptions& options) {
  const MjModelPtr made(build(start));
  if (!made) throw MujocoError("the model cannot be built at the start: no model was returned");
  return Model::from_mjmodel(made.get(), options);
}

}  // namespace

ParametricModel::ParametricModel(BuildModel build, std::span<const double> start,
                                 std::vector<std::string> names, const ModelOptions& options)
    : impl_(std::make_shared<const Impl>(Impl{build,
                                              {start.begin(), start.end()},
                                              std::move(names),
                                              first_model(build, start, options)})) {
  if (!impl_->names.empty() && impl_->names.size() != impl_->start.size()) {
    throw InputError("there are " + std::to_string(impl_->names.size()) + " names, expected " +
                     std::to_string(impl_->start.size()) + ", one per parameter");
  }
  impl_->require(impl_->start);
}

ParametricModel ParametricModel::from_attributes(const std::string& mjcf,
                                                 std::span<const std::string> attributes,
                                                 const ModelOptions& options) {
  const auto source = std::make_shared<AttributeModel>(mjcf, attributes);
  ParametricModel out([source](std::span<const double> theta) { return source->build(theta); },
                      source->start(), source->names(), options);
  auto impl = std::make_shared<Impl>(*out.impl_);
  impl->attributes = source;
  out.impl_ = std::move(impl);
  return out;
}

int ParametricModel::size() const { return static_cast<int>(impl_->start.size()); }
const std::vector<std::string>& ParametricModel::names() const { return impl_->names; }
const std::vector<double>& ParametricModel::start() const { return impl_->start; }

Model ParametricModel::at(std::span<const double> theta) const {
  impl_->require(theta);
  return impl_->model.with_numbers(impl_->built(theta).get());
}

std::string ParametricModel::mjcf(std::span<const double> theta) const {
  impl_->require(theta);
  if (!impl_->attributes) {
    throw InputError(
        "mjcf: the models come from a function; what it builds from the parameters is the model");
  }
  return impl_->attributes->mjcf(theta);
}

namespace {

// What one parameter changes: slopes by field and entry, and the first array that has no gradient.
struct Column {
  std::map<std::pair<int, int>, double> slopes;
  std::string refused;
  bool changes = false;  // anything at all
};

int field_number(std::string_view name) {
  const auto& fields = parameter_fields();
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const ParameterField& f) { return name == f.name; });
  return found == fields.end() ? -1 : static_cast<int>(found - fields.begin());
}

// of models at θ + h and θ - h; size is that of the parameter
Column column_of(const mjModel* plus, const mjModel* minus, double h, double size) {
  Column out;
  const auto add = [&](const ModelArray& array) {
    const int field = field_number(array.name);
    double largest = 0;
    for (int e = 0; e < array.size; e++) largest = std::max(largest, std::abs(array.a[e]));
    for (int e = 0; e < array.size; e++) {
      const double slope = (array.a[e] - array.b[e]) / (2 * h);
      if (std::abs(slope) * size <= kRounding * largest) continue;
      out.changes = true;
      if (field >= 0) {
        out.slopes[{field, e}] = slope;
      } else if (out.refused.empty() && !is_inert(plus, array, e)) {
        out.refused = entry_name(plus, array, e);
      }
    }
  };
  for (const ModelArray& array : arrays_that_differ(plus, minus)) add(array);
  const mjOption &a = plus->opt, &b = minus->opt;
  add({"opt.gravity", a.gravity, b.gravity, 3, 1});
  add({"opt.timestep", &a.timestep, &b.timestep, 1, 1});
  add({"opt.density", &a.density, &b.density, 1, 1});
  add({"opt.viscosity", &a.viscosity, &b.viscosity, 1, 1});
  add({"opt.impratio", &a.impratio, &b.impratio, 1, 1});
  add({"opt.wind", a.wind, b.wind, 3, 1});
  add({"opt.o_solref", a.o_solref, b.o_solref, mjNREF, 1});
  add({"opt.o_solimp", a.o_solimp, b.o_solimp, mjNIMP, 1});
  return out;
}

// Do slopes of two steps agree? They do not if the function rounds, for example to six digits of a
// text.
bool is_smooth(const Column& near, const Column& far) {
  constexpr double kSmooth = 1e-2;
  const auto matches = [](const Column& a, const Column& b) {
    return std::all_of(a.slopes.begin(), a.slopes.end(), [&](const auto& entry) {
      const auto other = b.slopes.find(entry.first);
      const double x = entry.second, y = other == b.slopes.end() ? 0 : other->second;
      return std::abs(x - y) <= kSmooth * std::max(std::abs(x), std::abs(y));
    });
  };
  return matches(near, far) && matches(far, near);
}

}  // namespace

ParametricModel::Jacobian ParametricModel::jacobian(std::span<const double> theta,
                                                    int nthread) const {
  impl_->require(theta);
  const int n = size();
  std::vector<Column> columns(static_cast<size_t>(n));
  StopSignal never({});
  parallel_for(n, impl_->attributes ? nthread : 1, never, [&](int i, StopSignal&) {
    const auto k = static_cast<size_t>(i);
    const double size = std::max({std::abs(theta[k]), std::abs(impl_->start[k]), 1e-3});
    const auto at_step = [&](double h) {
      std::vector<double> moved(theta.begin(), theta.end());
      moved[k] = theta[k] + h;
      const MjModelPtr plus = impl_->built(moved);
      moved[k] = theta[k] - h;
      return column_of(plus.get(), impl_->built(moved).get(), h, size);
    };
    columns[k] = at_step(kStep * size);
    if (impl_->attributes) return;  // numbers of an mjSpec are smooth
    const Column far = at_step(10 * kStep * size);
    if (!is_smooth(columns[k], far)) {
      throw InputError("parameter " + impl_->name(i) +
                       ": the model does not change smoothly with it at steps of 1e-6 of its size; "
                       "does the function that builds the model round it, for example to a text of "
                       "six digits?");
    }
    if (!far.changes) {
      throw InputError("parameter " + impl_->name(i) + " changes nothing in the model");
    }
  });

  Jacobian out;
  out.size_ = n;
  std::map<int, int> numbers;  // of the fields that occur
  for (int i = 0; i < n; i++) {
    const Column& column = columns[static_cast<size_t>(i)];
    if (!column.refused.empty()) {
      throw UnsupportedError("parameter " + impl_->name(i) + " changes " + column.refused +
                             ", which acts on the motion and has no gradient; leave the parameter "
                             "out, or express it by fields that have one (parameter_names())");
    }
    for (const auto& [at, slope] : column.slopes) {
      const auto [number, fresh] = numbers.try_emplace(at.first, static_cast<int>(numbers.size()));
      if (fresh) {
        out.fields_.emplace_back(parameter_fields()[static_cast<size_t>(at.first)].name);
      }
      out.entries_.push_back({i, number->second, at.second, slope});
    }
  }
  return out;
}

std::vector<double> ParametricModel::Jacobian::pullback(const Gradient& gradient) const {
  std::vector<const std::vector<double>*> bars;
  for (const std::string& name : fields_) {
    const auto found = gradient.params.find(name);
    if (found == gradient.params.end()) {
      throw InputError("the gradient has no " + name +
                       "; ask for the Jacobian's fields() in Cotangents::params");
    }
    bars.push_back(&found->second);
  }
  std::vector<double> out(static_cast<size_t>(size_));
  for (const Entry& e : entries_) {
    out[static_cast<size_t>(e.parameter)] +=
        e.slope * (*bars[static_cast<size_t>(e.field)])[static_cast<size_t>(e.entry)];
  }
  return out;
}

}  // namespace diffmj
