// rollout_batch() into trajectories whose memory is used again: who makes many rollouts of the same
// size need not have the system clear new pages for each.
#ifndef DIFFMJ_RECORD_ROLLOUT_INTO_H_
#define DIFFMJ_RECORD_ROLLOUT_INTO_H_

#include <span>

#include "diffmj/rollout.h"

namespace diffmj {

// out: one per input; what is in them is lost.
void rollout_batch_into(const Model& model, std::span<const RolloutInput> inputs, int nstep,
                        const RolloutOptions& options, std::span<Trajectory> out);

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_ROLLOUT_INTO_H_
