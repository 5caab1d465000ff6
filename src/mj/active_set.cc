#include "mj/active_set.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "mj/constraint_type.h"

namespace diffmj {
namespace {

// every bit of a word reaches every bit of the result: sums of hashes are compared, and words that
// differ alike must not cancel
size_t hash(std::initializer_list<int> words) {
  uint64_t h = 0;
  for (const int word : words) {
    h += static_cast<unsigned>(word) + 0x9e3779b97f4a7c15ULL;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
    h ^= h >> 31;
  }
  return static_cast<size_t>(h);
}

// of the curve of solimp: before its midpoint, behind it, flat
int impedance_piece(const mjModel* m, const mjData* d, int i) {
  const mjtNum* solimp = nullptr;
  switch (d->efc_type[i]) {
    case mjCNSTR_EQUALITY:
      solimp = m->eq_solimp + mjNIMP * d->efc_id[i];
      break;
    case mjCNSTR_LIMIT_JOINT:
      solimp = m->jnt_solimp + mjNIMP * d->efc_id[i];
      break;
    case mjCNSTR_LIMIT_TENDON:
      solimp = m->tendon_solimp_lim + mjNIMP * d->efc_id[i];
      break;
    case mjCNSTR_FRICTION_DOF:
    case mjCNSTR_FRICTION_TENDON:
      return 0;  // has no violation
    default:
      solimp = d->contact[d->efc_id[i]].solimp;
  }
  const double x = std::abs(d->efc_pos[i] - d->efc_margin[i]) / std::max(solimp[2], mjMINVAL);
  return x >= 1 ? 2 : x >= solimp[3] ? 1 : 0;
}

}  // namespace

size_t active_set(const mjModel* m, const mjData* d) {
  size_t sum = 0;
  for (int i = 0, k = 0; i < d->nefc; i++) {
    const int type = d->efc_type[i], id = d->efc_id[i];
    k = i > 0 && d->efc_type[i - 1] == type && d->efc_id[i - 1] == id ? k + 1
                                                                      : 0;  // row of its own
    const double force = d->efc_force[i];
    if (force == 0) continue;
    // efc_state is not always that of the solution; forces are
    int piece = 0;
    const int impedance = impedance_piece(m, d, i);
    if (type == mjCNSTR_FRICTION_DOF || type == mjCNSTR_FRICTION_TENDON) {
      piece = std::abs(force) < d->efc_frictionloss[i] ? 0 : force > 0 ? 1 : 2;
    } else if (type == mjCNSTR_CONTACT_ELLIPTIC) {
      piece = d->efc_state[i];
    }
    if (is_contact(type)) {
      const mjContact& contact = d->contact[id];
      sum += hash({type, contact.geom[0], contact.geom[1], k, piece, impedance});
    } else {
      sum += hash({type, id, k, piece, impedance});
    }
  }
  return sum;
}

}  // namespace diffmj
