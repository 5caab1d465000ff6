// The no-slip pass after the main solver, and its reverse; MuJoCo: mj_solNoSlip.
//
// From the main solver's forces f₀ and acceleration a₀ on, a number of sweeps over the friction
// forces of dofs, tendons and contacts (projected Gauss-Seidel), the others fixed:
//
//   f_B := argmin ½ f_Bᵀ A_BB f_B + f_Bᵀ (b_B + A_BR f_R)   within bounds, B a block       (1)
//   A = J M⁻¹ Jᵀ,   b = y - A f₀,   y = J a₀ - aref
//   a = a₀ + M⁻¹ Jᵀ (f - f₀)                                                                 (2)
//
// Blocks are the two edges of a pyramid (their sum is fixed), the friction of an elliptic contact
// (its normal force is), or one row of friction loss. The result depends on the number of sweeps,
// which is MuJoCo's: so it is these sweeps that are differentiated, in the cases that they had,
// last update first (docs/derivations/noslip.md).
#ifndef DIFFMJ_STAGES_ACCELERATION_NOSLIP_H_
#define DIFFMJ_STAGES_ACCELERATION_NOSLIP_H_

#include "stages/stage_model.h"
#include "stages/workspace.h"

namespace diffmj {

inline bool has_noslip(const mjModel* m) { return m->opt.noslip_iterations > 0; }

// (1) from workspace.noslip.main_force and b on, with workspace.projection; d must hold the rows.
// Leaves the forces and what was done.
void noslip_sweeps(const mjModel* m, const mjData* d, Workspace& workspace);

// Their reverse: of workspace.noslip.force_bar, which it uses up, sets main_force_bar, b_bar
// (nefc), friction_bar and frictionloss_bar, and adds to workspace.projection.A_bar.
void noslip_sweeps_pullback(const mjModel* m, const mjData* d, Vec b_bar, Workspace& workspace);

// How near the sweeps came to another case, relative to the sizes that decide it, in [0, 1]: of
// each block, the nearest of its updates (nblock); and of the number of sweeps.
void noslip_case_distances(const mjData* d, std::vector<double>& share, Workspace& workspace);

// Of each update, how far its minimum without bounds is inside them (nupdate): < 0 beyond them, NaN
// where it has none.
void noslip_case_margins(const mjData* d, std::vector<double>& margin, Workspace& workspace);

// Runs the main solver alone where the workspace's mjData holds all stages before it, factorises
// the Newton matrix at its solution, which is kept in workspace.noslip, and makes the sweeps.
// Throws MujocoError, after which that data is as new.
void noslip_solve(const StageModel& impl, Workspace& workspace);

// Of (2): with the multiplier μ of M a (nv) and a cotangent of the forces f (nefc; empty: 0), what
// the main solver's solution receives. Sets main_force_bar and y_bar in workspace.noslip and
// projection.A_bar, and adds to a_bar (nv), which must be M μ.
void noslip_pullback(const StageModel& impl, CVec mu, CVec force_bar, Vec a_bar,
                     Workspace& workspace);

// (J μ)ᵀ (f - f₀): adds to projection.J_bar.
void noslip_jacobian_pullback(const mjData* d, CVec mu, Workspace& workspace);

// Friction coefficients and friction loss, as the bounds of (1).
void noslip_parameters_pullback(const mjModel* m, const mjData* d, const ParameterBar& params,
                                Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_NOSLIP_H_
