#include "stages/oracle.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "diffmj/error.h"
#include "mj/call.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/evaluate_stages.h"
#include "stages/oracle_outputs.h"
#include "stages/probes.h"

namespace diffmj {
namespace {

// Contact forces bend on the scale of solimp's width, a millimetre, and their curvature jumps at
// its midpoint: positions take small steps, two of them, and extrapolate. (Measured over the zoo:
// 1e-6 loses five digits where the curvature jumps nearby, 1e-8 loses them to rounding.)
// Without constraints everything is smooth. Velocities, activations and controls enter almost
// linearly.
constexpr double kPositionStep = 1e-7;
constexpr double kFreePositionStep = 1e-5;
constexpr double kSmallestStep = 1e-9;
constexpr double kVelocityStep = 1e-5;
constexpr double kStep = 1e-6;

}  // namespace

void next_activation_pullback(const StageModel& impl, CVec act, CVec act_dot,
                              const Matrix& act_next_bar, Eigen::Ref<Matrix> act_bar,
                              Matrix& act_dot_bar, Workspace& workspace) {
  mjData* d = workspace.data.get();
  ProbeOutputs &plus = workspace.probes.probe, &minus = workspace.probes.base;
  const auto next = [&](int j, double da, double ddot, ProbeOutputs& out) {
    std::copy(act.begin(), act.end(), d->act);
    std::copy(act_dot.begin(), act_dot.end(), d->act_dot);
    d->act[j] += da;
    d->act_dot[j] += ddot;
    advance_with_force(impl, impl.mj(), {}, out.b, out.act_next, workspace);
  };
  for (int j = 0; j < impl.na; j++) {
    next(j, kStep, 0, plus);
    next(j, -kStep, 0, minus);
    for (Eigen::Index row = 0; row < act_next_bar.rows(); row++) {
      act_bar(row, j) +=
          dot_of_difference(&act_next_bar, row, plus.act_next, minus.act_next) / (2 * kStep);
    }
    const double h = kStep * std::max(1.0, std::abs(act_dot[static_cast<size_t>(j)]));
    next(j, 0, h, plus);
    next(j, 0, -h, minus);
    for (Eigen::Index row = 0; row < act_next_bar.rows(); row++) {
      act_dot_bar(row, j) +=
          dot_of_difference(&act_next_bar, row, plus.act_next, minus.act_next) / (2 * h);
    }
  }
}

void oracle_pullback(const StageModel& impl, const OracleProblem& problem,
                     const Multipliers& multipliers, Matrix& x_bar, Matrix& ctrl_bar,
                     Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  if (d->efm_active) {
    throw Error("oracle_pullback: the solver's metric is not the mass matrix");  // see choose_path
  }
  workspace.probes.rows.set_base(d);
  oracle_evaluate(impl, m, problem, FirstStage::kActuation, workspace.probes.base, workspace);

  // samples: the contraction at four places; sample(k, ...) fills the k-th, where set moved the
  // input, and returns whether all rows of the base are still there
  Eigen::MatrixXd& samples = workspace.probes.samples;
  samples.resize(x_bar.rows(), 4);
  const auto sample = [&](Eigen::Index k, FirstStage from, auto&& set) {
    write_input(m, d, problem.in);
    set();
    const bool all_rows =
        oracle_evaluate(impl, m, problem, from, workspace.probes.probe, workspace);
    oracle_contract(multipliers, problem.sensor_bar, workspace.probes.probe, workspace.probes.base,
                    samples.col(k));
    return all_rows;
  };
  const auto central = [&](FirstStage from, double h, Eigen::Index j, Matrix& bar, auto&& move) {
    sample(0, from, [&] { move(h); });
    sample(1, from, [&] { move(-h); });
    bar.col(j) += (samples.col(0) - samples.col(1)) / (2 * h);
  };
  const auto scaled = [](double h, double x) { return h * std::max(1.0, std::abs(x)); };

  // controls and activations
  for (int j = 0; j < impl.nu; j++) {
    const double u = problem.in.ctrl.empty() ? 0.0 : problem.in.ctrl[static_cast<size_t>(j)];
    const double h = scaled(kStep, u), shift = control_shift(impl, j, u, h);
    central(FirstStage::kActuation, h, j, ctrl_bar, [&](double s) { d->ctrl[j] += shift + s; });
  }
  for (int j = 0; j < impl.na; j++) {
    const double shift = activation_shift(impl, j, problem.in.act[static_cast<size_t>(j)], kStep);
    central(FirstStage::kActuation, kStep, 2 * impl.nv + j, x_bar,
            [&](double s) { d->act[j] += shift + s; });
  }

  // velocities
  for (int j = 0; j < impl.nv; j++) {
    central(FirstStage::kVelocity, scaled(kVelocityStep, problem.in.qvel[static_cast<size_t>(j)]),
            impl.nv + j, x_bar, [&](double s) { d->qvel[j] += s; });
  }

  // positions: two steps on either side, extrapolated; only the side on which no row vanishes, or
  // smaller steps if there is none
  const double step = workspace.newton.zone.empty() ? kFreePositionStep : kPositionStep;
  for (int j = 0; j < impl.nv; j++) {
    const auto at = [&](Eigen::Index k, double s) {
      return sample(k, FirstStage::kPosition, [&] {
        std::fill(workspace.probes.direction.begin(), workspace.probes.direction.end(), 0.0);
        workspace.probes.direction[static_cast<size_t>(j)] = s;
        mj_integratePos(m, d->qpos, workspace.probes.direction.data(), 1);
      });
    };
    const double size = position_size(impl, j, problem.in.qpos);
    for (double h = step * size;; h /= 10) {
      // all four samples are needed, whatever the first ones say
      const std::array<bool, 4> all_rows = {at(0, h), at(1, -h), at(2, 2 * h), at(3, -2 * h)};
      const bool plus = all_rows[0] && all_rows[2], minus = all_rows[1] && all_rows[3];
      if (!plus && !minus && h > kSmallestStep * size) continue;
      if (plus == minus) {
        x_bar.col(j) +=
            (8 * (samples.col(0) - samples.col(1)) - samples.col(2) + samples.col(3)) / (12 * h);
      } else if (plus) {
        x_bar.col(j) += (4 * samples.col(0) - samples.col(2)) / (2 * h);
      } else {
        x_bar.col(j) -= (4 * samples.col(1) - samples.col(3)) / (2 * h);
      }
      break;
    }
  }
}

void oracle_sensors_to_acceleration(const StageModel& impl, const OracleProblem& problem, Vec a_bar,
                                    Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  std::vector<double> a(problem.qacc.begin(), problem.qacc.end());
  workspace.probes.y.resize(static_cast<size_t>(d->nefc));
  workspace.probes.f.resize(static_cast<size_t>(d->nefc));
  const Vec y = workspace.probes.y, f = workspace.probes.f;
  const auto value = [&](Eigen::VectorXd& out) {
    if (d->nefc > 0) {
      mj_call("mj_mulJacVec", [&] {
        mj_mulJacVec(m, d, y.data(), a.data());
        mju_subFrom(y.data(), d->efc_aref, d->nefc);
      });
    }
    for (int i = 0; i < d->nefc; i += constraint_rows_at(d, i)) {
      constraint_force(d, workspace.newton.zone[static_cast<size_t>(i)], y, i, f);
    }
    oracle_sensors(impl, m, a, f, d, out);
  };
  Eigen::VectorXd &plus = workspace.probes.probe.sensordata,
                  &minus = workspace.probes.base.sensordata;
  for (size_t j = 0; j < a.size(); j++) {
    const double center = a[j], h = kVelocityStep * std::max(1.0, std::abs(center));
    a[j] = center + h;
    value(plus);
    a[j] = center - h;
    value(minus);
    a[j] = center;
    a_bar[j] += eigen(problem.sensor_bar).dot(plus - minus) / (2 * h);
  }
}

void oracle_linearize(const StageModel& impl, const OracleProblem& problem, Workspace& workspace) {
  workspace.probes.rows.set_base(workspace.data.get());
  oracle_evaluate(impl, impl.mj(), problem, FirstStage::kActuation, workspace.probes.base,
                  workspace);
}

void oracle_pushforward(const StageModel& impl, const OracleProblem& problem, CVec x_dot, Vec a_dot,
                        Vec act_dot_dot, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  const auto nv = static_cast<size_t>(impl.nv), na = static_cast<size_t>(impl.na);
  const CVec q_dot = x_dot.first(nv), v_dot = x_dot.subspan(nv, nv), w_dot = x_dot.last(na);

  // the longest step that is small for every part of the state
  double size = 0;
  const auto measure = [&size](CVec part, double step) {
    for (const double value : part) size = std::max(size, std::abs(value) / step);
  };
  measure(q_dot, workspace.newton.zone.empty() ? kFreePositionStep : kPositionStep);
  measure(v_dot, kVelocityStep);
  measure(w_dot, kStep);
  std::fill(a_dot.begin(), a_dot.end(), 0.0);
  std::fill(act_dot_dot.begin(), act_dot_dot.end(), 0.0);
  if (!(size > 0)) return;

  double h = 1 / size;
  const auto sample = [&] {
    write_input(m, d, problem.in);
    for (size_t k = 0; k < nv; k++) {
      workspace.probes.direction[k] = h * q_dot[k];
      d->qvel[k] += h * v_dot[k];
    }
    for (size_t k = 0; k < na; k++) d->act[k] += h * w_dot[k];
    mj_integratePos(m, d->qpos, workspace.probes.direction.data(), 1);
    return oracle_evaluate(impl, m, problem, FirstStage::kPosition, workspace.probes.probe,
                           workspace);
  };
  if (!sample()) {
    h = -h;
    sample();
  }
  // workspace.step.F: g's own
  for (size_t k = 0; k < nv; k++) {
    const auto i = static_cast<Eigen::Index>(k);
    workspace.step.F[k] = -(workspace.probes.probe.g[i] - workspace.probes.base.g[i]) / h;
  }
  newton_solve(workspace, workspace.step.F, a_dot);
  for (size_t k = 0; k < na; k++) {
    const auto j = static_cast<Eigen::Index>(k);
    act_dot_dot[k] = (workspace.probes.probe.act_dot[j] - workspace.probes.base.act_dot[j]) / h;
  }
}

}  // namespace diffmj
