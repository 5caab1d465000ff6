// The discrete adjoint of explicit Runge-Kutta methods: the steps that were taken, reversed.
#ifndef DIFFMJ_ADJOINT_DISCRETE_H_
#define DIFFMJ_ADJOINT_DISCRETE_H_

#include "adjoint/continuous.h"
#include "adjoint/reverse_steps.h"
#include "base/parallel.h"
#include "diffmj/rollout.h"
#include "setup/workspace_lease.h"

namespace diffmj {

// The accepted steps of an interval, the last one first, from bar.next to bar.x and its inputs; any
// number of cotangents, of which parameters are of one. gradient: where forces have a corner within
// a step its own derivative weighs the two sides by the method's b_i, not by how long each was; the
// adjoint equation, solved along that step, does (corners; null: not wanted). So it does for linearly
// implicit steps, which have no pullback. False if it was stopped.
bool interval_pullback(const Model& model, const Trajectory& trajectory, ReverseSteps& steps,
                       int interval, ContinuousAdjoint* corners, StepBar& bar, Workspace& workspace,
                       StopSignal& stop);

}  // namespace diffmj

#endif  // DIFFMJ_ADJOINT_DISCRETE_H_
