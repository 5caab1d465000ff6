// MyoSuite's models: what the fixtures promise.
#include "harness/myo_models.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include "harness/models.h"

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

}  // namespace
}  // namespace diffmj
