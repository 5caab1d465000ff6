// The discrete adjoint: the steps that were taken, reversed.
//
//   x_bar[n] = cotangent[n],   x_bar[i] = cotangent[i] + (∂f/∂x)ᵀ x_bar[i + 1],   u_bar[i] =
//   (∂f/∂u)ᵀ x_bar[i + 1]
#ifndef DIFFMJ_ADJOINT_DISCRETE_H_
#define DIFFMJ_ADJOINT_DISCRETE_H_

#include "adjoint/continuous.h"
#include "adjoint/reverse_steps.h"
#include "base/parallel.h"
#include "diffmj/gradient.h"
#include "setup/workspace_lease.h"

namespace diffmj {

enum class SweepOutcome { kSuccess, kStopped, kNotFinite };

// The way back through a trajectory, interval by interval where its integrator has more than one
// step there, by the adjoint that the model asks for. failed_step is the step whose pullback is not
// finite.
SweepOutcome rollout_adjoint(const Model& model, const Trajectory& trajectory,
                             const Cotangents& cotangents, Gradient& gradient, Workspace& workspace,
                             StopSignal& stop, int& failed_step);

// The accepted steps of an interval, the last one first, from bar.next to bar.x and its inputs; any
// number of cotangents, of which parameters are of one. gradient: where forces bend within a step
// its own derivative weighs the two sides by the method's b_i, not by how long each was; the
// adjoint equation, solved along that step, does (bends; null: not wanted). False if it was
// stopped.
bool interval_pullback(const Model& model, const Trajectory& trajectory, ReverseSteps& steps,
                       int interval, ContinuousAdjoint* bends, StepBar& bar, Workspace& workspace,
                       StopSignal& stop);

}  // namespace diffmj

#endif  // DIFFMJ_ADJOINT_DISCRETE_H_
