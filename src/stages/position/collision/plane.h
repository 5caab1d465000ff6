// Contacts of a geom with a plane: points c of the geom, at a distance along the plane's normal n.
//
//   dist = n · (c - p) - radius,   pos = c - n (radius + dist/2)
//
// c is a centre, an end, a corner or a vertex, fixed in the geom; or the lowest point of an
// ellipsoid; or one of four points of a cylinder, which turn about its axis as the plane tilts.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_PLANE_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_PLANE_H_

#include "stages/position/collision/pair.h"

namespace diffmj {

// One contact of a flat face, of the geom on this side, with a point c (radius 0) of the other:
// adds what acts on the side with the face and returns the cotangent of c. e is the face's outward
// normal; face_size the entry of size that is its distance from the centre, -1: none.
Vector3 face_point_pullback(int side, const Vector3& e, int face_size, const PairContact& contact,
                            const PairContactBar& bar, PairBar& out);

// False if the contact is not known to be one of the above; out may be half written then. turning:
// the share of a cylinder's turning points that is differentiated (collision/smooth.h).
bool plane_pullback(const std::array<GeomPose, 2>& geom, const PairContact& contact,
                    const PairContactBar& bar, double turning, PairBar& out);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_PLANE_H_
