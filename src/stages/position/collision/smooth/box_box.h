// Two boxes: contacts of the axes along which they are farthest apart, or overlap the least.
//
// Along a unit axis n from the first box to the second, with r_i(n) half the extent of a box,
//
//   s(n) = n·(c2 - c1) - r1(n) - r2(n)                                                       (12)
//
// for the axes of box 1, of box 2, and the products of both, in either direction. MuJoCo takes the
// axis of the largest s, one of box 1 before one of box 2, a product only where it is larger by
// more than 5 % of the faces' s if it is within 8 degrees of the best face. Here
//
//   σ = s - (0, w, 2 w) for faces of box 1, faces of box 2, edges;   u = w/2
//   a_i = Π_j 1 - S((σ_j - σ_i)/u - 1)                                                       (13)
//
// is the weight of an axis. Every axis has a normal of its own and contacts of its own, which leave
// with it (4); one axis at least has weight 1. Where faces lie on each other the three kinds of
// axes have the same s: only the faces of box 1 are there.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_BOX_BOX_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_BOX_BOX_H_

#include <array>
#include <cmath>

#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/smoothing.h"

namespace diffmj {

// Contacts that a pair of boxes may have.
inline constexpr int kMaxBoxBox = 32;

// Contacts of smaller weight have left, at any depth.
inline constexpr double kLeast = 1e-12;

template <class T>
struct BoxPair {
  BoxPair(const SmoothGeom<T>& first, const SmoothGeom<T>& second, double width)
      : box1(first), box2(second) {
    const Vec3<T> D = box2.pos - box1.pos;
    T inverse(1.0 / width);
    for (size_t i = 0; i < 3; i++) {
      for (size_t j = 0; j < 3; j++) R[i][j] = dot(box1.axis[i], box2.axis[j]);
      D1[i] = dot(box1.axis[i], D);
      D2[i] = dot(box2.axis[i], D);
      inverse += 2.0 / box1.size[i] + 2.0 / box2.size[i];
    }
    w = 1.0 / inverse;
  }

  const SmoothGeom<T>&box1, &box2;
  std::array<std::array<T, 3>, 3> R;  // axes of box 1 times axes of box 2
  std::array<T, 3> D1, D2;            // centre of box 2 from that of box 1, in either's axes
  T w;
};

enum class BoxAxisKind { kFace1, kFace2, kEdges };

template <class T>
struct SeparatingAxis {
  BoxAxisKind kind = BoxAxisKind::kFace1;
  size_t i = 0, j = 0;  // axes of box 1 and box 2
  double sign = 1;      // of n along the axis, or along the product
  T s = T(0.0), score = T(0.0), penalty = T(0.0);
  T weight = T(1.0);
};

template <class T>
T value_sign(const T& x, const T& y) {
  return x < 0.0 ? T(-y) : y;
}

// The weight of x against others: 1 until one is larger by u, 0 where one is by 2 u.
template <class T>
T not_beaten(const T& x, const T& other, const T& u) {
  return 1.0 - smooth_ramp(T(other - x - u), u);
}

// An edge of each box that touch in one place: the nearest points of the edges.
template <class T, class Emit>
void box_edges(const BoxPair<T>& pair, const SeparatingAxis<T>& axis, const Emit& emit) {
  using std::sqrt;
  const SmoothGeom<T>&box1 = pair.box1, &box2 = pair.box2;
  const size_t i = axis.i, j = axis.j;
  const T leaving = fading(axis.weight, pair.w);
  if (emit.is_far(axis.s + leaving)) return;
  const Vec3<T>&a1 = box1.axis[i], &a2 = box2.axis[j];
  const Vec3<T> product = T(axis.sign) * cross(a1, a2);
  const T sin2 = dot(product, product);
  const Vec3<T> n = (1.0 / sqrt(sin2)) * product;
  // middles of the edges
  Vec3<T> m1 = box1.pos, m2 = box2.pos;
  for (size_t k = 0; k < 3; k++) {
    if (k != i) m1 = m1 + value_sign(dot(n, box1.axis[k]), box1.size[k]) * box1.axis[k];
    if (k != j) m2 = m2 - value_sign(dot(n, box2.axis[k]), box2.size[k]) * box2.axis[k];
  }
  const Vec3<T> way = m2 - m1;
  const T b = pair.R[i][j], along1 = dot(a1, way), along2 = dot(a2, way);
  const auto on1 = [&](const T& x) { return smooth_clamp(x, box1.size[i], pair.w); };
  const auto on2 = [&](const T& x) { return smooth_clamp(x, box2.size[j], pair.w); };
  const T x2 = on2(b * on1((along1 - b * along2) / sin2) - along2);
  const T x1 = on1(along1 + b * x2);
  const T dist = dot(n, way);
  SmoothContact<T> contact{dist, 0.5 * (m1 + x1 * a1 + m2 + x2 * a2), n};
  contact.fading = leaving;
  emit(contact);
}

// A face of one box, the reference, and the face of the other that looks at it. Their contacts are
// the corners of what the two have in common, seen along the axis:
//   corners of the other face that are over the reference,
//   places where its edges go over sides of the reference,
//   corners of the reference that are under it.
template <class T, class Emit>
class BoxFace {
 public:
  BoxFace(const BoxPair<T>& pair, const SeparatingAxis<T>& axis, const Emit& emit)
      : emit_(emit), w_(pair.w), weight_(axis.weight) {
    const bool first = axis.kind == BoxAxisKind::kFace1;
    const SmoothGeom<T>&ref = first ? pair.box1 : pair.box2, &other = first ? pair.box2 : pair.box1;
    const size_t a = first ? axis.i : axis.j, ax = (a + 1) % 3, ay = (a + 2) % 3;
    const double outward = first ? axis.sign : -axis.sign;
    const auto local = [&](size_t k) { return first ? pair.D1[k] : T(-pair.D2[k]); };
    const auto turn = [&](size_t r, size_t k) { return first ? pair.R[r][k] : pair.R[k][r]; };
    X_ = ref.size[ax];
    Y_ = ref.size[ay];
    x_ = ref.axis[ax];
    y_ = ref.axis[ay];
    up_ = T(outward) * ref.axis[a];
    n_ = T(axis.sign) * ref.axis[a];
    origin_ = ref.pos + ref.size[a] * up_;
    c_ = {local(ax), local(ay), outward * local(a) - ref.size[a]};
    for (size_t k = 0; k < 3; k++) {
      axis_[k] = {turn(ax, k), turn(ay, k), outward * turn(a, k)};
      size_[k] = other.size[k];
    }
  }

