// Two boxes: the axes along which they are farthest apart, or overlap the least, and their weights.
//
// Along a unit axis n from box 1 to box 2, with r_i(n) half the extent of a box,
//
//   s(n) = n·(c2 - c1) - r1(n) - r2(n)                                                       (12)
//
// MuJoCo takes the largest s of the axes of faces and of the products of edges. Here every axis has
// a weight:
//
//   σ = s                      faces of box 1
//   σ = s - w                  faces of box 2
//   σ = φ - 2 w + c (s - φ)    edges, c = 0 if they are parallel; φ the mean of the faces    (13)
//   a_i = Π_j 1 - S((σ_j - σ_i)/u - 1),   u = w/2                                            (14)
//
// One of them at least is 1. Where faces lie on each other the three kinds of axes have the same s:
// only the faces of box 1 are there. Derivation: docs/derivations/smooth_collisions.md.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_BOX_AXES_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_BOX_AXES_H_

#include <array>
#include <cmath>

#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/smoothing.h"

namespace diffmj {

template <class T>
struct BoxPair {
  BoxPair(const SmoothGeom<T>& first, const SmoothGeom<T>& second) : box1(first), box2(second) {}

  // False: farther apart along the axis of a face than any contact may be.
  template <class Emit>
  bool place(double width, const Emit& emit) {
    using std::abs;
    const Vec3<T> D = box2.pos - box1.pos;
    const auto is_far = [&](const T& s) { return emit.is_far(s - 7.0 * width); };
    for (size_t i = 0; i < 3; i++) {
      for (size_t j = 0; j < 3; j++) R[i][j] = dot(box1.axis[i], box2.axis[j]);
      D1[i] = dot(box1.axis[i], D);
      s1[i] = abs(D1[i]) - box1.size[i] - box2.size[0] * abs(R[i][0]) -
              box2.size[1] * abs(R[i][1]) - box2.size[2] * abs(R[i][2]);
      if (is_far(s1[i])) return false;
    }
    for (size_t j = 0; j < 3; j++) {
      D2[j] = dot(box2.axis[j], D);
      s2[j] = abs(D2[j]) - box2.size[j] - box1.size[0] * abs(R[0][j]) -
              box1.size[1] * abs(R[1][j]) - box1.size[2] * abs(R[2][j]);
      if (is_far(s2[j])) return false;
    }
    // (3): Σ 2/size of a box is 2 (xy + z (x + y))/xyz
    const std::array<T, 3>&a = box1.size, &b = box2.size;
    const T a2 = a[0] * a[1], a3 = a2 * a[2], b2 = b[0] * b[1], b3 = b2 * b[2], ab = a3 * b3;
    const T sum = (a2 + a[2] * (a[0] + a[1])) * b3 + (b2 + b[2] * (b[0] + b[1])) * a3;
    w = width * ab / (ab + 2.0 * width * sum);
    return true;
  }

  const SmoothGeom<T>&box1, &box2;
  std::array<std::array<T, 3>, 3> R;  // axes of box 1 times axes of box 2
  std::array<T, 3> D1, D2;            // centre of box 2 from that of box 1, in either's axes
  std::array<T, 3> s1, s2;            // separation along them, not yet smooth
  T w;
};

// the other axes, cyclically
inline constexpr std::array<size_t, 3> kNextAxis = {1, 2, 0}, kLastAxis = {2, 0, 1};

enum class BoxAxisKind { kFace1, kFace2, kEdges };

template <class T>
struct SeparatingAxis {
  BoxAxisKind kind;
  size_t i, j;  // axes of box 1 and box 2
  double sign;  // of n along the axis, or along the product
  T s, score, penalty, weight;
};

// The weight of x against others: 1 until one is larger by u, 0 where one is by 2 u.
template <class T>
T not_beaten(const T& x, const T& other, const T& u) {
  const T beyond = other - x - u;
  return beyond <= 0.0 ? T(1.0) : T(1.0 - smooth_ramp(beyond, u));
}

// The axes that may have a weight, in a fixed order: faces of box 1, faces of box 2, edges.
template <class T>
class SeparatingAxes {
 public:
  explicit SeparatingAxes(const BoxPair<T>& pair) : pair_(pair), w_(pair.w), u_(0.5 * pair.w) {}

  void find() {
    faces();
    weigh_faces();
    edges();
    if (n_ > nface_) weigh_edges();
  }
  const SeparatingAxis<T>* begin() const { return axis_.data(); }
  const SeparatingAxis<T>* end() const { return begin() + n_; }

 private:
  // both directions where the centres are at nearly the same place along the axis
  template <class Score>
  void add(BoxAxisKind kind, size_t i, size_t j, const T& D, const T& extent, const T& penalty,
           const Score& score) {
    for (const double sign : {1.0, -1.0}) {
      if (sign * D < -u_) continue;
      const T s = sign * D - extent;
      axis_[n_++] = {kind, i, j, sign, s, score(s), penalty, T(1.0)};
    }
  }

