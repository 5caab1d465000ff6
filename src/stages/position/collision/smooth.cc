#include "stages/position/collision/smooth.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/dual.h"
#include "stages/position/collision/frame.h"
#include "stages/position/collision/smooth/box_box.h"
#include "stages/position/collision/smooth/capsule_box.h"
#include "stages/position/collision/smooth/convex.h"
#include "stages/position/collision/smooth/plane_box.h"
#include "stages/position/collision/smooth/plane_cylinder.h"
#include "stages/position/collision/smooth/plane_mesh.h"
#include "stages/position/collision/smooth/plane_round.h"
#include "stages/position/collision/smooth/segments.h"
#include "stages/position/collision/smooth/sphere_solid.h"

namespace diffmj {
namespace {

template <int type1, int type2>
struct ConvexCollider {
  template <class... X>
  void operator()(const X&... x) const {
    smooth_convex(type1, type2, x...);
  }
};

constexpr int pair_of(int type1, int type2) { return type1 * mjNGEOMTYPES + type2; }

using ConvexPairs = std::integer_sequence<
    int, pair_of(mjGEOM_SPHERE, mjGEOM_ELLIPSOID), pair_of(mjGEOM_SPHERE, mjGEOM_MESH),
    pair_of(mjGEOM_CAPSULE, mjGEOM_ELLIPSOID), pair_of(mjGEOM_CAPSULE, mjGEOM_CYLINDER),
    pair_of(mjGEOM_CAPSULE, mjGEOM_MESH), pair_of(mjGEOM_ELLIPSOID, mjGEOM_ELLIPSOID),
    pair_of(mjGEOM_ELLIPSOID, mjGEOM_CYLINDER), pair_of(mjGEOM_ELLIPSOID, mjGEOM_BOX),
    pair_of(mjGEOM_ELLIPSOID, mjGEOM_MESH), pair_of(mjGEOM_CYLINDER, mjGEOM_CYLINDER),
    pair_of(mjGEOM_CYLINDER, mjGEOM_BOX), pair_of(mjGEOM_CYLINDER, mjGEOM_MESH),
    pair_of(mjGEOM_BOX, mjGEOM_MESH), pair_of(mjGEOM_MESH, mjGEOM_MESH)>;

template <class Fn, int... pair>
constexpr bool with_convex_collider(int type1, int type2, const Fn& fn,
                                    std::integer_sequence<int, pair...> /*pairs*/) {
  bool found = false;
  const auto look = [&]<int p>() {
    if (pair_of(type1, type2) != p) return;
    fn(ConvexCollider<p / mjNGEOMTYPES, p % mjNGEOMTYPES>());
    found = true;
  };
  (look.template operator()<pair>(), ...);
  return found;
}

// calls fn with the collider of two types, as a generic function object; false if there is none
template <class Fn>
constexpr bool with_collider(int type1, int type2, const Fn& fn) {
  const auto is = [&](int first, int second) { return type1 == first && type2 == second; };
  if (is(mjGEOM_PLANE, mjGEOM_SPHERE)) {
    fn([](const auto&... x) { smooth_plane_sphere(x...); });
    return true;
  }
  if (is(mjGEOM_PLANE, mjGEOM_CAPSULE)) {
    fn([](const auto&... x) { smooth_plane_capsule(x...); });
    return true;
  }
  if (is(mjGEOM_PLANE, mjGEOM_ELLIPSOID)) {
    fn([](const auto&... x) { smooth_plane_ellipsoid(x...); });
    return true;
  }
  if (is(mjGEOM_PLANE, mjGEOM_CYLINDER)) {
    fn([](const auto&... x) { smooth_plane_cylinder(x...); });
    return true;
  }
  if (is(mjGEOM_PLANE, mjGEOM_BOX)) {
    fn([](const auto&... x) { smooth_plane_box(x...); });
    return true;
  }
  if (is(mjGEOM_SPHERE, mjGEOM_SPHERE)) {
    fn([](const auto&... x) { smooth_sphere_sphere(x...); });
    return true;
  }
  if (is(mjGEOM_SPHERE, mjGEOM_CAPSULE)) {
    fn([](const auto&... x) { smooth_sphere_capsule(x...); });
    return true;
  }
  if (is(mjGEOM_SPHERE, mjGEOM_CYLINDER)) {
    fn([](const auto&... x) { smooth_sphere_cylinder(x...); });
    return true;
  }
  if (is(mjGEOM_SPHERE, mjGEOM_BOX)) {
    fn([](const auto&... x) { smooth_sphere_box(x...); });
    return true;
  }
  if (is(mjGEOM_CAPSULE, mjGEOM_CAPSULE)) {
    fn([](const auto&... x) { smooth_capsule_capsule(x...); });
    return true;
  }
  if (is(mjGEOM_CAPSULE, mjGEOM_BOX)) {
    fn([](const auto&... x) { smooth_capsule_box(x...); });
    return true;
  }
  if (is(mjGEOM_BOX, mjGEOM_BOX)) {
    fn([](const auto&... x) { smooth_box_box(x...); });
    return true;
  }
  if (is(mjGEOM_PLANE, mjGEOM_MESH)) {
    fn([](const auto&... x) { smooth_plane_mesh(x...); });
    return true;
  }
  return with_convex_collider(type1, type2, fn, ConvexPairs());
}

// The tangent of a contact's frame. MuJoCo takes the y axis of the world, or the z axis if n is
// nearer to the y axis than 60 degrees; here the one goes over into the other,
//
//   t = (1 - s) y + s z,   s = S((|n_y| - ½)/2a + ½)                                          (8)
//
// A continuous choice for all n does not exist: where t ∥ n, near n = ±(0, 0.5, 0.87), there is
// none.
struct Tangent {
  Tangent(double ny, double width) {
    const double a = std::min(100 * width, 0.25), from = std::abs(ny) - 0.5 + a;
    if (from <= 0) return;
    const double x = std::min(from / (2 * a), 1.0);
    s = smooth_step(x);
    slope = 15 * x * x * (1 - x) * (1 - x) / a * (ny < 0 ? -1 : 1);
  }
  Vector3 t() const { return {0, 1 - s, s}; }

