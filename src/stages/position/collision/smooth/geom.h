// What smooth colliders read and give, in any scalar type. Names of colliders are those of the
// types, the lower one of mjtGeom first; normals are from the first geom to the second.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_GEOM_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_GEOM_H_

#include <array>

#include "base/vec3.h"

namespace diffmj {

class SmoothMesh;  // mesh.h

template <class T>
struct SmoothGeom {
  Vec3<T> pos;
  std::array<Vec3<T>, 3> axis;
  std::array<T, 3> size;
  const SmoothMesh* mesh = nullptr;
};

// A scalar without its derivatives.
inline double value_of(double x) { return x; }
template <class T>
double value_of(const T& x) {
  return x.v;
}
template <class T>
Vec3<double> values_of(const Vec3<T>& x) {
  return {value_of(x.x), value_of(x.y), value_of(x.z)};
}

template <class T>
struct SmoothContact {
  T distance() const { return dist + fading; }

  T dist;
  Vec3<T> pos, n;
  T fading = T(0.0);  // how much farther away it is taken to be (smoothing.h, eq. 4)
  // Of the frame, if the collider has one of its own.
  bool has_tangent = false;
  Vec3<T> tangent = {T(0.0), T(0.0), T(0.0)};
};

// A point c of the second geom at this distance from a plane with normal n.
template <class T>
SmoothContact<T> plane_point(const Vec3<T>& c, const T& dist, const Vec3<T>& n) {
  return {dist, c - (0.5 * dist) * n, n};
}

// Two spheres.
template <class T>
SmoothContact<T> between_spheres(const Vec3<T>& c1, const T& radius1, const Vec3<T>& c2,
                                 const T& radius2) {
  const Vec3<T> way = c2 - c1;
  const T length = norm(way);
  // gradient: coincident centres have no normal, and none is differentiated
  const Vec3<T> n = length > 1e-15 ? (1.0 / length) * way : Vec3<T>{T(1.0), T(0.0), T(0.0)};
  const T dist = length - radius1 - radius2;
  return {dist, c1 + (radius1 + 0.5 * dist) * n, n};
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_GEOM_H_
