#include "stages/position/collision/face.h"

#include <cmath>
#include <numbers>

#include "stages/position/collision/vertices.h"

namespace diffmj {
namespace {

constexpr int kCapCorners = 16;

Vector3 cap_corner(const GeomPose& geom, int i, double sign) {
  const double angle = 2 * std::numbers::pi * i / kCapCorners;
  return {geom.size[0] * std::cos(angle), geom.size[0] * std::sin(angle), sign * geom.size[1]};
}

// calls fn(face) for faces until it returns true; those of a height field are near the point
template <class F>
bool visit_faces(const GeomPose& geom, const Vector3& point, const F& fn) {
  const mjModel* m = geom.m;
  Face face;
  face.geom = &geom;
  switch (geom.type) {
    case mjGEOM_BOX:
    case mjGEOM_CYLINDER:
      face.n = geom.type == mjGEOM_BOX ? 4 : kCapCorners;
      for (int k = geom.type == mjGEOM_BOX ? 0 : 2; k < 3; k++) {
        for (const double sign : {-1.0, 1.0}) {
          face.index = k;
          face.size = geom.type == mjGEOM_BOX ? k : 1;
          face.sign = sign;
          face.normal = sign * geom.axis(k);
          if (fn(face)) return true;
        }
      }
      return false;
    case mjGEOM_MESH: {
      const int id = m->geom_dataid[geom.id];
      for (int k = m->mesh_polyadr[id]; k < m->mesh_polyadr[id] + m->mesh_polynum[id]; k++) {
        face.index = k;
        face.n = m->mesh_polyvertnum[k];
        face.normal = geom.mat * Vector3(m->mesh_polynormal + 3 * static_cast<ptrdiff_t>(k));
        if (fn(face)) return true;
      }
      return false;
    }
    case mjGEOM_HFIELD:
      face.n = 3;
      return visit_prisms(geom, geom.local(point), [&](const std::array<Vector3, 3>& top, double) {
        face.top = top;
        face.normal = geom.mat * (top[1] - top[0]).cross(top[2] - top[0]).normalized();
        return fn(face);
      });
    default:
      return false;
  }
}

bool is_on_segment(const Vector3& point, const Vector3& a, const Vector3& b, double tolerance) {
  const Vector3 way = b - a;
  const double length = way.norm();
  if (length <= tolerance) return false;
  const double x = way.dot(point - a) / length;
  return x >= -tolerance && x <= length + tolerance &&
         (point - a - x / length * way).norm() <= tolerance;
}

}  // namespace

Vector3 Face::corner(int i) const {
  const int k = i % n;
  Vector3 local;
  switch (geom->type) {
    case mjGEOM_BOX: {
      // counted round as seen from outside
      const int u = (index + 1) % 3, v = (index + 2) % 3;
      local[index] = sign * geom->size[index];
      local[u] = (k == 0 || k == 3 ? -1 : 1) * geom->size[u];
      local[v] = sign * (k < 2 ? -1 : 1) * geom->size[v];
      break;
    }
    case mjGEOM_CYLINDER:
      local = cap_corner(*geom, sign < 0 ? kCapCorners - k : k, sign);
      break;
    case mjGEOM_MESH:
      local = mesh_vertex(*geom, geom->m->mesh_polyvert[geom->m->mesh_polyvertadr[index] + k]);
      break;
    default:
      local = top[static_cast<size_t>(k)];
  }
  return geom->pos + geom->mat * local;
}

bool find_face(const GeomPose& geom, const Vector3& point, const Vector3& outward, double angle,
               double tolerance, Face& out) {
  return visit_faces(geom, point, [&](const Face& face) {
    if ((face.normal - outward).norm() > angle) return false;
    if (std::abs(face.normal.dot(point - face.corner(0))) > tolerance) return false;
    // not beyond its edges
    for (int i = 0; i < face.n; i++) {
      const Vector3 a = face.corner(i), edge = face.corner(i + 1) - a;
      if (edge.cross(face.normal).dot(point - a) > (tolerance + angle * tolerance) * edge.norm()) {
        return false;
      }
    }
    out = face;
    return true;
  });
}

bool find_edge(const GeomPose& geom, const Vector3& point, double tolerance, Vector3& a,
               Vector3& b) {
  if (geom.type != mjGEOM_BOX && geom.type != mjGEOM_MESH) return false;
  return visit_faces(geom, point, [&](const Face& face) {
    for (int i = 0; i < face.n; i++) {
      a = face.corner(i);
      b = face.corner(i + 1);
      if (is_on_segment(point, a, b, tolerance)) return true;
    }
    return false;
  });
}

bool is_corner(const GeomPose& geom, const Vector3& point, double tolerance) {
  if (geom.type == mjGEOM_MESH) {
    const Vector3 q = geom.local(point);
    const HullVertices hull(geom);
    for (int i = 0; i < hull.size(); i++) {
      if ((hull[i] - q).lpNorm<Eigen::Infinity>() <= tolerance) return true;
    }
    return false;
  }
  return visit_faces(geom, point, [&](const Face& face) {
    for (int i = 0; i < face.n; i++) {
      if ((face.corner(i) - point).lpNorm<Eigen::Infinity>() <= tolerance) return true;
    }
    return false;
  });
}

void corner_size_pullback(const GeomPose& geom, const Vector3& corner, const Vector3& force,
                          Vector3& size_bar) {
  if (geom.type != mjGEOM_BOX && geom.type != mjGEOM_CYLINDER) return;
  const Vector3 local = geom.local(corner), f = geom.mat.transpose() * force;
  if (geom.type == mjGEOM_BOX) {
    size_bar += local.cwiseSign().cwiseProduct(f);
    return;
  }
  size_bar[0] += (local[0] * f[0] + local[1] * f[1]) / geom.size[0];
  size_bar[1] += local[2] < 0 ? -f[2] : f[2];
}

}  // namespace diffmj
