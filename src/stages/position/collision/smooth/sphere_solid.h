// A sphere with a box or a cylinder: the signed distance of its centre to the solid.
//
// With q_k the distances beyond the faces (beyond a cylinder's side and caps) and e_k the outward
// directions, the distance is |max(q, 0)| outside and max_k q_k inside. Smooth:
//
//   L = |p|, p_k = max(q_k, 0) smooth;   m = max_k q_k smooth, c_k = ∂m/∂q_k;   θ = S(m/w)
//   distance = θ L + (1 - θ) m,   normal ∝ Σ_k e_k (θ p_k/L + (1 - θ) c_k)                  (7)
//
// Edges and corners are rounded over w; where the centre is deep inside, the nearest face is chosen
// over w too.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_SPHERE_SOLID_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_SPHERE_SOLID_H_

#include <cmath>

#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/smoothing.h"

namespace diffmj {

template <class T, size_t N>
struct SolidDistance {
  T dist;
  std::array<T, N> weight;  // of e_k in the normal, which they leave not quite of unit length
};

template <class T, size_t N>
SolidDistance<T, N> solid_distance(const std::array<T, N>& q, const T& w) {
  using std::sqrt;
  SolidDistance<T, N> out;
  std::array<T, N> p;
  T m = q[0], length2(0.0);
  out.weight[0] = T(1.0);
  for (size_t k = 1; k < N; k++) {
    const T over = q[k] - m, slope = smooth_positive_slope(over, w);
    m += smooth_positive(over, w);
    for (size_t j = 0; j < k; j++) out.weight[j] *= 1.0 - slope;
    out.weight[k] = slope;
  }
  out.dist = m;
  const T theta = smooth_ramp(m, w);
  if (theta == 0.0) return out;
  // m > 0: the largest q_k is above -w, and so L > 0
  for (size_t k = 0; k < N; k++) {
    p[k] = smooth_positive(q[k], w);
    length2 += p[k] * p[k];
  }
  const T length = sqrt(length2);
  out.dist = theta * length + (1.0 - theta) * m;
  for (size_t k = 0; k < N; k++) {
    out.weight[k] = theta * p[k] / length + (1.0 - theta) * out.weight[k];
  }
  return out;
}

// outward: what the solid's normal at the sphere is proportional to
template <class T>
SmoothContact<T> sphere_solid(const Vec3<T>& centre, const T& radius, const T& dist_centre,
                              const Vec3<T>& outward) {
  const T length = norm(outward);
  // gradient: halfway between opposite faces there is no normal, and none is differentiated
  const Vec3<T> n = length > 1e-15 ? T(-1.0 / length) * outward : Vec3<T>{T(1.0), T(0.0), T(0.0)};
  const T dist = dist_centre - radius;
  return {dist, centre + (radius + 0.5 * dist) * n, n};
}

template <class T>
SmoothContact<T> sphere_box(const Vec3<T>& centre, const T& radius, const SmoothGeom<T>& box,
                            const T& w) {
  const Vec3<T> from = centre - box.pos;
  std::array<T, 3> q, sign;
  for (size_t k = 0; k < 3; k++) {
    const T x = dot(box.axis[k], from);
    q[k] = smooth_abs(x, w) - box.size[k];
    sign[k] = smooth_positive_slope(x, w) - smooth_positive_slope(T(-x), w);
  }
  const SolidDistance<T, 3> solid = solid_distance(q, w);
  Vec3<T> outward = {T(0.0), T(0.0), T(0.0)};
  for (size_t k = 0; k < 3; k++) outward = outward + (solid.weight[k] * sign[k]) * box.axis[k];
  return sphere_solid(centre, radius, solid.dist, outward);
}

template <class T, class Emit>
void smooth_sphere_box(const SmoothGeom<T>& sphere, const SmoothGeom<T>& box, double width,
                       const Emit& emit) {
  const T w = shape_width(width, box.size[0], box.size[1], box.size[2]);
  emit(sphere_box(sphere.pos, sphere.size[0], box, w));
}

template <class T, class Emit>
void smooth_sphere_cylinder(const SmoothGeom<T>& sphere, const SmoothGeom<T>& cylinder,
                            double width, const Emit& emit) {
  const T w = shape_width(width, cylinder.size[0], cylinder.size[1]);
  const Vec3<T>& axis = cylinder.axis[2];
  const Vec3<T> from = sphere.pos - cylinder.pos;
  const T z = dot(axis, from);
  const Vec3<T> across = from - z * axis;
  const T rho = norm(across);
  const std::array<T, 2> q = {rho - cylinder.size[0], smooth_abs(z, w) - cylinder.size[1]};
  if (emit.is_far(q[0] - sphere.size[0]) || emit.is_far(q[1] - sphere.size[0])) return;
  const SolidDistance<T, 2> solid = solid_distance(q, w);
  const T sign = smooth_positive_slope(z, w) - smooth_positive_slope(T(-z), w);
  Vec3<T> outward = (solid.weight[1] * sign) * axis;
  // gradient: on the axis there is no direction across, and its weight is 0 unless it is nearest
  if (rho > 1e-15) outward = outward + (solid.weight[0] / rho) * across;
  emit(sphere_solid(sphere.pos, sphere.size[0], solid.dist, outward));
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_SPHERE_SOLID_H_
