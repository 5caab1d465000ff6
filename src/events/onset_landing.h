// Steps that end where a contact or limit begins, with an onset.
//
// Where the force of a constraint sets in over a width ε (stages/position/constraint_onset.h) there
// are no events. Steps need not end there; but one that reaches beyond it by much more than
// the width is rejected, and the error of a step that contains a corner does not tell where the
// corner is. Here the violation φ < 0 of a row and its rate φ' = J v at a stage do:
//
//   begin = t_stage - φ/φ',   width in time: ε/|φ'|                                            (1)
//
// A rejected step is repeated up to the first such begin, and the step after that is a share of the
// width. A step is not completed once a jump of the rates between two stages makes it certain to be
// rejected (docs/derivations/adaptive.md, eq. 15).
//
// gradient: all of this is a choice of step sizes, which are not differentiated.
#ifndef DIFFMJ_EVENTS_ONSET_LANDING_H_
#define DIFFMJ_EVENTS_ONSET_LANDING_H_

#include <optional>
#include <vector>

#include "integrate/runge_kutta.h"
#include "integrate/stage_watch.h"
#include "integrate/step_controller.h"

namespace diffmj {

// The limit or contact in d that began first within the last `elapsed` seconds, by (1); d must hold
// the velocity stage.
struct OnsetBegin {
  double ago;    // [s]
  double speed;  // [m/s or rad/s] with which its violation grows, > 0
};
std::optional<OnsetBegin> find_onset_begin(const mjData* d, double elapsed);

class OnsetLanding final : public StageWatch {
 public:
  // Watches the steps of the method, if the model has an onset; all must outlive it.
  OnsetLanding(const StepModel& impl, RungeKutta& method, const StepController& controller,
               const Workspace& workspace);

  // Before each attempt.
  void begin();
  bool goes_on(size_t i) override;
  // Of a step that was not completed: its error, as far as it is known.
  std::optional<double> error() const { return error_; }

  // The attempt of size h was rejected, or accepted: corrects what the controller made of that.
  void rejected(double h, StepControllerState& state);
  void accepted(StepControllerState& state);

 private:
  double jump_error(size_t i);

  RungeKutta& method_;
  const StepController& controller_;
  const Workspace& workspace_;
  const double width_;           // [m or rad]; 0: nothing is done
  std::vector<double> jump_;     // nv
  std::optional<double> begin_;  // [s] from the start of the attempt
  double speed_ = 0;             // with it
  std::optional<double> error_;
  bool lands_ = false;  // the next attempt ends where a constraint begins
  double landing_speed_ = 0;
};

}  // namespace diffmj

#endif  // DIFFMJ_EVENTS_ONSET_LANDING_H_
