// Ends the steps of a rollout where contacts and limits begin, or end while they carry force:
// docs/derivations/jumps.md.
#ifndef DIFFMJ_EVENTS_LANDING_H_
#define DIFFMJ_EVENTS_LANDING_H_

#include <optional>
#include <vector>

#include "events/step_events.h"
#include "integrate/runge_kutta.h"

namespace diffmj {

// Where a step ends.
struct Landing {
  double time = 0;  // [s]
  // What begins or ends there; empty: nothing.
  std::vector<RowMask::Row> rows = {};
  bool release = false;  // it ends
  double curvature = 0;  // [m/s² or rad/s²] mean of φ'', before the event
  // Something is suppressed at the end: the rates there are not those of the next step.
  bool jumps = false;
};

class EventLanding {
 public:
  // All must outlive this.
  EventLanding(const StepControl& control, RungeKutta& method, StepEvents& events,
               EvaluationTimes& times)
      : control_(control), method_(method), events_(events), times_(times) {}

  // The step to this time, just made and finished. Where something becomes active within it, or
  // ceases to be so while it carries force, it is repeated from where it started, up to the first
  // such event. Nothing if numbers are not finite.
  std::optional<Landing> operator()(const StepStart& start, const IntervalInput& in, double end);
  // The same of a step that must end there, whatever is within it.
  Landing as_given(double end);

 private:
  double floor() const;
  bool step(double size);
  Landing here();
  std::optional<Landing> begin(double h);
  std::optional<Landing> release(double h);

  const StepControl& control_;
  RungeKutta& method_;
  StepEvents& events_;
  EvaluationTimes& times_;
  // of the step
  StepStart start_;
  IntervalInput in_;
  double end_ = 0;   // [s] where it ended first
  double next_ = 0;  // [s] where the last one ended
};

}  // namespace diffmj

#endif  // DIFFMJ_EVENTS_LANDING_H_
