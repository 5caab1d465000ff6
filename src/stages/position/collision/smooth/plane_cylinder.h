// A plane and a cylinder: the lowest point of either rim, and two more of the lower rim that make
// an equilateral triangle with its lowest one.
//
// As the cylinder stands up, that triangle turns ever faster with the direction u of the tilt; when
// it stands MuJoCo takes its x axis for u. Here three points that are fixed in the lower rim take
// over before: with t = sin(tilt) radius / w,
//
//   t     ½      1      2      3
//   fixed triangle ------\_____________     weight 1 - S(t - 1)
//   lowest of the lower rim                                                                 (5)
//     ____/---------------------------      weight S(2 t - 1)
//   the others of the turning triangle, lowest of the upper rim
//     ___________________/------------      weight S(t - 2)
//
// so that there are never more than four. The turning triangle also leaves as the cylinder comes to
// lie, where MuJoCo's goes from one rim to the other.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_CYLINDER_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_CYLINDER_H_

#include <cmath>

#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/smoothing.h"

namespace diffmj {

template <class T, class Emit>
void smooth_plane_cylinder(const SmoothGeom<T>& plane, const SmoothGeom<T>& cylinder, double width,
                           const Emit& emit) {
  const Vec3<T>& n = plane.axis[2];
  const T &radius = cylinder.size[0], &half = cylinder.size[1];
  const T w = shape_width(width, radius, half);
  const T along = dot(n, cylinder.axis[2]);
  const double sign = along > 0.0 ? -1 : 1;  // of the axis towards the lower rim
  const Vec3<T> axis = T(sign) * cylinder.axis[2];
  const T height = dot(n, cylinder.pos - plane.pos), drop = T(sign * half) * along;  // drop ≤ 0
  const Vec3<T> fall = (sign * along) * axis - n;
  const T sin_tilt = norm(fall);
  if (emit.is_far(height + drop - radius * sin_tilt)) return;

  const double root3 = std::sqrt(3.0);
  // points from + radius (x u + y v), at a height over the centre
  const auto point = [&](const Vec3<T>& rim, const Vec3<T>& from, const T& weight) {
    if (weight == 0.0) return;
    const Vec3<T> c = from + rim;
    const T dist = dot(n, c - plane.pos);
    if (emit.is_far(dist)) return;
    SmoothContact<T> contact = plane_point(c, dist, n);
    contact.fading = fading(weight, w);
    emit(contact);
  };
  const T t = sin_tilt * radius / w;
  const Vec3<T> lower = cylinder.pos + half * axis, upper = cylinder.pos - half * axis;

  if (t > 0.5) {
    const Vec3<T> u = (radius / sin_tilt) * fall;
    point(u, lower, smooth_step(T(2.0 * t - 1.0)));
    const T turning = smooth_step(T(t - 2.0));
    point(u, upper, turning);
    const T lying = smooth_ramp(T(-drop), w);
    const Vec3<T> v = T(0.5 * root3) * cross(u, axis), back = lower - T(0.5) * u;
    point(v, back, turning * lying);
    point(-v, back, turning * lying);
  }
  if (t < 2.0) {
    const T weight = 1.0 - smooth_step(T(t - 1.0));
    const Vec3<T> x = radius * cylinder.axis[0];
    const Vec3<T> v = T(0.5 * root3) * cross(x, axis), back = lower - T(0.5) * x;
    point(x, lower, weight);
    point(v, back, weight);
    point(-v, back, weight);
  }
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_CYLINDER_H_