  double s = 0, slope = 0;  // slope: ∂s/∂n_y
};

// two geoms in the order of their types, which need not be that of MuJoCo's contact
struct Ordered {
  Ordered(const int* type, int geom1, int geom2)
      : swapped(type[geom1] > type[geom2]),
        first(swapped ? geom2 : geom1),
        second(swapped ? geom1 : geom2) {}

  bool swapped;
  int first, second;
};

// what a collider gives, to MuJoCo
struct Writer {
  bool is_far(double dist) const { return dist > margin; }
  bool wants_middle() const { return false; }
  // MuJoCo's normal. What is smooth is not nearer than what is exact, but for transitions.
  bool start(Vec3<double>& n) const {
    std::array<mjPreContact, kMaxSeen> found;
    if (collide_as_mujoco(self, m, d, found.data(), pair.first, pair.second, margin + width,
                          true) == 0) {
      return false;
    }
    n = {found[0].normal[0], found[0].normal[1], found[0].normal[2]};
    return true;
  }
  // to MuJoCo's contacts, which are too deep for others
  void fail() const {
    n = collide_as_mujoco(self, m, d, out, pair.first, pair.second, margin, false);
    for (int i = 0; pair.swapped && i < n; i++) mju_scl3(out[i].normal, out[i].normal, -1);
  }
  void operator()(const SmoothContact<double>& contact) const {
    const double dist = contact.distance();
    if (!(dist <= margin)) return;
    mjPreContact& to = out[n++];
    to.dist = dist;
    write(contact.pos, to.pos);
    write(pair.swapped ? -contact.n : contact.n, to.normal);
    if (contact.has_tangent) {
      write(contact.tangent, to.tangent);
    } else {
      const Tangent tangent(contact.n.y, width);
      write({0, 1 - tangent.s, tangent.s}, to.tangent);
    }
  }
  static void write(const Vec3<double>& from, mjtNum* to) {
    to[0] = from.x;
    to[1] = from.y;
    to[2] = from.z;
  }

