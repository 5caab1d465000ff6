// The discrete adjoint against differences of mj_step, over the zoo and random models.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

class DiscreteAdjointZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(DiscreteAdjointZoo, OneStepMatchesDifferences) {
  const Scene scene = zoo(GetParam());
  const size_t n = rollout_ntangent(scene, 1);
  EXPECT_TRUE(check_pullback(rollout_operation(scene, 1), Vector(n, 0.0), n,
                             {.tolerance = tolerances().step}));
}

TEST_P(DiscreteAdjointZoo, TenStepsMatchDifferences) {
  const Scene scene = zoo(GetParam());
  const size_t n = rollout_ntangent(scene, 10);
  EXPECT_TRUE(check_pullback(rollout_operation(scene, 10), Vector(n, 0.0), n,
                             {.tolerance = tolerances().trajectory, .directions = 4}));
}

INSTANTIATE_TEST_SUITE_P(Zoo, DiscreteAdjointZoo, ::testing::ValuesIn(zoo_names()),
                         [](const auto& info) { return info.param; });

class DiscreteAdjointRandom : public ::testing::TestWithParam<unsigned> {};

TEST_P(DiscreteAdjointRandom, ThreeStepsMatchDifferences) {
  const Scene scene = random_scene(GetParam());
  const size_t n = rollout_ntangent(scene, 3);
  EXPECT_TRUE(check_pullback(rollout_operation(scene, 3), Vector(n, 0.0), n,
                             {.tolerance = tolerances().trajectory, .directions = 4}));
}

INSTANTIATE_TEST_SUITE_P(Random, DiscreteAdjointRandom, ::testing::Range(1U, 25U));

}  // namespace
}  // namespace diffmj
