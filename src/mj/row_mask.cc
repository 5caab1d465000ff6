#include "mj/row_mask.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diffmj {
namespace {

// at the moment of activation φ is 0 but for rounding [m]
constexpr double kTouching = 1e-10;
// what slows an approach down, so that its rate now tells too little [m/s²]
constexpr double kBraking = 10;
// y = J a - aref of a row that is held back exceeds any acceleration
constexpr double kFar = 1e13;

bool is_limit(int type) { return type == mjCNSTR_LIMIT_JOINT || type == mjCNSTR_LIMIT_TENDON; }
bool is_contact(int type) { return type >= mjCNSTR_CONTACT_FRICTIONLESS; }

}  // namespace

void RowMask::set_base(const mjData* d, double time) {
  base_.set_base(d);
  begin_ = time;
  rows_.clear();
}

const std::vector<RowMask::Row>& RowMask::find(const mjData* d) {
  rows_.clear();
  if (d->nefc == 0) return rows_;
  base_.match(d, std::numeric_limits<double>::infinity());
  const double elapsed = std::abs(d->time - begin_);
  for (int i = 0, n = 1; i < d->nefc; i += n) {
    const int type = d->efc_type[i], id = d->efc_id[i];
    n = 1;
    while (is_contact(type) && i + n < d->nefc && is_contact(d->efc_type[i + n]) &&
           d->efc_id[i + n] == id) {
      n++;
    }
    if (base_.base_row(i) >= 0 || (!is_limit(type) && !is_contact(type))) continue;
    // two edges of the pyramid have the normal for their mean
    const bool edges = type == mjCNSTR_CONTACT_PYRAMIDAL && n > 1;
    const Row row{.first = i,
                  .n = n,
                  .type = type,
                  .id = id,
                  .phi = d->efc_pos[i] - d->efc_margin[i],
                  .rate = edges ? (d->efc_vel[i] + d->efc_vel[i + 1]) / 2 : d->efc_vel[i]};
    // one that is deeper than it can have come was there before, under another guise: a collider
    // that places its contacts elsewhere
    const double reach = (2 * std::max(-row.rate, 0.0) + kBraking * elapsed) * elapsed;
    if (-row.phi <= reach + kTouching) rows_.push_back(row);
  }
  return rows_;
}

void RowMask::hold(mjData* d) {
  for (const Row& row : find(d)) {
    // of an elliptic cone the normal alone: tangents as far away would put it on the cone's side
    const int n = row.type == mjCNSTR_CONTACT_ELLIPTIC ? 1 : row.n;
    for (int i = row.first; i < row.first + n; i++) d->efc_aref[i] = -kFar;
  }
}

void RowMask::hold_limits(mjData* d) {
  for (const Row& row : find(d)) {
    if (is_limit(row.type)) d->efc_aref[row.first] = -kFar;
  }
}

const RowMask::Row& earliest(const std::vector<RowMask::Row>& rows) {
  return *std::max_element(rows.begin(), rows.end(),
                           [](const auto& a, const auto& b) { return a.since() < b.since(); });
}

}  // namespace diffmj
