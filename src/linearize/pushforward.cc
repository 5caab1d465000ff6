// rollout_pushforward(): tangents of a rollout's inputs to tangents of its states,
//
//   X[0] = given,   X[i + 1] = A_i X[i] + B_i U_i + Q_i F_i + P_i Θ
//
// with one column per tangent, all of them at once.
#include <cmath>

#include "base/require.h"
#include "diffmj/linearize.h"
#include "linearize/jacobians.h"
#include "mj/call.h"
#include "mj/callbacks.h"
#include "setup/differentiation.h"
#include "setup/model_impl.h"

namespace diffmj {
namespace {

constexpr const char* kWho = "rollout_pushforward";

void require_tangents(const Model& model, const Trajectory& t, const Tangents& x) {
  if (x.count < 0) {
    throw InputError(std::string(kWho) + ": count is " + std::to_string(x.count) +
                     ", expected at least 0");
  }
  const auto check = [&](const std::string& name, CVec values, int width) {
    if (values.empty()) return;
    const size_t expected = static_cast<size_t>(x.count) * static_cast<size_t>(width);
    const std::string what = "the tangent of " + name;
    require_size(kWho, what.c_str(), values.size(), expected, expected,
                 std::to_string(x.count) + " x " + std::to_string(width));
    for (size_t i = 0; i < values.size(); i++) {
      if (std::isfinite(values[i])) continue;
      throw InputError(std::string(kWho) + ": " + what + " is not finite at tangent " +
                       std::to_string(i / static_cast<size_t>(width)) + ", number " +
                       std::to_string(i % static_cast<size_t>(width)));
    }
  };
  check("qpos", x.qpos_tangent, t.nv);
  check("qvel", x.qvel, t.nv);
  check("act", x.act, t.na);
  check("ctrl", x.ctrl, t.nstep * t.nu);
  check("qfrc_applied", x.qfrc_applied, t.nstep * t.nv);
  for (const auto& [name, values] : x.params) {
    check(name, values, parameter_field(name).size(model.mj()));
  }
  if (x.params.empty()) return;
  if (model.is_adaptive()) {
    throw UnsupportedError(std::string(kWho) + ": the tangent of " + x.params.begin()->first +
                           " is unavailable where steps are adaptive; use rollout_pullback, or "
                           "Euler, implicit, implicitfast or RK4");
  }
  if (!model.impl().differentiation.of_field) {
    throw UnsupportedError(std::string(kWho) + ": the tangent of " + x.params.begin()->first +
                           " is unavailable with " + differenced_steps(model.impl()));
  }
}

// rows of one tangent each, transposed: one column per tangent
Matrix columns_of(CVec values, int count, int width, int begin, int size) {
  Matrix out(size, count);
  for (int c = 0; c < count; c++) {
    const double* from = values.data() + static_cast<ptrdiff_t>(c) * width + begin;
    for (int k = 0; k < size; k++) out(k, c) = from[k];
  }
  return out;
}

// of thousands of numbers a tangent moves a few
struct Moved {
  Eigen::Index number, tangent;
  double by;
};
std::vector<Moved> moved_parameters(const Model& model, const Tangents& x,
                                    const std::vector<const ParameterField*>& fields,
                                    const ParameterColumns& columns) {
  std::vector<Moved> out;
  for (const ParameterField* field : fields) {
    const int size = field->size(model.mj());
    const CVec values = x.params.at(field->name);
    for (int c = 0; c < x.count; c++) {
      for (int k = 0; k < size; k++) {
        const double by =
            values[static_cast<size_t>(c) * static_cast<size_t>(size) + static_cast<size_t>(k)];
        if (by != 0) out.push_back({columns.first(field->id) + k, c, by});
      }
    }
  }
  return out;
}

// x[i + 1] = A[i] x[i] + added[i], from the tangents of the initial state
TrajectoryTangents follow(const Trajectory& t, const Tangents& x, const std::vector<Matrix>& A,
                          const std::vector<Matrix>& added) {
  const int nv = t.nv, na = t.na, count = x.count;
  TrajectoryTangents out;
  const auto rows = static_cast<size_t>(t.nstep + 1), many = static_cast<size_t>(count);
  out.qpos_tangent.resize(many * rows * static_cast<size_t>(nv));
  out.qvel.resize(many * rows * static_cast<size_t>(nv));
  out.act.resize(many * rows * static_cast<size_t>(na));
  Matrix X = Matrix::Zero(2 * nv + na, count), next;
  if (!x.qpos_tangent.empty()) X.topRows(nv) = columns_of(x.qpos_tangent, count, nv, 0, nv);
  if (!x.qvel.empty()) X.middleRows(nv, nv) = columns_of(x.qvel, count, nv, 0, nv);
  if (!x.act.empty()) X.bottomRows(na) = columns_of(x.act, count, na, 0, na);
  const auto write = [&](int i, int begin, int size, std::vector<double>& to) {
    for (int c = 0; c < count; c++) {
      double* row = to.data() + (static_cast<ptrdiff_t>(c) * (t.nstep + 1) + i) * size;
      for (int k = 0; k < size; k++) row[k] = X(begin + k, c);
    }
  };
  for (int i = 0; i <= t.nstep; i++) {
    if (!X.allFinite()) {
      throw RolloutError(std::string(kWho) + ": a tangent is not finite from row " +
                         std::to_string(i) + " of " + std::to_string(t.nstep) +
                         " on: the motion amplifies small changes beyond what numbers hold; use a "
                         "shorter horizon, or a smaller timestep if the motion is unstable");
    }
    write(i, 0, nv, out.qpos_tangent);
    write(i, nv, nv, out.qvel);
    write(i, 2 * nv, na, out.act);
    if (i == t.nstep) break;
    const auto k = static_cast<size_t>(i);
    next.noalias() = A[k] * X;
    next += added[k];
    X.swap(next);
  }
  return out;
}

}  // namespace

TrajectoryTangents rollout_pushforward(const Model& model, const Trajectory& t, const Tangents& x,
                                       const RolloutOptions& options) {
  require_no_callbacks(kWho);
  require_trajectory(kWho, model, t);
  require_tangents(model, t, x);
  const int nv = t.nv, nu = t.nu, n = model.ntangent(), count = x.count;

  std::vector<const ParameterField*> fields;
  for (const auto& [name, values] : x.params) {
    if (!values.empty()) fields.push_back(&parameter_field(name));
  }
  const ParameterColumns columns(model.mj(), fields);
  const std::vector<Moved> theta = moved_parameters(model, x, fields, columns);

  // what each step adds and by what it multiplies; the first on threads, the second in order
  const double bytes = 8.0 * t.nstep * n * (n + count) + 8.0 * (t.nstep + 1) * n * count;
  require_memory(kWho, bytes);
  std::vector<Matrix> A(static_cast<size_t>(t.nstep)), added(static_cast<size_t>(t.nstep));
  for (Matrix& one : added) one.setZero(n, count);
  const bool ends = model.is_adaptive() && model.options().adaptive.control == Control::kLinear;
  StopSignal stop(options.interrupted, options.progress);
  for_each_jacobian(model, t, columns, {.applied = !x.qfrc_applied.empty()}, options.nthread, stop,
                    [&](int i, const StepJacobian& jacobian) {
                      const auto k = static_cast<size_t>(i);
                      A[k] = jacobian.A;
                      const auto add = [&](CVec values, int width, int row, const Matrix& by) {
                        if (values.empty() || width == 0) return;
                        added[k].noalias() +=
                            by * columns_of(values, count, t.nstep * width, row * width, width);
                      };
                      add(x.ctrl, nu, i, jacobian.B);
                      if (ends && i + 1 < t.nstep) add(x.ctrl, nu, i + 1, jacobian.B_end);
                      add(x.qfrc_applied, nv, i, jacobian.Q);
                      for (const Moved& one : theta) {
                        added[k].col(one.tangent) += one.by * jacobian.P.col(one.number);
                      }
                    });
  if (stop.stopped()) throw Interrupted(std::string(kWho) + ": interrupted");

  return follow(t, x, A, added);
}

}  // namespace diffmj
