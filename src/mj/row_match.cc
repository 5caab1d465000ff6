#include "mj/row_match.h"

#include <algorithm>

namespace diffmj {
namespace {

bool is_contact(int type) { return type >= mjCNSTR_CONTACT_FRICTIONLESS; }

int contact_rows(const mjData* d, int row) {
  int end = row;
  while (end < d->nefc && is_contact(d->efc_type[end]) && d->efc_id[end] == d->efc_id[row]) end++;
  return end - row;
}

}  // namespace

RowMatch::Contact RowMatch::describe(const mjContact& contact) {
  Contact out{};
  std::copy_n(contact.geom, 2, out.geom);
  std::copy_n(contact.flex, 2, out.flex);
  std::copy_n(contact.elem, 2, out.elem);
  std::copy_n(contact.vert, 2, out.vert);
  std::copy_n(contact.pos, 3, out.pos);
  out.row = contact.efc_address;
  return out;
}

void RowMatch::set_base(const mjData* d) {
  nrow_ = d->nefc;
  type_.assign(d->efc_type, d->efc_type + nrow_);
  id_.assign(d->efc_id, d->efc_id + nrow_);
  nother_ = static_cast<int>(std::find_if(type_.begin(), type_.end(), is_contact) - type_.begin());
  contacts_.clear();
  for (int i = 0; i < d->ncon; i++) {
    if (d->contact[i].efc_address >= 0) contacts_.push_back(describe(d->contact[i]));
  }
}

bool RowMatch::match(const mjData* d, double far) {
  base_row_.assign(static_cast<size_t>(d->nefc), -1);
  for (Contact& contact : contacts_) contact.found = false;
  int found = 0;

  // equality, friction and limit rows keep their order
  int base = 0, i = 0;
  for (; i < d->nefc && !is_contact(d->efc_type[i]); i++) {
    const auto same = [&](int k) {
      return type_[static_cast<size_t>(k)] == d->efc_type[i] &&
             id_[static_cast<size_t>(k)] == d->efc_id[i];
    };
    int k = base;
    while (k < nother_ && !same(k)) k++;
    if (k == nother_) continue;  // this one is new
    base_row_[static_cast<size_t>(i)] = k;
    base = k + 1;
    found++;
  }

  for (int rows = 1; i < d->nefc; i += rows) {
    rows = contact_rows(d, i);
    const Contact contact = describe(d->contact[d->efc_id[i]]);
    Contact* nearest = nullptr;
    double best = far;
    for (Contact& candidate : contacts_) {
      if (candidate.found || !std::equal(contact.geom, contact.geom + 2, candidate.geom) ||
          !std::equal(contact.flex, contact.flex + 2, candidate.flex) ||
          !std::equal(contact.elem, contact.elem + 2, candidate.elem) ||
          !std::equal(contact.vert, contact.vert + 2, candidate.vert)) {
        continue;
      }
      const double distance = mju_dist3(contact.pos, candidate.pos);
      if (distance >= best) continue;
      best = distance;
      nearest = &candidate;
    }
    if (!nearest) continue;
    nearest->found = true;
    found += rows;
    for (int k = 0; k < rows; k++) base_row_[static_cast<size_t>(i + k)] = nearest->row + k;
  }
  return found == nrow_;
}

}  // namespace diffmj
