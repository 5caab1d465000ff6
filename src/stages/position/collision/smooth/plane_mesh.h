// A plane and a mesh: the mean of its lowest vertices (18), and those at the ends of what lies on
// the plane, by tilting it as (21) does.
//
// MuJoCo gives up to four vertices below the plane, the lowest first.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_MESH_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_MESH_H_

#include "stages/position/collision/smooth/convex.h"

namespace diffmj {

inline constexpr double kAcross = 0.8, kAlong = 1.93;  // in the ratio of tan 22.5°

template <class T, class Emit>
void smooth_plane_mesh(const SmoothGeom<T>& plane, const SmoothGeom<T>& geom, double width,
                       const Emit& emit) {
  const Vec3<T>& n = plane.axis[2];
  const SmoothGeom<double> value = values_of(geom);
  ConvexShape<double> shape(mjGEOM_MESH, value, width);
  set_near_vertices(shape, 1, -values_of(n), 0);
  ConvexShape<T> mesh(mjGEOM_MESH, geom, width);
  mesh.set_near(shape.near());
  const auto place_in = [&](const Vec3<T>& y) {
    const Vec3<T> c = geom.pos + mesh.global(mesh.support(mesh.local(unit(y))));
    const T dist = dot(n, c - plane.pos);
    return Place<T>{dist, c - (0.5 * dist) * n, T(0.0)};
  };
  std::array<Place<T>, 1 + kMaxEnds> place;
  place[0] = place_in(-n);
  if (emit.is_far(place[0].dist - 3.0 * mesh.width())) return;
  std::array<Vec3<T>, kMaxEnds> tilts;
  const size_t nend =
      contact_tilts<T>(nullptr, mesh, n, smooth_positive(T(-place[0].dist), mesh.width()), tilts);
  if (nend > 0) {
    // between the axes and their diagonals: across the edges of a face that lies along either, two
    // corners would be found as one place, in the middle
    const Vec3<T> a = 0.5 * (tilts[0] + tilts[1]), b = 0.5 * (tilts[0] - tilts[1]);
    const Vec3<T> t0 = kAlong * a + kAcross * b, t1 = kAlong * b - kAcross * a;
    tilts = {t0, t1, -t1, -t0};
    set_near_vertices(shape, 1, -values_of(n),
                      1.1 * std::max(norm(values_of(t0)), norm(values_of(t1))));
  }
  for (size_t i = 0; i < nend; i++) {
    place[1 + i] = place_in(tilts[i] - n);
    place[1 + i].near = near_middle(mesh.width(), mesh.roundness(n), tilts[i]);
  }
  emit_places(place, nend, n, mesh.width(), kMaxEnds, emit);
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_MESH_H_
