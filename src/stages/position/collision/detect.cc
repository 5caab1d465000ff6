#include "stages/position/collision/detect.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mj/collider.h"

namespace diffmj {
namespace {

double detection_margin(const mjModel* m, const mjContact& contact) {
  // contacts in the gap are detected too; more than enough does no harm
  double gap = 0;
  for (int g : contact.geom) gap += m->geom_gap[g];
  for (int i = 0; i < static_cast<int>(m->npair); i++) gap = std::max(gap, m->pair_gap[i]);
  const double reach = contact.includemargin + gap;
  // one from distance is farther away
  return contact.dist > reach ? contact.dist + kSameDistance : reach;
}

}  // namespace

int Detected::nearest(const mjtNum* pos, double dist, const mjtNum* normal) const {
  int best = -1;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < n; i++) {
    const mjPreContact& c = contact[static_cast<size_t>(i)];
    const double distance =
        mju_dist3(c.pos, pos) + std::abs(c.dist - dist) + kSamePlace * mju_dist3(c.normal, normal);
    if (distance < least) {
      least = distance;
      best = i;
    }
  }
  return best;
}

void detect_contacts(const mjModel* m, mjData* d, const mjContact& like, Detected& out) {
  out.n = collide_geoms(m, d, out.contact.data(), like.geom[0], like.geom[1],
                        detection_margin(m, like));
}

bool is_iterative(const mjModel* m, int geom1, int geom2) {
  const auto& table = mjCOLLISIONFUNC;
  const auto [type1, type2] = std::minmax(m->geom_type[geom1], m->geom_type[geom2]);
  return table[type1][type2] == table[mjGEOM_ELLIPSOID][mjGEOM_ELLIPSOID] ||
         type1 == mjGEOM_HFIELD || type1 == mjGEOM_SDF || type2 == mjGEOM_SDF;
}

}  // namespace diffmj
