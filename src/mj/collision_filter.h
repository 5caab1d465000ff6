// Which geoms MuJoCo lets collide, as far as it does not depend on the pose.
//
//   if (geoms_may_collide(m, geom1, geom2)) ...   // pairs of the model's own list collide always
#ifndef DIFFMJ_MJ_COLLISION_FILTER_H_
#define DIFFMJ_MJ_COLLISION_FILTER_H_

#include <mujoco/mujoco.h>

namespace diffmj {

// By contype and conaffinity, and by their bodies: not of one body, nor welded together, nor both
// without degrees of freedom (the world, mocap bodies), nor a body and its parent, nor excluded.
bool geoms_may_collide(const mjModel* m, int geom1, int geom2);

}  // namespace diffmj

#endif  // DIFFMJ_MJ_COLLISION_FILTER_H_
