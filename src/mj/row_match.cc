#include "mj/row_match.h"

#include <algorithm>
#include <tuple>

#include "mj/constraint_type.h"

namespace diffmj {
namespace {

int contact_rows(const mjData* d, int row) {
  int end = row;
  while (end < d->nefc && is_contact(d->efc_type[end]) && d->efc_id[end] == d->efc_id[row]) end++;
  return end - row;
}

RowList::Contact describe(const mjContact& contact) {
  RowList::Contact out{};
  std::copy_n(contact.geom, 2, out.geom);
  std::copy_n(contact.flex, 2, out.flex);
  std::copy_n(contact.elem, 2, out.elem);
  std::copy_n(contact.vert, 2, out.vert);
  std::copy_n(contact.pos, 3, out.pos);
  out.row = contact.efc_address;
  return out;
}

}  // namespace

void RowMatch::set_base(const mjData* d) {
  std::vector<int>& type = base_.type;
  type.assign(d->efc_type, d->efc_type + d->nefc);
  base_.id.assign(d->efc_id, d->efc_id + d->nefc);
  base_.nother =
      static_cast<int>(std::find_if(type.begin(), type.end(), is_contact) - type.begin());
  base_.contacts.clear();
  for (int i = 0; i < d->ncon; i++) {
    if (d->contact[i].efc_address >= 0) base_.contacts.push_back(describe(d->contact[i]));
  }
}

bool RowMatch::match(const mjData* d, double far) {
  base_row_.assign(static_cast<size_t>(d->nefc), -1);
  found_.assign(base_.contacts.size(), 0);
  int found = 0;

  // equality, friction and limit rows keep their order
  int base = 0, i = 0;
  for (; i < d->nefc && !is_contact(d->efc_type[i]); i++) {
    const auto same = [&](int k) {
      return base_.type[static_cast<size_t>(k)] == d->efc_type[i] &&
             base_.id[static_cast<size_t>(k)] == d->efc_id[i];
    };
    int k = base;
    while (k < base_.nother && !same(k)) k++;
    if (k == base_.nother) continue;  // this one is new
    base_row_[static_cast<size_t>(i)] = k;
    base = k + 1;
    found++;
  }

  // contacts: the nearest of all first, so that a new one takes no other's place
  candidates_.clear();
  for (int rows = 1; i < d->nefc; i += rows) {
    rows = contact_rows(d, i);
    const RowList::Contact contact = describe(d->contact[d->efc_id[i]]);
    for (size_t k = 0; k < base_.contacts.size(); k++) {
      const RowList::Contact& other = base_.contacts[k];
      if (!std::equal(contact.geom, contact.geom + 2, other.geom) ||
          !std::equal(contact.flex, contact.flex + 2, other.flex) ||
          !std::equal(contact.elem, contact.elem + 2, other.elem) ||
          !std::equal(contact.vert, contact.vert + 2, other.vert)) {
        continue;
      }
      const double distance = mju_dist3(contact.pos, other.pos);
      if (distance < far) candidates_.push_back({distance, i, rows, k});
    }
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.distance, a.row, a.contact) < std::tie(b.distance, b.row, b.contact);
  });
  for (const Candidate& candidate : candidates_) {
    const RowList::Contact& other = base_.contacts[candidate.contact];
    if (found_[candidate.contact] || base_row_[static_cast<size_t>(candidate.row)] >= 0) continue;
    found_[candidate.contact] = 1;
    found += candidate.rows;
    for (int k = 0; k < candidate.rows; k++) {
      base_row_[static_cast<size_t>(candidate.row + k)] = other.row + k;
    }
  }
  return found == nbase();
}

}  // namespace diffmj
