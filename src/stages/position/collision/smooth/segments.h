// Spheres and capsules: nearest points of segments, with a smooth clamp at their ends.
//
// Of two segments p_i + x_i a_i the nearest points are
//
//   x1 = (u + b v)/(1 - b²),  u = a1·D,  v = -a2·D,  b = a1·a2,  D = p2 - p1
//
// clamped, x2 the clamped projection of that point, x1 that of x2's. As the segments become
// parallel x1 runs from one end of what they have in common to the other; here it stays near the
// middle m of that while the distance changes by less than w from end to end,
//
//   x1 = m + (u + b v - m (1 - b²))/f,   f = max(1 - b², μ²) smooth
//   μ² = w (radius1 + radius2)/(half1² + half2²)                                             (6)
//
// Parallel segments have one contact, in the middle, where MuJoCo gives two.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_SEGMENTS_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_SEGMENTS_H_

#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/smoothing.h"

namespace diffmj {

template <class T, class Emit>
void smooth_sphere_sphere(const SmoothGeom<T>& sphere1, const SmoothGeom<T>& sphere2,
                          double /*width*/, const Emit& emit) {
  emit(between_spheres(sphere1.pos, sphere1.size[0], sphere2.pos, sphere2.size[0]));
}

template <class T, class Emit>
void smooth_sphere_capsule(const SmoothGeom<T>& sphere, const SmoothGeom<T>& capsule, double width,
                           const Emit& emit) {
  const Vec3<T>& axis = capsule.axis[2];
  const T w = shape_width(width, capsule.size[1]);
  const T x = smooth_clamp(dot(axis, sphere.pos - capsule.pos), capsule.size[1], w);
  emit(between_spheres(sphere.pos, sphere.size[0], Vec3<T>(capsule.pos + x * axis),
                       capsule.size[0]));
}

template <class T, class Emit>
void smooth_capsule_capsule(const SmoothGeom<T>& capsule1, const SmoothGeom<T>& capsule2,
                            double width, const Emit& emit) {
  const Vec3<T>&a1 = capsule1.axis[2], &a2 = capsule2.axis[2];
  const T &half1 = capsule1.size[1], &half2 = capsule2.size[1];
  const T w1 = shape_width(width, half1), w2 = shape_width(width, half2);
  const Vec3<T> D = capsule2.pos - capsule1.pos;
  const T u = dot(a1, D), v = -dot(a2, D), b = dot(a1, a2);
  const auto clamp1 = [&](const T& x) { return smooth_clamp(x, half1, w1); };
  // projections of a point of one segment on the other, not further than its ends
  const auto to1 = [&](const T& x2) { return clamp1(u + b * x2); };
  const auto to2 = [&](const T& x1) { return smooth_clamp(T(v + b * x1), half2, w2); };

  const T middle = 0.5 * (to1(half2) + to1(T(-half2)));
  const T across = 1.0 - b * b;  // sin²
  const T mu2 = shape_width(width, half1, half2) * (capsule1.size[0] + capsule2.size[0]) /
                (half1 * half1 + half2 * half2);
  const T floor = mu2 + smooth_positive(T(across - mu2), mu2);
  const T x2 = to2(clamp1(middle + (u + b * v - middle * across) / floor));
  const T x1 = to1(x2);
  emit(between_spheres(Vec3<T>(capsule1.pos + x1 * a1), capsule1.size[0],
                       Vec3<T>(capsule2.pos + x2 * a2), capsule2.size[0]));
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_SEGMENTS_H_
