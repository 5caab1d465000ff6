// Distance, place and frame of contacts as functions of the two geoms' poses; MuJoCo: mj_collision.
//
//   δ(dist) = n · (relative velocity of the geoms at the contact) where the distance of two shapes
//   is extremal;
//             other contacts of a pair (rims, clipped faces) slide on the shapes
//   frame = (n, y, n × y),   y = the collider's tangent, or an axis of the world, made orthogonal
//   to n
//
// Distance, place, normal and tangent depend on the relative pose alone and move with both geoms
// when those move together: six central differences of MuJoCo's own collider, moving the second
// geom, give both wrenches. They are taken with the collider's tolerances at machine precision.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_H_

#include "model/model_impl.h"
#include "model/workspace.h"
#include "stages/position/kinematics.h"

namespace diffmj {

// Cotangents of one contact: mjContact's dist, pos and the rows of its frame.
struct ContactBar {
  double dist = 0;
  Vector3 pos = Vector3::Zero();
  Eigen::Matrix3d frame = Eigen::Matrix3d::Zero();  // row k is of frame row k

  bool any() const { return dist != 0 || !pos.isZero(0) || !frame.isZero(0); }
};

// Contacts first to first + n - 1 of d, all of one pair of geoms: adds wrenches on their bodies to
// the sweep.
void collision_pullback(const ModelImpl& impl, int first, int n, const ContactBar* bar,
                        Workspace& workspace);

// frame = make_frame(normal, tangent) as mju_makeFrame: cotangents of the two from those of the
// rows. The tangent is zero if the collider gave none.
void contact_frame_pullback(const Vector3& normal, const Vector3& tangent,
                            const Eigen::Matrix3d& frame_bar, Vector3& normal_bar,
                            Vector3& tangent_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_H_
