// The model's numbers behind constraint rows; MuJoCo: mj_diagApprox, mj_makeImpedance, and how the
// parameters of two geoms that touch are mixed.
//
//   aref = -B J v - K I r,   R = A (1 - I)/I,   r = pos - margin
//   solref:  K = 1/(dmax timeconst dampratio)², B = 2/(dmax timeconst)
//            K = -solref₀/dmax², B = -solref₁/dmax if both are negative
//   solimp:  I = dmin + y(|r|/width) (dmax - dmin),   y(x) = x (x/midpoint)^(power - 1) up to the
//            midpoint, and from 1 down likewise beyond it
//   A:       body_invweight0, dof_invweight0
//   friction μ of contacts, elliptic: the cone, and R_j μ_j² = R₁ μ₁²;  pyramidal: J = normal ± μ_k
//            tangent_k, R = 2 μ₁²/impratio A (1 + μ₁²) (1 - I)/I, A of the normal
#ifndef DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_PARAMETERS_H_
#define DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_PARAMETERS_H_

#include <mujoco/mujoco.h>

#include "mj/view.h"
#include "model/parameters.h"
#include "stages/workspace.h"

namespace diffmj {

// Adds to the fields of params that rows are made of, but for those that move geometry (eq_data,
// frames and sizes: stages/position/constraint_rows.h). constraint_force_pullback must have left
// its rows in the workspace, with the same force_bar. Looks at no row if no such field is wanted.
void constraint_parameters_pullback(const mjModel* m, const mjData* d, CVec force_bar,
                                    const ParameterBar& params, Workspace& workspace);

// Adds a cotangent of contact.friction[k] to the geoms or pairs it is mixed from.
void contact_friction_pullback(const mjModel* m, const mjContact& contact, int k,
                               double friction_bar, const ParameterBar& params,
                               Workspace& workspace);

// Of the impedance I of a violation r: adds I_bar ∂I/∂solimp. solimp is clamped as MuJoCo does.
void impedance_pullback(const mjtNum* solimp, double r, double I_bar, double* solimp_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_PARAMETERS_H_
