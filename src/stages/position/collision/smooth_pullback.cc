// smooth_pullback, smooth_backward_pullback and smooth_rates: colliders with dual numbers.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/dual.h"
#include "stages/position/collision/frame.h"
#include "stages/position/collision/smooth.h"
#include "stages/position/collision/smooth/pairs.h"

namespace diffmj {
namespace {

// Dual numbers along the motion of the second geom, a turn about the pivot and a
// shift, and along the sizes of both

constexpr int kPose = 6, kPoseAndSizes = 12;
constexpr int kMaxMatched = 8;  // contacts of MuJoCo's, of a pair that has a smooth collider

template <int N>
Vec3<Dual<N>> moving(const Vec3<double>& x, const Vector3& arm, bool shifts) {
  // δx = ω × arm + v
  Vec3<Dual<N>> out{x.x, x.y, x.z};
  out.x.d[1] = arm[2];
  out.x.d[2] = -arm[1];
  out.y.d[0] = -arm[2];
  out.y.d[2] = arm[0];
  out.z.d[0] = arm[1];
  out.z.d[1] = -arm[0];
  if (shifts) out.x.d[3] = out.y.d[4] = out.z.d[5] = 1;
  return out;
}

Vector3 eigen3(const Vec3<double>& x) { return {x.x, x.y, x.z}; }

template <int N>
Vector3 values(const Vec3<Dual<N>>& x) {
  return {x.x.v, x.y.v, x.z.v};
}

template <int N>
SmoothGeom<Dual<N>> dual_geom(const SmoothGeom<double>& geom, size_t side, const Vector3& pivot) {
  SmoothGeom<Dual<N>> out;
  out.mesh = geom.mesh;
  for (size_t k = 0; k < 3; k++) {
    const Vec3<double>& axis = geom.axis[k];
    out.axis[k] =
        side == 0 ? Vec3<Dual<N>>{axis.x, axis.y, axis.z} : moving<N>(axis, eigen3(axis), false);
    out.size[k] = geom.size[k];
    if constexpr (N == kPoseAndSizes) out.size[k].d[kPose + 3 * side + k] = 1;
  }
  out.pos = side == 0 ? Vec3<Dual<N>>{geom.pos.x, geom.pos.y, geom.pos.z}
                      : moving<N>(geom.pos, eigen3(geom.pos) - pivot, true);
  return out;
}

// Adds one contact's share, with or without its fading. The contact's normal is MuJoCo's, from the
// geom that comes first there; `moving` is which of the two geoms the duals move.
template <int N>
void contact_pullback(const SmoothContact<Dual<N>>& contact, const PairContactBar& bar,
                      bool with_fading, size_t moving, PairBar& out) {
  const Dual<N> dist = with_fading ? contact.distance() : contact.dist;
  const auto dot_bar = [](const Vector3& x_bar, const Vec3<Dual<N>>& x, size_t i) {
    return x_bar[0] * x.x.d[i] + x_bar[1] * x.y.d[i] + x_bar[2] * x.z.d[i];
  };
  const auto along = [&](size_t i) {
    return bar.dist * dist.d[i] + dot_bar(bar.pos, contact.pos, i) + dot_bar(bar.n, contact.n, i) +
           dot_bar(bar.tangent, contact.tangent, i);
  };
  Vector6 second;
  for (size_t i = 0; i < kPose; i++) second[static_cast<Eigen::Index>(i)] = along(i);
  // both geoms as one: the contact goes with them
  const Vector3 turn = values(contact.n).cross(bar.n) + values(contact.tangent).cross(bar.tangent);
  const Vector6 together = wrench_at(values(contact.pos) - out.pivot, turn, bar.pos);
  out.wrench[1 - moving] += together - second;
  out.wrench[moving] += second;
  if constexpr (N == kPoseAndSizes) {
    for (size_t side = 0; side < 2; side++) {
      for (size_t k = 0; k < 3; k++) {
        const size_t geom = side == 1 ? moving : 1 - moving;
        out.size[geom][static_cast<Eigen::Index>(k)] += along(kPose + 3 * side + k);
      }
    }
  }
}

// MuJoCo's normal of a contact, of geoms in the order of their types
Vec3<double> ordered_normal(const mjContact& contact, bool swapped) {
  const mjtNum* n = contact.frame;
  return swapped ? Vec3<double>{-n[0], -n[1], -n[2]} : Vec3<double>{n[0], n[1], n[2]};
}

// the same function at the same numbers; the compiler may order its sums differently [m]
constexpr double kSame = 1e-9;

template <int N>
bool is_same(const SmoothContact<Dual<N>>& contact, const mjContact& given) {
  return std::abs(contact.distance().v - given.dist) <= kSame &&
         (values(contact.pos) - Vector3(given.pos)).cwiseAbs().maxCoeff() <= kSame;
}

// Contacts that the collider gave to MuJoCo, to be met again in their order.
struct Given {
  Given(const mjContact* all, int count, bool is_swapped)
      : contacts(all), n(count), swapped(is_swapped), farthest(all[0].dist) {
    for (int i = 1; i < n; i++) farthest = std::max(farthest, contacts[i].dist);
  }
  bool start(Vec3<double>& normal) const {
    normal = ordered_normal(contacts[0], swapped);
    return true;
  }
  void fail() const {}
  bool wants_middle() const { return false; }
  template <class T>
  bool is_far(const T& dist) const {
    return dist.v > farthest + kSame;
  }
  // Which one it is, -1 if none of those that are left.
  template <class T>
  int find(const SmoothContact<T>& contact) const {
    for (int i = next; i < n; i++) {
      if (!is_same(contact, contacts[i])) continue;
      next = i + 1;
      return i;
    }
    return -1;
  }

