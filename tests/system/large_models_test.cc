// Gradients of the humanoid and of MyoSuite's hand with two balls, contacts closed.
#include <gtest/gtest.h>

#include "harness/models.h"
#include "harness/myo_models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

TEST(LargeModels, HumanoidMatchesDifferences) {
  const Scene scene = zoo("humanoid");
  for (int nstep : {1, 10}) {
    const size_t n = rollout_ntangent(scene, nstep);
    EXPECT_TRUE(check_pullback(rollout_operation(scene, nstep), Vector(n, 0.0), n,
                               {.tolerance = tolerances().large_model, .directions = 4}));
  }
}

TEST(LargeModels, MuscleHandMatchesDifferences) {
  DIFFMJ_NEED_MYO_MODELS();
  const Scene scene = myo_scene("hand_balls");
  const Trajectory t = rollout(scene.model, scene.input(), 1);
  ASSERT_GT(t.steps[0].ncon, 5);  // the balls lie in the palm
  for (int nstep : {1, 10}) {
    const size_t n = rollout_ntangent(scene, nstep);
    EXPECT_TRUE(check_pullback(rollout_operation(scene, nstep), Vector(n, 0.0), n,
                               {.tolerance = tolerances().large_model, .directions = 2}));
  }
}

}  // namespace
}  // namespace diffmj