  void contacts() {
    choose_faces();
    corners();
    crossings();
    for (size_t k = 0; k < 3; k++) {
      if (facing_[k] > 0.0) corners_below(k);
    }
  }

 private:
  static double bit(size_t i, size_t k) { return i >> k & 1 ? 1 : -1; }
  // 1 until w outside, 0 from 2 w
  T within(const T& outside) const { return 1.0 - smooth_ramp(T(outside - w_), w_); }

  // The other box's faces that look at the reference: MuJoCo takes the one that does so the most.
  void choose_faces() {
    std::array<T, 3> cosine;
    for (size_t k = 0; k < 3; k++) {
      down_[k] = axis_[k].z > 0.0 ? -1 : 1;
      cosine[k] = (-down_[k]) * axis_[k].z;
    }
    const T eta = w_ / (size_[0] + size_[1] + size_[2]);
    for (size_t k = 0; k < 3; k++) {
      facing_[k] = not_beaten(cosine[k], cosine[(k + 1) % 3], eta) *
                   not_beaten(cosine[k], cosine[(k + 2) % 3], eta);
    }
  }
  // of a corner or an edge: that of the faces it belongs to
  T facing(size_t i, size_t except) const {
    T none(1.0);
    for (size_t k = 0; k < 3; k++) {
      if (k != except && bit(i, k) == down_[k]) none *= 1.0 - facing_[k];
    }
    return 1.0 - none;
  }

  void corners() {
    for (size_t i = 0; i < 8; i++) {
      corner_[i] = c_;
      for (size_t k = 0; k < 3; k++) {
        corner_[i] = corner_[i] + T(bit(i, k) * size_[k]) * axis_[k];
      }
      over_[i] = facing(i, 3);
      if (over_[i] == 0.0) continue;
      using std::abs;
      over_[i] *= within(abs(corner_[i].x) - X_) * within(abs(corner_[i].y) - Y_);
      put(corner_[i], over_[i]);
    }
  }

