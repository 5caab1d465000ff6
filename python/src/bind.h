// What the bindings share: arrays in and out, and Ctrl-C.
#ifndef DIFFMJ_PYTHON_BIND_H_
#define DIFFMJ_PYTHON_BIND_H_

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "diffmj/error.h"
#include "diffmj/gradient.h"
#include "diffmj/observables.h"
#include "diffmj/rollout.h"

namespace diffmj::python {

namespace nb = nanobind;
using namespace nanobind::literals;

void bind_model(nb::module_& m);
void bind_rollout(nb::module_& m);
void bind_gradient(nb::module_& m);
void bind_linearize(nb::module_& m);
void bind_check(nb::module_& m);
void bind_parametric(nb::module_& m);
void bind_fit(nb::module_& m);
void bind_recording(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_arrays(nb::module_& m);

// Fields of a struct of options, which Python sets where they differ from their defaults.
#define DIFFMJ_OPTION(Class, name) .def_rw(#name, &Class::name)
#define DIFFMJ_CHOICE(Class, name, to_name, from_name)                    \
  .def_prop_rw(                                                           \
      #name, [](const Class& x) { return std::string(to_name(x.name)); }, \
      [](Class& x, const std::string& value) { x.name = from_name(value); })

// An argument: rows of numbers, one row per rollout, or one that the batch shares. None: default.
using RowArray = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows = std::optional<RowArray>;

inline std::span<const double> row(const RowArray& rows, size_t i) {
  const size_t width = rows.shape(1);
  return {rows.data() + (rows.shape(0) == 1 ? 0 : i) * width, width};
}
inline std::span<const double> row(const Rows& rows, size_t i) {
  return rows ? row(*rows, i) : std::span<const double>();
}

// RolloutInput, as arrays of a batch.
struct InputArrays {
  Rows qpos, qvel, act, ctrl, qfrc_applied, xfrc_applied, mocap_pos, mocap_quat, time;

  RolloutInput at(size_t i) const {
    return {
        .qpos = row(qpos, i),
        .qvel = row(qvel, i),
        .act = row(act, i),
        .ctrl = row(ctrl, i),
        .qfrc_applied = row(qfrc_applied, i),
        .xfrc_applied = row(xfrc_applied, i),
        .mocap_pos = row(mocap_pos, i),
        .mocap_quat = row(mocap_quat, i),
        .time = time ? row(time, i)[0] : 0.0,
    };
  }
};

// Trajectories with the same number of rows: nstep is what was asked for, or, of a single rollout,
// what was completed.
struct TrajectoryBatch {
  std::vector<Trajectory> items;
  int nstep = 0;
};

// The model of a rollout of a batch: one for all, or one each.
class ModelOf {
 public:
  ModelOf(const Model& model, const std::vector<Model>& models) : model_(model), models_(models) {}
  const Model& operator()(size_t i) const { return models_.empty() ? model_ : models_.at(i); }

 private:
  const Model& model_;
  const std::vector<Model>& models_;
};

// Cotangents, as arrays of a batch.
struct CotangentArrays {
  std::map<std::string, RowArray> rows;  // by the name of the field of Cotangents
  bool final_row = false;
  std::vector<std::vector<std::vector<double>>> efc_force;  // batch x nstep x nefc; empty: 0
  std::vector<std::string> params;

  Cotangents at(size_t i) const {
    const auto given = [&](const char* name) {
      const auto found = rows.find(name);
      return found == rows.end() ? std::span<const double>() : row(found->second, i);
    };
    Cotangents out{
        .qpos = given("qpos"),
        .qpos_tangent = given("qpos_tangent"),
        .qvel = given("qvel"),
        .act = given("act"),
        .sensordata = given("sensordata"),
        .final_row = final_row,
        .efc_force = efc_force.empty() ? std::span<const std::vector<double>>() : efc_force.at(i),
        .params = params,
    };
    for (const Observable& x : observables()) out.*x.cotangent = given(x.name);
    return out;
  }
};

struct GradientBatch {
  std::vector<Gradient> items;
};

// Of properties that return arrays: each array says itself what keeps its numbers alive.
inline constexpr auto kOwner = nb::rv_policy::automatic;

// A new array that owns its numbers. Array may be one of const numbers: read-only.
template <class T, class Array = nb::ndarray<nb::numpy, T>>
Array new_array(std::vector<T> values, std::initializer_list<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Array(owned->data(), shape, owner);
}

// Polls Python's signals while C++ runs without the lock, and keeps what a handler raised.
class Signals {
 public:
  // Called without the lock, from the calling thread.
  bool raised() {
    const nb::gil_scoped_acquire lock;
    if (!error_ && PyErr_CheckSignals() != 0) error_ = std::make_unique<nb::python_error>();
    return error_ != nullptr;
  }
  // Calls a Python function from C++; what it raises stops the work at the next poll.
  template <class... Args>
  void call(const nb::object& function, Args... args) {
    const nb::gil_scoped_acquire lock;
    if (error_) return;
    try {
      function(args...);
    } catch (nb::python_error& error) {
      error_ = std::make_unique<nb::python_error>(std::move(error));
    }
  }
  // A Python function that answers yes or no; no once something was raised.
  template <class... Args>
  bool ask(const nb::object& function, const Args&... args) {
    const nb::gil_scoped_acquire lock;
    if (error_) return false;
    try {
      return nb::cast<bool>(nb::bool_(function(args...)));
    } catch (nb::python_error& error) {
      error_ = std::make_unique<nb::python_error>(std::move(error));
    }
    return false;
  }
  // Runs fn, which returns what it has when it is interrupted, without the lock. Ctrl-C is then
  // over; all else that was raised is raised.
  template <class Fn>
  auto run_until(Fn&& fn) {
    try {
      auto result = [&] {
        const nb::gil_scoped_release no_gil;
        return fn();
      }();
      if (error_ && !error_->matches(PyExc_KeyboardInterrupt)) throw nb::python_error(*error_);
      return result;
    } catch (const Interrupted&) {
      if (error_) throw nb::python_error(*error_);
      throw;
    }
  }
  // Runs fn without the lock, then raises what a handler raised meanwhile.
  template <class Fn>
  auto run(Fn&& fn) {
    try {
      auto result = [&] {
        const nb::gil_scoped_release no_gil;
        return fn();
      }();
      if (error_) throw nb::python_error(*error_);
      return result;
    } catch (const Interrupted&) {
      if (error_) throw nb::python_error(*error_);
      throw;
    }
  }
  // Raises what was raised, unless it is Ctrl-C, after which the caller has a result.
  void raise_other_errors() {
    if (error_ && !error_->matches(PyExc_KeyboardInterrupt)) throw nb::python_error(*error_);
  }
  RolloutOptions options(std::optional<int> nthread) {
    return {.nthread = nthread, .interrupted = [this] { return raised(); }};
  }

 private:
  std::unique_ptr<nb::python_error> error_;
};

}  // namespace diffmj::python

#endif  // DIFFMJ_PYTHON_BIND_H_
