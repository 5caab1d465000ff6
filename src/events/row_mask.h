// Which limits and contacts are active, for steps that end where that changes.
//
// MuJoCo lists a limit or contact while its violation pos - margin is negative. Within rounding of
// 0 it comes and goes from one evaluation to the next, for example where two parts touch without
// pressing, or a joint rests at its limit. Here it is active while
//
//   φ = pos - margin + kOnMargin < 0
//
// and one that MuJoCo lists with φ ≥ 0 is suppressed: it gets an aref so far away that it carries
// no force.
//
// Constraints that become active within a step are suppressed, too, so that its Runge-Kutta stages
// stay on the side of the jump on which it began. The rows that are active at the start of the step
// are the base. A limit or contact that is not among them and whose φ may have been 0 since, by the
// rate J v, is suppressed; so are those that an event released where the step begins, while they
// leave.
#ifndef DIFFMJ_EVENTS_ROW_MASK_H_
#define DIFFMJ_EVENTS_ROW_MASK_H_

#include <mujoco/mujoco.h>

#include <span>
#include <vector>

#include "mj/collider.h"
#include "mj/row_match.h"
#include "mj/row_suppression.h"

namespace diffmj {

// What rounding makes of a distance, and more [m or rad]: a body at rest on its margin may seem to
// be so deep inside.
inline constexpr double kOnMargin = 1e-13;

// A limit or contact that begins or ends, as MuJoCo lists it at the state where it does.
struct EventConstraint {
  int type = 0;            // mjtConstraint
  int id = 0;              // joint, tendon or contact
  int geom[2] = {-1, -1};  // of a contact; -1: a flex
  int flex[2] = {-1, -1};  // of a contact; -1: a geom
  int row = 0, nrow = 0;   // its rows
  double rate = 0;         // [m/s or rad/s] of its violation
};

// What is active where a step begins.
struct RowBase {
  double time = 0;  // [s]
  RowList rows;
  // Of their first row: not active, or released by an event there.
  std::vector<int> inactive, released;
  int nactive = 0;  // rows that are active
};

class RowMask final : public RowSuppression {
 public:
  // collider: what gives the contacts of m, null if MuJoCo's do. Where a contact of it begins or
  // ends because its case does, φ has another rate than J v, and it may begin deep inside.
  explicit RowMask(const mjModel* m = nullptr, const Collider* collider = nullptr)
      : m_(m), collider_(collider) {}

  // A limit or contact, with all that is said of it once mjData holds another evaluation.
  struct Row {
    EventConstraint what;                             // with the rate of φ
    double phi = 0;                                   // [m or rad]
    double since() const { return phi / what.rate; }  // [s] since φ = 0
  };

  // Remembers the active rows in d, whose position stage must have been evaluated, and the time.
  // released: what an event there is about that released constraints.
  void set_base(const mjData* d, double time, std::span<const EventConstraint> released = {});
  // The same of the d that the next find() or suppress() is given.
  void set_base_at_next(double time, std::span<const EventConstraint> released);
  // One that was found before, and the one that is in use.
  void set_base(const RowBase& base);
  RowBase base() const;
  // No rows are known: whatever has φ < 0 is active.
  void clear_base();

  // Finds what has become active since; the velocity stage must have been evaluated.
  const std::vector<Row>& find(const mjData* d);
  // And takes its force away, as that of what is not active. Without contacts, limits alone: where
  // contacts begin from distance, none of them begins at once.
  void suppress(mjData* d, bool contacts) override;
  // Of the last find() or suppress(): what has become active.
  const std::vector<Row>& begun() const { return begun_; }
  // Limits and contacts of the base are gone; those that are still there and leave: their rate is
  // > 0.
  bool lost() const { return lost_; }
  const std::vector<Row>& leaving() const { return leaving_; }
  // The rows were remembered at this time.
  void set_begin(double time) { begin_ = time; }

 private:
  enum class Base { kNone, kKnown, kAtNext };

  void set_rates(const mjData* d);
  Row describe(const mjData* d, int i) const;

  const mjModel* m_;
  const Collider* collider_;
  std::vector<double> rates_;  // of contacts, if the collider says
  Base known_ = Base::kNone;
  RowMatch match_;
  double begin_ = 0;                                // [s]
  std::vector<EventConstraint> released_;           // at the base
  std::vector<int> inactive_rows_, released_rows_;  // as in RowBase
  int nactive_ = 0;
  std::vector<Row> begun_, idle_;  // found: what has become active; what else is suppressed
  std::vector<Row> leaving_;
  bool lost_ = false;
};

// Of those, the one that became active first, or that leaves first.
const RowMask::Row& earliest(const std::vector<RowMask::Row>& rows);

}  // namespace diffmj

#endif  // DIFFMJ_EVENTS_ROW_MASK_H_
