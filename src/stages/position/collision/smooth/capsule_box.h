// A capsule and a box: spheres of the capsule's radius at up to three places t of its axis.
//
// The nearest place t1 is where the distance of the axis from the box, a convex function of t, has
// its minimum: the root of
//
//   F'(t) = Σ_k a_k sign(p_k) (|p_k| - s_k)₊ + μ² (t - t_c) = 0,   p(t) = c + t a (10)
//
// clamped to the axis. Where the axis is parallel to a face there is no minimum; the last term
// takes it near the box's centre while the distance changes by less than w from end to end: μ² = w
// radius/half². MuJoCo then has the ends of what lies over the face. Here, in either direction from
// t1, t2 is as far as the capsule's end, or until p_k leaves the box's extent,
//
//   |t2 - t1| = min(half ∓ t1, min_k E(N_k)/|a_k|),   N_k = s_k - (p_k towards where it goes) (11)
//
// E is N_k + w/2 for a coordinate within the extent, and no bound for one beyond it, as across the
// face. A t2 that is not apart from t1 leaves; t1 leaves where both t2 are as near to the box.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_CAPSULE_BOX_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_CAPSULE_BOX_H_

#include <algorithm>
#include <cmath>

#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/smoothing.h"
#include "stages/position/collision/smooth/sphere_solid.h"

namespace diffmj {

// The axis in the box's frame.
template <class T>
struct BoxAxis {
  T slope(const T& t) const {
    T sum = mu2 * (t - centre);
    for (size_t k = 0; k < 3; k++) {
      const T p = c[k] + t * a[k];
      if (p > 0.0) {
        sum += a[k] * smooth_positive(T(p - s[k]), w);
      } else {
        sum -= a[k] * smooth_positive(T(-p - s[k]), w);
      }
    }
    return sum;
  }
  double curvature(double t) const {
    double sum = value_of(mu2);
    for (size_t k = 0; k < 3; k++) {
      const double ak = value_of(a[k]), p = std::abs(value_of(c[k]) + t * ak);
      sum += ak * ak * smooth_positive_slope(p - value_of(s[k]), value_of(w));
    }
    return sum;
  }

  std::array<T, 3> c, a, s;
  T mu2, centre, w;
};

// The root of an increasing function, within ±bound; one beyond is at the bound.
inline double increasing_root(const BoxAxis<double>& axis, double bound) {
  double low = -bound, high = bound;
  if (axis.slope(low) >= 0) return low;
  if (axis.slope(high) <= 0) return high;
  double t = std::clamp(axis.centre, low, high);
  // Newton, halving where that leaves the bracket; pieces of cubics are soon over
  for (int i = 0; i < 60; i++) {
    const double f = axis.slope(t);
    (f > 0 ? high : low) = t;
    double next = t - f / axis.curvature(t);
    if (!(next > low && next < high)) next = 0.5 * (low + high);
    if (std::abs(next - t) < 1e-15 * bound) break;
    t = next;
  }
  return t;
}

template <class T, class Emit>
void smooth_capsule_box(const SmoothGeom<T>& capsule, const SmoothGeom<T>& box, double width,
                        const Emit& emit) {
  using std::sqrt;
  const T &radius = capsule.size[0], &half = capsule.size[1];
  const T w = shape_width(width, box.size[0], box.size[1], box.size[2]);
  const T w_axis = shape_width(width, half);
  const Vec3<T> from = capsule.pos - box.pos;
  BoxAxis<T> axis;
  axis.w = w;
  BoxAxis<double> values;
  values.w = value_of(w);
  T along(0.0);
  for (size_t k = 0; k < 3; k++) {
    axis.c[k] = dot(box.axis[k], from);
    axis.a[k] = dot(box.axis[k], capsule.axis[2]);
    axis.s[k] = box.size[k];
    along += axis.a[k] * axis.c[k];
    values.c[k] = value_of(axis.c[k]);
    values.a[k] = value_of(axis.a[k]);
    values.s[k] = value_of(axis.s[k]);
    const double beyond = std::abs(values.c[k]) - values.s[k] -
                          std::abs(values.a[k]) * value_of(half) - value_of(radius);
    if (emit.is_far(T(beyond))) return;
  }
  axis.mu2 = w_axis * radius / (half * half);
  axis.centre = smooth_clamp(T(-along), half, w_axis);
  values.mu2 = value_of(axis.mu2);
  values.centre = value_of(axis.centre);

  // one Newton step from the root changes nothing but the derivatives
  const double root = increasing_root(values, value_of(half) + 2 * value_of(w_axis));
  const T t1 = smooth_clamp(T(root - axis.slope(T(root)) / axis.curvature(root)), half, w_axis);

  const auto contact_at = [&](const T& t) {
    return sphere_box(Vec3<T>(capsule.pos + t * capsule.axis[2]), radius, box, w);
  };
  SmoothContact<T> nearest = contact_at(t1);
  if (emit.is_far(nearest.dist - w)) return;
  const T near = 0.5 * sqrt(T(w_axis * half));
  T both(1.0);  // ends are apart from t1 and as near
  std::array<SmoothContact<T>, 2> ends;
  std::array<bool, 2> has = {};
  for (size_t i = 0; i < 2; i++) {
    const double sign = i == 0 ? 1 : -1;
    T way = half - sign * t1;
    for (size_t k = 0; k < 3; k++) {
      const double towards = (value_of(axis.a[k]) > 0) == (sign > 0) ? 1 : -1;
      const T speed = (towards * sign) * axis.a[k];
      const T N = 2.0 * axis.s[k] -
                  smooth_positive(T(axis.s[k] + towards * (axis.c[k] + t1 * axis.a[k])), w);
      const T n = dot(box.axis[k], nearest.n);
      const T facing = smooth_step(T(0.5 + (n * n - 0.5) * radius / w));
      const T reach = smooth_positive(N, T(0.5 * w)) + 0.5 * w +
                      2.0 * half * facing * smooth_ramp(T(-N - 0.5 * w), w);
      if (reach >= 4.0 * half * speed) continue;
      way -= smooth_positive(T(way - reach / speed), w_axis);
    }
    const T apart = smooth_ramp(T(way - near), near);
    has[i] = apart > 0.0;
    if (!has[i]) {
      both = T(0.0);
      continue;
    }
    ends[i] = contact_at(T(t1 + sign * way));
    both *= apart * (1.0 - smooth_ramp(T(ends[i].dist - nearest.dist), w));
    ends[i].fading = fading(apart, w);
  }
  if (both < 1.0) {
    nearest.fading = fading(T(1.0 - both), w);
    emit(nearest);
  }
  for (size_t i = 0; i < 2; i++) {
    if (has[i]) emit(ends[i]);
  }
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_CAPSULE_BOX_H_
