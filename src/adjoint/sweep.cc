#include "adjoint/sweep.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "adjoint/cotangents.h"
#include "adjoint/discrete.h"
#include "adjoint/sensors.h"
#include "diffmj/state.h"
#include "integrate/step.h"
#include "model/parameters.h"
#include "record/input.h"
#include "record/sensordata.h"
#include "record/trajectory.h"
#include "stages/analytic.h"

namespace diffmj {
namespace {

void add_row(const Matrix& from, int i, std::vector<double>& to) {
  double* row = to.data() + static_cast<ptrdiff_t>(i) * from.cols();
  for (Eigen::Index k = 0; k < from.cols(); k++) row[k] += from(0, k);
}

class RolloutSweep {
 public:
  // The gradient must be filled with zeros, and the data of the workspace prepared.
  RolloutSweep(const Model& model, const Trajectory& t, const Cotangents& cotangents,
               Gradient& gradient, Workspace& workspace)
      : model_(model),
        impl_(model.impl()),
        t_(t),
        cotangents_(cotangents),
        gradient_(gradient),
        workspace_(workspace),
        sensors_(model, t, cotangents, workspace) {
    bar_.resize(impl_, 1, !t.xfrc_applied.empty());
    for (const std::string& name : cotangents.params) {
      bar_.params.field[static_cast<size_t>(parameter_field(name).id)] = gradient.params[name];
    }
    // those of poses go with the step that begins there, unless the oracle, which knows none of it,
    // has a part in the parameters
    const bool oracle = oracle_parameters(impl_.mj(), bar_.params).any() ||
                        (!cotangents.params.empty() && !cotangents.sensordata.empty());
    poses_with_step_ = step_takes_poses(impl_) && !oracle;
    if (!model.is_adaptive()) return;
    const bool backsolve = model.options().adjoint() == Adjoint::kBacksolve;
    if (!backsolve) steps_.emplace(model, t, workspace);
    continuous_.emplace(model, t, bar_, backsolve ? nullptr : &*steps_, workspace);
  }

