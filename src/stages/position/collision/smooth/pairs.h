// All smooth colliders, by the types of the geoms, and what is common to their use in MuJoCo and in
// the pullback.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PAIRS_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PAIRS_H_

#include <algorithm>
#include <cmath>
#include <utility>

#include "mj/collider.h"
#include "stages/position/collision/smooth/box_box.h"
#include "stages/position/collision/smooth/capsule_box.h"
#include "stages/position/collision/smooth/convex.h"
#include "stages/position/collision/smooth/plane_box.h"
#include "stages/position/collision/smooth/plane_cylinder.h"
#include "stages/position/collision/smooth/plane_mesh.h"
#include "stages/position/collision/smooth/plane_round.h"
#include "stages/position/collision/smooth/segments.h"
#include "stages/position/collision/smooth/sphere_solid.h"

namespace diffmj {

template <int type1, int type2>
struct ConvexCollider {
  template <class... X>
  void operator()(const X&... x) const {
    smooth_convex(type1, type2, x...);
  }
};

constexpr int pair_of(int type1, int type2) { return type1 * mjNGEOMTYPES + type2; }

using ConvexPairs = std::integer_sequence<
    int, pair_of(mjGEOM_SPHERE, mjGEOM_ELLIPSOID), pair_of(mjGEOM_SPHERE, mjGEOM_MESH),
    pair_of(mjGEOM_CAPSULE, mjGEOM_ELLIPSOID), pair_of(mjGEOM_CAPSULE, mjGEOM_CYLINDER),
    pair_of(mjGEOM_CAPSULE, mjGEOM_MESH), pair_of(mjGEOM_ELLIPSOID, mjGEOM_ELLIPSOID),
    pair_of(mjGEOM_ELLIPSOID, mjGEOM_CYLINDER), pair_of(mjGEOM_ELLIPSOID, mjGEOM_BOX),
    pair_of(mjGEOM_ELLIPSOID, mjGEOM_MESH), pair_of(mjGEOM_CYLINDER, mjGEOM_CYLINDER),
    pair_of(mjGEOM_CYLINDER, mjGEOM_BOX), pair_of(mjGEOM_CYLINDER, mjGEOM_MESH),
    pair_of(mjGEOM_BOX, mjGEOM_MESH), pair_of(mjGEOM_MESH, mjGEOM_MESH)>;

template <class Fn, int... pair>
constexpr bool with_convex_collider(int type1, int type2, const Fn& fn,
                                    std::integer_sequence<int, pair...> /*pairs*/) {
  bool found = false;
  const auto look = [&]<int p>() {
    if (pair_of(type1, type2) != p) return;
    fn(ConvexCollider<p / mjNGEOMTYPES, p % mjNGEOMTYPES>());
    found = true;
  };
  (look.template operator()<pair>(), ...);
  return found;
}

// Calls fn with the collider of two types, as a generic function object; false if there is none
template <class Fn>
constexpr bool with_collider(int type1, int type2, const Fn& fn) {
  const auto is = [&](int first, int second) { return type1 == first && type2 == second; };
  if (is(mjGEOM_PLANE, mjGEOM_SPHERE)) {
    fn([](const auto&... x) { smooth_plane_sphere(x...); });
    return true;
  }
  if (is(mjGEOM_PLANE, mjGEOM_CAPSULE)) {
    fn([](const auto&... x) { smooth_plane_capsule(x...); });
    return true;
  }
  if (is(mjGEOM_PLANE, mjGEOM_ELLIPSOID)) {
    fn([](const auto&... x) { smooth_plane_ellipsoid(x...); });
    return true;
  }
  if (is(mjGEOM_PLANE, mjGEOM_CYLINDER)) {
    fn([](const auto&... x) { smooth_plane_cylinder(x...); });
    return true;
  }
  if (is(mjGEOM_PLANE, mjGEOM_BOX)) {
    fn([](const auto&... x) { smooth_plane_box(x...); });
    return true;
  }
  if (is(mjGEOM_SPHERE, mjGEOM_SPHERE)) {
    fn([](const auto&... x) { smooth_sphere_sphere(x...); });
    return true;
  }
  if (is(mjGEOM_SPHERE, mjGEOM_CAPSULE)) {
    fn([](const auto&... x) { smooth_sphere_capsule(x...); });
    return true;
  }
  if (is(mjGEOM_SPHERE, mjGEOM_CYLINDER)) {
    fn([](const auto&... x) { smooth_sphere_cylinder(x...); });
    return true;
  }
  if (is(mjGEOM_SPHERE, mjGEOM_BOX)) {
    fn([](const auto&... x) { smooth_sphere_box(x...); });
    return true;
  }
  if (is(mjGEOM_CAPSULE, mjGEOM_CAPSULE)) {
    fn([](const auto&... x) { smooth_capsule_capsule(x...); });
    return true;
  }
  if (is(mjGEOM_CAPSULE, mjGEOM_BOX)) {
    fn([](const auto&... x) { smooth_capsule_box(x...); });
    return true;
  }
  if (is(mjGEOM_BOX, mjGEOM_BOX)) {
    fn([](const auto&... x) { smooth_box_box(x...); });
    return true;
  }
  if (is(mjGEOM_PLANE, mjGEOM_MESH)) {
    fn([](const auto&... x) { smooth_plane_mesh(x...); });
    return true;
  }
  return with_convex_collider(type1, type2, fn, ConvexPairs());
}

// The tangent of a contact's frame. MuJoCo takes the y axis of the world, or the z axis if n is
// nearer to the y axis than 60 degrees; here the two are blended,
//
//   t = (1 - s) y + s z,   s = S((|n_y| - ½)/2a + ½)                                          (8)
//
// A continuous choice for all n does not exist: where t ∥ n, near n = ±(0, 0.5, 0.87), there is
// none.
struct Tangent {
  Tangent(double ny, double width) {
    const double a = std::min(100 * width, 0.25), from = std::abs(ny) - 0.5 + a;
    if (from <= 0) return;
    const double x = std::min(from / (2 * a), 1.0);
    s = smooth_step(x);
    slope = 15 * x * x * (1 - x) * (1 - x) / a * (ny < 0 ? -1 : 1);
  }
  Vec3<double> t() const { return {0, 1 - s, s}; }

  double s = 0, slope = 0;  // slope: ∂s/∂n_y
};

// Two geoms in the order of their types, which need not be that of MuJoCo's contact
struct Ordered {
  Ordered(const int* type, int geom1, int geom2)
      : swapped(type[geom1] > type[geom2]),
        first(swapped ? geom2 : geom1),
        second(swapped ? geom1 : geom2) {}

  bool swapped;
  int first, second;
};

inline SmoothGeom<double> read_geom(const Collider& self, const mjModel* m, const mjData* d,
                                    int geom) {
  const mjtNum *pos = d->geom_xpos + 3 * static_cast<ptrdiff_t>(geom),
               *mat = d->geom_xmat + 9 * static_cast<ptrdiff_t>(geom),
               *size = m->geom_size + 3 * static_cast<ptrdiff_t>(geom);
  return {{pos[0], pos[1], pos[2]},
          {{{mat[0], mat[3], mat[6]}, {mat[1], mat[4], mat[7]}, {mat[2], mat[5], mat[8]}}},
          {size[0], size[1], size[2]},
          self.type[geom] == mjGEOM_MESH ? self.meshes->of_geom(m, geom) : nullptr};
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PAIRS_H_
