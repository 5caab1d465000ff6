// The discrete adjoint against differences of mj_step, over the zoo and random models.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "record/tape.h"

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

// contacts that the record keeps are those that collision detection finds again, bit for bit
TEST(DiscreteAdjoint, KeptContactsGiveTheSameGradient) {
  for (const auto make : {humanoid_on_floor, box_stack, hand_with_object}) {
    const Scene scene = make({});
    SCOPED_TRACE(scene.name);
    constexpr int kSteps = 5;
    const Trajectory kept = rollout(scene.model, scene.input(), kSteps);
    ASSERT_EQ(kept.tape->contact_begin.size(), kSteps + 1U);
    ASSERT_FALSE(kept.tape->contacts.empty());
    const Trajectory found = rollout(scene.model, scene.input(), kSteps, {.keep_stages = false});
    ASSERT_TRUE(found.tape->contacts.empty());
    const Vector bar((kSteps + 1) * static_cast<size_t>(scene.model.nv()), 1.0);
    const Cotangents losses{.qpos_tangent = bar, .params = {"geom_size", "geom_friction"}};
    const Gradient a = rollout_pullback(scene.model, kept, losses),
                   b = rollout_pullback(scene.model, found, losses);
    EXPECT_EQ(a.qpos_tangent, b.qpos_tangent);
    EXPECT_EQ(a.qvel, b.qvel);
    EXPECT_EQ(a.params, b.params);
  }
}

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
