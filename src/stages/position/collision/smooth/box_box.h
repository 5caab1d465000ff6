// Two boxes: contacts of the axes along which they are farthest apart, or overlap the least.
//
// MuJoCo has the contacts of one axis. Here every axis of some weight (box_axes.h) has its normal
// and its contacts. Edges have one contact. A face, the reference, and the one of the other box
// that looks at it have the corners of what they have in common, seen along the axis,
//
//   corners of the other face            Π_sides 1 - S(x/w - 1)
//   crossings of its edges with sides    S(-x_p/w) S(x_q/w) S(d/w)                           (15)
//   corners of the reference             Π_edges 1 - S(x/w - 1), not at a corner of the other
//
// x: how far outside; d: of the side's end from the edge. Derivation:
// docs/derivations/smooth_collisions.md.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_BOX_BOX_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_BOX_BOX_H_

#include <array>
#include <cmath>

#include "stages/position/collision/smooth/box_axes.h"
#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/smoothing.h"

namespace diffmj {

// Contacts that a pair of boxes may have. Boxes that overlap by less than the smallest half size
// have had no more in any search for poses with many; of deeper ones the last are left out.
// gradient: a contact that is left out jumps
inline constexpr int kMaxBoxBox = 32;

// Contacts of smaller weight have left, at any depth.
inline constexpr double kLeastWeight = 1e-12;

template <class T>
T with_sign_of(const T& x, const T& y) {
  return x < 0.0 ? T(-y) : y;
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
    if (k != i) m1 = m1 + with_sign_of(dot(n, box1.axis[k]), box1.size[k]) * box1.axis[k];
    if (k != j) m2 = m2 - with_sign_of(dot(n, box2.axis[k]), box2.size[k]) * box2.axis[k];
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
      : emit_(emit), w_(pair.w), s_(axis.s), weight_(axis.weight) {
    const bool first = axis.kind == BoxAxisKind::kFace1;
    const SmoothGeom<T>&ref = first ? pair.box1 : pair.box2, &other = first ? pair.box2 : pair.box1;
    const size_t a = first ? axis.i : axis.j, ax = kNextAxis[a], ay = kLastAxis[a];
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
    if (is_far()) return;
    corners();
    crossings();
    for (size_t k = 0; k < 3; k++) {
      if (facing_[k] > 0.0) corners_below(k);
    }
  }

 private:
  static constexpr unsigned kLeft = 1, kRight = 2, kFront = 4, kBack = 8;  // sides, x and y

  // 1 until w outside, 0 from 2 w
  T within(const T& outside) const {
    return outside <= w_ ? T(1.0) : T(1.0 - smooth_ramp(T(outside - w_), w_));
  }

  // The other box's faces that look at the reference: MuJoCo takes the one that does so the most.
  void choose_faces() {
    std::array<T, 3> cosine;
    for (size_t k = 0; k < 3; k++) {
      const bool is_down = axis_[k].z < 0.0;
      cosine[k] = is_down ? -axis_[k].z : axis_[k].z;
      if (is_down) down_bits_ |= size_t(1) << k;
    }
    const T eta = w_ / (size_[0] + size_[1] + size_[2]);
    for (size_t k = 0; k < 3; k++) {
      facing_[k] = not_beaten(cosine[k], cosine[kNextAxis[k]], eta) *
                   not_beaten(cosine[k], cosine[kLastAxis[k]], eta);
    }
    share_[0] = T(0.0);
    for (size_t i = 1; i < 8; i++) {
      const size_t k = i & 4 ? 2 : i & 2 ? 1 : 0;
      const T& rest = share_[i ^ (size_t(1) << k)];
      share_[i] = rest + facing_[k] * (1.0 - rest);
    }
  }
  // The lowest corner is not below s, and what is taken for a face not more than 2 w beyond its
  // edges, seen along the axis.
  bool is_far() const {
    using std::sqrt;
    const T nearest = s_ + fading(weight_, w_);
    if (!emit_.is_far(nearest)) return false;
    T steepest(0.0);  // tan²
    for (size_t k = 0; k < 3; k++) {
      if (facing_[k] == 0.0) continue;
      const T cos2 = axis_[k].z * axis_[k].z, tan2 = (1.0 - cos2) / cos2;
      if (tan2 > steepest) steepest = tan2;
    }
    return emit_.is_far(nearest - 3.0 * w_ * sqrt(steepest));
  }
  // of a corner, or of an edge along k: that of the faces it belongs to
  const T& facing(size_t i, size_t k = 3) const {
    return share_[~(i ^ down_bits_) & ~(size_t(1) << k) & 7];
  }

  void corners() {
    using std::abs;
    std::array<Vec3<T>, 3> half;
    for (size_t k = 0; k < 3; k++) half[k] = size_[k] * axis_[k];
    // a crossing that is nearer to an end has a smaller weight than kLeastWeight
    const T nearest = 1e-5 * w_;
    for (size_t i = 0; i < 8; i++) {
      const T& share = facing(i);
      if (share == 0.0) continue;
      Vec3<T>& at = corner_[i];
      at = i & 1 ? c_ + half[0] : c_ - half[0];
      at = i & 2 ? at + half[1] : at - half[1];
      at = i & 4 ? at + half[2] : at - half[2];
      const T x = abs(at.x) - X_, y = abs(at.y) - Y_;
      if (x > nearest) outside_[i] = at.x < 0.0 ? kLeft : kRight;
      if (y > nearest) outside_[i] |= at.y < 0.0 ? kFront : kBack;
      all_outside_ &= outside_[i];
      any_outside_ |= outside_[i];
      const T over = share * within(x) * within(y);
      if (over < kLeastWeight) continue;
      over_[nover_++] = {at.x, at.y, over};
      put(at, over);
    }
  }

  void crossings() {
    if (any_outside_ == all_outside_) return;
    for (size_t k = 0; k < 3; k++) {
      for (size_t i = 0; i < 8; i++) {
        if (i >> k & 1) continue;
        const T& edge = facing(i, k);
        if (edge == 0.0) continue;
        const size_t end = i | (size_t(1) << k);
        const unsigned sides = outside_[i] ^ outside_[end];
        if (sides == 0) continue;
        const Vec3<T>&p = corner_[i], &q = corner_[end];
        if (sides & kLeft) crossing(p, q, -p.x - X_, -q.x - X_, edge, true);
        if (sides & kRight) crossing(p, q, p.x - X_, q.x - X_, edge, true);
        if (sides & kFront) crossing(p, q, -p.y - Y_, -q.y - Y_, edge, false);
        if (sides & kBack) crossing(p, q, p.y - Y_, q.y - Y_, edge, false);
      }
    }
  }
  // of the edge from p to q, of which one end is outside, the other inside
  void crossing(const Vec3<T>& p, const Vec3<T>& q, const T& p_out, const T& q_out, const T& edge,
                bool is_x) {
    using std::abs, std::sqrt;
    const T both = smooth_ramp(abs(p_out), w_) * smooth_ramp(abs(q_out), w_);
    if (both < kLeastWeight) return;
    const T t = p_out / (p_out - q_out);
    const Vec3<T> way = q - p, at = p + t * way;
    // of the side's end from the edge, times the edge's length
    const T inside = is_x ? (Y_ - abs(at.y)) * abs(way.x) : (X_ - abs(at.x)) * abs(way.y);
    if (inside <= 0.0) return;
    const T length2 = way.x * way.x + way.y * way.y;
    T weight = edge * both;
    if (inside * inside < w_ * w_ * length2) weight *= smooth_ramp(T(inside / sqrt(length2)), w_);
    put(at, weight);
  }

  void corners_below(size_t k) {
    using std::abs, std::sqrt;
    const size_t k1 = kNextAxis[k], k2 = kLastAxis[k];
    const Vec3<T> n = axis_[k];
    const Vec3<T> centre = down_bits_ >> k & 1 ? c_ + size_[k] * n : c_ - size_[k] * n;
    const T over_x = -n.x / n.z, over_y = -n.y / n.z;
    // distances from the face's edges are those seen along the axis: smaller, at least by half
    const auto under_edge = [&](const Vec3<T>& from, size_t across, size_t edge) {
      const T outside = abs(dot(axis_[across], from)) - size_[across];
      if (outside <= w_) return T(1.0);
      if (outside >= 4.0 * w_) return T(0.0);
      return within(outside * abs(n.z) / sqrt(T(1.0 - axis_[edge].z * axis_[edge].z)));
    };
    for (size_t i = 0; i < 4; i++) {
      Vec3<T> from = {(i & 1 ? X_ : -X_) - centre.x, (i & 2 ? Y_ : -Y_) - centre.y, T(0.0)};
      from.z = over_x * from.x + over_y * from.y;
      T under = facing_[k] * under_edge(from, k1, k2);
      if (under == 0.0) continue;
      under *= under_edge(from, k2, k1);
      if (under == 0.0) continue;
      const Vec3<T> at = centre + from;
      // not where a corner of the other face is: within w/2, no more from w on
      for (size_t v = 0; v < nover_; v++) {
        const T x = over_[v].x - at.x, y = over_[v].y - at.y, r2 = x * x + y * y;
        if (r2 >= w_ * w_) continue;
        under *=
            1.0 - over_[v].weight * (1.0 - smooth_ramp(T(r2 - 0.25 * w_ * w_), T(0.75 * w_ * w_)));
      }
      put(at, under);
    }
  }

  void put(const Vec3<T>& at, const T& share) {
    const T weight = share * weight_;
    if (weight < kLeastWeight || emit_.is_far(at.z)) return;
    const T leaving = fading(weight, w_);
    if (emit_.is_far(at.z + leaving)) return;
    SmoothContact<T> contact{at.z, origin_ + at.x * x_ + at.y * y_ + (0.5 * at.z) * up_, n_};
    contact.fading = leaving;
    emit_(contact);
  }

  const Emit& emit_;
  const T w_, s_, weight_;
  // coordinates x, y along the reference, z over it
  T X_, Y_;
  Vec3<T> x_, y_, up_, n_, origin_, c_;  // c: centre of the other box
  std::array<Vec3<T>, 3> axis_;          // of the other box
  std::array<T, 3> size_;
  size_t down_bits_ = 0;     // which of its faces look down: bit k set, that along axis k
  std::array<T, 3> facing_;  // how much
  std::array<T, 8> share_;   // the same of what belongs to several of them
  std::array<Vec3<T>, 8> corner_;
  std::array<unsigned, 8> outside_ = {};  // of sides of the reference
  unsigned any_outside_ = 0, all_outside_ = ~0u;
  struct Over {  // a corner of it that is over the reference
    T x, y, weight;
  };
  std::array<Over, 8> over_;
  size_t nover_ = 0;
};

// As many contacts as there is room for.
template <class Emit>
struct EmitAtMost {
  template <class T>
  bool is_far(const T& dist) const {
    return emit.is_far(dist);
  }
  template <class T>
  void operator()(const SmoothContact<T>& contact) const {
    if (room-- > 0) emit(contact);
  }
  const Emit& emit;
  int& room;
};

template <class T, class Emit>
void smooth_box_box(const SmoothGeom<T>& box1, const SmoothGeom<T>& box2, double width,
                    const Emit& emit) {
  BoxPair<T> pair(box1, box2);
  if (!pair.place(width, emit)) return;
  SeparatingAxes<T> axes(pair);
  axes.find();
  int room = kMaxBoxBox;
  const EmitAtMost<Emit> at_most{emit, room};
  for (const SeparatingAxis<T>& axis : axes) {
    if (axis.weight < kLeastWeight) continue;
    if (axis.kind == BoxAxisKind::kEdges) {
      box_edges(pair, axis, at_most);
    } else {
      BoxFace<T, EmitAtMost<Emit>>(pair, axis, at_most).contacts();
    }
  }
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_BOX_BOX_H_
