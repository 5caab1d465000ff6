#include "stages/cfd/pairs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "diffmj/error.h"
#include "mj/collision_filter.h"
#include "stages/cfd/law.h"
#include "stages/position/collision/detect.h"

namespace diffmj {
namespace {

constexpr double kFar = 1e10;  // [m]
// [m] more than this and colliders that iterate are asked again, with a margin that fits
constexpr double kInflated = 0.03;

constexpr const char* kLaw = "cfd";
constexpr const char* kGeomLaw = "cfd_geom:";
constexpr const char* kPairLaw = "cfd_pair:";

// "width d_c d_0 midpoint power softplus", or the first of them
CfdLaw read_law(const mjModel* m, int numeric) {
  CfdLaw law;
  double* const to[] = {&law.width, &law.d_c, &law.d_0, &law.midpoint, &law.power, &law.softplus};
  const int size = m->numeric_size[numeric];
  if (size < 1 || size > 6) {
    throw InputError(std::string("custom numeric '") + mj_id2name(m, mjOBJ_NUMERIC, numeric) +
                     "' has " + std::to_string(size) +
                     " numbers, expected 1 to 6: width d_c d_0 midpoint power softplus");
  }
  for (int k = 0; k < size; k++) *to[k] = m->numeric_data[m->numeric_adr[numeric] + k];
  return law;
}

int geom_of(const mjModel* m, const std::string& who, const std::string& name) {
  const int geom = mj_name2id(m, mjOBJ_GEOM, name.c_str());
  if (geom < 0) {
    throw InputError(who + ": the model has no geom '" + name + "'; give the name of one");
  }
  return geom;
}

std::pair<int, int> ordered(int a, int b) { return std::minmax(a, b); }

// the geom of higher priority decides; of the same, solmix weighs, friction is the larger one
void mix_geoms(const mjModel* m, int g1, int g2, mjContact& c) {
  const int first = m->geom_priority[g1], second = m->geom_priority[g2];
  double mix = first > second ? 1 : 0;
  if (first == second) {
    const double x = m->geom_solmix[g1], y = m->geom_solmix[g2];
    const bool no_x = x < mjMINVAL, no_y = y < mjMINVAL;
    mix = no_x && no_y ? 0.5 : no_x ? 0 : no_y ? 1 : x / (x + y);
  }
  const auto weigh = [mix](double a, double b) {
    return mix == 1 ? a : mix == 0 ? b : mix * a + (1 - mix) * b;
  };
  const mjtNum *ref1 = m->geom_solref + mjNREF * g1, *ref2 = m->geom_solref + mjNREF * g2;
  const bool direct = first == second && !(ref1[0] > 0 && ref2[0] > 0);
  for (int k = 0; k < mjNREF; k++) {
    c.solref[k] = direct ? std::min(ref1[k], ref2[k]) : weigh(ref1[k], ref2[k]);
  }
  for (int k = 0; k < mjNIMP; k++) {
    c.solimp[k] = weigh(m->geom_solimp[mjNIMP * g1 + k], m->geom_solimp[mjNIMP * g2 + k]);
  }
  const auto larger = [&](auto a, auto b) {
    return first > second ? a : first < second ? b : std::max(a, b);
  };
  c.dim = larger(m->geom_condim[g1], m->geom_condim[g2]);
  constexpr int kFriction[5] = {0, 0, 1, 2, 2};
  for (int k = 0; k < 5; k++) {
    c.friction[k] =
        larger(m->geom_friction[3 * g1 + kFriction[k]], m->geom_friction[3 * g2 + kFriction[k]]);
  }
}

mjContact contact_like(const mjModel* m, int g1, int g2, int predefined) {
  mjContact c = {};
  c.geom[0] = c.geom1 = g1;
  c.geom[1] = c.geom2 = g2;
  for (int side = 0; side < 2; side++) c.flex[side] = c.elem[side] = c.vert[side] = -1;
  c.efc_address = -1;
  if (predefined >= 0) {
    const int p = predefined;
    c.dim = m->pair_dim[p];
    c.includemargin = m->pair_margin[p];
    std::copy_n(m->pair_solref + mjNREF * p, mjNREF, c.solref);
    std::copy_n(m->pair_solreffriction + mjNREF * p, mjNREF, c.solreffriction);
    std::copy_n(m->pair_solimp + mjNIMP * p, mjNIMP, c.solimp);
    std::copy_n(m->pair_friction + 5 * p, 5, c.friction);
  } else {
    c.includemargin = m->geom_margin[g1] + m->geom_margin[g2];
    mix_geoms(m, g1, g2, c);
  }
  if (m->opt.enableflags & mjENBL_OVERRIDE) {
    c.includemargin = m->opt.o_margin;
    for (mjtNum* ref : {c.solref, c.solreffriction}) std::copy_n(m->opt.o_solref, mjNREF, ref);
    std::copy_n(m->opt.o_solimp, mjNIMP, c.solimp);
    std::copy_n(m->opt.o_friction, 5, c.friction);
  }
  for (mjtNum& friction : c.friction) friction = std::max(mjMINMU, friction);
  return c;
}

// x of the contact frame is the normal; y near the tangent if there is one
void make_frame(const mjPreContact& from, mjtNum* frame) {
  mju_copy3(frame, from.normal);
  mju_normalize3(frame);
  mju_copy3(frame + 3, from.tangent);
  if (mju_dot3(frame + 3, frame + 3) < 0.25) {
    mju_zero3(frame + 3);
    frame[std::abs(frame[1]) < 0.5 ? 4 : 5] = 1;
  }
  mju_addToScl3(frame + 3, frame, -mju_dot3(frame, frame + 3));
  mju_normalize3(frame + 3);
  mju_cross(frame + 6, frame, frame + 3);
}

// convex colliders that iterate see geoms inflated by the margin, and lose digits with it
bool inflates(const mjModel* m, int g1, int g2) {
  return is_iterative(m, g1, g2) && m->geom_type[g1] != mjGEOM_HFIELD &&
         m->geom_type[g1] != mjGEOM_SDF && m->geom_type[g2] != mjGEOM_SDF;
}

CfdHull hull_of(const mjModel* m, int geom) {
  const mjtNum* size = m->geom_size + 3 * static_cast<ptrdiff_t>(geom);
  switch (m->geom_type[geom]) {
    case mjGEOM_SPHERE:
      return {.radius = size[0], .inner = size[0]};
    case mjGEOM_CAPSULE:
      return {.half = size[1], .radius = size[0], .inner = size[0]};
    case mjGEOM_CYLINDER:
      return {.half = size[1], .radius = size[0]};
    case mjGEOM_ELLIPSOID: {
      const int longest = static_cast<int>(std::max_element(size, size + 3) - size);
      const double next = std::max(size[(longest + 1) % 3], size[(longest + 2) % 3]);
      return {.axis = longest, .half = size[longest] - next, .radius = next};
    }
    default:
      return {.radius = m->geom_rbound[geom]};
  }
}

// the segment of a hull: its middle and its axis
struct Segment {
  Segment(const mjData* d, const CfdHull& hull, int geom)
      : middle(d->geom_xpos + 3 * static_cast<ptrdiff_t>(geom)), half(hull.half) {
    const mjtNum* mat = d->geom_xmat + 9 * static_cast<ptrdiff_t>(geom);
    for (int k = 0; k < 3; k++) axis[k] = mat[3 * k + hull.axis];
  }
  const mjtNum* middle;
  mjtNum axis[3];
  double half;
};

double segment_distance(const Segment& s1, const Segment& s2) {
  mjtNum between[3];
  mju_sub3(between, s1.middle, s2.middle);
  const double b = mju_dot3(s1.axis, s2.axis), c = mju_dot3(s1.axis, between),
               f = mju_dot3(s2.axis, between), parallel = 1 - b * b;
  const auto on1 = [&](double x) { return std::clamp(x, -s1.half, s1.half); };
  double x = parallel > 1e-12 ? on1((b * f - c) / parallel) : 0;
  double y = b * x + f;
  if (std::abs(y) > s2.half) {
    y = std::clamp(y, -s2.half, s2.half);
    x = on1(b * y - c);
  } else if (parallel <= 1e-12) {
    x = on1(b * y - c);
  }
  mju_addToScl3(between, s1.axis, x);
  mju_addToScl3(between, s2.axis, -y);
  return mju_norm3(between);
}

double height_above_plane(const mjData* d, const CfdPair& pair) {
  const mjtNum* mat = d->geom_xmat + 9 * static_cast<ptrdiff_t>(pair.geom[0]);
  const mjtNum *plane = d->geom_xpos + 3 * static_cast<ptrdiff_t>(pair.geom[0]),
               *geom = d->geom_xpos + 3 * static_cast<ptrdiff_t>(pair.geom[1]);
  return (geom[0] - plane[0]) * mat[2] + (geom[1] - plane[1]) * mat[5] +
         (geom[2] - plane[2]) * mat[8];
}

// how near two geoms can be at least, by spheres; far, above any bound, if that is not below bound
double least_distance(const mjModel* m, const mjData* d, const CfdPair& pair, double bound) {
  if (m->geom_type[pair.geom[0]] == mjGEOM_PLANE) return height_above_plane(d, pair) - pair.radius;
  const mjtNum *p1 = d->geom_xpos + 3 * static_cast<ptrdiff_t>(pair.geom[0]),
               *p2 = d->geom_xpos + 3 * static_cast<ptrdiff_t>(pair.geom[1]);
  const double x = p1[0] - p2[0], y = p1[1] - p2[1], z = p1[2] - p2[2];
  const double square = x * x + y * y + z * z, most = bound + pair.radius;
  if (square >= most * most) return kFar;
  return std::sqrt(square) - pair.radius;
}

// at least and, of convex geoms, at most: by capsules
std::pair<double, double> capsule_distance(const CfdModel& cfd, const mjModel* m, const mjData* d,
                                           const CfdPair& pair) {
  const CfdHull &hull1 = cfd.hull(pair.geom[0]), &hull2 = cfd.hull(pair.geom[1]);
  const Segment second(d, hull2, pair.geom[1]);
  if (m->geom_type[pair.geom[0]] == mjGEOM_PLANE) {
    const mjtNum* mat = d->geom_xmat + 9 * static_cast<ptrdiff_t>(pair.geom[0]);
    const double along =
        second.axis[0] * mat[2] + second.axis[1] * mat[5] + second.axis[2] * mat[8];
    const double end = height_above_plane(d, pair) - std::abs(along) * second.half;
    return {end - hull2.radius, end};
  }
  const double distance = segment_distance(Segment(d, hull1, pair.geom[0]), second);
  return {distance - hull1.radius - hull2.radius, distance - hull1.inner - hull2.inner};
}

}  // namespace

// laws by name, resolved to geoms
struct CfdModel::Laws {
  std::map<int, int> geom;
  std::map<std::pair<int, int>, int> pair;
};

CfdModel::CfdModel(const mjModel* m, const Cfd& options) : options_(options), empty_model_(*m) {
  if (options.max_contacts < 1) {
    throw InputError("cfd: max_contacts is " + std::to_string(options.max_contacts) +
                     ", expected 1 or more");
  }
  Laws laws;
  const auto keep = [&](const std::string& who, const CfdLaw& law) {
    require_law(who, law);
    laws_.push_back(law);
    return static_cast<int>(laws_.size()) - 1;
  };
  const auto set_geom = [&](const std::string& who, const std::string& name, const CfdLaw& law) {
    laws.geom[geom_of(m, who, name)] = keep(who, law);
  };
  const auto set_pair = [&](const std::string& who, const std::string& a, const std::string& b,
                            const CfdLaw& law) {
    laws.pair[ordered(geom_of(m, who, a), geom_of(m, who, b))] = keep(who, law);
  };

  CfdLaw law;
  std::string who = kLaw;
  for (int i = 0; i < static_cast<int>(m->nnumeric); i++) {
    const char* text = mj_id2name(m, mjOBJ_NUMERIC, i);
    const std::string name = text ? text : "", from = "custom numeric '" + name + "'";
    if (name == kLaw) {
      law = read_law(m, i);
      who = from;
    } else if (name.starts_with(kGeomLaw)) {
      set_geom(from, name.substr(std::string(kGeomLaw).size()), read_law(m, i));
    } else if (name.starts_with(kPairLaw)) {
      const std::string both = name.substr(std::string(kPairLaw).size());
      const size_t comma = both.find(',');
      if (comma == std::string::npos) {
        throw InputError(from + ": expected the names of two geoms with a comma between them");
      }
      set_pair(from, both.substr(0, comma), both.substr(comma + 1), read_law(m, i));
    }
  }
  if (options.law) {
    law = *options.law;
    who = kLaw;
  }
  for (const auto& [name, own] : options.geoms) set_geom("cfd of geom '" + name + "'", name, own);
  for (const auto& [names, own] : options.pairs) {
    set_pair("cfd of geoms '" + names.first + "' and '" + names.second + "'", names.first,
             names.second, own);
  }
  for (int g = 0; g < static_cast<int>(m->ngeom); g++) hulls_.push_back(hull_of(m, g));
  const int other = keep(who, law);
  laws.geom.emplace(-1, other);
  find_pairs(m, laws);

  empty_model_.opt.disableflags |= mjDSBL_CONTACT;
}

void CfdModel::find_pairs(const mjModel* m, const Laws& laws) {
  if (m->opt.disableflags & (mjDSBL_CONTACT | mjDSBL_CONSTRAINT)) return;
  const auto law_of = [&](int g1, int g2) {
    if (const auto own = laws.pair.find(ordered(g1, g2)); own != laws.pair.end()) {
      return own->second;
    }
    const auto first = laws.geom.find(g1), second = laws.geom.find(g2), none = laws.geom.end();
    if (first != none && second != none) {
      return law(first->second).width >= law(second->second).width ? first->second : second->second;
    }
    return first != none ? first->second : second != none ? second->second : laws.geom.at(-1);
  };
  std::set<std::pair<int, int>> predefined;
  for (int p = 0; p < static_cast<int>(m->npair); p++) {
    const int g1 = m->pair_geom1[p], g2 = m->pair_geom2[p];
    predefined.insert(ordered(g1, g2));
    add(m, g1, g2, p, law_of(g1, g2));
  }
  for (int g1 = 0; g1 < static_cast<int>(m->ngeom); g1++) {
    for (int g2 = g1 + 1; g2 < static_cast<int>(m->ngeom); g2++) {
      if (!geoms_may_collide(m, g1, g2) || predefined.contains({g1, g2})) continue;
      add(m, g1, g2, -1, law_of(g1, g2));
    }
  }
}

void CfdModel::add(const mjModel* m, int g1, int g2, int predefined, int law_id) {
  if (m->geom_type[g1] > m->geom_type[g2]) std::swap(g1, g2);
  if (!mjCOLLISIONFUNC[m->geom_type[g1]][m->geom_type[g2]]) return;
  const mjContact contact = contact_like(m, g1, g2, predefined);
  const double gap = predefined >= 0 ? m->pair_gap[predefined] : m->geom_gap[g1] + m->geom_gap[g2];
  const bool plane = m->geom_type[g1] == mjGEOM_PLANE;
  contacts_.push_back(contact);
  pairs_.push_back({.geom = {g1, g2},
                    .margin = contact.includemargin,
                    .reach = contact.includemargin + law(law_id).width,
                    .touching = contact.includemargin + gap,
                    .radius = (plane ? 0 : m->geom_rbound[g1]) + m->geom_rbound[g2],
                    .law = law_id});
}

bool cfd_contacts(const CfdModel& cfd, const mjModel* m, mjData* d, CfdScratch& s) {
  using Candidate = CfdScratch::Candidate;
  using Found = CfdScratch::Found;
  const auto most = static_cast<size_t>(cfd.options().max_contacts);
  // the nearest are not much farther than they were last time; if they are, all pairs are looked at
  const double limit = s.model == &cfd && s.near.size() == most
                           ? 1.2 * s.near.front().r + 1e-3
                           : std::numeric_limits<double>::infinity();
  s.model = &cfd;
  s.candidates.clear();
  s.touching.clear();
  s.near.clear();
  s.law.clear();
  s.evaluations++;

  // those that may be nearer than low, and not than high
  const auto npair = static_cast<int>(cfd.pairs().size());
  const auto gather = [&](double low, double high) {
    int nbeyond = 0;
    for (int i = 0; i < npair; i++) {
      const CfdPair& pair = cfd.pairs()[static_cast<size_t>(i)];
      const double reach = std::max(pair.reach, pair.touching);
      const double r = least_distance(m, d, pair, reach) - pair.margin;
      if (r >= reach - pair.margin || r <= low) continue;
      if (r <= high) {
        s.candidates.push_back({r, i, false});
      } else {
        nbeyond++;
      }
    }
    return nbeyond;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  int nleft = gather(-kInfinity, limit);
  const auto farther = [](const Candidate& a, const Candidate& b) {
    return a.distance > b.distance;
  };
  const auto nearer = [](const Found& a, const Found& b) { return a.r < b.r; };
  std::make_heap(s.candidates.begin(), s.candidates.end(), farther);

  // what mj_collision does before it looks for contacts
  mj_collision(cfd.empty_model(), d);
  bool capped = false;
  std::array<mjPreContact, mjMAXCONPAIR> contacts;
  for (;;) {
    if (s.candidates.empty()) {
      if (nleft == 0) break;
      if (s.near.size() == most && s.near.front().r <= limit) {
        capped = true;
        break;
      }
      // not enough within the limit
      gather(limit, kInfinity);
      std::make_heap(s.candidates.begin(), s.candidates.end(), farther);
      nleft = 0;
    }
    std::pop_heap(s.candidates.begin(), s.candidates.end(), farther);
    const Candidate next = s.candidates.back();
    s.candidates.pop_back();
    // none of those that are left can be among the nearest
    if (s.near.size() == most && next.distance >= s.near.front().r && next.distance > 0) {
      capped = true;
      break;
    }
    const CfdPair& pair = cfd.pairs()[static_cast<size_t>(next.pair)];
    const double margin = pair.margin;
    if (!next.capsules) {
      const double least = capsule_distance(cfd, m, d, pair).first;
      // looked at when it is its turn
      if (least >= std::max(pair.reach, pair.touching)) continue;
      s.candidates.push_back({std::max(next.distance, least - margin), next.pair, true});
      std::push_heap(s.candidates.begin(), s.candidates.end(), farther);
      continue;
    }
    const mjfCollision collide =
        mjCOLLISIONFUNC[m->geom_type[pair.geom[0]]][m->geom_type[pair.geom[1]]];
    const auto look = [&](double reach, auto&& keep) {
      const int n = collide(m, d, contacts.data(), pair.geom[0], pair.geom[1], reach);
      for (int k = 0; k < n; k++) {
        const mjPreContact& contact = contacts[static_cast<size_t>(k)];
        keep(Found{contact.dist - margin, next.pair, k, contact});
      }
    };
    // what touches is as MuJoCo has it: with a margin colliders find other contacts
    if (next.distance < 0) {
      look(pair.touching, [&](const Found& found) {
        if (found.r < 0) s.touching.push_back(found);
      });
    }
    const double width = pair.reach - margin;
    if (width <= 0) continue;
    double reach = pair.reach;
    if (inflates(m, pair.geom[0], pair.geom[1])) {
      const auto [least, most_apart] = capsule_distance(cfd, m, d, pair);
      reach = std::min(reach, std::max(most_apart, pair.touching) + kSameDistance);
      if (reach - least > kInflated) {
        double nearest = reach;
        look(reach, [&](const Found& found) { nearest = std::min(nearest, found.contact.dist); });
        reach = std::min(reach, std::max(nearest, pair.touching) + kSameDistance);
      }
    }
    look(reach, [&](const Found& found) {
      if (found.r < 0 || found.r >= width) return;
      if (s.near.size() == most) {
        capped = true;
        if (found.r >= s.near.front().r) return;
        std::pop_heap(s.near.begin(), s.near.end(), nearer);
        s.near.pop_back();
      }
      s.near.push_back(found);
      std::push_heap(s.near.begin(), s.near.end(), nearer);
    });
  }
  if (capped) s.capped++;

  // those of a pair are neighbours
  s.touching.insert(s.touching.end(), s.near.begin(), s.near.end());
  std::sort(s.touching.begin(), s.touching.end(), [](const Found& a, const Found& b) {
    return std::tuple(a.pair, a.r >= 0, a.order) < std::tuple(b.pair, b.r >= 0, b.order);
  });
  for (const Found& found : s.touching) {
    mjContact contact = cfd.contact_of(found.pair);
    contact.dist = found.contact.dist;
    mju_copy3(contact.pos, found.contact.pos);
    make_frame(found.contact, contact.frame);
    if (mj_addContact(m, d, &contact) != 0) return false;
    s.law.push_back(cfd.pairs()[static_cast<size_t>(found.pair)].law);
  }
  return true;
}

}  // namespace diffmj
