// The exact diagonal that the flag diagexact has R made of; MuJoCo: mj_projectConstraint.
//
//   R = A (1 - I)/I,   A = J_i M⁻¹ J_iᵀ,   all rows of a contact with the A of its first
//   z = M⁻¹ J_iᵀ:      δA = 2 δJ_i z - zᵀ δM z
//
// (docs/derivations/constraint_solve.md, eq. 15).
//
// Both terms are those of other stages: J_i z is a row's product with one more generalised vector,
// zᵀ M z a mass form. Every row has a vector of its own, and so a sweep of its own.
#ifndef DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_DIAGONAL_H_
#define DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_DIAGONAL_H_

#include "model/model_impl.h"
#include "model/workspace.h"

namespace diffmj {

inline bool diagonal_is_exact(const mjModel* m) {
  return (m->opt.enableflags & mjENBL_DIAGEXACT) != 0;
}

// Adds what (J λ)ᵀ f has through A to qpos_bar (nv) and to params. constraint_force_pullback must
// have left its rows in the workspace; they and the sweep's cotangents are used up, its V, A and Q
// must be set.
void constraint_diagonal_pullback(const ModelImpl& impl, Vec qpos_bar, Vec qvel_bar,
                                  const ParameterBar& params, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_DIAGONAL_H_
