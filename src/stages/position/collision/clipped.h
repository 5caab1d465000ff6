// Contacts of a flat face with another geom's face, edge or side, of which MuJoCo's collider of
// convex shapes gives the corners of what is left when they clip each other.
//
//   dist = e · (c - face),  pos = c - e dist/2,  e the face's outward normal;  c is
//     a corner of the other geom;
//     a point of its edge, or of the side of a capsule or a cylinder, an end of it or where a
//     side of the face cuts it: pn · (c - a) = 0,  pn = edge × e, all of the face;
//     (the side's line is where a cylinder falls to the face, or where it touches an edge of it;)
//     a point of its own face, with normal N, where two edges cross:
//     pn · (c - a) = 0,  pn = edge × N, an edge of either face
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_CLIPPED_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_CLIPPED_H_

#include "stages/position/collision/pair.h"

namespace diffmj {

// Adds to out; false, with nothing added, if the contact is not known to be one of the above.
bool clipped_pullback(const std::array<GeomPose, 2>& geom, const PairContact& contact,
                      const PairContactBar& bar, PairBar& out);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_CLIPPED_H_
