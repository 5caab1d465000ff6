// λᵀ (M a + c): recursive Newton-Euler and its reverse sweep; MuJoCo: mj_rne, mj_crb and armature.
//
// With V, A the velocity and acceleration of every body (spatial motions) and L that of the
// generalised vector λ (stages/position/kinematics.h),
//
//   φ = Σ_bodies L · (I A + V ×* I V) + Σ_j armature_j λ_j a_j
//
// φ is a scalar, so one sweep from the leaves gives all derivatives, O(nbody)
// (docs/derivations/inverse_dynamics.md). mass_form is the same for μᵀ M x.
#ifndef DIFFMJ_STAGES_ACCELERATION_INVERSE_DYNAMICS_H_
#define DIFFMJ_STAGES_ACCELERATION_INVERSE_DYNAMICS_H_

#include "stages/position/kinematics.h"

namespace diffmj {

// φ; sweep holds V, A (body_accelerations) and L (Sweep::use).
double inverse_dynamics(const mjModel* m, const mjData* d, const Sweep& sweep);
// Adds φ_bar dφ to the cotangents in sweep and to mass, inertia, armature and gravity.
void inverse_dynamics_pullback(const mjModel* m, const mjData* d, double phi_bar, Sweep& sweep,
                               const ParameterBar& params);

// ψ = μᵀ M x of two motions: y of mu is μ, of x is x.
double mass_form(const mjModel* m, const mjData* d, const Motion& mu, const Motion& x);
void mass_form_pullback(const mjModel* m, const mjData* d, double psi_bar, Motion& mu, Motion& x,
                        Sweep& sweep, const ParameterBar& params);

// ψ = Σ M_bar_ij M_ij of any symmetric M_bar (nv x nv), of more than a few forms μᵀ M x the cheaper
// way: with Q_b = Σ M_bar_ij S_i S_jᵀ over the dofs that carry b, ψ = Σ_bodies tr(I Q) + armatures.
void mass_matrix_pullback(const mjModel* m, const mjData* d, CVec M_bar, Sweep& sweep,
                          const ParameterBar& params);

// c of a lone free body by its own dofs, the velocity of its origin in the world and the angular
// velocity ω in its own axes:
//
//   c = (mass R ω × (ω × s), ω × I ω)
//
// with s from its origin to the centre of mass and I about its origin, both in its own axes, in
// which they are constant, and both with what is welded to it. d must hold mj_makeM.
struct FreeBodyBias {
  FreeBodyBias(const mjModel* m, const mjData* d, int body);
  // ∂c/∂ω
  Eigen::Matrix<double, 6, 3> by_velocity(const Vector3& w) const;
  // φ = μᵀ (∂c/∂ω) β, β the angular part of a generalised vector: adds φ_bar dφ to the six entries
  // of qpos_bar and qvel_bar that are the body's own.
  void form_pullback(const Vector3& w, const Vector6& mu, const Vector3& beta, double phi_bar,
                     double* qpos_bar, double* qvel_bar) const;

  double mass;
  Eigen::Matrix3d R;
  Vector3 s;
  Eigen::Matrix3d I;
};

// Gravity as the dynamics see it: zero if it is disabled.
Vector3 effective_gravity(const mjModel* m);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_INVERSE_DYNAMICS_H_
