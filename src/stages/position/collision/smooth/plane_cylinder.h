// A plane and a cylinder: three points of the lower rim, and the lowest of the upper one.
//
// MuJoCo's three are the lowest point, at the angle φ of the tilt in the rim, and those at ±120°
// from it. This triangle turns with the tilt, ever faster as the cylinder stands up; a cylinder
// that stands has φ = 0. With t = sin(tilt) radius/w and the tilt as a complex number z = t
// exp(iφ), the triangle here is turned by
//
//   ψ = arg(z³ + 8 (1 - S((t - ½)/2)) exp(iχ))/3,   χ = 45° S(t)                             (5)
//
// which is 0 when it stands, φ from t = 5/2 on, and continuous but for three tilts, at t = 1.55 and
// φ = 75°, 195°, 315°. (Any three points that hold the cylinder have such tilts, for the triangle
// turns once as the tilt does.) All of them are always there: no contact leaves.
//
// The lowest point of the upper rim goes to its centre as the cylinder stands up. Those at ±120°
// leave as the cylinder comes to lie, where MuJoCo's go from one rim to the other.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_CYLINDER_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_CYLINDER_H_

#include <cmath>
#include <numbers>

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

  const auto point = [&](const Vec3<T>& c, const T& weight) {
    if (weight == 0.0) return;
    const T dist = dot(n, c - plane.pos);
    if (emit.is_far(dist)) return;
    SmoothContact<T> contact = plane_point(c, dist, n);
    contact.fading = fading(weight, w);
    emit(contact);
  };
  const Vec3<T> x = radius * cylinder.axis[0], y = cross(x, axis);
  const Vec3<T> lower = cylinder.pos + half * axis, upper = cylinder.pos - half * axis;
  const T t = sin_tilt * radius / w;
  point(t > 0.0 ? upper + (smooth_step(t) * radius / sin_tilt) * fall : upper, T(1.0));

  using std::atan2, std::cos, std::sin;
  const T re = dot(x, fall) / w, im = dot(y, fall) / w;
  const T re3 = re * (re * re - 3.0 * im * im), im3 = im * (3.0 * re * re - im * im);
  const T chi = (0.25 * std::numbers::pi) * smooth_step(t), cos_chi = cos(chi), sin_chi = sin(chi);
  const T standing = 8.0 * (1.0 - smooth_step(T(0.5 * (t - 0.5))));
  const T psi =
      (chi + atan2(T(im3 * cos_chi - re3 * sin_chi), T(re3 * cos_chi + im3 * sin_chi + standing))) /
      3.0;
  const Vec3<T> u = cos(psi) * x + sin(psi) * y, v = T(0.5 * std::numbers::sqrt3) * cross(u, axis);
  const T lying = smooth_ramp(T(-drop), w);
  for (const Vec3<T>& rim : {u, v - T(0.5) * u, -v - T(0.5) * u}) {
    if (lying == 1.0) {
      point(lower + rim, lying);
    } else {
      const T lowest = smooth_step(T(2.0 * dot(rim, fall) / (radius * sin_tilt)));
      point(lower + rim, lowest + (1.0 - lowest) * lying);
    }
  }
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_CYLINDER_H_
