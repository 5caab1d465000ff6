// MyoSuite's models: what the fixtures promise, and their gradients on the analytic path.
#include "harness/myo_models.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>

#include "harness/models.h"
#include "harness/stage_fixture.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

TEST(MyoModels, AllHaveMusclesOnTendons) {
  DIFFMJ_NEED_MYO_MODELS();
  const std::vector<MyoModel> models = myo_models();
  ASSERT_EQ(models.size(), myo_names().size());
  ASSERT_GE(models.size(), 8U);
  for (const MyoModel& model : models) {
    SCOPED_TRACE(model.name);
    int nmuscle = 0;
    for (int i = 0; i < static_cast<int>(model.mj->nactuator); i++) {
      nmuscle += model.mj->actuator_dyntype[i] == mjDYN_MUSCLE &&
                 model.mj->actuator_gaintype[i] == mjGAIN_MUSCLE &&
                 model.mj->actuator_trntype[i] == mjTRN_TENDON;
    }
    EXPECT_GE(nmuscle, 5);
  }
}

TEST(MyoModels, ScenesAreAliveAndAwayFromTheSwitchOfMuscles) {
  DIFFMJ_NEED_MYO_MODELS();
  for (const std::string& name : myo_names()) {
    SCOPED_TRACE(name);
    const Scene scene = myo_scene(name);
    ASSERT_GT(scene.model.na(), 0);
    for (double act : scene.x.act) EXPECT_NEAR(act, 0.1, 1e-3);
    for (double ctrl : scene.ctrl) EXPECT_GE(ctrl, 0.2);
    const Trajectory t = rollout(scene.model, scene.input(), 10);
    ASSERT_TRUE(t.ok()) << t.message;
    // what the constraints of a model are there for
    if (name.rfind("hand", 0) == 0 || name == "arm_prosthesis" || name == "legs") {
      EXPECT_GT(t.steps[0].ncon, 0);
    }
  }
}

class MyoGradient : public ::testing::TestWithParam<std::string> {};

Gradient gradient(const Scene& scene, int nstep) {
  const auto rows = static_cast<size_t>(nstep + 1);
  const Vector qpos = wave(rows * static_cast<size_t>(scene.model.nv()), 0.1),
               qvel = wave(rows * static_cast<size_t>(scene.model.nv()), 0.7),
               act = wave(rows * static_cast<size_t>(scene.model.na()), 1.3);
  return rollout_pullback(scene.model, rollout(scene.model, scene.input(), nstep),
                          {.qpos_tangent = qpos, .qvel = qvel, .act = act});
}

// MuJoCo's collider iterates on ellipsoids (finger tips) and on the cylinder that stands on a box
// (what the prosthesis is to grasp), with results so noisy that differences of a rollout, and of
// the oracle, tell little (docs/gradients.md, how exact contact geometry is): these do not collide
// here.
Scene smooth_scene(const std::string& name) {
  Scene scene = myo_scene(name);
  const MjModelPtr copy(mj_copyModel(nullptr, scene.model.mj()));
  for (int i = 0; i < static_cast<int>(copy->ngeom); i++) {
    const int type = copy->geom_type[i];
    if (type != mjGEOM_ELLIPSOID && (type != mjGEOM_CYLINDER || name != "arm_prosthesis")) continue;
    copy->geom_contype[i] = copy->geom_conaffinity[i] = 0;
  }
  scene.model = Model::from_mjmodel(copy.get());
  return scene;
}

TEST_P(MyoGradient, AnalyticAgreesWithOracle) {
  DIFFMJ_NEED_MYO_MODELS();
  const Scene scene = smooth_scene(GetParam());
  ASSERT_EQ(scene.model.gradient_path(), GradientPath::kAnalytic)
      << scene.model.gradient_path_reason();
  const Gradient a = gradient(scene, 2),
                 b = gradient(with_options(scene, {.gradient_path = GradientPath::kOracle}), 2);
  const auto near = [&](const Vector& value, const Vector& expected, const char* what) {
    double size = 1, worst = 0;
    for (double x : expected) size = std::max(size, std::abs(x));
    for (size_t i = 0; i < value.size(); i++) {
      worst = std::max(worst, std::abs(value[i] - expected[i]));
    }
    EXPECT_LE(worst, tolerances().large_model * size) << what << ", of size " << size;
  };
  near(a.qpos_tangent, b.qpos_tangent, "qpos");
  near(a.qvel, b.qvel, "qvel");
  near(a.act, b.act, "act");
  near(a.ctrl, b.ctrl, "ctrl");
}

// Away from kinks: contacts and wraps change on the way, more of them the longer it is, and inside
// wrapping jumps a little with the number of its iterations, which shorter steps see more of. So
// each direction may be told by any of three steps; where none does, differences are inconclusive.
// Half of the directions at least must tell.
void matches_differences(const Scene& scene, int nstep, double tolerance) {
  const size_t n = rollout_ntangent(scene, nstep);
  constexpr int kDirections = 6;
  int conclusive = 0;
  std::string doubts;
  for (unsigned seed = 1; seed <= kDirections; seed++) {
    for (const double step : {1e-4, 1e-5, 1e-6}) {
      const auto result = check_pullback(
          rollout_operation(scene, nstep), Vector(n), n,
          {.tolerance = tolerance, .step = step, .levels = 5, .directions = 1, .seed = seed});
      if (std::string(result.message()).find("inconclusive") != std::string::npos) {
        doubts += std::string("\n") + result.message();
        continue;
      }
      EXPECT_TRUE(result) << nstep << " steps, differences over " << step;
      conclusive++;
      break;
    }
  }
  EXPECT_GE(conclusive, kDirections / 2) << nstep << " steps" << doubts;
}

TEST_P(MyoGradient, OneStepMatchesDifferencesOfMjStep) {
  DIFFMJ_NEED_MYO_MODELS();
  matches_differences(smooth_scene(GetParam()), 1, tolerances().step);
}

TEST_P(MyoGradient, FiftyStepsMatchDifferencesOfMjStep) {
  DIFFMJ_NEED_MYO_MODELS();
  Scene scene = smooth_scene(GetParam());
  // so far from the activations that these do not reach them, where the time constant switches
  for (double& ctrl : scene.ctrl) ctrl = 0.35 + 0.25 * ctrl;
  scene.model = scene.model.tightened();
  matches_differences(scene, 50, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, MyoGradient, ::testing::ValuesIn(myo_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace diffmj
