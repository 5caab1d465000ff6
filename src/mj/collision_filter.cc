#include "mj/collision_filter.h"

#include <algorithm>

namespace diffmj {
namespace {

bool masks_meet(const mjModel* m, int geom1, int geom2) {
  return (m->geom_contype[geom1] & m->geom_conaffinity[geom2]) ||
         (m->geom_contype[geom2] & m->geom_conaffinity[geom1]);
}

// bodies whose geoms never meet, whatever their masks
bool bodies_apart(const mjModel* m, int body1, int body2) {
  const int weld1 = m->body_weldid[body1], weld2 = m->body_weldid[body2];
  const auto rests = [&](int weld) { return m->body_dofnum[weld] == 0; };
  const auto carrier = [&](int weld) { return m->body_weldid[m->body_parentid[weld]]; };
  if (weld1 == weld2 || (rests(weld1) && rests(weld2))) return true;
  const bool filters = !(m->opt.disableflags & mjDSBL_FILTERPARENT) && weld1 != 0 && weld2 != 0;
  if (filters && (weld1 == carrier(weld2) || weld2 == carrier(weld1))) return true;
  const auto [low, high] = std::minmax(body1, body2);
  const int signature = (low << 16) + high;
  const int *begin = m->exclude_signature, *end = begin + m->nexclude;
  return std::find(begin, end, signature) != end;
}

}  // namespace

bool geoms_may_collide(const mjModel* m, int geom1, int geom2) {
  return masks_meet(m, geom1, geom2) &&
         !bodies_apart(m, m->geom_bodyid[geom1], m->geom_bodyid[geom2]);
}

}  // namespace diffmj
