// A plane and a mesh: the mean of its lowest vertices (18), and those at the ends of what lies on
// the plane, by tilting it as (21) does.
//
// MuJoCo gives up to four vertices below the plane, the lowest first.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_MESH_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_MESH_H_

#include "stages/position/collision/smooth/convex.h"

namespace diffmj {

// Up to so many vertices are all looked at.
inline constexpr int kFew = 4000;
inline constexpr double kAcross = 0.8, kAlong = 1.93;  // in the ratio of tan 22.5°

template <class T, class Emit>
void smooth_plane_mesh(const SmoothGeom<T>& plane, const SmoothGeom<T>& geom, double width,
                       const Emit& emit) {
  using std::sqrt;
  const Vec3<T>& n = plane.axis[2];
  const SmoothGeom<double> value = values_of(geom);
  ConvexShape<double> shape(mjGEOM_MESH, value, width);
  ConvexShape<T> mesh(mjGEOM_MESH, geom, width);
  const bool has_few = geom.mesh->vertices().rows() <= kFew;
  const auto point_in = [&](const Vec3<T>& y) {
    // of each direction apart: a sole has hundreds of vertices, and each of its ends a few
    if (!has_few) set_near_vertices(shape, 1, unit(values_of(y)), 0);
    mesh.set_near(shape.near());
    return geom.pos + mesh.global(mesh.support(mesh.local(unit(y))));
  };
  const auto place_at = [&](const Vec3<T>& c) {
    const T dist = dot(n, c - plane.pos);
    return Place<T>{dist, c - (0.5 * dist) * n, T(0.0)};
  };
  std::array<Place<T>, 1 + kMaxEnds> place;
  place[0] = place_at(point_in(-n));
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
  }
  // The radius about an end: where the mesh is round, half the tilt leads half as far, and to the
  // same end of a face. The harmonic mean with the largest radius of the mesh, 0 of what has faces
  // alone: the end of a tilted face may be another one at half the tilt.
  const auto roundness = [&](const Vec3<T>& end, const Vec3<T>& tilt) {
    const T largest = mesh.roundness(n);
    if (largest == 0.0) return largest;
    const Vec3<T> way = end - point_in(0.5 * tilt - n);
    const T radius = 2.0 * sqrt(T(dot(way, way) + 1e-4 * mesh.width() * mesh.width())) / norm(tilt);
    return T(2.0 * largest * radius / (largest + radius));
  };
  for (size_t i = 0; i < nend; i++) {
    const Vec3<T> end = point_in(tilts[i] - n);
    place[1 + i] = place_at(end);
    place[1 + i].near = near_middle(mesh.width(), roundness(end, tilts[i]), tilts[i]);
  }
  emit_places(place, nend, n, mesh.width(), kMaxEnds, emit);
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLANE_MESH_H_
