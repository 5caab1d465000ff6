// ParametricModel: models as functions of parameters, and the derivative of the compiler.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <random>

#include "base/parallel.h"
#include "diffmj/error.h"
#include "diffmj/identify.h"
#include "identify/attributes.h"
#include "identify/columns.h"
#include "mj/handle.h"
#include "model/parameters.h"

namespace diffmj {
namespace {

// Relative to the parameter's size. Numbers that the compiler copies are exact to 1e-10, those that
// it derives (inverse weights: 1e-13) to 1e-8. Functions take the smaller step: a larger one would
// not see that they round.
constexpr double kAttributeStep = 1e-5, kFunctionStep = 1e-6;

}  // namespace

struct ParametricModel::Impl {
  BuildModel build;
  std::vector<double> start;
  std::vector<std::string> names;
  Model model;                                            // at the start
  std::shared_ptr<const AttributeModel> attributes = {};  // what build reads; null: a function

  // columns at the start; null: they cannot be had
  mutable std::once_flag once{};
  mutable std::optional<std::vector<Column>> first{};

  bool is_function() const { return attributes == nullptr; }
  std::string name(int i) const {
    const auto k = static_cast<size_t>(i);
    return k < names.size() ? "'" + names[k] + "'" : std::to_string(i);
  }
  double step() const { return is_function() ? kFunctionStep : kAttributeStep; }
  double size(std::span<const double> theta, int i) const {
    const auto k = static_cast<size_t>(i);
    const double scale = is_function() ? 0 : attributes->scales()[k];
    return std::max({std::abs(theta[k]), std::abs(start[k]), scale, 1e-3});
  }
  MjModelPtr built(std::span<const double> theta) const {
    MjModelPtr made(build(theta));
    if (!made) throw MujocoError("the model cannot be built: no model was returned");
    return made;
  }
  void require(std::span<const double> theta) const;

  Column difference(std::span<const double> theta, int i, double h) const;
  std::vector<Column> differences(std::span<const double> theta, std::optional<int> nthread) const;
  std::optional<std::vector<Column>> predicted(std::span<const double> theta,
                                               std::optional<int> nthread) const;
};

void ParametricModel::Impl::require(std::span<const double> theta) const {
  if (theta.size() != start.size()) {
    throw InputError("theta has " + std::to_string(theta.size()) + " numbers, expected " +
                     std::to_string(start.size()));
  }
  for (size_t i = 0; i < theta.size(); i++) {
    if (std::isfinite(theta[i])) continue;
    throw InputError("parameter " + name(static_cast<int>(i)) + " is not finite");
  }
}

// Of models at θ + h and θ - h. Where one of them does not compile (a mass of 0), of those at θ and
// at 2 h from it: for numbers that are not affine in θ an error of 1e-5.
Column ParametricModel::Impl::difference(std::span<const double> theta, int i, double h) const {
  const double here = theta[static_cast<size_t>(i)];
  const auto at = [&](double x) {
    std::vector<double> moved(theta.begin(), theta.end());
    moved[static_cast<size_t>(i)] = x;
    return built(moved);
  };
  const auto between = [&](double from, double to) {
    const MjModelPtr plus = at(to);
    return column_of(plus.get(), at(from).get(), h, size(theta, i));
  };
  try {
    return between(here - h, here + h);
  } catch (const MujocoError& error) {
    for (const double side : {h, -h}) {
      try {
        return between(here + side - h, here + side + h);
      } catch (const MujocoError&) {
        // the other side, or what was said first
      }
    }
    throw MujocoError("parameter " + name(i) + " cannot be moved from " + std::to_string(here) +
                      ": " + error.what());
  }
}

std::vector<Column> ParametricModel::Impl::differences(std::span<const double> theta,
                                                       std::optional<int> nthread) const {
  std::vector<Column> out(theta.size());
  StopSignal never({});
  // a function is called by one thread alone
  const std::optional<int> threads = is_function() ? 1 : nthread;
  parallel_for(static_cast<int>(theta.size()), threads, never, [&](int i, StopSignal&) {
    Column& column = out[static_cast<size_t>(i)];
    const double h = step() * size(theta, i);
    column = difference(theta, i, h);
    if (!is_function()) return;
    const Column far = difference(theta, i, 10 * h);
    column.changes = far.changes;
    if (!column.kink.empty() || is_smooth(column, far)) return;
    throw InputError("parameter " + name(i) +
                     ": the model does not change smoothly with it at steps of 1e-6 of its size; "
                     "does the function that builds the model round it, for example to a text of "
                     "six digits?");
  });
  return out;
}

// Without a compilation per parameter: numbers that are affine in θ have the slopes that they have
// at the start, and mj_setConst derives the others. The model at θ and one at a random distance
// from it tell whether that holds; if it does not, there is no result.
std::optional<std::vector<Column>> ParametricModel::Impl::predicted(
    std::span<const double> theta, std::optional<int> nthread) const {
  if (theta.size() < 3) return std::nullopt;
  std::call_once(once, [&] {
    try {
      first = differences(start, nthread);
    } catch (const Error&) {
      // differences at θ say what is wrong, or can be had
    }
  });
  const bool usable = first && std::all_of(first->begin(), first->end(),
                                           [](const Column& c) { return c.refused.empty(); });
  if (!usable) return std::nullopt;
  if (std::equal(theta.begin(), theta.end(), start.begin())) return first;

  MjModelPtr near, far;
  Slopes change;
  std::minstd_rand random(1);
  std::vector<double> moved(theta.begin(), theta.end());
  for (size_t k = 0; k < moved.size(); k++) {
    // a thousandth of its size, times 0.5 to 1.5, in either direction
    const double x = static_cast<double>(random()) / static_cast<double>(random.max());
    const double by = (random() % 2 ? 1e-3 : -1e-3) * (0.5 + x) * size(theta, static_cast<int>(k));
    moved[k] += by;
    for (const auto& [at, slope] : (*first)[k].slopes) change[at] += by * slope;
  }
  try {
    near = built(theta);
    far = built(moved);
  } catch (const MujocoError&) {
    return std::nullopt;
  }
  MovableModel movable(std::move(near));
  if (!movable.predicts(change, far.get())) return std::nullopt;
  std::vector<Column> out;
  for (size_t k = 0; k < theta.size(); k++) {
    const double size_k = size(theta, static_cast<int>(k));
    out.push_back(movable.column((*first)[k].slopes, kAttributeStep * size_k, size_k));
    out.back().changes = (*first)[k].changes;
  }
  return out;
}

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
    : ParametricModel(std::move(build), start, std::move(names), options, nullptr) {}

ParametricModel::ParametricModel(BuildModel build, std::span<const double> start,
                                 std::vector<std::string> names, const ModelOptions& options,
                                 std::shared_ptr<const AttributeModel> attributes)
    : impl_(new Impl{build,
                     {start.begin(), start.end()},
                     std::move(names),
                     first_model(build, start, options),
                     std::move(attributes)}) {
  if (!impl_->names.empty() && impl_->names.size() != impl_->start.size()) {
    throw InputError("there are " + std::to_string(impl_->names.size()) + " names, expected " +
                     std::to_string(impl_->start.size()) + ", one per parameter");
  }
  std::vector<std::string> sorted = impl_->names;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    throw InputError("parameter '" + *twice + "' is given twice; give each number once");
  }
  impl_->require(impl_->start);
}

