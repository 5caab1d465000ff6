#include "stages/position/collision/face.h"

#include <cmath>
#include <numbers>

namespace diffmj {
namespace {

// in units of the sizes: along x, against it, then y and z
constexpr std::array<std::array<std::array<double, 3>, 4>, 6> kBoxCorners = {{
    {{{1, 1, 1}, {1, 1, -1}, {1, -1, -1}, {1, -1, 1}}},
    {{{-1, 1, -1}, {-1, 1, 1}, {-1, -1, 1}, {-1, -1, -1}}},
    {{{-1, 1, -1}, {1, 1, -1}, {1, 1, 1}, {-1, 1, 1}}},
    {{{-1, -1, 1}, {1, -1, 1}, {1, -1, -1}, {-1, -1, -1}}},
    {{{-1, 1, 1}, {1, 1, 1}, {1, -1, 1}, {-1, -1, 1}}},
    {{{1, 1, -1}, {-1, 1, -1}, {-1, -1, -1}, {1, -1, -1}}},
}};

Vector3 cap_corner(const GeomPose& geom, int i, double sign) {
  const double angle = 2 * std::numbers::pi * i / kCapCorners;
  return {geom.size[0] * std::cos(angle), geom.size[0] * std::sin(angle), sign * geom.size[1]};
}

}  // namespace

Vector3 Face::corner(int i) const {
  const int k = i % n;
  Vector3 local;
  switch (geom->type) {
    case mjGEOM_BOX: {
      const auto& at =
          kBoxCorners[static_cast<size_t>(2 * index + (sign < 0 ? 1 : 0))][static_cast<size_t>(k)];
      for (int j = 0; j < 3; j++) local[j] = at[static_cast<size_t>(j)] * geom->size[j];
      break;
    }
    case mjGEOM_CYLINDER:
      local = cap_corner(*geom, sign < 0 ? k : kCapCorners - 1 - k, sign);
      break;
    default:
      local =
          mesh_vertex(*geom, geom->m->mesh_polyvert[geom->m->mesh_polyvertadr[index] + n - 1 - k]);
  }
  return geom->pos + geom->mat * local;
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
