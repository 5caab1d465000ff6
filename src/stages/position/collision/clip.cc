#include "stages/position/collision/clip.h"

#include <algorithm>

namespace diffmj {

Vector3 side_normal(const Face& face, int i) {
  return (face.corner(i + 1) - face.corner(i)).cross(face.normal).normalized();
}

bool Clip::add_corner(const Vector3& v) {
  if (npoint_ == kMaxPoints) return false;
  point_[npoint_] = {.v = v, .bar = Vector3::Zero(), .cut = -1, .from = 0, .to = 0, .t = 0};
  left_[static_cast<size_t>(size_++)] = npoint_++;
  return true;
}

bool Clip::run(const Face& face) {
  for (int cut = 0; cut < face.n; cut++) {
    const Vector3 a = face.corner(cut), pn = side_normal(face, cut);
    size_t n = 0;
    for (int i = 0; i < size_; i++) {
      const size_t from = index(i), to = index(i + 1 < size_ ? i + 1 : 0);
      const Vector3 &P = point_[from].v, &Q = point_[to].v;
      // as MuJoCo decides: points on the side are within
      const double above_P = pn.dot(P - a), above_Q = pn.dot(Q - a);
      const bool within_P = above_P > -mjMINVAL, within_Q = above_Q > -mjMINVAL;
      if (n + 2 > kMaxPoints) return false;
      if (within_P != within_Q && above_P != above_Q) {
        if (npoint_ == kMaxPoints) return false;
        const double t = std::clamp(above_P / (above_P - above_Q), 0.0, 1.0);
        point_[npoint_] = {.v = P + t * (Q - P),
                           .bar = Vector3::Zero(),
                           .cut = cut,
                           .from = from,
                           .to = to,
                           .t = t};
        next_[n++] = npoint_++;
      }
      if (within_Q) next_[n++] = to;
    }
    std::swap(left_, next_);
    size_ = static_cast<int>(n);
  }
  return true;
}

void Clip::pullback(const std::array<GeomPose, 2>& geom, int side, const Face& face, PairBar& out) {
  const auto own = static_cast<size_t>(side), other = 1 - own;
  for (size_t i = npoint_; i-- > 0;) {
    const Point& point = point_[i];
    if (point.bar.isZero(0)) continue;
    if (point.cut < 0) {
      out.force(1 - side, point.v, point.bar);
      corner_size_pullback(geom[other], point.v, point.bar, out.size[other]);
      continue;
    }
    // δv = (1 - t) δP + t δQ + (Q - P) δt, so that it stays in the plane
    Point &P = point_[point.from], &Q = point_[point.to];
    const Vector3 pn = side_normal(face, point.cut), way = Q.v - P.v;
    const Vector3 force = way.dot(point.bar) / way.dot(pn) * pn, left = point.bar - force;
    out.force(side, point.v, force);
    corner_size_pullback(geom[own], face.corner(point.cut), force, out.size[own]);
    P.bar += (1 - point.t) * left;
    Q.bar += point.t * left;
  }
}

}  // namespace diffmj
