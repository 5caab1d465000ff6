#include "stages/position/collision/box_box.h"

#include <cmath>

#include "stages/position/collision/nearest.h"
#include "stages/position/collision/plane.h"

namespace diffmj {
namespace {

// a side of one of the boxes
struct Side {
  int box, axis;
  double sign;
  Vector3 m;  // outward
};

// the sides of a box that a point is on, but those along `except`. -1 if it is outside.
int sides_at(const GeomPose& box, int index, const Vector3& c, int except, double tolerance,
             std::array<Side, 6>& out, int n) {
  const Vector3 y = box.local(c);
  for (int k = 0; k < 3; k++) {
    if (k == except) continue;
    const double beyond = std::abs(y[k]) - box.size[k];
    if (beyond > tolerance) return -1;
    if (beyond < -tolerance) continue;
    const double sign = y[k] < 0 ? -1 : 1;
    out[static_cast<size_t>(n++)] = {index, k, sign, sign * box.axis(k)};
  }
  return n;
}

// m_i · δc = m_i · w_i, w the motion of the side's box:  Σ m_i λ_i = c_bar
bool corner_pullback(const std::array<Side, 6>& side, int n, const Vector3& c, const Vector3& c_bar,
                     PairBar& out) {
  // the first three sides that meet in a point: those of the box whose face is clipped come first
  constexpr double kParallel = 1e-6;  // sides that meet at a smaller angle meet nowhere
  for (size_t k = 2; k < static_cast<size_t>(n); k++) {
    const Vector3 &a = side[0].m, &b = side[1].m, &e = side[k].m;
    const double det = a.cross(b).dot(e);
    if (std::abs(det) < kParallel) continue;
    const std::array<Side, 3> met = {side[0], side[1], side[k]};
    const Vector3 lambda =
        Vector3(b.cross(e).dot(c_bar), e.cross(a).dot(c_bar), a.cross(b).dot(c_bar)) / det;
    for (int i = 0; i < 3; i++) {
      const Side& s = met[static_cast<size_t>(i)];
      out.force(s.box, c, lambda[i] * s.m);
      out.size[static_cast<size_t>(s.box)][s.axis] += lambda[i];
    }
    return true;
  }
  return false;
}

}  // namespace

bool box_box_pullback(const std::array<GeomPose, 2>& geom, const PairContact& contact,
                      const PairContactBar& bar, PairBar& out) {
  // whose face the normal is of: colliders copy it
  int box = -1, axis = -1;
  double least = 1e-12;
  for (int i = 0; i < 2; i++) {
    const Vector3 local = geom[static_cast<size_t>(i)].mat.transpose() * contact.n;
    int k = 0;
    local.cwiseAbs().maxCoeff(&k);
    const double apart = (local - Vector3::Unit(k) * std::copysign(1.0, local[k])).norm();
    if (apart >= least) continue;
    least = apart;
    box = i;
    axis = k;
  }
  const double tolerance = std::min(feature_tolerance(geom[0]), feature_tolerance(geom[1]));
  if (box < 0) return nearest_pullback(geom, contact, {}, bar, out);

  const GeomPose &face = geom[static_cast<size_t>(box)],
                 &other = geom[static_cast<size_t>(1 - box)];
  const Vector3 e = contact.outward(box), c = contact.surface(1 - box);
  if (std::abs(e.dot(contact.surface(box) - face.pos) - face.size[axis]) > tolerance) return false;
  std::array<Side, 6> side;
  int n = sides_at(other, 1 - box, c, -1, tolerance, side, 0);
  if (n > 0) n = sides_at(face, box, c, axis, tolerance, side, n);
  if (n < 3) return false;
  const Vector3 c_bar = face_point_pullback(box, e, axis, contact, bar, out);
  return corner_pullback(side, n, c, c_bar, out);
}

}  // namespace diffmj
