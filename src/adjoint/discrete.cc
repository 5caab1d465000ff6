#include "adjoint/discrete.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "adjoint/cotangents.h"
#include "adjoint/jump.h"
#include "adjoint/sensors.h"
#include "diffmj/error.h"
#include "diffmj/state.h"
#include "integrate/step.h"
#include "mj/callbacks.h"
#include "model/parameters.h"
#include "record/adaptive.h"
#include "record/input.h"
#include "record/sensordata.h"
#include "record/trajectory.h"
#include "setup/workspace_lease.h"
#include "stages/analytic.h"

namespace diffmj {
namespace {

size_t size(int rows, int width) { return static_cast<size_t>(rows) * static_cast<size_t>(width); }

void allocate(const Trajectory& t, double value, Gradient& g) {
  g.qpos.assign(size(1, t.nq), value);
  g.qpos_tangent.assign(size(1, t.nv), value);
  g.qvel.assign(size(1, t.nv), value);
  g.act.assign(size(1, t.na), value);
  const int nstep = std::isnan(value) ? t.nstep_asked : t.nstep;
  g.ctrl.assign(size(nstep, t.nu), value);
  g.qfrc_applied.assign(size(nstep, t.nv), value);
  g.xfrc_applied.assign(t.xfrc_applied.empty() ? 0 : size(nstep, 6 * t.nbody), value);
}

std::string not_finite(const Trajectory& t, int step) {
  return "the gradient is not finite from step " + std::to_string(step) + " of " +
         std::to_string(t.nstep) +
         " backwards: the motion amplifies small changes beyond what numbers hold; use a shorter "
         "horizon, or a smaller timestep if the motion is unstable";
}

void add_row(const Matrix& from, int i, std::vector<double>& to) {
  double* row = to.data() + static_cast<ptrdiff_t>(i) * from.cols();
  for (Eigen::Index k = 0; k < from.cols(); k++) row[k] += from(0, k);
}

// the adjoint equation along one step takes one cotangent at a time
bool bent_step_pullback(ContinuousAdjoint& bends, int interval, int n, RungeKutta& step,
                        const ModelImpl& impl, StepBar& bar, StopSignal& stop) {
  if (bar.next.rows() == 1) return bends.step(interval, n, step, bar, stop);
  StepBar one;
  for (Eigen::Index i = 0; i < bar.next.rows(); i++) {
    one.resize(impl, 1, bar.xfrc_applied.cols() > 0);
    one.next = bar.next.row(i);
    if (!bends.step(interval, n, step, one, stop)) return false;
    bar.x.row(i) += one.x;
    bar.ctrl.row(i) += one.ctrl;
    bar.ctrl_end.row(i) += one.ctrl_end;
    bar.qfrc_applied.row(i) += one.qfrc_applied;
    if (bar.xfrc_applied.cols() > 0) bar.xfrc_applied.row(i) += one.xfrc_applied;
  }
  return true;
}

}  // namespace

bool interval_pullback(const Model& model, const Trajectory& t, ReverseSteps& steps, int interval,
                       ContinuousAdjoint* bends, StepBar& bar, Workspace& workspace,
                       StopSignal& stop) {
  const int last = steps.first(interval + 1) - 1;
  for (int n = last; n >= steps.first(interval); n--) {
    if (stop.poll()) return false;
    if (n < last) {
      bar.next = bar.x;
      bar.x.setZero();
    }
    if (const SolverEvent* event = steps.event(n)) {
      jump_pullback(model.impl(), *event, bar.next, bar.params, workspace);
    }
    const bool bent = bends && is_bent(t, n);
    RungeKutta* step = steps.load(n, bent, stop);
    if (!step) return false;
    if (!bent) {
      step->pullback(bar);
    } else if (!bent_step_pullback(*bends, interval, n, *step, model.impl(), bar, stop)) {
      return false;
    }
  }
  return true;
}

SweepOutcome rollout_adjoint(const Model& model, const Trajectory& t, const Cotangents& cotangents,
                             Gradient& gradient, Workspace& workspace, StopSignal& stop,
                             int& failed_step) {
  const ModelImpl& impl = model.impl();
  const auto nv = static_cast<size_t>(t.nv);
  allocate(t, 0, gradient);
  reset_data(model, t.mocap_pos, t.mocap_quat, workspace);
  workspace.cfd.evaluations = workspace.cfd.capped = 0;
  workspace.field_qacc.clear();

  StepBar bar;
  bar.resize(impl, 1, !t.xfrc_applied.empty());
  for (const std::string& name : cotangents.params) {
    const ParameterField& field = parameter_field(name);
    std::vector<double>& to = gradient.params[name];
    to.assign(static_cast<size_t>(field.size(model.mj())), 0.0);
    bar.params.field[static_cast<size_t>(field.id)] = to;
  }
  const Vec x_bar(bar.x.data(), static_cast<size_t>(bar.x.cols()));
  // those of poses go with the step that begins there, unless the oracle, which knows none of it,
  // has a part in the parameters
  const bool oracle = oracle_parameters(impl.mj(), bar.params).any() ||
                      (!cotangents.params.empty() && !cotangents.sensordata.empty());
  const bool with_step = step_takes_poses(impl) && !oracle;
  const auto add = [&](int i) {
    add_state_cotangents(model, t, cotangents, i, !with_step || i == t.nstep, x_bar, bar.params,
                         workspace);
  };
  SensorCotangents sensors(model, t, cotangents, workspace);
  const auto add_sensors = [&](int i, CVec sensor_bar) {
    if (sensor_bar.empty()) return;
    state_sensors_pullback(impl, state_input(t, i), sensor_bar,
                           {bar.x, bar.ctrl, bar.qfrc_applied, bar.xfrc_applied, bar.params},
                           workspace);
  };
  const auto add_inputs = [&](int i) {
    if (i < 0) return;
    add_row(bar.ctrl, i, gradient.ctrl);
    add_row(bar.qfrc_applied, i, gradient.qfrc_applied);
    add_row(bar.xfrc_applied, i, gradient.xfrc_applied);
  };
  const bool discrete = model.options().adaptive.adjoint == Adjoint::kDiscrete;
  std::optional<ReverseSteps> steps;
  std::optional<ContinuousAdjoint> continuous;
  if (model.is_adaptive()) {
    const bool backsolve = model.options().adaptive.adjoint == Adjoint::kBacksolve;
    if (!backsolve) steps.emplace(model, t, workspace);
    continuous.emplace(model, t, bar, backsolve ? nullptr : &*steps, workspace);
  }
  add(t.nstep);
  add_sensors(t.nstep, sensors.at(t.nstep));
  add_inputs(t.nstep - 1);
  for (int i = t.nstep - 1; i >= 0; i--) {
    if (stop.poll(static_cast<double>(t.nstep - 1 - i) / t.nstep)) return SweepOutcome::kStopped;
    bar.next = bar.x;
    for (Matrix* x : {&bar.x, &bar.ctrl, &bar.ctrl_end, &bar.qfrc_applied, &bar.xfrc_applied}) {
      x->setZero();
    }
    if (!cotangents.efc_force.empty()) bar.efc_force = cotangents.efc_force[static_cast<size_t>(i)];
    const CVec sensor_bar = sensors.at(i);
    const auto [pose_bar, any_pose] = pose_cotangents(t, cotangents, i);
    bar.poses = with_step && any_pose ? &pose_bar : nullptr;
    // a loss of an early state does not depend on the steps after it
    if (!continuous && !bar.poses && sensor_bar.empty() && cotangents.efc_force.empty() &&
        bar.next.isZero(0)) {
      add(i);
      continue;
    }
    const bool apart = !sensor_bar.empty() && !step_takes_sensors(impl, sensor_bar);
    bar.sensordata = apart ? CVec() : sensor_bar;
    if (continuous && !discrete) {
      if (!continuous->interval(i, bar, stop)) return SweepOutcome::kStopped;
    } else if (continuous) {
      ContinuousAdjoint* bends = impl.tableau->embedded_order > 0 ? &*continuous : nullptr;
      if (!interval_pullback(model, t, *steps, i, bends, bar, workspace, stop)) {
        return SweepOutcome::kStopped;
      }
    } else {
      step_pullback(impl, step_input(t, i), row(t.qacc, i, t.nv), bar, workspace);
    }
    if (apart) add_sensors(i, sensor_bar);
    add_inputs(i);
    if (i + 1 < t.nstep) add_row(bar.ctrl_end, i + 1, gradient.ctrl);
    if (!bar.x.allFinite() || !bar.ctrl.allFinite()) {
      failed_step = i;
      return SweepOutcome::kNotFinite;
    }
    add(i);
  }
  for (const auto& [name, values] : gradient.params) {
    if (std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); }))
      continue;
    failed_step = 0;
    return SweepOutcome::kNotFinite;
  }
  std::copy_n(x_bar.begin(), nv, gradient.qpos_tangent.begin());
  std::copy_n(x_bar.begin() + t.nv, nv, gradient.qvel.begin());
  std::copy_n(x_bar.begin() + 2 * t.nv, gradient.act.size(), gradient.act.begin());
  qpos_cotangent_to_ambient(model, row(t.qpos, 0, t.nq), gradient.qpos_tangent, gradient.qpos);
  gradient.cfd_evaluations = workspace.cfd.evaluations;
  gradient.cfd_capped = workspace.cfd.capped;
  if (steps) gradient.nrecomputed = steps->nrecomputed();
  if (continuous) {
    gradient.naccepted = continuous->steps().naccepted;
    gradient.nrejected = continuous->steps().nrejected;
    gradient.nevaluation = continuous->times().count;
  }
  return SweepOutcome::kSuccess;
}

