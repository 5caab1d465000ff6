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
// how far inside one that was let go may seem to be, by the errors of a method [m]
constexpr double kLetGo = 1e-7;
// y = J a - aref of a row that is held back exceeds any acceleration
constexpr double kFar = 1e13;

bool is_limit(int type) { return type == mjCNSTR_LIMIT_JOINT || type == mjCNSTR_LIMIT_TENDON; }
bool is_contact(int type) { return type >= mjCNSTR_CONTACT_FRICTIONLESS; }

}  // namespace

void RowMask::set_rates(const mjData* d) {
  if (!collider_) return;
  rates_.resize(static_cast<size_t>(d->ncon));
  std::fill(rates_.begin(), rates_.end(), std::numeric_limits<double>::quiet_NaN());
  collider_->rates(*collider_, m_, d, rates_.data());
}

// the limit or contact that row i belongs to, or the row alone
RowMask::Row RowMask::describe(const mjData* d, int i) const {
  const int type = d->efc_type[i], id = d->efc_id[i];
  int n = 1;
  while (is_contact(type) && i + n < d->nefc && is_contact(d->efc_type[i + n]) &&
         d->efc_id[i + n] == id) {
    n++;
  }
  // two edges of the pyramid have the normal for their mean
  const bool edges = type == mjCNSTR_CONTACT_PYRAMIDAL && n > 1;
  Row row{.first = i,
          .n = n,
          .type = type,
          .id = id,
          .phi = d->efc_pos[i] - d->efc_margin[i],
          .rate = edges ? (d->efc_vel[i] + d->efc_vel[i + 1]) / 2 : d->efc_vel[i]};
  if (collider_ && is_contact(type)) {
    const double rate = rates_[static_cast<size_t>(id)];
    if (!std::isnan(rate)) row.rate = rate;
  }
  return row;
}

void RowMask::set_base(const mjData* d, double time) {
  base_.set_base(d);
  begin_ = time;
  let_go_.clear();
  rows_.clear();
  still_.clear();
  leaving_.clear();
  lost_ = false;
}

const std::vector<RowMask::Row>& RowMask::set_base_without_leaving(const mjData* d, double time) {
  set_base(d, time);
  set_rates(d);
  for (int i = 0, n = 1; i < d->nefc; i += n) {
    const Row row = describe(d, i);
    n = row.n;
    if (!is_limit(row.type) && !is_contact(row.type)) continue;
    if (std::abs(row.phi) <= kTouching && row.rate > 0) let_go_.push_back(row);
  }
  return let_go_;
}

bool RowMask::is_let_go(int base_row) const {
  return std::any_of(let_go_.begin(), let_go_.end(),
                     [&](const Row& row) { return row.first == base_row; });
}

const std::vector<RowMask::Row>& RowMask::find(const mjData* d) {
  rows_.clear();
  still_.clear();
  leaving_.clear();
  lost_ = false;
  if (d->nefc == 0 && base_.nbase() == 0) return rows_;
  base_.match(d, std::numeric_limits<double>::infinity());
  set_rates(d);
  const double elapsed = std::abs(d->time - begin_);
  int nfound = 0;
  for (int i = 0, n = 1; i < d->nefc; i += n) {
    const Row row = describe(d, i);
    n = row.n;
    const int base = base_.base_row(i);
    const bool unilateral = is_limit(row.type) || is_contact(row.type);
    if (base >= 0 && !is_let_go(base)) {
      nfound += n;
      if (unilateral && row.rate > 0) leaving_.push_back(row);
      continue;
    }
    if (!unilateral) continue;
    // one that is deeper than it can have come was there before, under another guise: a collider
    // that places its contacts elsewhere. Smooth ones do not, but come fast
    const double rate = base >= 0 ? std::abs(row.rate) : std::max(-row.rate, 0.0);
    const double reach = base >= 0 || !collider_ ? (2 * rate + kBraking * elapsed) * elapsed
                                                 : std::numeric_limits<double>::infinity();
    if (-row.phi > reach + (base >= 0 ? kLetGo : kTouching)) continue;
    (base >= 0 && row.rate > 0 ? still_ : rows_).push_back(row);
  }
  int nlet_go = 0;
  for (const Row& row : let_go_) nlet_go += row.n;
  lost_ = nfound < base_.nbase() - nlet_go;
  return rows_;
}

void RowMask::hold(mjData* d) {
  find(d);
  for (const std::vector<Row>* rows : {&rows_, &still_}) {
    for (const Row& row : *rows) {
      // of an elliptic cone the normal alone: tangents as far away would put it on the cone's side
      const int n = row.type == mjCNSTR_CONTACT_ELLIPTIC ? 1 : row.n;
      for (int i = row.first; i < row.first + n; i++) d->efc_aref[i] = -kFar;
    }
  }
}

void RowMask::hold_limits(mjData* d) {
  find(d);
  for (const std::vector<Row>* rows : {&rows_, &still_}) {
    for (const Row& row : *rows) {
      if (is_limit(row.type)) d->efc_aref[row.first] = -kFar;
    }
  }
}

const RowMask::Row& earliest(const std::vector<RowMask::Row>& rows) {
  return *std::max_element(rows.begin(), rows.end(),
                           [](const auto& a, const auto& b) { return a.since() < b.since(); });
}

}  // namespace diffmj
