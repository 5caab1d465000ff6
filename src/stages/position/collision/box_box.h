// Contacts of two boxes: corners of what is left of one box's face when the sides of the other's
// face have clipped it, or the nearest points of two edges.
//
//   n = axis of the face,  dist = n · (c - face),  pos = c - n dist/2;
//   c is where three sides of the boxes meet: m_i · (c - side_i) = 0
//
// A corner of the one is three of its sides, a clipped edge two of them and one of the other's,
// a corner of the other two and one.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_BOX_BOX_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_BOX_BOX_H_

#include "stages/position/collision/pair.h"

namespace diffmj {

// False if the contact is not known to be one of the above; out may be half written then.
bool box_box_pullback(const std::array<GeomPose, 2>& geom, const PairContact& contact,
                      const PairContactBar& bar, PairBar& out);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_BOX_BOX_H_
