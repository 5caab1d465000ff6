// What rollout(), rollout_pullback() and check_gradient() do with their inputs.
#ifndef DIFFMJ_RECORD_INPUT_H_
#define DIFFMJ_RECORD_INPUT_H_

#include <string>

#include "diffmj/rollout.h"
#include "setup/workspace_lease.h"

namespace diffmj {

// Throws InputError, naming who, on a wrong size or a number that is not finite.
void require_input(const std::string& who, const Model& model, const RolloutInput& input,
                   int nstep);

// The workspace's mjData for stages that write all else that they read, as those of the backward
// pass do: equality constraints and mocap poses (empty: the model's) are those of the rollout.
// mj_resetData takes as long as a small model's step.
void prepare_data(const Model& model, std::span<const double> mocap_pos,
                  std::span<const double> mocap_quat, Workspace& workspace);

// mj_resetData, then the mocap poses of the rollout (empty: the model's).
void reset_data(const Model& model, std::span<const double> mocap_pos,
                std::span<const double> mocap_quat, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_INPUT_H_
