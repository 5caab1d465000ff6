#include "diffmj/serialize.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "diffmj/error.h"
#include "diffmj/gradient.h"
#include "harness/models.h"
#include "record/tape.h"

namespace diffmj {
namespace {

Gradient gradient(const Model& model, const Trajectory& trajectory) {
  std::vector<double> bar(trajectory.qpos.size());
  for (size_t i = 0; i < bar.size(); i++) bar[i] = 0.1 * static_cast<double>(i % 7) - 0.3;
  return rollout_pullback(model, trajectory, {.qpos = bar});
}

// every model of the zoo, MuJoCo's integrator and adaptive steps: a copy has the same gradient
TEST(Serialize, GradientsOfCopiesHaveTheSameBits) {
  for (const std::string& name : zoo_names()) {
    SCOPED_TRACE(name);
    const bool has_field = zoo(name).model.gradient_path() != GradientPath::kDifferences;
    for (const Integrator integrator : {Integrator::kModel, Integrator::kBosh3}) {
      if (integrator == Integrator::kBosh3 && !has_field) continue;
      ModelOptions options{.integrator = integrator};
      if (is_runge_kutta(integrator)) {
        options.adaptive.interval = 0.01;
        options.adaptive.stepping.rtol = 1e-3;
      }
      const Scene scene = zoo(name, options);
      const Model& model = scene.model;
      const Trajectory trajectory = rollout(model, scene.input(), 3);
      ASSERT_TRUE(trajectory.ok()) << trajectory.message;

      const Model copy = model_from_bytes(to_bytes(model), options);
      const std::string bytes = to_bytes(model, std::span(&trajectory, 1));
      const std::vector<Trajectory> read = trajectories_from_bytes(copy, bytes);
      ASSERT_EQ(read.size(), 1U);
      const Gradient expected = gradient(model, trajectory), found = gradient(copy, read[0]);
      EXPECT_EQ(found.qpos, expected.qpos);
      EXPECT_EQ(found.qvel, expected.qvel);
      EXPECT_EQ(found.ctrl, expected.ctrl);
      // every field: written again, it gives the same bytes
      EXPECT_EQ(to_bytes(copy, read), bytes);
    }
  }
}

// events and what was suppressed before them: a ball that falls on a floor and leaves it again
TEST(Serialize, EventsAreKept) {
  ModelOptions options{.integrator = Integrator::kBosh3};
  options.adaptive.interval = 0.05;
  const Model model = Model::from_xml(
      "<mujoco><option gravity='0 0 -10'/><default><geom solref='-2000 0'/></default><worldbody>"
      "<geom type='plane' size='5 5 .1'/><body pos='0 0 .15'><freejoint/><geom size='.1'/></body>"
      "</worldbody></mujoco>",
      options);
  for (const std::optional<int> checkpoints : {std::optional<int>(), std::optional<int>(3)}) {
    options.adaptive.checkpoints = checkpoints;
    const Model own = Model::from_mjmodel(model.mj(), options);
    const Trajectory trajectory = rollout(own, {}, 6);
    ASSERT_TRUE(trajectory.ok()) << trajectory.message;
    ASSERT_GE(trajectory.integrator.events.size(), 2U);
    ASSERT_GE(trajectory.tape->suppressed.size(), 2U);
    ASSERT_FALSE(trajectory.tape->suppressed.back().base.rows.contacts.empty());
    const std::string bytes = to_bytes(own, std::span(&trajectory, 1));
    const std::vector<Trajectory> read = trajectories_from_bytes(own, bytes);
    EXPECT_EQ(to_bytes(own, read), bytes);
    EXPECT_EQ(gradient(own, read.at(0)).qpos, gradient(own, trajectory).qpos);
  }
}

TEST(Serialize, RefusesBytesThatAreNotComplete) {
  const Scene scene = zoo("humanoid");
  const Model& model = scene.model;
  const Trajectory trajectory = rollout(model, scene.input(), 2);
  const std::string bytes = to_bytes(model, std::span(&trajectory, 1));
  // nothing is read beyond the end
  for (size_t n = 0; n < bytes.size(); n += n < 100 ? 1 : 97) {
    EXPECT_THROW((void)trajectories_from_bytes(model, std::string_view(bytes).substr(0, n)),
                 InputError);
  }
  EXPECT_THROW((void)model_from_bytes("nothing"), InputError);
}

}  // namespace
}  // namespace diffmj