Gradient rollout_pullback(const Model& model, const Trajectory& trajectory,
                          const Cotangents& cotangents, const RolloutOptions& options) {
  require_no_callbacks("rollout_pullback");
  if (!trajectory.ok()) {
    throw InputError("rollout_pullback: the rollout did not reach its last step: " +
                     trajectory.message);
  }
  require_cotangents("rollout_pullback", model, trajectory, cotangents);
  StopSignal stop(options.interrupted, options.progress);
  WorkspaceLease workspace(model.impl());
  Gradient gradient;
  int failed_step = 0;
  switch (rollout_adjoint(model, trajectory, cotangents, gradient, *workspace, stop, failed_step)) {
    case SweepOutcome::kSuccess:
      break;
    case SweepOutcome::kStopped:
      throw Interrupted("rollout_pullback: interrupted");
    case SweepOutcome::kNotFinite:
      throw RolloutError("rollout_pullback: " + not_finite(trajectory, failed_step));
  }
  return gradient;
}

namespace {

// model_of(i): the model of trajectory i
template <class ModelOf>
std::vector<Gradient> pullback_batch(ModelOf&& model_of, std::span<const Trajectory> trajectories,
                                     std::span<const Cotangents> cotangents,
                                     const RolloutOptions& options) {
  require_no_callbacks("rollout_pullback");
  if (trajectories.size() != cotangents.size()) {
    throw InputError("rollout_pullback: " + std::to_string(trajectories.size()) +
                     " trajectories but " + std::to_string(cotangents.size()) + " cotangents");
  }
  for (size_t i = 0; i < trajectories.size(); i++) {
    if (!trajectories[i].ok()) continue;
    require_cotangents("rollout_pullback, rollout " + std::to_string(i) + " of the batch",
                       model_of(i), trajectories[i], cotangents[i]);
  }
  std::vector<Gradient> out(trajectories.size());
  StopSignal stop(options.interrupted, options.progress);
  parallel_for(static_cast<int>(out.size()), options.nthread, stop, [&](int i, StopSignal& s) {
    const auto k = static_cast<size_t>(i);
    std::string failure = trajectories[k].message;
    if (trajectories[k].ok()) {
      try {
        WorkspaceLease workspace(model_of(k).impl());
        int failed_step = 0;
        if (rollout_adjoint(model_of(k), trajectories[k], cotangents[k], out[k], *workspace, s,
                            failed_step) == SweepOutcome::kNotFinite) {
          failure = not_finite(trajectories[k], failed_step);
        }
      } catch (const Error& error) {
        failure = error.what();
      }
    }
    if (failure.empty()) return;
    allocate(trajectories[k], std::numeric_limits<double>::quiet_NaN(), out[k]);
    for (const std::string& name : cotangents[k].params) {
      out[k].params[name].assign(static_cast<size_t>(parameter_field(name).size(model_of(k).mj())),
                                 std::numeric_limits<double>::quiet_NaN());
    }
    out[k].message = failure;
  });
  if (stop.stopped()) throw Interrupted("rollout_pullback: interrupted");
  return out;
}

}  // namespace

std::vector<Gradient> rollout_pullback_batch(const Model& model,
                                             std::span<const Trajectory> trajectories,
                                             std::span<const Cotangents> cotangents,
                                             const RolloutOptions& options) {
  return pullback_batch([&](size_t) -> const Model& { return model; }, trajectories, cotangents,
                        options);
}

std::vector<Gradient> rollout_pullback_batch(std::span<const Model> models,
                                             std::span<const Trajectory> trajectories,
                                             std::span<const Cotangents> cotangents,
                                             const RolloutOptions& options) {
  if (models.size() != trajectories.size()) {
    throw InputError("rollout_pullback: " + std::to_string(models.size()) + " models but " +
                     std::to_string(trajectories.size()) + " trajectories");
  }
  return pullback_batch([&](size_t i) -> const Model& { return models[i]; }, trajectories,
                        cotangents, options);
}

}  // namespace diffmj
