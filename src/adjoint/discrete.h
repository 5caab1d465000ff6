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

// Every state of the trajectory is kept. Returns false if it was stopped.
bool discrete_adjoint(const Model& model, const Trajectory& trajectory,
                      const Cotangents& cotangents, Gradient& gradient, Workspace& workspace,
                      StopSignal& stop);

}  // namespace diffmj

#endif  // DIFFMJ_ADJOINT_DISCRETE_H_
