// Ends the steps of a rollout where contacts and limits begin, or end while they carry force:
// docs/derivations/jumps.md.
#ifndef DIFFMJ_RECORD_LANDING_H_
#define DIFFMJ_RECORD_LANDING_H_

#include <optional>
#include <vector>

#include "integrate/runge_kutta.h"
#include "record/solver_steps.h"

namespace diffmj {

// Where a step ends.
struct Landing {
  double time = 0;  // [s]
  // What begins or ends there; empty: nothing.
  std::vector<RowMask::Row> rows = {};
  bool release = false;  // it ends
  double curvature = 0;  // [m/s² or rad/s²] mean of φ'', before the event
  // Something is held back at the end: the rates there are not those of the next step.
  bool jumps = false;
};

class EventLanding {
 public:
  // The method makes steps from x. Both must outlive this.
  EventLanding(const StepControl& control, RungeKutta& method, const StepState& x,
               EvaluationTimes& times)
      : control_(control), method_(method), x_(x), times_(times) {}

  // The step from x to this time, just made and finished, within which something was held back or
  // lost: it is made again, up to the first event within it. Nothing if numbers are not finite.
  std::optional<Landing> operator()(const IntervalInput& in, double end);

 private:
  double floor() const;
  bool step(const IntervalInput& in, double size, double end);
  std::optional<Landing> here();
  std::optional<Landing> begin(const IntervalInput& in, double h, double end);
  std::optional<Landing> release(const IntervalInput& in, double h, double end);

  const StepControl& control_;
  RungeKutta& method_;
  const StepState& x_;
  EvaluationTimes& times_;
  double next_ = 0;  // [s] where the last step ended
};

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_LANDING_H_
