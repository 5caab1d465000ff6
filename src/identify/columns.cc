#include "identify/columns.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/names.h"
#include "model/parameters.h"
#include "model/variant.h"

namespace diffmj {
namespace {

// What is smaller, relative to the number's size over the parameter's, is rounding. Arrays without
// a gradient are judged by their largest number: there, rounding must not pass for a change.
constexpr double kRounding = 1e-8;
// Relative to the largest number of a field: sums that cancel.
constexpr double kCancelled = 1e-12;

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

bool is_in_equality(const mjModel* m, int tendon) {
  for (int i = 0; i < static_cast<int>(m->neq); i++) {
    if (m->eq_type[i] != mjEQ_TENDON) continue;
    if (m->eq_obj1id[i] == tendon || m->eq_obj2id[i] == tendon) return true;
  }
  return false;
}
bool has_rows(const mjModel* m, int tendon) {
  return m->tendon_limited[tendon] || m->tendon_frictionloss[tendon] > 0 ||
         is_in_equality(m, tendon);
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
  if (name == "tendon_length0") return !is_in_equality(m, entry);
  if (name == "tendon_invweight0") return !has_rows(m, entry);
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
    return text + " of " + element_name(m, type, row);
  }
  return text + "[" + std::to_string(entry) + "]";
}

// MuJoCo has no row of friction at 0.
bool has_kink_at_zero(std::string_view name) { return name == "dof_frictionloss"; }
std::string kink_at_zero(std::string_view name, int entry) {
  return std::string(name) + "[" + std::to_string(entry) +
         "] is 0, where MuJoCo leaves friction out and the motion has a kink; give it a small "
         "number above 0";
}

// Why the motion, or the model, is not smooth between the two; empty: nothing is known.
std::string kink_of(const mjModel* m, const ModelArray& array, int entry) {
  const std::string_view name = array.name;
  if (has_kink_at_zero(name) && std::min(array.a[entry], array.b[entry]) <= 0) {
    return kink_at_zero(name, entry);
  }
  // steps are a thousandth at most: axes that turn further are others
  constexpr double kJump = 0.05;
  if (name == "body_iquat" && std::abs(array.a[entry] - array.b[entry]) > kJump) {
    return entry_name(m, array, entry) +
           " jumps: two moments of inertia are equal, and MuJoCo's choice of principal axes is not "
           "continuous there; move a number of the body a little";
  }
  return {};
}

int field_number(std::string_view name) {
  const auto& fields = parameter_fields();
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const ParameterField& f) { return name == f.name; });
  return found == fields.end() ? -1 : static_cast<int>(found - fields.begin());
}

}  // namespace

Column column_of(const mjModel* plus, const mjModel* minus, double h, double size) {
  Column out;
  const auto add = [&](const ModelArray& array) {
    const int field = field_number(array.name);
    double largest = 0;
    for (int e = 0; e < array.size; e++) largest = std::max(largest, std::abs(array.a[e]));
    for (int e = 0; e < array.size; e++) {
      const double slope = (array.a[e] - array.b[e]) / (2 * h);
      const double rounding =
          field < 0 ? kRounding * largest : kRounding * std::abs(array.a[e]) + kCancelled * largest;
      if (std::abs(slope) * size <= rounding) continue;
      out.changes = true;
      if (field >= 0) {
        out.slopes[{field, e}] = slope;
        if (out.kink.empty()) out.kink = kink_of(plus, array, e);
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

MovableModel::MovableModel(MjModelPtr model) : model_(std::move(model)) {
  mjData* made = nullptr;
  mj_call("mj_makeData", [&] { made = mj_makeData(model_.get()); });
  if (!made) throw MemoryError("mj_makeData: MuJoCo could not allocate the data of this model");
  data_.reset(made);
  for (const ParameterField& field : parameter_fields()) {
    const mjtNum* data = field.data(model_.get());
    numbers_.emplace_back(data, data + field.size(model_.get()));
  }
}

void MovableModel::move(const Slopes& slopes, double step) {
  const auto& fields = parameter_fields();
  for (size_t k = 0; k < fields.size(); k++) {
    std::copy(numbers_[k].begin(), numbers_[k].end(), fields[k].data(model_.get()));
  }
  for (const auto& [at, slope] : slopes) {
    fields[static_cast<size_t>(at.first)].data(model_.get())[at.second] += step * slope;
  }
  mj_call("mj_setConst", [&] { mj_setConst(model_.get(), data_.get()); });
}

Column MovableModel::column(const Slopes& slopes, double h, double size) {
  // eq_data: the second anchor of a connect, the relative pose of a weld
  constexpr std::string_view kDerived[] = {"body_invweight0", "dof_invweight0", "actuator_acc0",
                                           "tendon_lengthspring", "eq_data"};
  const auto& fields = parameter_fields();
  std::vector<std::vector<double>> plus;
  move(slopes, h);
  for (const std::string_view name : kDerived) {
    const ParameterField& field = fields[static_cast<size_t>(field_number(name))];
    const mjtNum* data = field.data(model_.get());
    plus.emplace_back(data, data + field.size(model_.get()));
  }
  move(slopes, -h);
  Column out;
  out.slopes = slopes;
  out.changes = true;
  for (const auto& [at, slope] : slopes) {
    const auto k = static_cast<size_t>(at.first);
    const double number = numbers_[k][static_cast<size_t>(at.second)];
    if (!has_kink_at_zero(fields[k].name) || number > h * std::abs(slope)) continue;
    out.kink = kink_at_zero(fields[k].name, at.second);
  }
  for (size_t k = 0; k < plus.size(); k++) {
    const int number = field_number(kDerived[k]);
    const mjtNum* minus = fields[static_cast<size_t>(number)].data(model_.get());
    for (size_t e = 0; e < plus[k].size(); e++) {
      const std::pair at{number, static_cast<int>(e)};
      const double slope = (plus[k][e] - minus[e]) / (2 * h);
      if (std::abs(slope) * size <= kRounding * std::abs(minus[e])) {
        out.slopes.erase(at);
      } else {
        out.slopes[at] = slope;
      }
    }
  }
  return out;
}

bool MovableModel::predicts(const Slopes& change, const mjModel* other) {
  constexpr double kPredicted = 1e-7, kRoundingOfSums = 1e-15, kRoundingOfEntries = 1e-12;
  move({}, 0);
  if (!column_of(other, mj(), 0.5, 1).refused.empty()) return false;
  move(change, 1);
  const auto& fields = parameter_fields();
  for (size_t k = 0; k < fields.size(); k++) {
    // the function reads a mutable model, but only its address
    const mjtNum *guess = fields[k].data(model_.get()),
                 *truth = fields[k].data(const_cast<mjModel*>(other));
    double largest = 0;
    for (const double x : numbers_[k]) largest = std::max(largest, std::abs(x));
    for (size_t e = 0; e < numbers_[k].size(); e++) {
      const double tolerance = kPredicted * std::abs(truth[e] - numbers_[k][e]) +
                               kRoundingOfEntries * std::abs(truth[e]) + kRoundingOfSums * largest;
      if (std::abs(guess[e] - truth[e]) > tolerance) return false;
    }
  }
  return true;
}

}  // namespace diffmj
