// A plane with a sphere, a capsule, an ellipsoid: MuJoCo's colliders are smooth, these are the
// same. But for the tangents of a capsule: MuJoCo lays them along its axis, which has no limit as
// the capsule stands up.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_ROUND_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_ROUND_H_

#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/smoothing.h"

namespace diffmj {

template <class T>
SmoothContact<T> plane_ball(const SmoothGeom<T>& plane, const Vec3<T>& centre, const T& radius) {
  const Vec3<T>& n = plane.axis[2];
  const T dist = dot(n, centre - plane.pos) - radius;
  return plane_point(Vec3<T>(centre - radius * n), dist, n);
}

template <class T, class Emit>
void smooth_plane_sphere(const SmoothGeom<T>& plane, const SmoothGeom<T>& sphere, double /*width*/,
                         const Emit& emit) {
  emit(plane_ball(plane, sphere.pos, sphere.size[0]));
}

template <class T, class Emit>
void smooth_plane_capsule(const SmoothGeom<T>& plane, const SmoothGeom<T>& capsule, double width,
                          const Emit& emit) {
  const Vec3<T>& n = plane.axis[2];
  const Vec3<T> a = capsule.axis[2] - dot(n, capsule.axis[2]) * n;
  const T sin_tilt = norm(a);
  const T w = shape_width(width, capsule.size[1]);
  const T sigma = smooth_step(T(2.0 * sin_tilt * capsule.size[1] / w - 1.0));
  Vec3<T> tangent = (1.0 - sigma) * plane.axis[1];
  if (sigma > 0.0) tangent = tangent + (sigma / sin_tilt) * a;
  for (const double sign : {1.0, -1.0}) {
    const Vec3<T> centre = capsule.pos + T(sign * capsule.size[1]) * capsule.axis[2];
    SmoothContact<T> contact = plane_ball(plane, centre, capsule.size[0]);
    contact.has_tangent = true;
    contact.tangent = tangent;
    emit(contact);
  }
}

// the lowest point, p_k = -s_k² n_k / |s n| in local axes
template <class T, class Emit>
void smooth_plane_ellipsoid(const SmoothGeom<T>& plane, const SmoothGeom<T>& ellipsoid,
                            double /*width*/, const Emit& emit) {
  const Vec3<T>& n = plane.axis[2];
  Vec3<T> p = {T(0.0), T(0.0), T(0.0)};
  T length2(0.0);
  for (size_t k = 0; k < 3; k++) {
    const T sn = ellipsoid.size[k] * dot(ellipsoid.axis[k], n);
    p = p + (ellipsoid.size[k] * sn) * ellipsoid.axis[k];
    length2 += sn * sn;
  }
  using std::sqrt;
  const Vec3<T> c = ellipsoid.pos - (1.0 / sqrt(length2)) * p;
  emit(plane_point(c, dot(n, c - plane.pos), n));
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_ROUND_H_
