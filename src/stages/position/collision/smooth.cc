#include "stages/position/collision/smooth.h"

#include <algorithm>
#include <array>

#include "mj/collision_filter.h"
#include "mj/names.h"
#include "stages/position/collision/smooth/pairs.h"

namespace diffmj {
namespace {

// MuJoCo's own contacts
int collide_exactly(const Collider& self, const mjModel* m, mjData* d, mjPreContact* contact,
                    const Ordered& pair, mjtNum margin) {
  const int n = collide_as_mujoco(self, m, d, contact, pair.first, pair.second, margin, false);
  for (int i = 0; pair.swapped && i < n; i++) mju_scl3(contact[i].normal, contact[i].normal, -1);
  return n;
}

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
  void fail() const { n = collide_exactly(self, m, d, out, pair, margin); }
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
      write(Tangent(contact.n.y, width).t(), to.tangent);
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
  return (fn ? fn : collide_exactly)(self, m, d, contact, pair, margin);
}

const char* type_name(int type) {
  constexpr std::array<const char*, mjNGEOMTYPES> kNames = {
      "plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh", "sdf"};
  return kNames[static_cast<size_t>(type)];
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
      return "fluid forces on " + element_name(m, mjOBJ_GEOM, g);
    }
  }
  return {};
}

}  // namespace

bool has_smooth_collider(int type1, int type2) {
  return with_collider(std::min(type1, type2), std::max(type1, type2),
                       [](const auto& /*collider*/) {});
}

bool has_smooth_contacts(const Collider& self, int type1, int type2) {
  return has_smooth_collider(type1, type2) &&
         (self.seen_type || may_be_replaced(std::min(type1, type2), std::max(type1, type2)));
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
            type_name(type2) + " (" + element_name(m, mjOBJ_GEOM, geom1) + ", " +
            element_name(m, mjOBJ_GEOM, geom2) + ")";
  };
  for (int b = 0; b < static_cast<int>(m->ngeom); b++) {
    for (int a = 0; a < b; a++) {
      if (geoms_may_collide(m, a, b)) look(a, b);
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
  collider_ = {.collide = collide,
               .rates = smooth_rates,
               .width = width,
               .meshes = &meshes_,
               .type = m->geom_type};
  if (!types_may_differ(m).empty()) return;
  for (int type = 0; type < mjNGEOMTYPES; type++) install_dispatcher(type, mjGEOM_SDF);
  seen_type_.assign(m->geom_type, m->geom_type + m->ngeom);
  // and height fields: MuJoCo knows none that meet a signed distance function
  for (int& type : seen_type_) {
    if (is_convex(type) || type == mjGEOM_HFIELD) type = mjGEOM_SDF;
  }
  collider_.seen_type = seen_type_.data();
}

double turning_weight(double sin_tilt, double size, double width) {
  return smooth_step(2 * sin_tilt * size / width - 1);
}

}  // namespace diffmj
