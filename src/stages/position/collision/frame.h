// The frame of a contact; MuJoCo: mju_makeFrame.
//
//   frame = (x, y, x × y),   x = n/|n|,   y = (t - x (x·t)) / |...|
//
// t is the collider's tangent, or an axis of the world if it gave none.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_FRAME_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_FRAME_H_

#include "base/spatial.h"

namespace diffmj {

// Cotangents of normal and tangent from those of the rows; adds. The tangent is zero if the
// collider gave none.
void contact_frame_pullback(const Vector3& normal, const Vector3& tangent,
                            const Eigen::Matrix3d& frame_bar, Vector3& normal_bar,
                            Vector3& tangent_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_FRAME_H_
