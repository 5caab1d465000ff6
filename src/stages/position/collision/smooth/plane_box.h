// A plane and a box: corners that are lower than the box's centre, at most four.
//
// MuJoCo drops a corner as it comes to the height of the centre; here it leaves before, by (4).
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_BOX_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_BOX_H_

#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/smoothing.h"

namespace diffmj {

template <class T, class Emit>
void smooth_plane_box(const SmoothGeom<T>& plane, const SmoothGeom<T>& box, double width,
                      const Emit& emit) {
  const Vec3<T>& n = plane.axis[2];
  const T w = shape_width(width, box.size[0], box.size[1], box.size[2]);
  const T height = dot(n, box.pos - plane.pos);
  const T x = box.size[0] * dot(n, box.axis[0]), y = box.size[1] * dot(n, box.axis[1]),
          z = box.size[2] * dot(n, box.axis[2]);
  for (int i = 0; i < 8; i++) {
    const double sx = i & 1 ? 1 : -1, sy = i & 2 ? 1 : -1, sz = i & 4 ? 1 : -1;
    const T above = sx * x + sy * y + sz * z;  // of the corner over the centre
    if (above >= 0.0) continue;
    const T dist = height + above;
    if (emit.is_far(dist)) continue;
    const T a = smooth_ramp(T(-above), w);
    if (a == 0.0) continue;
    const Vec3<T> c = box.pos + T(sx * box.size[0]) * box.axis[0] +
                      T(sy * box.size[1]) * box.axis[1] + T(sz * box.size[2]) * box.axis[2];
    SmoothContact<T> contact = plane_point(c, dist, n);
    contact.fading = fading(a, w);
    emit(contact);
  }
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_BOX_H_
