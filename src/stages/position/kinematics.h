// Poses and motions of bodies; MuJoCo: mj_kinematics, mj_comPos.
//
// With the axes S_j of the dofs (world motions: MuJoCo's cdof) a generalised vector y moves body b
// by
//
//   X_b(y) = Σ_j S_j y_j   over the dofs j that carry b                                        (1)
//
// and the infinitesimal motion of a pose itself is ξ_b = X_b(dq). Whatever depends on poses hands
// over a wrench W_b with d(scalar) = Σ_b W_b · ξ_b, whatever depends on motions the cotangent
// X_bar_b of X_b(y); one sweep from the leaves turns both into cotangents of qpos:
//
//   S_bar_j = y_j Σ X_bar,   W += S_j ×* S_bar_j (axes are carried by their own frame, δS = ξ × S),
//   qpos_bar_j = S_j · Σ W,    sums over all bodies behind j                                    (2)
//
// That is the one currency in which poses are differentiated. Spatial vectors are about an origin
// per tree, its centre of mass, which is not differentiated: what does not depend on it has the
// same derivative about any. (docs/derivations/inverse_dynamics.md)
#ifndef DIFFMJ_STAGES_POSITION_KINEMATICS_H_
#define DIFFMJ_STAGES_POSITION_KINEMATICS_H_

#include <mujoco/mujoco.h>

#include <array>
#include <vector>

#include "base/spatial.h"
#include "mj/view.h"
#include "model/parameters.h"

namespace diffmj {

using Rotation = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>;

// Degrees of freedom of a joint of this type (mjtJoint).
inline int dof_count(int type) { return type == mjJNT_FREE ? 6 : type == mjJNT_BALL ? 3 : 1; }

// Translations of free joints do not turn with their own frame; all other axes do.
inline bool carried(const mjModel* m, int joint, int dof) {
  return m->jnt_type[joint] != mjJNT_FREE || dof >= m->jnt_dofadr[joint] + 3;
}

// Axis of a dof.
inline Vector6 axis(const mjData* d, int dof) {
  return Eigen::Map<const Vector6>(d->cdof + 6 * static_cast<ptrdiff_t>(dof));
}

// A world point, relative to the origin of its body's tree.
inline Vector3 from_origin(const mjModel* m, const mjData* d, int body, const mjtNum* point) {
  return Vector3(point) -
         Vector3(d->subtree_com + 3 * static_cast<ptrdiff_t>(m->body_rootid[body]));
}

// Last dof that carries a body, -1 if none does; dof_parentid leads on to the others.
inline int last_dof(const mjModel* m, int body) {
  const int moving = m->body_weldid[body];
  return moving == 0 ? -1 : m->body_dofadr[moving] + m->body_dofnum[moving] - 1;
}

// A free joint with nothing behind it but what is welded to its body: implicitfast treats it alone.
inline bool is_lone_free_body(const mjModel* m, int body) {
  return m->body_jntnum[body] == 1 && m->jnt_type[m->body_jntadr[body]] == mjJNT_FREE &&
         m->tree_dofnum[m->body_treeid[body]] == 6;
}

// implicitfast takes of D what M has: of a simple dof (MuJoCo: dof_simplenum), whose row of M is
// its diagonal, nothing else. Lone free bodies it solves apart, with all of D.
inline bool metric_is_diagonal(const mjModel* m, int dof) {
  return m->opt.integrator == mjINT_IMPLICITFAST && m->dof_simplenum[dof] > 0 &&
         !is_lone_free_body(m, m->dof_bodyid[dof]);
}

// X_b(y) and its cotangent.
struct Motion {
  CVec y;                      // nv
  std::vector<Vector6> X;      // nbody
  std::vector<Vector6> X_bar;  // nbody
};

// What one reverse sweep carries. Stages add to the cotangents, kinematics_pullback consumes them.
struct Sweep {
  explicit Sweep(const mjModel* m);

  // All cotangents to zero, no motion beside V in use.
  void clear();
  // Computes X(y) and has its cotangent pulled back.
  void use(const mjModel* m, const mjData* d, CVec y, Motion& motion);

  Motion V;                         // velocities, y = qvel
  CVec qacc;                        // nv: a
  std::vector<Vector6> A, A_bar;    // nbody: A = -gravity + Σ (S_j a_j + (V × S_j) v_j)
  Motion L, U, C, B, G, Q;          // of λ, μ, a - b, b, λ as gravity compensation sees it, a
  std::vector<Vector6> W;           // nbody: wrenches on bodies
  std::vector<Vector6> W_inertial;  // nbody: wrenches on bodies' inertial frames
  std::vector<Vector6> S_bar;       // nv: cotangents of axes, beside those that motions give
  std::vector<Matrix6> Q_bodies, I_behind;  // nbody: scratch of mass_matrix_pullback

 private:
  friend void kinematics_pullback(const mjModel*, const mjData*, Sweep&, Vec, Vec,
                                  const ParameterBar&);
  std::array<Motion*, 6> used_ = {};
  int nused_ = 0;
};

// X_b(y) for all bodies. d must hold mj_kinematics and mj_comPos.
void body_motions(const mjModel* m, const mjData* d, CVec y, std::vector<Vector6>& X);
// X(y) of one body, and a cotangent of it, which axes receive.
Vector6 motion_of(const mjModel* m, const mjData* d, int body, CVec y);
void add_motion_bar(const mjModel* m, int body, CVec y, const Vector6& X_bar, Sweep& sweep);
// Sets V and A; qvel and qacc must outlive the sweep.
void body_accelerations(const mjModel* m, const mjData* d, CVec qvel, CVec qacc,
                        const Vector3& gravity, Sweep& sweep);

// F and T, fixed in the world, act on a body at a point of it: of s = F · v_point(y) + T · ω(y),
// adds s_bar to the cotangent of X(y) and to W, one of the sweep's arrays of wrenches. Returns s.
double point_force_pullback(int body, const Vector3& point, const Vector3& T, const Vector3& F,
                            double s_bar, Motion& motion, std::vector<Vector6>& W);

// Adds to qpos_bar and qvel_bar (nv) and to the parameters of bodies' and joints' frames. The
// cotangents in sweep are sums over all bodies behind each afterwards.
void kinematics_pullback(const mjModel* m, const mjData* d, Sweep& sweep, Vec qpos_bar,
                         Vec qvel_bar, const ParameterBar& params);

// A wrench on a geom, about the origin of its tree: adds it to its body, and to geom_pos and
// geom_quat.
void geom_pullback(const mjModel* m, const mjData* d, int geom, const Vector6& wrench, Sweep& sweep,
                   const ParameterBar& params);

// Poses and velocities a loss may use. Cotangents of one state's; an empty span is zero.
struct PoseBar {
  CVec xpos = {}, xquat = {}, xmat = {};    // {3, 4, 9} nbody
  CVec site_xpos = {}, site_xmat = {};      // {3, 9} nsite
  CVec geom_xpos = {}, geom_xmat = {};      // {3, 9} ngeom
  CVec subtree_com = {};                    // 3 nbody
  CVec body_linvel = {}, body_angvel = {};  // 3 nbody
  CVec site_linvel = {}, site_angvel = {};  // 3 nsite
};
// Adds their wrenches to the sweep, cotangents of velocities to V, and to site_pos, geom_pos and
// geom_quat.
void poses_pullback(const mjModel* m, const mjData* d, const PoseBar& bar, Sweep& sweep,
                    const ParameterBar& params);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_KINEMATICS_H_
