// The backward pass over a trajectory, from its last state to its first.
//
//   x_bar[n] = cotangent[n]
//   x_bar[i] = cotangent[i] + (∂f/∂x)ᵀ x_bar[i + 1],   u_bar[i] = (∂f/∂u)ᵀ x_bar[i + 1]
#ifndef DIFFMJ_ADJOINT_SWEEP_H_
#define DIFFMJ_ADJOINT_SWEEP_H_

#include "base/parallel.h"
#include "diffmj/gradient.h"
#include "setup/workspace_lease.h"

namespace diffmj {

enum class SweepOutcome { kSuccess, kStopped, kNotFinite };

// f is a step, or an interval where the integrator has more than one step in it; its pullback is
// that of the adjoint that the model asks for. failed_step is the step whose pullback is not
// finite.
SweepOutcome rollout_adjoint(const Model& model, const Trajectory& trajectory,
                             const Cotangents& cotangents, Gradient& gradient, Workspace& workspace,
                             StopSignal& stop, int& failed_step);

// Every entry of the gradient, those of parameters included, is this value: 0, or NaN where there
// is none, with as many steps as were asked for.
void fill_gradient(const Model& model, const Trajectory& trajectory, const Cotangents& cotangents,
                   double value, Gradient& gradient);

}  // namespace diffmj

#endif  // DIFFMJ_ADJOINT_SWEEP_H_