  SweepOutcome run(StopSignal& stop, int& failed_step) {
    add_state(t_.nstep);
    add_sensors(t_.nstep, sensors_.at(t_.nstep));
    if (t_.nstep > 0) add_inputs(t_.nstep - 1);
    for (int i = t_.nstep - 1; i >= 0; i--) {
      if (stop.poll(static_cast<double>(t_.nstep - 1 - i) / t_.nstep)) {
        return SweepOutcome::kStopped;
      }
      if (!step(i, stop)) return SweepOutcome::kStopped;
      if (!bar_.x.allFinite() || !bar_.ctrl.allFinite()) {
        failed_step = i;
        return SweepOutcome::kNotFinite;
      }
      add_state(i);
    }
    for (const auto& [name, values] : gradient_.params) {
      if (std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); }))
        continue;
      failed_step = 0;
      return SweepOutcome::kNotFinite;
    }
    finish();
    return SweepOutcome::kSuccess;
  }

 private:
  Vec x_bar() { return {bar_.x.data(), static_cast<size_t>(bar_.x.cols())}; }

  void add_state(int i) {
    const bool poses = !poses_with_step_ || i == t_.nstep;
    add_state_cotangents(model_, t_, cotangents_, i, poses, x_bar(), bar_.params, workspace_);
  }

  void add_sensors(int i, CVec sensor_bar) {
    if (sensor_bar.empty()) return;
    state_sensors_pullback(impl_, state_input(t_, i), sensor_bar,
                           {bar_.x, bar_.ctrl, bar_.qfrc_applied, bar_.xfrc_applied, bar_.params},
                           workspace_);
  }

  void add_inputs(int i) {
    add_row(bar_.ctrl, i, gradient_.ctrl);
    add_row(bar_.qfrc_applied, i, gradient_.qfrc_applied);
    add_row(bar_.xfrc_applied, i, gradient_.xfrc_applied);
  }

  // from x_bar of its end to that of its start, and to its inputs; false if it was stopped
  bool step(int i, StopSignal& stop) {
    bar_.next = bar_.x;
    for (Matrix* x :
         {&bar_.x, &bar_.ctrl, &bar_.ctrl_end, &bar_.qfrc_applied, &bar_.xfrc_applied}) {
      x->setZero();
    }
    if (!cotangents_.efc_force.empty()) {
      bar_.efc_force = cotangents_.efc_force[static_cast<size_t>(i)];
    }
    const CVec sensor_bar = sensors_.at(i);
    const auto [pose_bar, any_pose] = pose_cotangents(t_, cotangents_, i);
    bar_.poses = poses_with_step_ && any_pose ? &pose_bar : nullptr;
    // a loss of an early state does not depend on the steps after it
    if (!continuous_ && !bar_.poses && sensor_bar.empty() && cotangents_.efc_force.empty() &&
        bar_.next.isZero(0)) {
      return true;
    }
    const bool apart = !sensor_bar.empty() && !step_takes_sensors(impl_, sensor_bar);
    bar_.sensordata = apart ? CVec() : sensor_bar;
    if (!pullback(i, stop)) return false;
    if (apart) add_sensors(i, sensor_bar);
    add_inputs(i);
    if (i + 1 < t_.nstep) add_row(bar_.ctrl_end, i + 1, gradient_.ctrl);
    return true;
  }

  bool pullback(int i, StopSignal& stop) {
    if (!continuous_) {
      step_pullback(impl_, step_input(t_, i), row(t_.qacc, i, t_.nv), bar_, workspace_);
      return true;
    }
    if (model_.options().adjoint() != Adjoint::kDiscrete) {
      return continuous_->interval(i, bar_, stop);
    }
    ContinuousAdjoint* corners = impl_.tableau->embedded_order > 0 ? &*continuous_ : nullptr;
    return interval_pullback(model_, t_, *steps_, i, corners, bar_, workspace_, stop);
  }

  void finish() {
    const Vec x = x_bar();
    const auto nv = static_cast<size_t>(t_.nv);
    std::copy_n(x.begin(), nv, gradient_.qpos_tangent.begin());
    std::copy_n(x.begin() + t_.nv, nv, gradient_.qvel.begin());
    std::copy_n(x.begin() + 2 * t_.nv, gradient_.act.size(), gradient_.act.begin());
    qpos_cotangent_to_ambient(model_, row(t_.qpos, 0, t_.nq), gradient_.qpos_tangent,
                              gradient_.qpos);
    gradient_.cfd = workspace_.cfd.counts;
    if (steps_) gradient_.nrecomputed = steps_->nrecomputed();
    if (!continuous_) return;
    gradient_.naccepted = continuous_->steps().naccepted;
    gradient_.nrejected = continuous_->steps().nrejected;
    gradient_.nevaluation = continuous_->times().count;
  }

  const Model& model_;
  const ModelImpl& impl_;
  const Trajectory& t_;
  const Cotangents& cotangents_;
  Gradient& gradient_;
  Workspace& workspace_;
  StepBar bar_;
  SensorCotangents sensors_;
  bool poses_with_step_ = false;
  // of Runge-Kutta methods
  std::optional<ReverseSteps> steps_;
  std::optional<ContinuousAdjoint> continuous_;
};

}  // namespace

SweepOutcome rollout_adjoint(const Model& model, const Trajectory& t, const Cotangents& cotangents,
                             Gradient& gradient, Workspace& workspace, StopSignal& stop,
                             int& failed_step) {
  fill_gradient(model, t, cotangents, 0, gradient);
  prepare_data(model, t.mocap_pos, t.mocap_quat, workspace);
  workspace.cfd.counts = {};
  workspace.field_qacc.clear();
  return RolloutSweep(model, t, cotangents, gradient, workspace).run(stop, failed_step);
}

void fill_gradient(const Model& model, const Trajectory& t, const Cotangents& cotangents,
                   double value, Gradient& gradient) {
  const int nstep = std::isnan(value) ? t.nstep_asked : t.nstep;
  const auto fill = [value](std::vector<double>& x, int rows, int width) {
    x.assign(static_cast<size_t>(rows) * static_cast<size_t>(width), value);
  };
  fill(gradient.qpos, 1, t.nq);
  fill(gradient.qpos_tangent, 1, t.nv);
  fill(gradient.qvel, 1, t.nv);
  fill(gradient.act, 1, t.na);
  fill(gradient.ctrl, nstep, t.nu);
  fill(gradient.qfrc_applied, nstep, t.nv);
  fill(gradient.xfrc_applied, t.xfrc_applied.empty() ? 0 : nstep, 6 * t.nbody);
  for (const std::string& name : cotangents.params) {
    fill(gradient.params[name], 1, parameter_field(name).size(model.mj()));
  }
}

}  // namespace diffmj
