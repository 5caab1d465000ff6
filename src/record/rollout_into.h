// rollout_batch() into trajectories whose memory is used again: who makes many rollouts of the same
// size need not have the system clear new pages for each. And with controls that follow the state.
#ifndef DIFFMJ_RECORD_ROLLOUT_INTO_H_
#define DIFFMJ_RECORD_ROLLOUT_INTO_H_

#include <span>

#include "diffmj/rollout.h"
#include "record/control_law.h"

namespace diffmj {

// out: one per input; what is in them is lost. law, if it is there, writes the row of ctrl before
// every step; inputs must have all rows of ctrl. The record is that of a rollout with these rows,
// bit for bit.
void rollout_batch_into(const Model& model, std::span<const RolloutInput> inputs, int nstep,
                        const RolloutOptions& options, std::span<Trajectory> out,
                        const BatchControlLaw& law = {});

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_ROLLOUT_INTO_H_
