// The discrete adjoint: the steps that were taken, reversed.
//
//   x_bar[n] = cotangent[n],   x_bar[i] = cotangent[i] + (∂f/∂x)ᵀ x_bar[i + 1],   u_bar[i] =
//   (∂f/∂u)ᵀ x_bar[i + 1]
#ifndef DIFFMJ_ADJOINT_DISCRETE_H_
#define DIFFMJ_ADJOINT_DISCRETE_H_

#include "base/parallel.h"
#include "diffmj/gradient.h"
#include "model/workspace.h"

namespace diffmj {

enum class SweepOutcome { kSuccess, kStopped, kNotFinite };

// The way back through a trajectory, interval by interval where its integrator has more than one
// step there, by the adjoint that the model asks for. failed_step is the step whose pullback is not
// finite.
SweepOutcome rollout_adjoint(const Model& model, const Trajectory& trajectory,
                             const Cotangents& cotangents, Gradient& gradient, Workspace& workspace,
                             StopSignal& stop, int& failed_step);

}  // namespace diffmj

#endif  // DIFFMJ_ADJOINT_DISCRETE_H_