  const Collider& self;
  const mjModel* m;
  mjData* d;
  const Ordered& pair;
  mjPreContact* out;
  double margin, width;
  int& n;
};

SmoothGeom<double> read_geom(const Collider& self, const mjModel* m, const mjData* d, int geom) {
  const mjtNum *pos = d->geom_xpos + 3 * static_cast<ptrdiff_t>(geom),
               *mat = d->geom_xmat + 9 * static_cast<ptrdiff_t>(geom),
               *size = m->geom_size + 3 * static_cast<ptrdiff_t>(geom);
  return {{pos[0], pos[1], pos[2]},
          {{{mat[0], mat[3], mat[6]}, {mat[1], mat[4], mat[7]}, {mat[2], mat[5], mat[8]}}},
          {size[0], size[1], size[2]},
          self.type[geom] == mjGEOM_MESH ? self.meshes->of_geom(m, geom) : nullptr};
}

using Collide = int (*)(const Collider& self, const mjModel* m, mjData* d, mjPreContact* contact,
                        const Ordered& pair, mjtNum margin);

template <class Fn>
int collide_pair(const Collider& self, const mjModel* m, mjData* d, mjPreContact* contact,
                 const Ordered& pair, mjtNum margin) {
  int n = 0;
  Fn()(read_geom(self, m, d, pair.first), read_geom(self, m, d, pair.second), self.width,
       Writer{self, m, d, pair, contact, margin, self.width, n});
  return n;
}

// by types
struct CollideTable {
  constexpr CollideTable() {
    for (size_t i = 0; i < entry.size(); i++) {
      for (size_t j = i; j < entry.size(); j++) {
        with_collider(static_cast<int>(i), static_cast<int>(j),
                      [&]<class Fn>(const Fn&) { entry[i][j] = collide_pair<Fn>; });
      }
    }
  }
  std::array<std::array<Collide, mjNGEOMTYPES>, mjNGEOMTYPES> entry = {};
};
constexpr CollideTable kCollide;

int collide(const Collider& self, const mjModel* m, mjData* d, mjPreContact* contact, int geom1,
            int geom2, mjtNum margin) {
  const Ordered pair(self.type, geom1, geom2);
  const auto type1 = static_cast<size_t>(self.type[pair.first]),
             type2 = static_cast<size_t>(self.type[pair.second]);
  const Collide fn = kCollide.entry[type1][type2];
  if (fn) return fn(self, m, d, contact, pair, margin);
  const int n = collide_as_mujoco(self, m, d, contact, pair.first, pair.second, margin, false);
  for (int i = 0; pair.swapped && i < n; i++) mju_scl3(contact[i].normal, contact[i].normal, -1);
  return n;
}

// ---- pullback: dual numbers along the motion of the second geom, a turn about the pivot and a
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

// Contacts that the collider gave, met again in their order.
template <int N>
struct Matcher {
  bool start(Vec3<double>& n) const {
    n = ordered_normal(contacts[0], swapped);
    return true;
  }
  void fail() const {}
  bool wants_middle() const { return false; }
  // the same function at the same numbers; the compiler may order its sums differently [m]
  static constexpr double kSame = 1e-9;

  bool is_far(const Dual<N>& dist) const { return dist.v > farthest + kSame; }
  void operator()(const SmoothContact<Dual<N>>& collided) const {
    SmoothContact<Dual<N>> contact = collided;
    if (swapped) contact.n = -contact.n;
    for (int i = next; i < n; i++) {
      const mjContact& given = contacts[i];
      if (std::abs(contact.distance().v - given.dist) > kSame ||
          (values(contact.pos) - Vector3(given.pos)).cwiseAbs().maxCoeff() > kSame) {
        continue;
      }
      next = i + 1;
      if (!bar[i].any()) return;
      PairContactBar one{.dist = bar[i].dist, .pos = bar[i].pos};
      const Tangent tangent(given.frame[1], width);
      contact_frame_pullback(Vector3(given.frame),
                             contact.has_tangent ? values(contact.tangent) : tangent.t(),
                             bar[i].frame, one.n, one.tangent);
      if (!contact.has_tangent) {
        one.n[1] += tangent.slope * (one.tangent[2] - one.tangent[1]);
        one.tangent.setZero();
      }
      contact_pullback(contact, one, true, swapped ? 0 : 1, out);
      found++;
      return;
    }
  }

