// λᵀ (M a + c): recursive Newton-Euler and its reverse sweep; MuJoCo: mj_rne and armature.
//
// With V, A the velocity and acceleration of every frame (world motions) and L that of the
// generalised vector λ,
//
//   V = Σ S_j v_j,   L = Σ S_j λ_j,   A = -gravity + Σ (S_j a_j + (V × S_j) v_j)   over the path
//   φ = Σ_bodies L · (I A + V ×* I V) + Σ_j armature_j λ_j a_j
//
// φ is a scalar, so one sweep from the leaves gives all derivatives, O(nbody)
// (docs/derivations/inverse_dynamics.md).
#ifndef DIFFMJ_STAGES_ACCELERATION_INVERSE_DYNAMICS_H_
#define DIFFMJ_STAGES_ACCELERATION_INVERSE_DYNAMICS_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "mj/view.h"
#include "stages/position/kinematics.h"

namespace diffmj {

struct InverseDynamicsIn {
  CVec qvel, qacc, lambda;  // nv: v, a, λ
  Vector3 gravity;          // [m/s²]; zero if it is disabled
};

struct InverseDynamicsScratch {
  explicit InverseDynamicsScratch(const mjModel* m);
  std::vector<Vector6> L, V, A;              // njnt: of frames
  std::vector<Vector6> L_bar, V_bar, A_bar;  // njnt
};

// φ at the pose in d and frames (joint_axes).
double inverse_dynamics(const mjModel* m, const mjData* d, const JointFrames& frames,
                        const InverseDynamicsIn& in, InverseDynamicsScratch& scratch);

// Adds φ_bar dφ: wrenches to W (njnt, for kinematics_pullback) and to qvel_bar (nv); to lambda_bar,
// which is φ_bar (M a + c), if it is not empty. scratch must hold what inverse_dynamics left there.
void inverse_dynamics_pullback(const mjModel* m, const mjData* d, const JointFrames& frames,
                               const InverseDynamicsIn& in, double phi_bar,
                               InverseDynamicsScratch& scratch, std::vector<Vector6>& W,
                               Vec qvel_bar, Vec lambda_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_INVERSE_DYNAMICS_H_
