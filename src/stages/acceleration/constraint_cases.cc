#include "stages/acceleration/constraint_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "mj/call.h"
#include "mj/constraint_type.h"
#include "stages/acceleration/constraint_solve.h"

namespace diffmj {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const mjtNum* row_solimp(const mjModel* m, const mjData* d, int i) {
  const int type = d->efc_type[i], id = d->efc_id[i];
  if (is_contact(type)) return d->contact[id].solimp;
  switch (type) {
    case mjCNSTR_EQUALITY:
      return m->eq_solimp + mjNIMP * id;
    case mjCNSTR_LIMIT_JOINT:
      return m->jnt_solimp + mjNIMP * id;
    case mjCNSTR_LIMIT_TENDON:
      return m->tendon_solimp_lim + mjNIMP * id;
    default:
      return nullptr;  // friction loss has no violation
  }
}

}  // namespace

// i is the first row of an elliptic contact
ConstraintCases::Range ConstraintCases::zone_of(const mjData* d, CVec y, int i) {
  const double* yi = &y[static_cast<size_t>(i)];
  // what the force leaves of y
  const double rest = 1 - d->efc_KBIP[4 * i + 2];
  switch (d->efc_type[i]) {
    case mjCNSTR_EQUALITY:
      return {};
    case mjCNSTR_FRICTION_DOF:
    case mjCNSTR_FRICTION_TENDON: {
      const double reach = d->efc_R[i] * d->efc_frictionloss[i];
      if (reach <= 0) return {};
      const double size = std::abs(*yi) / reach;
      return {std::copysign(size > 1 ? 1 + (size - 1) * rest : size, *yi), -1, 1};
    }
    case mjCNSTR_CONTACT_ELLIPTIC: {
      const mjContact& contact = d->contact[d->efc_id[i]];
      double T2 = 0;
      for (int j = 1; j < contact.dim; j++) T2 += std::pow(contact.friction[j - 1] * yi[j], 2);
      return {std::atan2(contact.mu * yi[0], std::sqrt(T2)), -std::atan(1 / contact.mu),
              std::atan(contact.mu)};
    }
    default:
      return {*yi < 0 ? *yi / rest : *yi, 0, kInfinity};
  }
}

ConstraintCases::Range ConstraintCases::impedance_of(const mjModel* m, const mjData* d, int i) {
  const mjtNum* solimp = row_solimp(m, d, i);
  if (!solimp || solimp[4] != 1) return {};
  return {(d->efc_pos[i] - d->efc_margin[i]) / std::max(solimp[2], mjMINVAL), -1, 1};
}

void ConstraintCases::read(const mjModel* m, const mjData* d, CVec qacc) {
  rows_.set_base(d);
  const auto n = static_cast<size_t>(d->nefc);
  y_.resize(n);
  cases_.assign(n, {});
  if (n == 0) return;
  mj_call("mj_mulJacVec", [&] { mj_mulJacVec(m, d, y_.data(), qacc.data()); });
  for (size_t i = 0; i < n; i++) y_[i] -= d->efc_aref[i];
  for (int i = 0, dim = 1; i < d->nefc; i += dim) {
    dim = constraint_rows_at(d, i);
    const auto k = static_cast<size_t>(i);
    cases_[k] = {.zone = zone_of(d, y_, i),
                 .impedance = impedance_of(m, d, i),
                 .carries_force = constraint_zone(d, y_, i) != Zone::kSatisfied};
  }
}

double CaseChange::bound(const ConstraintCases::Range& from, const ConstraintCases::Range& to) {
  if (to.value > from.value) return from.which() == 0 ? from.low : from.high;
  return from.which() == 2 ? from.high : from.low;
}

void CaseChange::compare(const ConstraintCases::Range& from, const ConstraintCases::Range& to) {
  if (from.which() == to.which()) return;
  differs_ = true;
  const double share = (bound(from, to) - from.value) / (to.value - from.value);
  share_ = std::min(share_, share > 0 && share < 1 ? share : 0.5);
}