  const mjContact* contacts;
  int n;
  bool swapped;
  double farthest;
  mutable int next = 0;
};

// Their pullback.
template <int N>
struct Matcher : Given {
  void operator()(const SmoothContact<Dual<N>>& collided) const {
    SmoothContact<Dual<N>> contact = collided;
    if (swapped) contact.n = -contact.n;
    const int i = find(contact);
    if (i < 0 || !bar[i].any()) return;
    const mjContact& given = contacts[i];
    PairContactBar one{.dist = bar[i].dist, .pos = bar[i].pos};
    const Tangent tangent(given.frame[1], width);
    contact_frame_pullback(Vector3(given.frame),
                           contact.has_tangent ? values(contact.tangent) : eigen3(tangent.t()),
                           bar[i].frame, one.n, one.tangent);
    if (!contact.has_tangent) {
      one.n[1] += tangent.slope * (one.tangent[2] - one.tangent[1]);
      one.tangent.setZero();
    }
    contact_pullback(contact, one, true, swapped ? 0 : 1, out);
    found++;
  }

  const ContactBar* bar;
  double width;
  PairBar& out;
  int& found;
};

// Of all contacts of a collider, those that leave too, the nearest to each of MuJoCo's.
template <int N>
struct Nearest {
  bool start(Vec3<double>& normal) const {
    normal = ordered_normal(contacts[0], false);
    return true;
  }
  void fail() const {}
  bool is_far(const Dual<N>& /*dist*/) const { return false; }
  bool wants_middle() const { return true; }
  void operator()(const SmoothContact<Dual<N>>& contact) const {
    // one contact is the middle, wherever it is
    if (std::isinf(reach) && has[0]) return;
    for (size_t i = 0; i < n; i++) {
      const double distance = (values(contact.pos) - Vector3(contacts[i].pos)).norm();
      if (distance >= near[i] || std::abs(contact.dist.v - contacts[i].dist) > same_dist) continue;
      near[i] = distance;
      found[i] = contact;
      has[i] = true;
    }
  }

  const mjContact* contacts;
  size_t n;
  double reach, same_dist;
  std::array<SmoothContact<Dual<N>>, kMaxMatched>& found;
  std::array<double, kMaxMatched>& near;
  std::array<bool, kMaxMatched>& has;
};

template <int N, class Emit>
void run_dual(const Collider& self, const mjModel* m, const mjData* d, const Ordered& pair,
              const Vector3& pivot, const Emit& emit) {
  with_collider(self.type[pair.first], self.type[pair.second], [&](const auto& collider) {
    collider(dual_geom<N>(read_geom(self, m, d, pair.first), 0, pivot),
             dual_geom<N>(read_geom(self, m, d, pair.second), 1, pivot), self.width, emit);
  });
}

template <int N>
bool pullback(const Collider& self, const mjModel* m, const mjData* d, int first, int n,
              const ContactBar* bar, PairBar& out) {
  const mjContact* contacts = d->contact + first;
  int found = 0, wanted = 0;
  for (int i = 0; i < n; i++) wanted += bar[i].any();
  const Ordered pair(self.type, contacts[0].geom[0], contacts[0].geom[1]);
  const Matcher<N> emit{{contacts, n, pair.swapped}, bar, self.width, out, found};
  run_dual<N>(self, m, d, pair, out.pivot, emit);
  return found == wanted;
}

// One direction: that in which geoms move.
using Moving = Dual<1>;

SmoothGeom<Moving> moving_geom(const Collider& self, const mjModel* m, const mjData* d, int geom) {
  std::array<mjtNum, 6> velocity;  // ω, v
  mj_objectVelocity(m, d, mjOBJ_GEOM, geom, velocity.data(), 0);
  const Vec3<double> omega = {velocity[0], velocity[1], velocity[2]},
                     v = {velocity[3], velocity[4], velocity[5]};
  const auto with_rate = [](const Vec3<double>& x, const Vec3<double>& rate) {
    Vec3<Moving> out = {x.x, x.y, x.z};
    out.x.d[0] = rate.x;
    out.y.d[0] = rate.y;
    out.z.d[0] = rate.z;
    return out;
  };
  const SmoothGeom<double> at = read_geom(self, m, d, geom);
  SmoothGeom<Moving> out;
  out.mesh = at.mesh;
  out.pos = with_rate(at.pos, v);
  for (size_t k = 0; k < 3; k++) {
    out.axis[k] = with_rate(at.axis[k], cross(omega, at.axis[k]));
    out.size[k] = at.size[k];
  }
  return out;
}

// How fast their distances change.
struct RateOf : Given {
  void operator()(const SmoothContact<Moving>& contact) const {
    if (const int i = find(contact); i >= 0) rate[i] = contact.distance().d[0];
  }

