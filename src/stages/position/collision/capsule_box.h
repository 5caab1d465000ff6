// Contacts of a capsule and a box: where the capsule's segment is nearest to the box, and at most
// one more, farther along it. Each is that of a sphere around a point of the segment.
//
//   c(x) = centre + x axis;   first:  x an end, or stationary
//                             second: x an end, or where the segment leaves the box's side k,
//                                     or x1 ± 2 size_k / |axis · side_k|: across the box
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_CAPSULE_BOX_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_CAPSULE_BOX_H_

#include "stages/position/collision/pair.h"

namespace diffmj {

// All contacts of the pair, in the collider's order: one or two. False if they are not known to be
// as above; out may be half written then.
bool capsule_box_pullback(const std::array<GeomPose, 2>& geom, const mjContact* contact, int n,
                          const PairContactBar* bar, PairBar& out);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_CAPSULE_BOX_H_
