// The steps of an explicit Runge-Kutta method from the last to the first: read from the record, or
// recomputed from its checkpoints.
#ifndef DIFFMJ_ADJOINT_REVERSE_STEPS_H_
#define DIFFMJ_ADJOINT_REVERSE_STEPS_H_

#include <optional>
#include <vector>

#include "base/checkpoints.h"
#include "base/parallel.h"
#include "diffmj/rollout.h"
#include "integrate/runge_kutta.h"
#include "record/adaptive.h"

namespace diffmj {

class ReverseSteps {
 public:
  ReverseSteps(const Model& model, const Trajectory& trajectory, Workspace& workspace);

  // Steps of interval i are those from first(i) to first(i + 1) - 1.
  int first(int interval) const {
    return trajectory_.integrator.first_step[static_cast<size_t>(interval)];
  }
  // Step n with its stages; n must be one less than at the last call, first the last of all. It is
  // good until the next call. whole: also the stage that only the dense output reads. Null if it
  // was stopped.
  RungeKutta* load(int n, bool whole, StopSignal& stop);

  // The event that ends step n, or null.
  const EventRecord* event(int n) const { return event_after(trajectory_, n); }

  long nrecomputed() const { return nrecomputed_; }
  const EvaluationTimes& times() const { return times_; }

 private:
  int interval_of(int n) const;
  void suppress_as_in(int n);
  void make(int n, bool whole);

  const Model& model_;
  const Trajectory& trajectory_;
  RungeKutta method_;
  RowMask mask_;  // what its step suppressed
  // if not every step is kept
  std::optional<Checkpoints> schedule_;
  StepState x_;
  std::vector<double> slots_;
  std::vector<int> slots_nefc_;
  long nrecomputed_ = 0;
  EvaluationTimes times_;
};

}  // namespace diffmj

#endif  // DIFFMJ_ADJOINT_REVERSE_STEPS_H_
