// Positions as a manifold: q' = q ⊕ u (MuJoCo: mj_integratePos) and its pullback, joint by joint.
//
// Slides, hinges and the translations of free joints add; rotations multiply, q' = q exp(u). With
// tangents on both sides,  δq' = exp(u)ᵀ δq + Jr(u) δu.
#ifndef DIFFMJ_INTEGRATE_MANIFOLD_H_
#define DIFFMJ_INTEGRATE_MANIFOLD_H_

#include <mujoco/mujoco.h>

#include "base/rotation.h"
#include "mj/view.h"

namespace diffmj {

// q' = q ⊕ u. Adds to q_bar and u_bar (nv each, tangent).
void integrate_pos_pullback(const mjModel* m, CVec u, CVec q_next_bar, Vec q_bar, Vec u_bar);

// k = dexpinv(u) v for rotations, k = v elsewhere: the Munthe-Kaas correction of a stage.
void stage_velocity(const mjModel* m, CVec u, CVec v, Vec k);
// Adds to u_bar and v_bar.
void stage_velocity_pullback(const mjModel* m, CVec u, CVec v, CVec k_bar, Vec u_bar, Vec v_bar);

// The continuous counterpart: a perturbation θ of q (q exp(θ)) follows θ' = δv - v × θ where q
// rotates, θ' = δv elsewhere. Adds to q_bar and v_bar what they receive of θ'.
void position_rate_pullback(const mjModel* m, CVec v, CVec rate_bar, Vec q_bar, Vec v_bar);

// A cotangent of qpos, in MuJoCo's coordinates (nq) or in the tangent space (nv), as the other one:
// to_tangent adds, to_ambient overwrites. As in diffmj/state.h.
void cotangent_to_tangent(const mjModel* m, CVec qpos, CVec qpos_bar, Vec tangent_bar);
void cotangent_to_ambient(const mjModel* m, CVec qpos, CVec tangent_bar, Vec qpos_bar);

// |q| by dof, 1 for rotations: what errors of positions are relative to.
void position_magnitudes(const mjModel* m, CVec qpos, Vec magnitude);

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_MANIFOLD_H_
