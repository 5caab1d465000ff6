// Poses that a rollout reads from its steps, and rollouts that keep no stages.
#include <gtest/gtest.h>

#include "diffmj/observables.h"
#include "harness/models.h"
#include "record/tape.h"

namespace diffmj {
namespace {

constexpr int kSteps = 7;

TEST(RolloutPoses, AreThoseOfPosesBitForBit) {
  std::vector<std::string> names;
  for (const Observable& x : observables()) names.emplace_back(x.name);
  for (const std::string& name : zoo_names()) {
    SCOPED_TRACE(name);
    const Scene scene = zoo(name);
    const std::vector<RolloutInput> inputs(2, scene.input());
    std::vector<Poses> seen(2);
    const std::vector<Trajectory> t =
        rollout_batch(scene.model, inputs, kSteps, {.observables = names, .poses = seen});
    ASSERT_TRUE(t[1].ok());
    const Poses expected = poses(scene.model, t[1], names);
    for (const Observable& x : observables()) {
      EXPECT_EQ(seen[1].*x.values, expected.*x.values) << x.name;
    }
  }
}

TEST(RolloutPoses, NeedOneEntryPerRollout) {
  const Scene scene = zoo("spin_free");
  std::vector<Poses> one(1);
  const std::vector<RolloutInput> inputs(2, scene.input());
  EXPECT_THROW(
      (void)rollout_batch(scene.model, inputs, kSteps, {.observables = {"xpos"}, .poses = one}),
      InputError);
  EXPECT_THROW(
      (void)rollout(scene.model, scene.input(), kSteps, {.observables = {"xpose"}, .poses = one}),
      InputError);
}

TEST(RolloutWithoutStages, HasTheSameStatesAndGradient) {
  for (const char* name : {"humanoid", "hand"}) {
    const Scene scene = zoo(name);
    const Trajectory t = rollout(scene.model, scene.input(), kSteps),
                     bare = rollout(scene.model, scene.input(), kSteps, {.keep_stages = false});
    EXPECT_TRUE(bare.tape->contacts.empty() && bare.tape->contact_begin.empty() &&
                bare.tape->tendon_numbers.empty());
    EXPECT_FALSE(t.tape->contact_begin.empty() && t.tape->tendon_numbers.empty());
    EXPECT_EQ(t.qpos, bare.qpos);
    const Vector bar(t.qvel.size(), 1.0);
    EXPECT_EQ(rollout_pullback(scene.model, t, {.qvel = bar}).qvel,
              rollout_pullback(scene.model, bare, {.qvel = bar}).qvel);
  }
}

}  // namespace
}  // namespace diffmj