// Contacts by their geoms and the nearest position, other rows by type and element, in order.
void CaseChange::match(const RowList& from, const RowList& to) {
  row_to_.assign(from.type.size(), -1);
  matched_.assign(to.type.size(), 0);
  const auto join = [&](size_t i, size_t k) {
    row_to_[i] = static_cast<int>(k);
    matched_[k] = 1;
  };
  const auto nother = static_cast<size_t>(to.nother);
  for (size_t i = 0, next = 0; i < static_cast<size_t>(from.nother); i++) {
    size_t k = next;
    while (k < nother && (to.type[k] != from.type[i] || to.id[k] != from.id[i])) k++;
    if (k == nother) continue;
    join(i, k);
    next = k + 1;
  }
  pairs_.clear();
  for (size_t i = 0; i < from.contacts.size(); i++) {
    const RowList::Contact& a = from.contacts[i];
    for (size_t k = 0; k < to.contacts.size(); k++) {
      const RowList::Contact& b = to.contacts[k];
      // most are of other geoms: those first, and without a call
      if (a.geom[0] != b.geom[0] || a.geom[1] != b.geom[1]) continue;
      const bool same = std::equal(a.flex, a.flex + 2, b.flex) &&
                        std::equal(a.elem, a.elem + 2, b.elem) &&
                        std::equal(a.vert, a.vert + 2, b.vert);
      if (same) pairs_.push_back({mju_dist3(a.pos, b.pos), i, k});
    }
  }
  std::sort(pairs_.begin(), pairs_.end(), [](const Pair& a, const Pair& b) {
    return std::tie(a.distance, a.from, a.to) < std::tie(b.distance, b.from, b.to);
  });
  for (const Pair& pair : pairs_) {
    const auto i = static_cast<size_t>(from.contacts[pair.from].row),
               k = static_cast<size_t>(to.contacts[pair.to].row);
    if (row_to_[i] >= 0 || matched_[k]) continue;
    // as many rows as both have
    for (size_t n = 0; i + n < from.id.size() && k + n < to.id.size() &&
                       from.id[i + n] == from.id[i] && to.id[k + n] == to.id[k];
         n++) {
      join(i + n, k + n);
    }
  }
}

bool CaseChange::find(const ConstraintCases& from, const ConstraintCases& to) {
  differs_ = false;
  share_ = 1;
  if (from.empty() && to.empty()) return false;
  const auto begins_or_ends = [&](const ConstraintCases::Row& row) {
    if (onset_ || !row.carries_force) return;
    differs_ = true;
    share_ = std::min(share_, 0.5);
  };
  match(from.rows(), to.rows());
  for (size_t i = 0; i < from.cases_.size(); i++) {
    const ConstraintCases::Row& row = from.cases_[i];
    if (row_to_[i] < 0) {
      begins_or_ends(row);
      continue;
    }
    const ConstraintCases::Row& other = to.cases_[static_cast<size_t>(row_to_[i])];
    compare(row.zone, other.zone);
    compare(row.impedance, other.impedance);
  }
  for (size_t k = 0; k < matched_.size(); k++) {
    if (!matched_[k]) begins_or_ends(to.cases_[k]);
  }
  if (share_ >= 1) share_ = 0.5;
  return differs_;
}

double CaseChange::beyond(const ConstraintCases& before, const ConstraintCases& at,
                          const ConstraintCases& other, bool far_side) {
  bounds_.assign(at.cases_.size(), std::numeric_limits<double>::quiet_NaN());
  match(at.rows(), other.rows());
  for (size_t i = 0; i < bounds_.size(); i++) {
    if (row_to_[i] < 0) continue;
    const ConstraintCases::Range &zone = at.cases_[i].zone,
                                 &there = other.cases_[static_cast<size_t>(row_to_[i])].zone;
    if (zone.which() != there.which()) bounds_[i] = bound(zone, there);
  }
  match(at.rows(), before.rows());
  double out = std::numeric_limits<double>::quiet_NaN();
  for (size_t i = 0; i < bounds_.size(); i++) {
    if (std::isnan(bounds_[i]) || row_to_[i] < 0) continue;
    const double value = at.cases_[i].zone.value,
                 way = value - before.cases_[static_cast<size_t>(row_to_[i])].zone.value;
    const double x = (bounds_[i] - value) / way;
    if (!(x > 0 && x < kInfinity)) continue;
    if (std::isnan(out) || (far_side ? x > out : x < out)) out = x;
  }
  return out;
}

}  // namespace diffmj
