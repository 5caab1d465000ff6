// What the evaluations of the dynamics within steps of MuJoCo's RK4 found, kept for the backward
// pass: mj_step leaves only the last of the four.
#ifndef DIFFMJ_STAGES_STAGE_RECORDS_H_
#define DIFFMJ_STAGES_STAGE_RECORDS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "mj/view.h"

namespace diffmj {

constexpr size_t kRk4Evaluations = 4;

// One row per evaluation, four per step.
struct StageRecords {
  std::vector<double> qacc, act_dot;  // nv, na
  std::vector<int> nefc;              // constraint rows
  // Tendon paths, in the layout of stages/position/tendon.h; empty: the model has none.
  std::vector<double> tendon_numbers;
  std::vector<int> tendon_objects;
  // Contacts, in the layout of stages/position/collision.h: those of row i are the bytes from
  // contact_begin[i] to contact_begin[i + 1].
  std::vector<unsigned char> contacts;
  std::vector<size_t> contact_begin;  // one more than rows

  bool empty() const { return nefc.empty(); }
  // The memory stays.
  void clear() {
    qacc.clear();
    act_dot.clear();
    nefc.clear();
    tendon_numbers.clear();
    tendon_objects.clear();
    contacts.clear();
    contact_begin.clear();
  }
};

// Those of one step.
struct StepStages {
  const StageRecords* records = nullptr;  // null: not known
  size_t first = 0;                       // row

  template <class T>
  std::span<const T> row(const std::vector<T>& x, size_t i) const {
    const size_t width = x.size() / records->nefc.size();
    return std::span(x).subspan((first + i) * width, width);
  }
  std::span<const unsigned char> contacts(size_t i) const {
    const size_t *begin = &records->contact_begin[first + i], end = begin[1];
    return std::span(records->contacts).subspan(*begin, end - *begin);
  }
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_STAGE_RECORDS_H_