ParametricModel ParametricModel::from_attributes(const std::string& mjcf,
                                                 std::span<const std::string> attributes,
                                                 const ModelOptions& options) {
  const auto source = std::make_shared<AttributeModel>(mjcf, attributes);
  return {[source](std::span<const double> theta) { return source->build(theta); }, source->start(),
          source->names(), options, source};
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
  if (impl_->is_function()) {
    throw InputError(
        "mjcf: the models come from a function; what it builds from the parameters is the model");
  }
  return impl_->attributes->mjcf(theta);
}

ParametricModel::Jacobian ParametricModel::jacobian(std::span<const double> theta,
                                                    std::optional<int> nthread,
                                                    bool allow_idle) const {
  impl_->require(theta);
  std::optional<std::vector<Column>> columns = impl_->predicted(theta, nthread);
  if (!columns) columns = impl_->differences(theta, nthread);

  Jacobian out;
  out.size_ = size();
  std::map<int, int> numbers;  // of the fields that occur
  for (int i = 0; i < size(); i++) {
    const Column& column = (*columns)[static_cast<size_t>(i)];
    if (!column.refused.empty()) {
      throw UnsupportedError("parameter " + impl_->name(i) + " changes " + column.refused +
                             ", which acts on the motion and has no gradient; leave the parameter "
                             "out, or express it by fields that have one (parameter_names())");
    }
    if (!column.kink.empty()) {
      throw InputError("parameter " + impl_->name(i) + ": " + column.kink);
    }
    if (impl_->is_function() && !column.changes && !allow_idle) {
      throw InputError("parameter " + impl_->name(i) + " changes nothing in the model");
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

std::vector<double> ParametricModel::Jacobian::tangents(const Model& model,
                                                        const std::string& field) const {
  const auto found = std::find(fields_.begin(), fields_.end(), field);
  if (found == fields_.end()) {
    throw InputError("the Jacobian has no " + field + "; its fields() are those that depend on θ");
  }
  const auto width = static_cast<size_t>(parameter_field(field).size(model.mj()));
  std::vector<double> out(static_cast<size_t>(size_) * width);
  for (const Entry& e : entries_) {
    if (e.field != found - fields_.begin()) continue;
    out[static_cast<size_t>(e.parameter) * width + static_cast<size_t>(e.entry)] += e.slope;
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
