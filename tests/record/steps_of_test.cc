// Rollouts with the steps of another one.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "diffmj/diffmj.h"

namespace diffmj {
namespace {

Model pendulum(std::optional<double> step) {
  ModelOptions options{.integrator = Integrator::kTsit5};
  options.adaptive.interval = 0.01;
  options.adaptive.step = step;
  return Model::from_xml(
      "<mujoco><worldbody><body><joint/><geom size='.1' pos='.1 .2 .3'/></body></worldbody>"
      "</mujoco>",
      options);
}

RolloutInput at_time(double time) {
  RolloutInput input;
  input.time = time;
  return input;
}

// 1e13 s after the start of the first rollout numbers are 2 ms apart, and steps of 1 ms round to
// that or to nothing
TEST(StepsOf, LeavesOutStepsThatRoundToNothing) {
  const Model model = pendulum(0.001);
  const Trajectory first = rollout(model, at_time(0), 3);
  ASSERT_TRUE(first.ok()) << first.message;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  RolloutOptions options;
  options.steps_of = &first;
  options.interrupted = [&] { return std::chrono::steady_clock::now() > deadline; };
  const Trajectory later = rollout(model, at_time(1e13), 3, options);
  ASSERT_TRUE(later.ok()) << later.message;
  EXPECT_EQ(later.nstep, 3);
  EXPECT_LT(later.integrator.naccepted, first.integrator.naccepted);
  for (size_t i = 1; i < later.integrator.time.size(); i++) {
    EXPECT_GT(later.integrator.time[i], later.integrator.time[i - 1]);
  }
  EXPECT_EQ(later.integrator.time.back(), later.time.back());
  const std::vector<double> bar(4, 1.0);
  EXPECT_EQ(rollout_pullback(model, later, {.qpos_tangent = bar}).qvel.size(), 1U);
}

TEST(StepsOf, ServesARolloutWithoutSteps) {
  const Model model = pendulum({});
  const Trajectory none = rollout(model, at_time(0), 0);
  RolloutOptions options;
  options.steps_of = &none;
  const Trajectory again = rollout(model, at_time(0), 0, options);
  EXPECT_TRUE(again.ok()) << again.message;
  EXPECT_EQ(again.nstep, 0);
}

}  // namespace
}  // namespace diffmj
