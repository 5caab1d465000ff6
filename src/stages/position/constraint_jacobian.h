// Rows of J whose cotangents are vectors of their own; MuJoCo: mj_makeConstraint.
//
// Σ_i J_i(q) · J_bar_i,  J_bar_i any generalised vector held fixed. What a row is:
// constraint_rows.h, whose rows have a few vectors in common and cost a sweep for each of these;
// here a row costs the dofs that move its bodies.
#ifndef DIFFMJ_STAGES_POSITION_CONSTRAINT_JACOBIAN_H_
#define DIFFMJ_STAGES_POSITION_CONSTRAINT_JACOBIAN_H_

#include "stages/stage_model.h"
#include "stages/workspace.h"

namespace diffmj {

// Of workspace.projection.J_bar: adds to the sweep, to qpos_bar (nv), to eq_data, site_pos and
// friction of contacts. What contacts' places and frames receive is left in
// workspace.constraint.contacts, which constraint_rows_pullback takes on.
void constraint_jacobian_pullback(const mjModel* m, const mjData* d, Vec qpos_bar,
                                  const ParameterBar& params, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_CONSTRAINT_JACOBIAN_H_
