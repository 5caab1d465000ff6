// ã = F̃(x, u): the vector field with contacts from distance, and what its pullback reads.
//
// MuJoCo's own stages with other contacts (stages/cfd/pairs.h) and, in their rows, another
// impedance and reference (stages/cfd/law.h), which R, D and aref follow; the solver then finds ã,
// and the pullback is the implicit one at it (docs/derivations/cfd.md, eq. 4 and 5).
#ifndef DIFFMJ_STAGES_CFD_FIELD_H_
#define DIFFMJ_STAGES_CFD_FIELD_H_

#include "model/model_impl.h"
#include "model/workspace.h"
#include "stages/step_input.h"

namespace diffmj {

// The stages and the solution: in the workspace's mjData as mj_forward leaves them, ã in
// workspace.cfd.qacc too. warmstart is near ã, nv; as F is where nothing acts from distance. Throws
// MujocoError, after which that data is as new.
void cfd_field(const ModelImpl& impl, const StepInput& in, CVec warmstart, Workspace& workspace);

// The same, and H factorised at ã where there are rows. Returns whether there are. Starts at the
// last solution instead of warmstart if there is one (workspace.cfd.qacc).
bool cfd_evaluate(const ModelImpl& impl, const StepInput& in, CVec warmstart, Workspace& workspace);

// Not physical, but what the pullback is checked against: rollouts have forces from distance, too.
inline bool cfd_forward(const ModelImpl& impl) { return impl.cfd && impl.options.cfd->forward; }

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_CFD_FIELD_H_