  void faces() {
    const std::array<T, 3>&size1 = pair_.box1.size, &size2 = pair_.box2.size;
    const auto& R = pair_.R;
    T best = pair_.s1[0];
    for (size_t k = 0; k < 3; k++) {
      if (pair_.s1[k] > best) best = pair_.s1[k];
      if (pair_.s2[k] - w_ > best) best = pair_.s2[k] - w_;
    }
    // smooth extents are larger, by less than 0.3 w
    const T least = best - 1.3 * w_;
    // smooth_abs of width v is v (3 + 6 y - y²)/8 near 0, y = x²/v²
    const T v = 0.25 * w_, v2 = v * v, y_per_x2 = 1.0 / v2;
    const auto smooth = [&](const T& x) {
      using std::abs;
      const T x2 = x * x;
      if (x2 >= v2) return abs(x);
      const T y = x2 * y_per_x2;
      return T(v * (0.375 + 0.125 * y * (6.0 - y)));
    };
    const auto extent = [&](const T& x, const T& y, const T& z) {
      return smooth(x) + smooth(y) + smooth(z);
    };
    for (size_t i = 0; i < 3; i++) {
      if (pair_.s1[i] <= least) continue;
      const T r = size1[i] + extent(R[i][0] * size2[0], R[i][1] * size2[1], R[i][2] * size2[2]);
      add(BoxAxisKind::kFace1, i, 0, pair_.D1[i], r, T(0.0), [](const T& s) { return s; });
    }
    for (size_t j = 0; j < 3; j++) {
      if (pair_.s2[j] - w_ <= least) continue;
      const T r = size2[j] + extent(R[0][j] * size1[0], R[1][j] * size1[1], R[2][j] * size1[2]);
      add(BoxAxisKind::kFace2, 0, j, pair_.D2[j], r, T(0.0), [&](const T& s) { return s - w_; });
    }
  }

  void weigh_faces() {
    best_ = axis_[0].score;
    for (size_t k = 1; k < n_; k++) {
      if (axis_[k].score > best_) best_ = axis_[k].score;
    }
    for (size_t k = 0; k < n_; k++) {
      if (axis_[k].score > best_ - w_) axis_[nface_++] = axis_[k];
    }
    n_ = nface_;
    for (size_t k = 0; k < n_; k++) {
      for (size_t other = 0; other < n_; other++) {
        if (other != k) axis_[k].weight *= not_beaten(axis_[k].score, axis_[other].score, u_);
      }
      sum_ += axis_[k].weight;
      faces_ += axis_[k].weight * axis_[k].score;
    }
    faces_ = faces_ / sum_;
  }

  void edges() {
    using std::abs, std::sqrt;
    const T least = best_ + w_;
    const auto& R = pair_.R;
    const std::array<T, 3>&size1 = pair_.box1.size, &size2 = pair_.box2.size;
    for (size_t i = 0; i < 3; i++) {
      const size_t i1 = kNextAxis[i], i2 = kLastAxis[i];
      for (size_t j = 0; j < 3; j++) {
        const size_t j1 = kNextAxis[j], j2 = kLastAxis[j];
        // the product of the axes, not yet of unit length
        const T D = R[i1][j] * pair_.D1[i2] - R[i2][j] * pair_.D1[i1];
        const T r = size1[i1] * abs(R[i2][j]) + size1[i2] * abs(R[i1][j]) +
                    size2[j1] * abs(R[i][j2]) + size2[j2] * abs(R[i][j1]);
        // not if s is below that of the faces, without the root
        const T apart = abs(D) - r;
        if (apart <= 0.0 && least >= 0.0) continue;
        const T sin2 = R[i1][j] * R[i1][j] + R[i2][j] * R[i2][j];
        if (apart <= 0.0 && apart * apart >= least * least * sin2) continue;
        const T sine = sqrt(sin2);
        const T length = size1[i] + size2[j];
        const T across = smooth_ramp(T(length * sine - w_), w_);
        if (across == 0.0) continue;
        // nearly parallel edges are no better than faces
        add(BoxAxisKind::kEdges, i, j, D / sine, r / sine, penalty(i, j, sine, w_ / length),
            [&](const T& s) { return faces_ - 2.0 * w_ + across * (s - faces_); });
      }
    }
  }
  // what edges must be better by than a face, if they have nearly its axis
  T penalty(size_t i, size_t j, const T& sine, const T& angle) const {
    using std::abs;
    T penalty(0.0);
    for (size_t k = 0; k < nface_; k++) {
      const SeparatingAxis<T>& face = axis_[k];
      const bool first = face.kind == BoxAxisKind::kFace1;
      if (first ? face.i == i : face.j == j) continue;
      // the third axis
      const T cosine = abs(first ? pair_.R[3 - i - face.i][j] : pair_.R[i][3 - j - face.j]) / sine;
      const T same = smooth_step(T((cosine - 0.99) / (0.3 * angle) + 0.5));
      penalty += face.weight * same * smooth_abs(face.s, u_);
    }
    return 0.05 * penalty / sum_;
  }

  void weigh_edges() {
    for (size_t k = nface_; k < n_; k++) {
      SeparatingAxis<T>& edges = axis_[k];
      T first(1.0);  // among edges
      for (size_t other = nface_; other < n_; other++) {
        if (other == k) continue;
        first *= 1.0 - smooth_ramp(T(axis_[other].score - edges.score), u_);
        edges.weight *= not_beaten(edges.score, axis_[other].score, u_);
      }
      const T score = edges.score - edges.penalty;
      for (size_t f = 0; f < nface_; f++) {
        edges.weight *= not_beaten(score, axis_[f].score, u_);
        axis_[f].weight *= 1.0 - first * (1.0 - not_beaten(axis_[f].score, score, u_));
      }
    }
  }

  const BoxPair<T>& pair_;
  const T &w_, u_;
  std::array<SeparatingAxis<T>, 30> axis_;
  size_t n_ = 0, nface_ = 0;
  T best_;
  T sum_ = T(0.0), faces_ = T(0.0);  // weights of faces, and the mean of their scores
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_BOX_AXES_H_
