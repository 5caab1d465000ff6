#include "stages/position/kinematics.h"

namespace diffmj {
namespace {

using Rotation = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>;

// rotation about an axis through a point
Vector6 rotation_axis(const Vector3& axis, const Vector3& point) {
  Vector6 S;
  S << axis, point.cross(axis);
  return S;
}

Vector6 translation_axis(const Vector3& axis) {
  Vector6 S;
  S << Vector3::Zero(), axis;
  return S;
}

}  // namespace

JointFrames::JointFrames(const mjModel* m)
    : parent(static_cast<size_t>(m->njnt)),
      body_frame(static_cast<size_t>(m->nbody), -1),
      S(static_cast<size_t>(m->nv), Vector6::Zero()),
      carried(static_cast<size_t>(m->nv), true) {
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    int frame = body_frame[static_cast<size_t>(m->body_parentid[body])];
    for (int j = m->body_jntadr[body]; j < m->body_jntadr[body] + m->body_jntnum[body]; j++) {
      parent[static_cast<size_t>(j)] = frame;
      frame = j;
      if (m->jnt_type[j] != mjJNT_FREE) continue;
      for (int k = 0; k < 3; k++) carried[static_cast<size_t>(m->jnt_dofadr[j] + k)] = false;
    }
    body_frame[static_cast<size_t>(body)] = frame;
  }
}

void joint_axes(const mjModel* m, const mjData* d, JointFrames& frames) {
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    const int body = m->jnt_bodyid[j];
    Vector6* S = &frames.S[static_cast<size_t>(m->jnt_dofadr[j])];
    const Vector3 anchor(d->xanchor + 3 * j), axis(d->xaxis + 3 * j);
    const Rotation R(d->xmat + 9 * body);
    switch (m->jnt_type[j]) {
      case mjJNT_FREE:
        for (int k = 0; k < 3; k++) S[k] = translation_axis(Vector3::Unit(k));
        for (int k = 0; k < 3; k++) S[3 + k] = rotation_axis(R.col(k), Vector3(d->xpos + 3 * body));
        break;
      case mjJNT_BALL:
        for (int k = 0; k < 3; k++) S[k] = rotation_axis(R.col(k), anchor);
        break;
      case mjJNT_SLIDE:
        S[0] = translation_axis(axis);
        break;
      default:
        S[0] = rotation_axis(axis, anchor);
    }
  }
}

void kinematics_pullback(const mjModel* m, const JointFrames& frames, std::vector<Vector6>& W,
                         Vec qpos_bar) {
  for (int j = static_cast<int>(m->njnt) - 1; j >= 0; j--) {
    const Vector6& wrench = W[static_cast<size_t>(j)];
    const int dof = m->jnt_dofadr[j];
    for (int k = dof; k < dof + dof_count(m->jnt_type[j]); k++) {
      qpos_bar[static_cast<size_t>(k)] += frames.S[static_cast<size_t>(k)].dot(wrench);
    }
    const int parent = frames.parent[static_cast<size_t>(j)];
    if (parent >= 0) W[static_cast<size_t>(parent)] += wrench;
  }
}

}  // namespace diffmj
