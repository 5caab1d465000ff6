// A = J M⁻¹ Jᵀ, constraint forces to accelerations of constraints, and its pullback; MuJoCo:
// mj_projectConstraint.
//
//   z_i = M⁻¹ J_iᵀ:   δA_ij = δJ_i z_j + δJ_j z_i - z_iᵀ δM z_j                            (1)
//   J_bar_i = Σ_j (A_bar_ij + A_bar_ji) z_j,   M_bar = -½ Σ_i z_i J_bar_iᵀ                  (2)
//
// (docs/derivations/noslip.md, eq. 10). Two stages read A: the no-slip pass, all of it, and the
// flag diagexact, its diagonal.
#ifndef DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_PROJECTION_H_
#define DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_PROJECTION_H_

#include "stages/stage_model.h"
#include "stages/workspace.h"

namespace diffmj {

// A with its pattern into workspace.projection, A_bar = 0. d must hold mj_projectConstraint of a
// model that has the no-slip pass.
void projection_read(const mjModel* m, const mjData* d, Workspace& workspace);
// The same of its diagonal alone, from Z and J.
void projection_read_diagonal(const mjModel* m, const mjData* d, Workspace& workspace);

// Z; d must hold a factor of M.
void projection_solve(const mjModel* m, mjData* d, Workspace& workspace);

// (2) of projection.A_bar: sets J_bar and M_bar.
void projection_pullback(const mjModel* m, const mjData* d, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_PROJECTION_H_
