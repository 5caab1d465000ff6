// Contacts of a flat face with another geom's face, edge or side, of which MuJoCo's collider of
// convex shapes gives the corners of what is left when they clip each other.
//
//   dist = e · (c - face),  pos = c - e dist/2,  e the face's outward normal;  c is
//     a point of the other geom's face, with normal N, where two edges cross:
//     pn · (c - a) = 0,  pn = edge × N, an edge of either face;
//     a point of its edge, or of the side of a capsule or a cylinder, an end of it or where a
//     side of the face cuts it: pn · (c - a) = 0,  pn = edge × e, all of the face;
//     (the side's line is where a cylinder falls to the face, or where it touches an edge of it.)
//
// All contacts of a pair are of the same two features. MuJoCo looks for two faces first, within
// 0.0895 rad of each other, and then takes e from the second geom; for an edge and a face only if
// none of the faces at that edge is one of two such.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_CLIPPED_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_CLIPPED_H_

#include <span>

#include "stages/position/collision/pair.h"
#include "stages/position/collision/readings.h"

namespace diffmj {

// All contacts of a pair: adds the readings that fit all of them. Each of bars points to a
// cotangent for each contact.
void clipped_readings(const std::array<GeomPose, 2>& geom, std::span<const mjPreContact> contact,
                      std::span<const PairContactBar* const> bars, Readings& readings);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_CLIPPED_H_