  const mjContact* contacts;
  const ContactBar* bar;
  int n;
  double width, farthest;
  bool swapped;
  PairBar& out;
  int &next, &found;
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
  int next = 0, found = 0, wanted = 0;
  double farthest = contacts[0].dist;
  for (int i = 0; i < n; i++) {
    wanted += bar[i].any();
    farthest = std::max(farthest, contacts[i].dist);
  }
  const Ordered pair(self.type, contacts[0].geom[0], contacts[0].geom[1]);
  const Matcher<N> emit{contacts, bar, n, self.width, farthest, pair.swapped, out, next, found};
  run_dual<N>(self, m, d, pair, out.pivot, emit);
  return found == wanted;
}

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

const char* type_name(int type) {
  constexpr std::array<const char*, mjNGEOMTYPES> kNames = {
      "plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh", "sdf"};
  return kNames[static_cast<size_t>(type)];
}

std::string geom_name(const mjModel* m, int geom) {
  const char* name = mj_id2name(m, mjOBJ_GEOM, geom);
  return name && *name ? "geom '" + std::string(name) + "'" : "geom " + std::to_string(geom);
}

bool is_convex(int type) {
  return type == mjGEOM_ELLIPSOID || type == mjGEOM_CYLINDER || type == mjGEOM_BOX ||
         type == mjGEOM_MESH;
}

// Why MuJoCo must see the types that geoms have; empty if nothing hinders.
std::string types_may_differ(const mjModel* m) {
  if (m->nflex > 0) return "flexes";
  for (int g = 0; g < static_cast<int>(m->ngeom); g++) {
    if (m->geom_type[g] == mjGEOM_SDF) return "signed distance functions";
    if (is_convex(m->geom_type[g]) && m->geom_fluid[static_cast<ptrdiff_t>(mjNFLUID) * g] > 0) {
      return "fluid forces on " + geom_name(m, g);
    }
  }
  return {};
}

// as far as it does not depend on the pose; a body and its parent do not collide
bool may_collide(const mjModel* m, int geom1, int geom2) {
  if (!(m->geom_contype[geom1] & m->geom_conaffinity[geom2]) &&
      !(m->geom_contype[geom2] & m->geom_conaffinity[geom1])) {
    return false;
  }
  const int body1 = m->geom_bodyid[geom1], body2 = m->geom_bodyid[geom2];
  const int weld1 = m->body_weldid[body1], weld2 = m->body_weldid[body2];
  if (weld1 == weld2) return false;
  const int parent1 = m->body_weldid[m->body_parentid[weld1]],
            parent2 = m->body_weldid[m->body_parentid[weld2]];
  if (!(m->opt.disableflags & mjDSBL_FILTERPARENT) && weld1 != 0 && weld2 != 0 &&
      (weld1 == parent2 || weld2 == parent1)) {
    return false;
  }
  const int signature = (std::min(body1, body2) << 16) + std::max(body1, body2);
  const int *begin = m->exclude_signature, *end = begin + m->nexclude;
  return std::find(begin, end, signature) == end;
}

}  // namespace

bool has_smooth_collider(int type1, int type2) {
  return with_collider(std::min(type1, type2), std::max(type1, type2),
                       [](const auto& /*collider*/) {});
}

std::string pairs_without_smooth_collider(const mjModel* m) {
  std::array<std::array<bool, mjNGEOMTYPES>, mjNGEOMTYPES> named = {};
  const std::string reason = types_may_differ(m);
  std::string text;
  const auto look = [&](int a, int b) {
    const bool ordered = m->geom_type[a] <= m->geom_type[b];
    const int geom1 = ordered ? a : b, geom2 = ordered ? b : a;
    const int type1 = m->geom_type[geom1], type2 = m->geom_type[geom2];
    const auto i = static_cast<size_t>(type1), j = static_cast<size_t>(type2);
    if (named[i][j] || !mjCOLLISIONFUNC[i][j]) return;
    if (has_smooth_collider(type1, type2) && (reason.empty() || may_be_replaced(type1, type2))) {
      return;
    }
    named[i][j] = true;
    text += (text.empty() ? "" : ", ") + std::string(type_name(type1)) + " and " +
            type_name(type2) + " (" + geom_name(m, geom1) + ", " + geom_name(m, geom2) + ")";
  };
  for (int b = 0; b < static_cast<int>(m->ngeom); b++) {
    for (int a = 0; a < b; a++) {
      if (may_collide(m, a, b)) look(a, b);
    }
  }
  for (int i = 0; i < static_cast<int>(m->npair); i++) look(m->pair_geom1[i], m->pair_geom2[i]);
  if (!text.empty() && !reason.empty()) text += ", because of " + reason;
  return text;
}

SmoothCollider::SmoothCollider(const mjModel* m, double width) : meshes_(m, width) {
  for (int type1 = 0; type1 < mjNGEOMTYPES; type1++) {
    for (int type2 = type1; type2 < mjNGEOMTYPES; type2++) {
      if (has_smooth_collider(type1, type2)) install_dispatcher(type1, type2);
    }
  }
  collider_ = {.collide = collide, .width = width, .meshes = &meshes_, .type = m->geom_type};
  if (!types_may_differ(m).empty()) return;
  for (int type = 0; type < mjNGEOMTYPES; type++) install_dispatcher(type, mjGEOM_SDF);
  seen_type_.assign(m->geom_type, m->geom_type + m->ngeom);
  // and height fields: MuJoCo knows none that meet a signed distance function
  for (int& type : seen_type_) {
    if (is_convex(type) || type == mjGEOM_HFIELD) type = mjGEOM_SDF;
  }
  collider_.seen_type = seen_type_.data();
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

double turning_weight(double sin_tilt, double size, double width) {
  return smooth_step(2 * sin_tilt * size / width - 1);
}

}  // namespace diffmj
