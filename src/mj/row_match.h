// Which constraint rows at a perturbed pose are those of the base pose.
//
// Rows may appear, vanish and change their order when a pose moves: colliders list the contacts of
// a pair in no particular order.
#ifndef DIFFMJ_MJ_ROW_MATCH_H_
#define DIFFMJ_MJ_ROW_MATCH_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace diffmj {

// Rows as they are remembered.
struct RowList {
  struct Contact {
    int geom[2], flex[2], elem[2], vert[2];
    double pos[3];  // [m]
    int row;        // first
  };
  int nother = 0;             // rows that are no contacts; they come first
  std::vector<int> type, id;  // efc_type, efc_id
  std::vector<Contact> contacts;
};

class RowMatch {
 public:
  // Remembers the rows in d, or those that were in another.
  void set_base(const mjData* d);
  void set_base(const RowList& rows) { base_ = rows; }
  const RowList& base() const { return base_; }
  // Finds the base row of every row in d: base_row(i), or -1 if it has none. Contacts are matched
  // by their geoms (or flexes) and the nearest position, unless that is further away than far [m];
  // other rows by type and element. Returns true if every base row was found. (Probes move poses by
  // less than 1e-6.)
  bool match(const mjData* d, double far = 1e-3);
  int base_row(int i) const { return base_row_[static_cast<size_t>(i)]; }
  int nbase() const { return static_cast<int>(base_.type.size()); }
  // efc_id of a base row: of a contact its number.
  int base_id(int row) const { return base_.id[static_cast<size_t>(row)]; }

 private:
  struct Candidate {
    double distance;
    int row, rows;   // of the contact at the perturbed pose
    size_t contact;  // of the base
  };

  RowList base_;
  std::vector<char> found_;  // contacts of the base
  std::vector<Candidate> candidates_;
  std::vector<int> base_row_;
};

}  // namespace diffmj

#endif  // DIFFMJ_MJ_ROW_MATCH_H_
