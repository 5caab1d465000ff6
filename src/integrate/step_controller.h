// Step sizes from error estimates. With E the estimate of a step (docs/derivations/adaptive.md),
//
//   error = rms_i E_i / (atol + rtol max(|x0_i|, |x1_i|)),   accepted if ≤ 1                   (3)
//   h'    = h clamp(safety e0^-(P+I+D)/k e1^(P+2D)/k e2^-D/k),   k = q + 1                     (4)
//
// e0, e1, e2 are the errors of this and the two accepted steps before [Soderlind03], q is the order
// of the embedded solution. A rejected step is repeated with h' = h safety e0^-1/k.
//
// gradient: step sizes and rejected steps are not differentiated, docs/derivations/adaptive.md.
#ifndef DIFFMJ_INTEGRATE_STEP_CONTROLLER_H_
#define DIFFMJ_INTEGRATE_STEP_CONTROLLER_H_

#include <cstddef>
#include <span>

#include "diffmj/adaptive.h"

namespace diffmj {

// eq. 3, over as many arrays as a state has.
class ErrorNorm {
 public:
  ErrorNorm(double rtol, double atol) : rtol_(rtol), atol_(atol) {}

  void add(std::span<const double> error, std::span<const double> x0, std::span<const double> x1);
  // The same for tangents of points that are all of one magnitude: 1 for rotations.
  void add(std::span<const double> error, double magnitude);
  // 0 of nothing; not finite if an entry is not.
  double value() const;

 private:
  double rtol_, atol_;
  double sum_ = 0;
  size_t n_ = 0;
};

enum class StepOutcome {
  kAccepted,
  kRejected,         // to be repeated with a smaller step
  kBelowMinimum,     // rejected, and the smallest step was tried
  kBudgetExhausted,  // rejected, and max_steps were made
  kNotFinite,        // as kBelowMinimum, but with numbers that are not finite
};

// What one step leaves to the next. It survives the ends of intervals: a step that was cut short
// there says nothing against a larger one.
struct StepControllerState {
  double h = 0;                   // [s] to be tried next; 0: first_step() is to be asked
  double error1 = 1, error2 = 1;  // e1, e2 of eq. 4
  bool rejected = false;          // the last attempt was: the next accepted step does not grow
  bool is_target = false;  // t + h is a place to stop at: h is not evened out with what is left
  long naccepted = 0, nrejected = 0;
};

struct StepAttempt {
  double h = 0;       // [s] > 0, in either direction of time
  bool last = false;  // it ends at the end of the interval: take that time, not t + h
};

class StepController {
 public:
  // The options are valid (ModelOptions::validate()), and the method has an error estimate.
  StepController(const StepControl& options, int embedded_order);

  const StepControl& options() const { return options_; }
  ErrorNorm error_norm() const { return {options_.rtol, options_.atol}; }

  // The step from t towards end. What is left is halved rather than cut into a step and a sliver.
  StepAttempt attempt(double t, double end, const StepControllerState& state) const;
  // Says what becomes of a step of size h at t with that error (eq. 3) and sets state.h.
  StepOutcome judge(double t, double h, double error, StepControllerState& state) const;
  // No attempt is left. To be asked before each: an accepted step is never taken back.
  bool exhausted(const StepControllerState& state) const {
    return state.naccepted + state.nrejected >= options_.max_steps;
  }

  // The first step [Hairer93, II.4]. With scaled norms d0 = |x0|, d1 = |f(x0)|, trial_step() is one
  // for Euler; with d2 = |f(x0 + h f(x0)) - f(x0)| / h after it, first_step() is the one to take.
  double trial_step(double d0, double d1) const;
  double first_step(double h_trial, double d1, double d2) const;

 private:
  double minimum(double t) const;            // [s] the smallest step at t
  double limited(double t, double h) const;  // h between it and max_step

  StepControl options_;
  double k_;  // q + 1
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_STEP_CONTROLLER_H_
