// Adam of a plan: what it does where a step was bad.
#include "plan/adam.h"

#include <gtest/gtest.h>

#include "harness/models.h"

namespace diffmj {
namespace {

constexpr const char* kSlider = R"(<mujoco><worldbody><body>
  <joint name="x" type="slide"/><geom size="0.1"/></body></worldbody>
  <actuator><motor joint="x" ctrlrange="-4 4"/></actuator></mujoco>)";

struct Problem {
  PlanOptions options{.horizon = 1, .rate = 0.1};
  Model model = Model::from_xml(kSlider);
  PlanVariables variables{model, options};
  double step = 0.1 * 4;  // the rate in units of half the range; Adam's first step has its length
};

TEST(Adam, GoesBackAfterThreeIteratesWorseThanTheFirst) {
  const Problem p;
  AdamRun run({1.0}, p.options);
  run.step(true, 5, {2.0}, p.variables);
  EXPECT_NEAR(run.z()[0], 1 - p.step, 1e-6);
  const double best = run.z()[0];
  run.step(true, 4, {2.0}, p.variables);
  run.step(true, 6, {2.0}, p.variables);
  run.step(true, 7, {2.0}, p.variables);
  EXPECT_LT(run.z()[0], best - 2 * p.step);  // two in a row: it goes on
  run.step(true, 8, {2.0}, p.variables);
  EXPECT_NEAR(run.z()[0], best - p.step / 2, 1e-6);
  EXPECT_EQ(run.best()[0], best);
  EXPECT_EQ(run.cost(), 4);
}

TEST(Adam, RestartsFromItsBestWithHalfTheSteps) {
  const Problem p;
  AdamRun run({1.0}, p.options);
  run.restart(p.variables);  // without a gradient there is nothing to start from
  EXPECT_EQ(run.z()[0], 1.0);
  run.step(true, 5, {2.0}, p.variables);
  run.step(true, 6, {2.0}, p.variables);
  run.restart(p.variables);
  EXPECT_NEAR(run.z()[0], 1 - p.step / 2, 1e-6);
  run.restart(p.variables);
  EXPECT_NEAR(run.z()[0], 1 - p.step / 4, 1e-6);
  EXPECT_EQ(run.best()[0], 1.0);
}

TEST(Adam, GoesOnThroughARiseThatEnds) {
  const Problem p;
  AdamRun run({3.0}, p.options);
  for (const double cost : {5.0, 6.0, 6.0, 4.5, 6.0, 6.0, 4.0}) {
    const double before = run.z()[0];
    run.step(true, cost, {2.0}, p.variables);
    EXPECT_NEAR(run.z()[0], before - p.step, 1e-6);
  }
}

TEST(Adam, GoesBackFromADivergence) {
  const Problem p;
  AdamRun run({1.0}, p.options);
  run.step(true, 5, {2.0}, p.variables);
  run.step(false, 0, {}, p.variables);
  EXPECT_TRUE(run.alive());
  EXPECT_NEAR(run.z()[0], 1 - p.step / 2, 1e-6);
  AdamRun lost({1.0}, p.options);
  lost.step(false, 0, {}, p.variables);
  EXPECT_FALSE(lost.alive());
}

// One run of six steps, and two of three that share their moments, arrive at the same place.
TEST(Adam, GoesOnWithMomentsThatWereKept) {
  const Problem p;
  const auto steps = [&](AdamRun& run, int n) {
    for (int i = 0; i < n; i++) {
      const double x = run.z()[0];
      run.step(true, x * x, {2 * x}, p.variables);
    }
  };
  AdamRun whole({3.0}, p.options), first({3.0}, p.options);
  steps(whole, 6);
  steps(first, 3);
  AdamRun second(first.z(), p.options, first.moments());
  EXPECT_EQ(second.moments().count, 3);
  steps(second, 3);
  EXPECT_EQ(second.z(), whole.z());
  AdamRun forgetful(first.z(), p.options);
  steps(forgetful, 3);
  EXPECT_NE(forgetful.z(), whole.z());
}

TEST(Adam, HasAShareOfTheRate) {
  const Problem p;
  AdamRun run({1.0}, p.options, {}, 0.25);
  run.step(true, 5, {2.0}, p.variables);
  EXPECT_NEAR(run.z()[0], 1 - p.step / 4, 1e-6);
}

TEST(Adam, EndsWithAnIterateWithoutGradient) {
  const Problem p;
  AdamRun run({1.0}, p.options);
  run.step(true, 5, {}, p.variables);
  EXPECT_EQ(run.z()[0], 1);
  EXPECT_EQ(run.best()[0], 1);
  EXPECT_TRUE(run.alive());
}

}  // namespace
}  // namespace diffmj
