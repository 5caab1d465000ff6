// The exact diagonal that the flag diagexact has R made of; MuJoCo: mj_projectConstraint.
//
//   R = A (1 - I)/I,   A = J_i M⁻¹ J_iᵀ,   all rows of a contact with the A of its first
//
// (docs/derivations/constraint_solve.md, eq. 15); stages/acceleration/constraint_projection.h has
// the derivative of A.
#ifndef DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_DIAGONAL_H_
#define DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_DIAGONAL_H_

#include "stages/stage_model.h"
#include "stages/workspace.h"

namespace diffmj {

inline bool diagonal_is_exact(const mjModel* m) {
  return (m->opt.enableflags & mjENBL_DIAGEXACT) != 0;
}

// Adds what (J λ)ᵀ f has through A to projection.A_bar, whose pattern must be there.
// constraint_force_pullback must have left its rows in the workspace.
void constraint_diagonal_pullback(const mjData* d, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_DIAGONAL_H_
