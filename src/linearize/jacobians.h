// Jacobians of the steps of a trajectory: of MuJoCo's steps each on its own, of adaptive steps all
// those between two rows together.
#ifndef DIFFMJ_LINEARIZE_JACOBIANS_H_
#define DIFFMJ_LINEARIZE_JACOBIANS_H_

#include <functional>
#include <optional>
#include <string>

#include "base/parallel.h"
#include "diffmj/rollout.h"
#include "integrate/step_jacobian.h"

namespace diffmj {

// Throws InputError if the trajectory failed or is another model's.
void require_trajectory(const std::string& who, const Model& model, const Trajectory& trajectory);

// Of step i of MuJoCo's integrators. The workspace's mocap poses are those of the trajectory.
void trajectory_step_jacobian(const Model& model, const Trajectory& trajectory, int i,
                              const ParameterColumns& columns, const StepJacobianOptions& options,
                              StepJacobian& out, Workspace& workspace);

// Calls fn(i, jacobian) for every step, or interval of adaptive steps: the former in no order and
// on several threads, the latter last to first. Adaptive steps have no columns of parameters.
void for_each_jacobian(const Model& model, const Trajectory& trajectory,
                       const ParameterColumns& columns, const StepJacobianOptions& options,
                       std::optional<int> nthread, StopSignal& stop,
                       const std::function<void(int i, const StepJacobian& jacobian)>& fn);

}  // namespace diffmj

#endif  // DIFFMJ_LINEARIZE_JACOBIANS_H_