  double* rate;
};

// How far a smooth contact may be from one of MuJoCo's and still be the same, and how much they may
// differ in dist.
struct Match {
  double reach, same_dist = INFINITY;
};
Match match_of(const Collider& self, const mjModel* m, int geom1, int geom2, int n) {
  const int type1 = self.type[geom1], type2 = self.type[geom2];
  const auto is_single = [](int type) { return type == mjGEOM_SPHERE || type == mjGEOM_ELLIPSOID; };
  // either collider gives one contact, and it is the same
  if (is_single(type1) || is_single(type2) || type2 == mjGEOM_CAPSULE) return {INFINITY};
  // a place on a capsule's axis leaves where another is this near
  const double half = m->geom_size[3 * static_cast<ptrdiff_t>(geom1) + 1];
  if (type1 == mjGEOM_CAPSULE && type2 == mjGEOM_BOX) return {0.5 * std::sqrt(self.width * half)};
  // one contact is that of the general collider, at any place of what is in contact; places of
  // several are corners, of which rounded ones are nearer to each other
  const double near = 3 * self.width;
  return {n == 1 && type1 != mjGEOM_BOX ? INFINITY : near, near};
}

template <int N>
int backward_pullback(const Collider& self, const mjModel* m, const mjData* d, int first, int n,
                      ContactBar* bar, PairBar& out) {
  const mjContact* contacts = d->contact + first;
  const int geom1 = contacts[0].geom[0], geom2 = contacts[0].geom[1];
  std::array<SmoothContact<Dual<N>>, kMaxMatched> found;
  std::array<double, kMaxMatched> near;
  std::array<bool, kMaxMatched> has = {};
  const Match match = match_of(self, m, geom1, geom2, n);
  near.fill(match.reach);
  run_dual<N>(
      self, m, d, Ordered(self.type, geom1, geom2), out.pivot,
      Nearest<N>{contacts, static_cast<size_t>(n), match.reach, match.same_dist, found, near, has});
  int left = 0;
  for (int i = 0; i < n; i++) {
    const auto k = static_cast<size_t>(i);
    if (!has[k]) {
      left++;
      continue;
    }
    PairContactBar one{.dist = bar[i].dist, .pos = bar[i].pos};
    contact_frame_pullback(Vector3(contacts[i].frame), Vector3::Zero(), bar[i].frame, one.n,
                           one.tangent);
    contact_pullback(found[k], one, false, 1, out);
    bar[i] = {};
  }
  return left;
}

}  // namespace

void smooth_rates(const Collider& self, const mjModel* m, const mjData* d, double* rate) {
  for (int first = 0, n = 1; first < d->ncon; first += n) {
    const mjContact* contacts = d->contact + first;
    const int geom1 = contacts[0].geom[0], geom2 = contacts[0].geom[1];
    n = 1;
    while (first + n < d->ncon && contacts[n].geom[0] == geom1 && contacts[n].geom[1] == geom2) n++;
    if (geom1 < 0 || geom2 < 0) continue;
    const Ordered pair(self.type, geom1, geom2);
    const RateOf emit{{contacts, n, pair.swapped}, rate + first};
    with_collider(self.type[pair.first], self.type[pair.second], [&](const auto& collider) {
      collider(moving_geom(self, m, d, pair.first), moving_geom(self, m, d, pair.second),
               self.width, emit);
    });
  }
}

bool smooth_pullback(const Collider& self, const mjModel* m, const mjData* d, int first, int n,
                     const ContactBar* bar, bool sizes, PairBar& out) {
  return sizes ? pullback<kPoseAndSizes>(self, m, d, first, n, bar, out)
               : pullback<kPose>(self, m, d, first, n, bar, out);
}

int smooth_backward_pullback(const Collider& self, const mjModel* m, const mjData* d, int first,
                             int n, ContactBar* bar, bool sizes, PairBar& out) {
  const auto& geom = d->contact[first].geom;
  const int type1 = m->geom_type[geom[0]], type2 = m->geom_type[geom[1]];
  if (type1 == mjGEOM_PLANE || !has_smooth_collider(type1, type2)) return n;
  // two contacts of parallel capsules have no one that is smooth
  if (n > (type2 == mjGEOM_CAPSULE ? 1 : kMaxMatched)) return n;
  return sizes ? backward_pullback<kPoseAndSizes>(self, m, d, first, n, bar, out)
               : backward_pullback<kPose>(self, m, d, first, n, bar, out);
}

}  // namespace diffmj
