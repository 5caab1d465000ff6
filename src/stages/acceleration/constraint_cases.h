// In which cases the constraints of an evaluation are. Where one of them changes along a motion the
// vector field has a corner, and its derivative jumps (docs/derivations/adaptive.md, eq. 14).
//
// Each case is an interval of a number that is continuous along a motion:
//
//   limits, frictionless and pyramidal contacts   y = J a - aref            carries force: y < 0
//   friction loss                                 y / (R frictionloss)      sticks: between -1 and
//   1 elliptic contacts                             atan2(N, T)               inside the cone,
//   sliding
//                                                                           on it, without force
//   impedance of power 1                          (pos - margin) / width    not flat: between -1, 1
//
// N = mu y₀, T = |(frictionⱼ yⱼ)|, as in constraint_zone(). The force of a row reduces y to about
// the share 1 - I of what it is without the force. y is scaled by that share, so that the numbers
// have nearly the same slope on both sides of a corner. Impedances of another power have a
// continuous slope, and no corner.
#ifndef DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_CASES_H_
#define DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_CASES_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "mj/row_match.h"
#include "mj/view.h"

namespace diffmj {

class ConstraintCases {
 public:
  // Of the evaluation in d, with the solution qacc of the constraint solver.
  void read(const mjModel* m, const mjData* d, CVec qacc);
  bool empty() const { return cases_.empty(); }

 private:
  friend class CaseChange;

  struct Range {  // of the case that value is in: 0 below low, 1 up to high, 2 above
    double value = 0, low = 0, high = 0;
    int which() const { return value < low ? 0 : value < high ? 1 : 2; }
  };
  // of one row
  struct Row {
    Range zone, impedance;
    bool carries_force = false;
  };

  static Range zone_of(const mjData* d, CVec y, int i);
  static Range impedance_of(const mjModel* m, const mjData* d, int i);

  const RowList& rows() const { return rows_.base(); }

  RowMatch rows_;           // what it remembers
  std::vector<double> y_;   // nefc
  std::vector<Row> cases_;  // nefc
};

// The first change on the way from one evaluation to another.
class CaseChange {
 public:
  // onset: contacts and limits set in over a width, so that those that begin or end between the two
  // evaluations leave no corner.
  explicit CaseChange(bool onset) : onset_(onset) {}

  // False if all constraints are in the same cases.
  bool find(const ConstraintCases& from, const ConstraintCases& to);
  // Of the last one found: the share of the way, in (0, 1), after which the first constraint
  // changes, if the numbers above were linear; ½ where one begins or ends.
  double share() const { return share_; }
  // Extrapolates from two evaluations on one side, before and at, to the first change. other is on
  // the other side; far_side: at is behind the change. Returns the distance beyond at in units of
  // that from before to at; NaN if they do not tell.
  double beyond(const ConstraintCases& before, const ConstraintCases& at,
                const ConstraintCases& other, bool far_side);

 private:
  // The bound that is passed first on the way.
  static double bound(const ConstraintCases::Range& from, const ConstraintCases::Range& to);
  void match(const RowList& from, const RowList& to);
  void compare(const ConstraintCases::Range& from, const ConstraintCases::Range& to);

  const bool onset_;
  // of a contact of from, and one of to of the same geoms
  struct Pair {
    double distance;
    size_t from, to;
  };
  std::vector<Pair> pairs_;
  std::vector<int> row_to_;     // of every row of from: its row of to, or -1
  std::vector<char> matched_;   // rows of to
  std::vector<double> bounds_;  // of every row of from, where it changes; NaN: nowhere
  bool differs_ = false;
  double share_ = 0;
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_CASES_H_
