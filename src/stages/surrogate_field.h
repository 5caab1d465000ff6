// ã = F̃(x, u): another vector field than the rollout's, and what its pullback reads.
//
// The backward pass takes the derivative of F̃ along the states of F. MuJoCo's own stages with other
// contacts: from distance (stages/cfd/pairs.h), with another impedance and reference in their rows
// (stages/cfd/law.h), which R, D and aref follow; or those of the smooth colliders. The solver then
// finds ã, and the pullback is the implicit one at it (docs/derivations/cfd.md, eq. 4 and 5).
#ifndef DIFFMJ_STAGES_SURROGATE_FIELD_H_
#define DIFFMJ_STAGES_SURROGATE_FIELD_H_

#include "stages/stage_model.h"
#include "stages/step_input.h"
#include "stages/workspace.h"

namespace diffmj {

// The stages and the solution: in the workspace's mjData as mj_forward leaves them, ã in
// workspace.field_qacc too. warmstart is near ã, nv; as F is where both have the same contacts.
// Throws MujocoError, after which that data is as new.
void surrogate_field(const StageModel& impl, const StepInput& in, CVec warmstart,
                     Workspace& workspace);

// The same, and H factorised at ã where there are rows. Returns whether there are. Starts at the
// last solution instead of warmstart if there is one (workspace.field_qacc).
bool surrogate_evaluate(const StageModel& impl, const StepInput& in, CVec warmstart,
                        Workspace& workspace);

// Not physical, but what the pullback is checked against: rollouts have forces from distance, too.
inline bool cfd_forward(const StageModel& impl) { return impl.cfd && impl.options.cfd->forward; }

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_SURROGATE_FIELD_H_
