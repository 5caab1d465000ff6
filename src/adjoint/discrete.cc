#include "adjoint/discrete.h"

#include "adjoint/jump.h"

namespace diffmj {
namespace {

// the adjoint equation along one step takes one cotangent at a time
bool step_along_pullback(ContinuousAdjoint& corners, int interval, int n, RungeKutta& step,
                             const ModelImpl& impl, StepBar& bar, StopSignal& stop) {
  if (bar.next.rows() == 1) return corners.step(interval, n, step, bar, stop);
  StepBar one;
  for (Eigen::Index i = 0; i < bar.next.rows(); i++) {
    one.resize(impl, 1, bar.xfrc_applied.cols() > 0);
    one.next = bar.next.row(i);
    if (!corners.step(interval, n, step, one, stop)) return false;
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
                       ContinuousAdjoint* corners, StepBar& bar, Workspace& workspace,
                       StopSignal& stop) {
  const int last = steps.first(interval + 1) - 1;
  for (int n = last; n >= steps.first(interval); n--) {
    if (stop.poll()) return false;
    if (n < last) {
      bar.next = bar.x;
      bar.x.setZero();
    }
    if (const EventRecord* event = steps.event(n)) {
      jump_pullback(model.impl(), *event, bar.next, bar.params, workspace);
    }
    const bool along =
        corners && (is_nonsmooth(t, n) || step_tableau(model.impl(), t, n).implicit());
    RungeKutta* step = steps.load(n, along, stop);
    if (!step) return false;
    if (!along) {
      step->pullback(bar);
    } else if (!step_along_pullback(*corners, interval, n, *step, model.impl(), bar, stop)) {
      return false;
    }
  }
  return true;
}

}  // namespace diffmj
