#include "events/row_mask.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mj/constraint_type.h"

namespace diffmj {
namespace {

// at the moment of activation φ is 0 but for rounding [m]
constexpr double kTouching = 1e-10;
// what slows an approach down, so that its rate now tells too little [m/s²]
constexpr double kBraking = 10;
// how far inside one that was released may seem to be, by the errors of a method [m]
constexpr double kReleased = 1e-7;
// y = J a - aref of a row that is suppressed exceeds any acceleration
constexpr double kFar = 1e13;

bool is_unilateral(int type) { return is_limit(type) || is_contact(type); }

double violation(const mjData* d, int i) { return d->efc_pos[i] - d->efc_margin[i] + kOnMargin; }

// of the limit or contact that row i is the first of, or the row alone
int row_count(const mjData* d, int i) {
  const int type = d->efc_type[i];
  int n = 1;
  while (is_contact(type) && i + n < d->nefc && is_contact(d->efc_type[i + n]) &&
         d->efc_id[i + n] == d->efc_id[i]) {
    n++;
  }
  return n;
}

bool contains(const std::vector<int>& rows, int row) {
  return std::find(rows.begin(), rows.end(), row) != rows.end();
}

}  // namespace

void RowMask::set_rates(const mjData* d) {
  if (!collider_) return;
  rates_.resize(static_cast<size_t>(d->ncon));
  std::fill(rates_.begin(), rates_.end(), std::numeric_limits<double>::quiet_NaN());
  collider_->rates(*collider_, m_, d, rates_.data());
}

RowMask::Row RowMask::describe(const mjData* d, int i) const {
  const int type = d->efc_type[i], id = d->efc_id[i], n = row_count(d, i);
  // two edges of the pyramid have the normal for their mean
  const bool edges = type == mjCNSTR_CONTACT_PYRAMIDAL && n > 1;
  Row row{.what = {.type = type,
                   .id = id,
                   .row = i,
                   .nrow = n,
                   .rate = edges ? (d->efc_vel[i] + d->efc_vel[i + 1]) / 2 : d->efc_vel[i]},
          .phi = violation(d, i)};
  if (!is_contact(type)) return row;
  std::copy_n(d->contact[id].geom, 2, row.what.geom);
  std::copy_n(d->contact[id].flex, 2, row.what.flex);
  if (collider_) {
    const double rate = rates_[static_cast<size_t>(id)];
    if (!std::isnan(rate)) row.what.rate = rate;
  }
  return row;
}

void RowMask::set_base(const mjData* d, double time, std::span<const EventConstraint> released) {
  known_ = Base::kKnown;
  match_.set_base(d);
  begin_ = time;
  for (std::vector<Row>* rows : {&begun_, &idle_, &leaving_}) rows->clear();
  lost_ = false;
  inactive_rows_.clear();
  released_rows_.clear();
  nactive_ = d->nefc;
  for (int i = 0, n = 1; i < d->nefc; i += n) {
    n = row_count(d, i);
    const bool gone = std::any_of(released.begin(), released.end(),
                                  [&](const EventConstraint& c) { return c.row == i; });
    if (gone) released_rows_.push_back(i);
    if (gone || (is_unilateral(d->efc_type[i]) && violation(d, i) >= 0)) {
      inactive_rows_.push_back(i);
      nactive_ -= n;
    }
  }
}

void RowMask::set_base_at_next(double time, std::span<const EventConstraint> released) {
  known_ = Base::kAtNext;
  begin_ = time;
  released_.assign(released.begin(), released.end());
}

void RowMask::set_base(const RowBase& base) {
  known_ = Base::kKnown;
  match_.set_base(base.rows);
  begin_ = base.time;
  inactive_rows_ = base.inactive;
  released_rows_ = base.released;
  nactive_ = base.nactive;
}

RowBase RowMask::base() const {
  return {.time = begin_,
          .rows = match_.base(),
          .inactive = inactive_rows_,
          .released = released_rows_,
          .nactive = nactive_};
}

void RowMask::clear_base() { known_ = Base::kNone; }

const std::vector<RowMask::Row>& RowMask::find(const mjData* d) {
  if (known_ == Base::kAtNext) set_base(d, begin_, released_);
  for (std::vector<Row>* rows : {&begun_, &idle_, &leaving_}) rows->clear();
  lost_ = false;
  const bool known = known_ == Base::kKnown;
  if (d->nefc == 0 && (!known || match_.nbase() == 0)) return begun_;
  if (known) match_.match(d, std::numeric_limits<double>::infinity());
  set_rates(d);
  const double elapsed = std::abs(d->time - begin_);
  int nfound = 0;
  for (int i = 0, n = 1; i < d->nefc; i += n) {
    n = row_count(d, i);
    const int base = known ? match_.base_row(i) : -1;
    const bool was_active = base >= 0 && !contains(inactive_rows_, base);
    if (!is_unilateral(d->efc_type[i])) {
      if (was_active) nfound += n;
      continue;
    }
    const Row row = describe(d, i);
    if (row.phi >= 0) {
      idle_.push_back(row);
      continue;
    }
    if (!known) continue;
    if (was_active) {
      nfound += n;
      if (row.what.rate > 0) leaving_.push_back(row);
      continue;
    }
    // one that is deeper than it can have come was there before, under another guise: a collider
    // that places its contacts elsewhere. Smooth ones do not, but come fast
    const double rate = base >= 0 ? std::abs(row.what.rate) : std::max(-row.what.rate, 0.0);
    const double reach = base >= 0 || !collider_ ? (2 * rate + kBraking * elapsed) * elapsed
                                                 : std::numeric_limits<double>::infinity();
    if (-row.phi > reach + (base >= 0 ? kReleased : kTouching)) continue;
    const bool leaves = row.what.rate > 0 && base >= 0 && contains(released_rows_, base);
    (leaves ? idle_ : begun_).push_back(row);
  }
  lost_ = known && nfound < nactive_;
  return begun_;
}

void RowMask::suppress(mjData* d, bool contacts) {
  find(d);
  for (const std::vector<Row>* rows : {&begun_, &idle_}) {
    for (const Row& row : *rows) {
      const EventConstraint& what = row.what;
      if (is_contact(what.type) && !contacts) continue;
      // of an elliptic cone the normal alone: tangents as far away would put it on the cone's side
      const int n = what.type == mjCNSTR_CONTACT_ELLIPTIC ? 1 : what.nrow;
      for (int i = what.row; i < what.row + n; i++) d->efc_aref[i] = -kFar;
    }
  }
}

const RowMask::Row& earliest(const std::vector<RowMask::Row>& rows) {
  return *std::max_element(rows.begin(), rows.end(),
                           [](const auto& a, const auto& b) { return a.since() < b.since(); });
}

}  // namespace diffmj