  void crossings() {
    for (size_t k = 0; k < 3; k++) {
      for (size_t i = 0; i < 8; i++) {
        if (i >> k & 1) continue;
        const T edge = facing(i, k);
        if (edge == 0.0) continue;
        const Vec3<T>&p = corner_[i], &q = corner_[i | (size_t(1) << k)];
        for (const double side : {-1.0, 1.0}) {
          crossing(p, q, side * p.x - X_, side * q.x - X_, edge, true);
          crossing(p, q, side * p.y - Y_, side * q.y - Y_, edge, false);
        }
      }
    }
  }
  // of the edge from p to q, of which the ends are this far outside
  void crossing(const Vec3<T>& p, const Vec3<T>& q, const T& p_out, const T& q_out, const T& edge,
                bool is_x) {
    if ((p_out < 0.0) == (q_out < 0.0)) return;
    const double flip = p_out < 0.0 ? 1 : -1;
    const T both = smooth_ramp(T(-flip * p_out), w_) * smooth_ramp(T(flip * q_out), w_);
    if (both == 0.0) return;
    const T t = p_out / (p_out - q_out);
    const Vec3<T> at = p + t * (q - p);
    using std::abs;
    const T inside = is_x ? Y_ - abs(at.y) : X_ - abs(at.x);
    put(at, edge * both * smooth_ramp(inside, w_));
  }

  void corners_below(size_t k) {
    using std::abs, std::sqrt;
    const size_t k1 = (k + 1) % 3, k2 = (k + 2) % 3;
    const Vec3<T> n = axis_[k];
    const Vec3<T> centre = c_ + T(down_[k] * size_[k]) * n;
    // distances from the face's edges, seen along the axis
    const auto seen = [&](size_t edge) {
      return abs(n.z) / sqrt(T(1.0 - axis_[edge].z * axis_[edge].z));
    };
    const T seen1 = seen(k2), seen2 = seen(k1);
    for (size_t i = 0; i < 4; i++) {
      Vec3<T> at = {bit(i, 0) * X_, bit(i, 1) * Y_, T(0.0)};
      at.z = centre.z - (n.x * (at.x - centre.x) + n.y * (at.y - centre.y)) / n.z;
      const Vec3<T> from = at - centre;
      T under = facing_[k] * within(seen1 * (abs(dot(axis_[k1], from)) - size_[k1]));
      if (under == 0.0) continue;
      under *= within(seen2 * (abs(dot(axis_[k2], from)) - size_[k2]));
      if (under == 0.0) continue;
      // not where a corner of the other face is: within w/2, no more from w on
      for (size_t v = 0; v < 8; v++) {
        if (over_[v] == 0.0) continue;
        const T x = corner_[v].x - at.x, y = corner_[v].y - at.y, r2 = x * x + y * y;
        if (r2 >= w_ * w_) continue;
        under *= 1.0 - over_[v] * (1.0 - smooth_step(T((4.0 * r2 / (w_ * w_) - 1.0) / 3.0)));
      }
      put(at, under);
    }
  }

  void put(const Vec3<T>& at, const T& share) {
    const T weight = share * weight_;
    if (weight < kLeast || emit_.is_far(at.z)) return;
    SmoothContact<T> contact{at.z, origin_ + at.x * x_ + at.y * y_ + (0.5 * at.z) * up_, n_};
    contact.fading = fading(weight, w_);
    emit_(contact);
  }

  const Emit& emit_;
  const T w_, weight_;
  // coordinates x, y along the reference, z over it
  T X_, Y_;
  Vec3<T> x_, y_, up_, n_, origin_, c_;  // c: centre of the other box
  std::array<Vec3<T>, 3> axis_;          // of the other box
  std::array<T, 3> size_;
  std::array<double, 3> down_;  // its faces that look down
  std::array<T, 3> facing_;
  std::array<Vec3<T>, 8> corner_;
  std::array<T, 8> over_;
};

// The axes that may have a weight, in a fixed order: faces of box 1, faces of box 2, edges.
template <class T>
class SeparatingAxes {
 public:
  explicit SeparatingAxes(const BoxPair<T>& pair) : pair_(pair), w_(pair.w), u_(0.5 * pair.w) {}

  // False: too far apart.
  template <class Emit>
  bool find(const Emit& emit) {
    if (!faces(emit)) return false;
    weigh_faces();
    edges();
    if (n_ > nface_) weigh_edges();
    return true;
  }
  const SeparatingAxis<T>* begin() const { return axis_.data(); }
  const SeparatingAxis<T>* end() const { return begin() + n_; }

 private:
  // both directions where the centres are at nearly the same place along the axis
  void add(SeparatingAxis<T> axis, const T& D, const T& extent, const T& below) {
    for (const double sign : {1.0, -1.0}) {
      if (sign * D < -u_) continue;
      axis.sign = sign;
      axis.s = sign * D - extent;
      axis.score = axis.s - below;
      axis_[n_++] = axis;
    }
  }

