#include "stages/position/constraint_onset.h"

#include <algorithm>

#include "mj/constraint_type.h"

namespace diffmj {
namespace {

// R ∝ (1 - I)/I is finite
constexpr double kSmallestImpedance = 1e-10;

// of contacts and limits: -r/ε; of others and far inside: 1
double depth(const mjData* d, int i, double width) {
  const int type = d->efc_type[i];
  if (width == 0 || !(is_contact(type) || is_limit(type))) return 1;
  // the rows of a contact have one violation
  const mjContact* contact = is_contact(type) ? d->contact + d->efc_id[i] : nullptr;
  const double r =
      contact ? contact->dist - contact->includemargin : d->efc_pos[i] - d->efc_margin[i];
  return std::clamp(-r / width, 0.0, 1.0);
}

// the entry of A + R, which a no-slip pass takes R from again
mjtNum& projected_diagonal(const mjModel* m, mjData* d, int i) {
  if (!mj_isSparse(m)) return d->efc_AR[static_cast<ptrdiff_t>(i) * (d->nefc + 1)];
  const int* column = d->efc_AR_colind + d->efc_AR_rowadr[i];
  return d
      ->efc_AR[d->efc_AR_rowadr[i] + (std::find(column, column + d->efc_AR_rownnz[i], i) - column)];
}

}  // namespace

double constraint_onset(const mjData* d, int i, double width) {
  const double x = depth(d, i, width);
  return x * x * (3 - 2 * x);
}

void apply_constraint_onset(const mjModel* m, mjData* d, double width) {
  for (int i = 0; i < d->nefc && width > 0; i++) {
    const double x = depth(d, i, width);
    if (x >= 1) continue;
    mjtNum* KBIP = d->efc_KBIP + 4 * static_cast<ptrdiff_t>(i);
    const double s = x * x * (3 - 2 * x), s_slope = -6 * x * (1 - x) / width;
    const double before = KBIP[2], after = std::max(before * s, kSmallestImpedance);
    const double R = d->efc_R[i] * (1 - after) / after * before / (1 - before);
    if (mj_isDual(m)) {
      mjtNum& AR = projected_diagonal(m, d, i);
      AR = AR - d->efc_R[i] + R;
    }
    d->efc_R[i] = R;
    d->efc_D[i] = 1 / d->efc_R[i];
    KBIP[3] = after > kSmallestImpedance ? KBIP[3] * s + before * s_slope : 0;
    KBIP[2] = after;
  }
}

void forward_with_onset(const mjModel* m, mjData* d, double width) {
  if (width == 0) {
    mj_forward(m, d);
    return;
  }
  mj_fwdPosition(m, d);
  apply_constraint_onset(m, d, width);
  mj_fwdVelocity(m, d);
  mj_fwdActuation(m, d);
  mj_fwdAcceleration(m, d);
  mj_fwdConstraint(m, d);
}

}  // namespace diffmj
