// label: smoke
#include "integrate/step_controller.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "harness/check_pullback.h"
#include "integrate/tableau.h"

namespace diffmj {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double norm(double rtol, double atol, const Vector& error, const Vector& x0, const Vector& x1) {
  ErrorNorm n(rtol, atol);
  n.add(error, x0, x1);
  return n.value();
}

TEST(ErrorNorm, ClosedForm) {
  // scales 0.1 + 0.01 * {200, 3, 0}: 2.1, 0.13, 0.1
  EXPECT_DOUBLE_EQ(norm(0.01, 0.1, {4.2, -0.13, 0.3}, {-200, 3, 0}, {100, -2, 0}),
                   std::sqrt((4.0 + 1 + 9) / 3));
  EXPECT_EQ(norm(1e-3, 1e-6, {}, {}, {}), 0);
  // rotations are of magnitude 1; arrays add up to one mean
  ErrorNorm n(0.01, 0.1);
  n.add(Vector{4.2}, Vector{-200}, Vector{100});
  n.add(Vector{0.22, 0.11}, 1);
  EXPECT_DOUBLE_EQ(n.value(), std::sqrt((4.0 + 4 + 1) / 3));
  // no error where the scale is zero
  EXPECT_EQ(norm(1e-3, 0, {0}, {0}, {0}), 0);
}

TEST(ErrorNorm, NothingThatIsNotFinitePasses) {
  for (const double bad : {kNan, kInfinity, -kInfinity}) {
    EXPECT_FALSE(norm(1e-3, 1e-6, {bad, 0}, {1, 1}, {1, 1}) <= 1);
    EXPECT_FALSE(norm(1e-3, 1e-6, {0, 1e-9}, {1, 1}, {1, bad}) <= 1);
    ErrorNorm n(1e-3, 1e-6);
    n.add(Vector{0, bad}, 1);
    EXPECT_FALSE(n.value() <= 1);
  }
}

TEST(StepController, FactorIsThatOfTheFormula) {
  const StepControl o = {.p = 0.3, .i = 0.5, .d = 0.1, .max_step = 100};
  const StepController controller(o, 4);
  StepControllerState state = {.h = 0.2, .error1 = 0.5, .error2 = 0.1};
  ASSERT_EQ(controller.judge(0, 0.2, 0.3, state), StepOutcome::kAccepted);
  EXPECT_DOUBLE_EQ(state.h, 0.2 * 0.9 * std::pow(0.3, -0.9 / 5) * std::pow(0.5, 0.5 / 5) *
                                std::pow(0.1, -0.1 / 5));
  EXPECT_EQ(state.error1, 0.3);
  EXPECT_EQ(state.error2, 0.5);
  // history is that of accepted steps
  const double h = state.h;
  ASSERT_EQ(controller.judge(0, h, 7, state), StepOutcome::kRejected);
  EXPECT_DOUBLE_EQ(state.h, h * 0.9 * std::pow(7, -1.0 / 5));
  EXPECT_EQ(state.error1, 0.3);
  EXPECT_EQ(state.naccepted, 1);
  EXPECT_EQ(state.nrejected, 1);
}

TEST(StepController, DefaultCoefficients) {
  const StepControl o;
  EXPECT_EQ(o.p, 0.2);
  EXPECT_EQ(o.i, 0.6);
  EXPECT_EQ(o.d, 0);
}

TEST(StepController, FactorIsBounded) {
  const StepController controller({.shrink = 0.25, .grow = 3, .max_step = 0.5}, 4);
  StepControllerState state = {.h = 0.1};
  ASSERT_EQ(controller.judge(0, 0.1, 0, state), StepOutcome::kAccepted);
  EXPECT_DOUBLE_EQ(state.h, 0.3);
  ASSERT_EQ(controller.judge(0, state.h, 0, state), StepOutcome::kAccepted);
  EXPECT_DOUBLE_EQ(state.h, 0.5);  // max_step
  ASSERT_EQ(controller.judge(0, state.h, 1e9, state), StepOutcome::kRejected);
  EXPECT_DOUBLE_EQ(state.h, 0.125);
  // no growth right after a rejection, growth after that
  ASSERT_EQ(controller.judge(0, state.h, 1e-8, state), StepOutcome::kAccepted);
  EXPECT_DOUBLE_EQ(state.h, 0.125);
  ASSERT_EQ(controller.judge(0, state.h, 1e-8, state), StepOutcome::kAccepted);
  EXPECT_GT(state.h, 0.2);
}

TEST(StepController, StepSurvivesTheEndOfAnInterval) {
  const StepController controller({}, 4);
  StepControllerState state = {.h = 0.4};
  // cut from 0.4 to 0.1: the error is tiny, the step is not forgotten
  const StepAttempt attempt = controller.attempt(1, 1.1, state);
  EXPECT_TRUE(attempt.last);
  EXPECT_DOUBLE_EQ(attempt.h, 1.1 - 1);
  ASSERT_EQ(controller.judge(1, attempt.h, 0.02, state), StepOutcome::kAccepted);
  EXPECT_DOUBLE_EQ(state.h, 0.4);
  // but where even the short step is at the limit it is
  ASSERT_EQ(controller.judge(1, 0.1, 0.99, state), StepOutcome::kAccepted);
  EXPECT_LT(state.h, 0.1);
}

TEST(StepController, WhatIsLeftIsHalved) {
  const StepController controller({}, 4);
  const StepControllerState state = {.h = 0.4};
  EXPECT_EQ(controller.attempt(0, 1, state).h, 0.4);
  EXPECT_FALSE(controller.attempt(0, 1, state).last);
  EXPECT_DOUBLE_EQ(controller.attempt(0.4, 1, state).h, 0.3);
  EXPECT_FALSE(controller.attempt(0.4, 1, state).last);
  EXPECT_TRUE(controller.attempt(0.7, 1, state).last);
  // backwards in time, and short by a rounding
  EXPECT_DOUBLE_EQ(controller.attempt(1, 0.4, state).h, 0.3);
  EXPECT_TRUE(controller.attempt(0.4 + 1e-13, 0, state).last);
  EXPECT_FALSE(controller.attempt(0.4 + 1e-6, 0, state).last);
}

TEST(StepController, ATargetIsNotHalved) {
  const StepController controller({.max_step = 100}, 4);
  StepControllerState state = {.h = 0.6, .is_target = true};
  EXPECT_EQ(controller.attempt(0, 1, state).h, 0.6);
  EXPECT_TRUE(controller.attempt(0, 0.5, state).last);
  // of the next attempt alone
  (void)controller.judge(0, 0.6, 0.5, state);
  EXPECT_FALSE(state.is_target);
  state = {.h = 0.6, .is_target = true};
  (void)controller.judge(0, 0.6, 2, state);
  EXPECT_FALSE(state.is_target);
}

TEST(StepController, OutcomesOfFailure) {
  const StepController controller({.min_step = 1e-3, .max_steps = 20}, 4);
  for (const double error : {100.0, kNan, kInfinity}) {
    StepControllerState state = {.h = 0.1};
    StepOutcome outcome = StepOutcome::kRejected;
    double smallest = 1;
    while (outcome == StepOutcome::kRejected) {
      smallest = state.h;
      outcome = controller.judge(0, state.h, error, state);
    }
    EXPECT_EQ(outcome, std::isfinite(error) ? StepOutcome::kBelowMinimum : StepOutcome::kNotFinite);
    EXPECT_EQ(smallest, 1e-3);  // the smallest was tried
    EXPECT_LT(state.nrejected, 8);
  }
  // time swallows the step
  StepControllerState state = {.h = 1e-3};
  EXPECT_EQ(controller.judge(1e15, 1e-3, 2, state), StepOutcome::kBelowMinimum);
  // the budget counts both kinds, and takes nothing back
  state = {.h = 0.1, .naccepted = 12, .nrejected = 6};
  EXPECT_FALSE(controller.exhausted(state));
  EXPECT_EQ(controller.judge(0, 0.1, 2, state), StepOutcome::kRejected);
  EXPECT_FALSE(controller.exhausted(state));
  StepControllerState accepted = state;
  EXPECT_EQ(controller.judge(0, 0.1, 2, state), StepOutcome::kBudgetExhausted);
  EXPECT_EQ(controller.judge(0, 0.1, 0.5, accepted), StepOutcome::kAccepted);
  EXPECT_TRUE(controller.exhausted(accepted));
}

TEST(StepController, FirstStep) {
  const StepController controller({.min_step = 1e-9, .max_step = 0.5}, 4);
  EXPECT_DOUBLE_EQ(controller.trial_step(2, 40), 0.01 * 2 / 40);
  EXPECT_DOUBLE_EQ(controller.trial_step(0, 40), 1e-6);
  EXPECT_DOUBLE_EQ(controller.trial_step(2, 0), 1e-6);
  EXPECT_DOUBLE_EQ(controller.first_step(5e-4, 40, 300), 100 * 5e-4);
  EXPECT_DOUBLE_EQ(controller.first_step(1e-2, 40, 300), std::pow(0.01 / 300, 0.2));
  EXPECT_DOUBLE_EQ(controller.first_step(1e-6, 0, 0), 1e-6);
  EXPECT_DOUBLE_EQ(controller.first_step(1, 1e-9, 1e-9), 0.5);
  // numbers that are not finite give the smallest step, which will say so
  EXPECT_EQ(controller.trial_step(kNan, 1), 1e-9);
  EXPECT_EQ(controller.trial_step(1, kNan), 1e-9);
  EXPECT_EQ(controller.first_step(1e-3, kNan, 1), 1e-9);
  EXPECT_EQ(controller.first_step(1e-3, 1, kNan), 1e-9);
  EXPECT_EQ(controller.first_step(1e-3, 1, kInfinity), 1e-9);
}

// Van der Pol's oscillator with μ = 5: slow arcs and fast jumps.
void van_der_pol(const Vector& x, Vector& f) {
  f[0] = x[1];
  f[1] = 5 * (1 - x[0] * x[0]) * x[1] - x[0];
}

struct Integrated {
  Vector x = {2, 0};
  StepControllerState state;
  StepOutcome outcome = StepOutcome::kAccepted;
  double smallest = 1, largest = 0;
  size_t allocations = 0;
};

// integrates to 20 in so many intervals
Integrated integrate(const Tableau& m, const StepControl& options, int ninterval) {
  const StepController controller(options, m.embedded_order);
  Integrated run;
  std::vector<Vector> k(m.nk, Vector(2));
  Vector x1(2), y(2), error(2), zero(2);
  const size_t before = allocations();
  van_der_pol(run.x, k[0]);
  {
    ErrorNorm d0 = controller.error_norm(), d1 = d0, d2 = d0;
    d0.add(run.x, run.x, run.x);
    d1.add(k[0], run.x, run.x);
    const double h = controller.trial_step(d0.value(), d1.value());
    for (size_t d = 0; d < 2; d++) y[d] = run.x[d] + h * k[0][d];
    van_der_pol(y, k[1]);
    for (size_t d = 0; d < 2; d++) error[d] = (k[1][d] - k[0][d]) / h;
    d2.add(error, run.x, run.x);
    run.state.h = controller.first_step(h, d1.value(), d2.value());
  }
  for (int interval = 0; interval < ninterval; interval++) {
    double t = 20.0 * interval / ninterval;
    const double end = 20.0 * (interval + 1) / ninterval;
    while (t < end) {
      if (controller.exhausted(run.state)) {
        run.outcome = StepOutcome::kBudgetExhausted;
        return run;
      }
      const StepAttempt attempt = controller.attempt(t, end, run.state);
      const double h = attempt.h;
      for (size_t i = 0; i < m.nstage; i++) {
        y = run.x;
        for (size_t j = 0; j < i; j++) {
          for (size_t d = 0; d < 2; d++) y[d] += h * m.A[i][j] * k[j][d];
        }
        van_der_pol(y, k[i]);
      }
      x1 = run.x;
      error = zero;
      for (size_t i = 0; i < m.nstage; i++) {
        for (size_t d = 0; d < 2; d++) {
          x1[d] += h * m.b[i] * k[i][d];
          error[d] += h * m.error[i] * k[i][d];
        }
      }
      ErrorNorm norm = controller.error_norm();
      norm.add(error, run.x, x1);
      run.outcome = controller.judge(t, h, norm.value(), run.state);
      if (run.outcome == StepOutcome::kRejected) continue;
      if (run.outcome != StepOutcome::kAccepted) return run;
      run.x = x1;
      t = attempt.last ? end : t + h;
      run.smallest = std::min(run.smallest, h);
      run.largest = std::max(run.largest, h);
    }
  }
  run.allocations = allocations() - before;
  return run;
}

TEST(StepController, ErrorFollowsTheTolerance) {
  const Vector reference = integrate(kDopri8, {.rtol = 1e-13, .atol = 1e-13}, 1).x;
  for (const Tableau* m : {&kHeun, &kBosh3, &kTsit5, &kDopri5, &kDopri8}) {
    SCOPED_TRACE(m->name);
    double last = kInfinity;
    for (const double tolerance : {1e-4, 1e-6, 1e-8}) {
      if (m->order == 2 && tolerance < 1e-7) continue;  // half a million steps
      const Integrated run = integrate(*m, {.rtol = tolerance, .atol = tolerance}, 1);
      ASSERT_EQ(run.outcome, StepOutcome::kAccepted);
      EXPECT_EQ(run.allocations, 0U);
      const double error = std::hypot(run.x[0] - reference[0], run.x[1] - reference[1]);
      EXPECT_LT(error, 300 * tolerance);
      EXPECT_LT(error, last / 5);
      // steps go with the solution, and few are rejected
      EXPECT_GT(run.largest, 4 * run.smallest);
      EXPECT_LT(static_cast<double>(run.state.nrejected),
                0.2 * static_cast<double>(run.state.naccepted) + 5);
      last = error;
    }
  }
}

TEST(StepController, IntervalsCostLittle) {
  const StepControl options = {.rtol = 1e-6, .atol = 1e-6};
  const Integrated one = integrate(kTsit5, options, 1), many = integrate(kTsit5, options, 100);
  const long steps = one.state.naccepted + one.state.nrejected;
  EXPECT_LT(many.state.naccepted + many.state.nrejected, steps + 2 * 100);
  EXPECT_NEAR(many.x[0], one.x[0], 1e-4);
}

TEST(StepController, BudgetEndsARun) {
  const Integrated run = integrate(kTsit5, {.rtol = 1e-6, .atol = 1e-6, .max_steps = 40}, 1);
  EXPECT_EQ(run.outcome, StepOutcome::kBudgetExhausted);
  EXPECT_EQ(run.state.naccepted + run.state.nrejected, 40);
  const Integrated enough = integrate(kTsit5, {.rtol = 1e-6, .atol = 1e-6}, 1);
  const long n = enough.state.naccepted + enough.state.nrejected;
  EXPECT_EQ(integrate(kTsit5, {.rtol = 1e-6, .atol = 1e-6, .max_steps = n}, 1).outcome,
            StepOutcome::kAccepted);
}

}  // namespace
}  // namespace diffmj
