#include "stages/cfd/pairs.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/suggestion.h"
#include "diffmj/error.h"
#include "mj/collision_filter.h"
#include "model/option_list.h"
#include "stages/cfd/law.h"

namespace diffmj {
namespace {

constexpr const char* kLaw = "cfd";
constexpr const char* kGeomLaw = "cfd_geom:";
constexpr const char* kPairLaw = "cfd_pair:";

CfdLaw read_law(const mjModel* m, int numeric) {
  const auto size = static_cast<size_t>(m->numeric_size[numeric]);
  return cfd_law_from_numbers(
      std::string("custom numeric '") + mj_id2name(m, mjOBJ_NUMERIC, numeric) + "'",
      {m->numeric_data + m->numeric_adr[numeric], size});
}

int geom_of(const mjModel* m, const std::string& who, const std::string& name) {
  const int geom = mj_name2id(m, mjOBJ_GEOM, name.c_str());
  if (geom >= 0) return geom;
  std::vector<std::string> known;
  for (int i = 0; i < static_cast<int>(m->ngeom); i++) {
    const char* other = mj_id2name(m, mjOBJ_GEOM, i);
    if (other && *other) known.emplace_back(other);
  }
  const std::string hint = did_you_mean(name, known);
  throw InputError(who + ": the model has no geom '" + name + "'" +
                   (hint.empty() ? "; give the name of one" : hint));
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

}  // namespace

// laws by name, resolved to geoms
struct CfdModel::Laws {
  std::map<int, int> geom;
  std::map<std::pair<int, int>, int> pair;
};

CfdModel::CfdModel(const mjModel* m, const Cfd& options) : options_(options), empty_model_(*m) {
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

}  // namespace diffmj
