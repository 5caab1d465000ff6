#include "linearize/jacobians.h"

#include <algorithm>

#include "adjoint/discrete.h"
#include "diffmj/error.h"
#include "integrate/tableau.h"
#include "record/input.h"
#include "record/tape.h"
#include "record/trajectory.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

void interval_jacobians(const Model& model, const Trajectory& t, StopSignal& stop,
                        const std::function<void(int, const StepJacobian&)>& fn) {
  const ModelImpl& impl = model.impl();
  if (t.tape->kept.empty() && t.nstep > 0) {
    throw UnsupportedError(
        "linearize: with adjoint backsolve a trajectory does not keep its steps; use adjoint "
        "discrete or interpolated");
  }
  WorkspaceLease workspace(impl);
  reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
  workspace->field_qacc.clear();
  StepBar bar, one;
  one.resize(impl, 1, false);
  ReverseSteps steps(model, t, *workspace);
  ContinuousAdjoint along(model, t, one, &steps, *workspace);
  ContinuousAdjoint* corners = impl.tableau->embedded_order > 0 ? &along : nullptr;
  StepJacobian out;
  for (int i = t.nstep - 1; i >= 0; i--) {
    if (stop.poll(static_cast<double>(t.nstep - 1 - i) / t.nstep)) return;
    bar.resize(impl, model.ntangent(), false);
    bar.next.setIdentity();
    if (!interval_pullback(model, t, steps, i, corners, bar, *workspace, stop)) return;
    out.A = bar.x;
    out.B = bar.ctrl;
    out.B_end = bar.ctrl_end;
    out.Q = bar.qfrc_applied;
    fn(i, out);
  }
}

}  // namespace

void require_trajectory(const std::string& who, const Model& model, const Trajectory& t) {
  if (!is_made_with(model, t)) {
    throw InputError(who +
                     ": the trajectory was made with another model; use the one it was rolled out "
                     "with, or a copy of it");
  }
  if (!t.ok()) {
    throw InputError(who + ": the rollout did not reach its last step: " + t.message);
  }
}

void trajectory_step_jacobian(const Model& model, const Trajectory& t, int i,
                              const ParameterColumns& columns, const StepJacobianOptions& options,
                              StepJacobian& out, Workspace& workspace) {
  // what a surrogate field starts from must not depend on which step came before
  workspace.field_qacc.clear();
  step_jacobian(model.impl(), step_input(t, i), row(t.qacc, i, t.nv), columns, options, out,
                workspace);
}

void for_each_jacobian(const Model& model, const Trajectory& t, const ParameterColumns& columns,
                       const StepJacobianOptions& options, std::optional<int> nthread,
                       StopSignal& stop, const std::function<void(int, const StepJacobian&)>& fn) {
  if (model.is_adaptive()) {
    interval_jacobians(model, t, stop, fn);
    return;
  }
  // a few steps at a time: what a thread needs for them is made once
  constexpr int kChunk = 8;
  const int nchunk = (t.nstep + kChunk - 1) / kChunk;
  parallel_for(nchunk, nthread, stop, [&](int chunk, StopSignal& s) {
    WorkspaceLease workspace(model.impl());
    reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
    StepJacobian jacobian;
    const int begin = kChunk * chunk, end = std::min(t.nstep, begin + kChunk);
    for (int i = begin; i < end; i++) {
      if (s.poll(static_cast<double>(i - begin) / (end - begin))) return;
      trajectory_step_jacobian(model, t, i, columns, options, jacobian, *workspace);
      fn(i, jacobian);
    }
  });
}

}  // namespace diffmj
