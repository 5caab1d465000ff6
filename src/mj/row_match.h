// Which constraint rows at a perturbed pose are those of the base pose.
//
// Rows may appear, vanish and change their order when a pose moves: colliders list the contacts of
// a pair in no particular order.
#ifndef DIFFMJ_MJ_ROW_MATCH_H_
#define DIFFMJ_MJ_ROW_MATCH_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace diffmj {

class RowMatch {
 public:
  // Remembers the rows in d.
  void set_base(const mjData* d);
  // Finds the base row of every row in d: base_row(i), or -1 if it has none. Contacts are matched
  // by their geoms (or flexes) and the nearest position, unless that is further away than far [m];
  // other rows by type and element. Returns true if every base row was found. (Probes move poses by
  // less than 1e-6.)
  bool match(const mjData* d, double far = 1e-3);
  int base_row(int i) const { return base_row_[static_cast<size_t>(i)]; }
  int nbase() const { return nrow_; }
  // efc_id of a base row: of a contact its number.
  int base_id(int row) const { return id_[static_cast<size_t>(row)]; }

 private:
  struct Contact {
    int geom[2], flex[2], elem[2], vert[2];
    double pos[3];
    int row;  // first
    bool found;
  };
  struct Candidate {
    double distance;
    int row, rows;   // of the contact at the perturbed pose
    size_t contact;  // of the base
  };
  static Contact describe(const mjContact& contact);

  int nrow_ = 0, nother_ = 0;  // rows; those that are no contacts come first
  std::vector<int> type_, id_;
  std::vector<Contact> contacts_;
  std::vector<Candidate> candidates_;
  std::vector<int> base_row_;
};

}  // namespace diffmj

#endif  // DIFFMJ_MJ_ROW_MATCH_H_
