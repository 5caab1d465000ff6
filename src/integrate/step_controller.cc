#include "integrate/step_controller.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diffmj {
namespace {

// An error of zero says "grow", not "grow without bound" two steps later.
constexpr double kSmallestError = 1e-10;
// Times are sums of steps: so much of a step may be missing to the end of an interval by rounding.
constexpr double kRounding = 1e-10;

}  // namespace

void ErrorNorm::add(std::span<const double> error, std::span<const double> x0,
                    std::span<const double> x1) {
  for (size_t i = 0; i < error.size(); i++) {
    // max() may drop a NaN of x1: it must not pass
    sum_ += 0 * x1[i];
    if (error[i] == 0) continue;  // whatever the scale, which may be 0
    const double e = error[i] / (atol_ + rtol_ * std::max(std::abs(x0[i]), std::abs(x1[i])));
    sum_ += e * e;
  }
  n_ += error.size();
}

void ErrorNorm::add(std::span<const double> error, double magnitude) {
  const double scale = 1 / (atol_ + rtol_ * magnitude);
  for (const double e : error) sum_ += (e * scale) * (e * scale);
  n_ += error.size();
}

double ErrorNorm::value() const { return n_ == 0 ? 0 : std::sqrt(sum_ / static_cast<double>(n_)); }

StepController::StepController(const StepControl& options, int embedded_order)
    : options_(options), k_(embedded_order + 1) {}

double StepController::minimum(double t) const {
  return std::max(options_.min_step, 16 * std::numeric_limits<double>::epsilon() * std::abs(t));
}

double StepController::limited(double t, double h) const {
  // a NaN becomes the smallest step
  return std::min(h >= minimum(t) ? h : minimum(t), options_.max_step);
}

StepAttempt StepController::attempt(double t, double end, const StepControllerState& state) const {
  const double left = std::abs(end - t);
  const double h = std::min(state.h, options_.max_step);
  if (left <= h * (1 + kRounding)) return {left, true};
  return {left < 2 * h && !state.is_target ? left / 2 : h, false};
}

StepOutcome StepController::judge(double t, double h, double error,
                                  StepControllerState& state) const {
  const StepControl& o = options_;
  state.is_target = false;

  // accepted; written so that a NaN is not
  if (error <= 1) {
    const double e0 = std::max(error, kSmallestError);
    double factor = o.safety * std::pow(e0, -(o.p + o.i + o.d) / k_) *
                    std::pow(state.error1, (o.p + 2 * o.d) / k_) *
                    std::pow(state.error2, -o.d / k_);
    factor = std::clamp(factor, o.shrink, state.rejected ? 1.0 : o.grow);
    // cut short at an end: the step that was to be tried still is, unless this one says otherwise
    const bool cut = h < state.h && factor >= 1;
    state.h = limited(t, cut ? std::max(state.h, h * factor) : h * factor);
    state.error2 = state.error1;
    state.error1 = e0;
    state.rejected = false;
    state.naccepted++;
    return StepOutcome::kAccepted;
  }

  // rejected: nothing is learnt from a number that is not finite
  const bool finite = std::isfinite(error);
  const double factor = finite ? o.safety * std::pow(error, -1 / k_) : o.shrink;
  const double smallest = minimum(t);
  state.h = std::max(h * std::max(factor, o.shrink), smallest);
  state.rejected = true;
  state.nrejected++;
  if (h <= smallest) return finite ? StepOutcome::kBelowMinimum : StepOutcome::kNotFinite;
  return exhausted(state) ? StepOutcome::kBudgetExhausted : StepOutcome::kRejected;
}

double StepController::trial_step(double d0, double d1) const {
  // a state or a rate of zero says nothing about the scale of time
  return limited(0, d0 < 1e-5 || d1 < 1e-5 ? 1e-6 : 0.01 * d0 / d1);
}

double StepController::first_step(double h_trial, double d1, double d2) const {
  if (!std::isfinite(d1 + d2)) return limited(0, 0);
  const double d = std::max(d1, d2);
  const double h = d <= 1e-15 ? std::max(1e-6, 1e-3 * h_trial) : std::pow(0.01 / d, 1 / k_);
  return limited(0, std::min(100 * h_trial, h));
}

}  // namespace diffmj
