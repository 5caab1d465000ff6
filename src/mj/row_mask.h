// Holds back constraints that become active within a step, so that its stages stay on the side of
// the jump on which it began.
//
// The rows at the start of the step are the base. A limit or contact that is not among them and
// whose violation φ = pos - margin may have been 0 since, by the rate J v, gets an aref so far away
// that it carries no force. So do those that are let go where the step begins: φ is 0 but for
// rounding, and grows.
#ifndef DIFFMJ_MJ_ROW_MASK_H_
#define DIFFMJ_MJ_ROW_MASK_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "mj/collider.h"
#include "mj/row_match.h"

namespace diffmj {

class RowMask {
 public:
  // collider: what gives the contacts of m, null if MuJoCo's do. Where a contact of it begins or
  // ends because its case does, φ has another rate than J v, and it may begin deep inside.
  explicit RowMask(const mjModel* m = nullptr, const Collider* collider = nullptr)
      : m_(m), collider_(collider) {}

  // A limit or contact that was not there.
  struct Row {
    int first = 0, n = 0;                        // its rows
    int type = 0, id = 0;                        // mjtConstraint; joint, tendon or contact
    double phi = 0, rate = 0;                    // [m or rad, and per second]
    double since() const { return phi / rate; }  // [s] since φ = 0
  };

  // Remembers the rows in d, whose position stage must have been evaluated, and the time.
  void set_base(const mjData* d, double time);
  // The same where those that leave are let go: the velocity stage must have been evaluated.
  // Returns them.
  const std::vector<Row>& set_base_without_leaving(const mjData* d, double time);
  // Finds what has become active since; the velocity stage must have been evaluated.
  const std::vector<Row>& find(const mjData* d);
  // And takes its force away.
  void hold(mjData* d);
  // The same of limits alone: where contacts begin from distance, none of them begins at once.
  void hold_limits(mjData* d);
  // Of the last find() or hold().
  const std::vector<Row>& rows() const { return rows_; }
  // Limits and contacts of the base are gone; those that are still there and leave: their rate is
  // > 0.
  bool lost() const { return lost_; }
  const std::vector<Row>& leaving() const { return leaving_; }
  // The rows were remembered at this time.
  void set_begin(double time) { begin_ = time; }

 private:
  void set_rates(const mjData* d);
  Row describe(const mjData* d, int i) const;
  bool is_let_go(int base_row) const;

  const mjModel* m_;
  const Collider* collider_;
  std::vector<double> rates_;  // of contacts, if the collider says
  RowMatch base_;
  double begin_ = 0;               // [s]
  std::vector<Row> let_go_;        // rows of the base
  std::vector<Row> rows_, still_;  // found: new ones, and those let go that are still there
  std::vector<Row> leaving_;
  bool lost_ = false;
};

// Of those, the one that became active first, or that leaves first.
const RowMask::Row& earliest(const std::vector<RowMask::Row>& rows);

}  // namespace diffmj

#endif  // DIFFMJ_MJ_ROW_MASK_H_