  template <class Emit>
  bool faces(const Emit& emit) {
    using std::abs;
    const std::array<T, 3>&size1 = pair_.box1.size, &size2 = pair_.box2.size;
    const T w_abs = 0.25 * w_;
    const auto extent = [&](const T& x, const T& y, const T& z) {
      return smooth_abs(x, w_abs) + smooth_abs(y, w_abs) + smooth_abs(z, w_abs);
    };
    // contacts of the axes that have a weight are no nearer than that
    const auto is_far = [&](const T& D, const T& r) { return emit.is_far(abs(D) - r - 7.0 * w_); };
    for (size_t i = 0; i < 3; i++) {
      const std::array<T, 3>& row = pair_.R[i];
      const T r = size1[i] + extent(row[0] * size2[0], row[1] * size2[1], row[2] * size2[2]);
      if (is_far(pair_.D1[i], r)) return false;
      add({.kind = BoxAxisKind::kFace1, .i = i}, pair_.D1[i], r, T(0.0));
    }
    for (size_t j = 0; j < 3; j++) {
      const auto& R = pair_.R;
      const T r = size2[j] + extent(R[0][j] * size1[0], R[1][j] * size1[1], R[2][j] * size1[2]);
      if (is_far(pair_.D2[j], r)) return false;
      add({.kind = BoxAxisKind::kFace2, .j = j}, pair_.D2[j], r, w_);
    }
    return true;
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
    }
  }

  void edges() {
    using std::abs, std::sqrt;
    const auto& R = pair_.R;
    const std::array<T, 3>&size1 = pair_.box1.size, &size2 = pair_.box2.size;
    for (size_t i = 0; i < 3; i++) {
      const size_t i1 = (i + 1) % 3, i2 = (i + 2) % 3;
      for (size_t j = 0; j < 3; j++) {
        const size_t j1 = (j + 1) % 3, j2 = (j + 2) % 3;
        // the product of the axes, not yet of unit length
        const T D = R[i1][j] * pair_.D1[i2] - R[i2][j] * pair_.D1[i1];
        const T r = size1[i1] * abs(R[i2][j]) + size1[i2] * abs(R[i1][j]) +
                    size2[j1] * abs(R[i][j2]) + size2[j2] * abs(R[i][j1]);
        const T sine = sqrt(T(R[i1][j] * R[i1][j] + R[i2][j] * R[i2][j]));
        if (abs(D) - r <= (best_ + w_) * sine) continue;
        // nearly parallel edges have none
        const T length = size1[i] + size2[j];
        const T across = smooth_ramp(T(length * sine - w_), w_);
        if (across < kLeast) continue;
        SeparatingAxis<T> axis{.kind = BoxAxisKind::kEdges, .i = i, .j = j};
        axis.penalty = penalty(i, j, sine, w_ / length);
        add(axis, D / sine, r / sine, 2.0 * w_ + fading(across, w_));
      }
    }
  }
  // what edges must be better by than a face, if they have nearly its axis
  T penalty(size_t i, size_t j, const T& sine, const T& angle) const {
    using std::abs;
    T penalty(0.0), sum(0.0);
    for (size_t k = 0; k < nface_; k++) {
      const SeparatingAxis<T>& face = axis_[k];
      const bool first = face.kind == BoxAxisKind::kFace1;
      sum += face.weight;
      if (first ? face.i == i : face.j == j) continue;
      // the third axis
      const T cosine = abs(first ? pair_.R[3 - i - face.i][j] : pair_.R[i][3 - j - face.j]) / sine;
      const T same = smooth_step(T((cosine - 0.99) / (0.3 * angle) + 0.5));
      penalty += face.weight * same * smooth_abs(face.s, u_);
    }
    return 0.05 * penalty / sum;
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
};

template <class T, class Emit>
void smooth_box_box(const SmoothGeom<T>& box1, const SmoothGeom<T>& box2, double width,
                    const Emit& emit) {
  const BoxPair<T> pair(box1, box2, width);
  SeparatingAxes<T> axes(pair);
  if (!axes.find(emit)) return;
  for (const SeparatingAxis<T>& axis : axes) {
    if (axis.weight < kLeast) continue;
    if (axis.kind == BoxAxisKind::kEdges) {
      box_edges(pair, axis, emit);
    } else {
      BoxFace<T, Emit>(pair, axis, emit).contacts();
    }
  }
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_BOX_BOX_H_
