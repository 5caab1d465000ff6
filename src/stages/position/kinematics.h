// Frames of joints and bodies; MuJoCo: mj_kinematics.
//
// Every joint has a frame: the one behind it. Frames form a tree, and a body sits in the frame of
// its last joint. With the axes S_j of the dofs (world motions), the infinitesimal motion of frame
// k is
//
//   ξ_k = Σ_j S_j dq_j   over the dofs j on its path
//
// so a world wrench W_k with  d(scalar) = Σ_k W_k · ξ_k  gives  qpos_bar_j = S_j · Σ W over the
// frames behind j. That is the one currency in which poses are differentiated.
#ifndef DIFFMJ_STAGES_POSITION_KINEMATICS_H_
#define DIFFMJ_STAGES_POSITION_KINEMATICS_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "base/spatial.h"
#include "mj/view.h"

namespace diffmj {

// Degrees of freedom of a joint of this type (mjtJoint).
inline int dof_count(int type) { return type == mjJNT_FREE ? 6 : type == mjJNT_BALL ? 3 : 1; }

struct JointFrames {
  explicit JointFrames(const mjModel* m);  // the tree; sizes everything

  std::vector<int> parent;      // njnt: frame before this joint, -1: the world
  std::vector<int> body_frame;  // nbody: frame a body sits in, -1: the world
  std::vector<Vector6> S;       // nv: axes; rotations of ball and free joints in the body's axes
  // The axis turns and shifts with its own frame; only the translations of free joints do not.
  std::vector<bool> carried;  // nv
};

// Reads the axes at the pose in d, which must hold mj_kinematics.
void joint_axes(const mjModel* m, const mjData* d, JointFrames& frames);

// Adds to qpos_bar (nv). W holds a wrench per frame (njnt) and is left with the sums over all
// frames behind each.
void kinematics_pullback(const mjModel* m, const JointFrames& frames, std::vector<Vector6>& W,
                         Vec qpos_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_KINEMATICS_H_
