#include "mj/evaluation_hook.h"

#include <gtest/gtest.h>

#include <thread>

#include "harness/models.h"
#include "mj/callbacks.h"
#include "mj/handle.h"

namespace diffmj {
namespace {

void count(void* self, const mjData* /*d*/) { ++*static_cast<int*>(self); }

int step_counted(const Scene& scene, MjDataPtr& d) {
  int n = 0;
  const EvaluationHook hook(count, &n);
  mj_step(scene.model.mj(), d.get());
  return n;
}

TEST(EvaluationHook, SeesEveryEvaluationOfAStep) {
  const Scene rk4 = zoo("rk4_mixed"), euler = humanoid_on_floor({});
  MjDataPtr d(mj_makeData(rk4.model.mj())), e(mj_makeData(euler.model.mj()));
  EXPECT_EQ(step_counted(rk4, d), 4);
  EXPECT_EQ(step_counted(euler, e), 1);
  EXPECT_EQ(mjcb_control, nullptr);
}

TEST(EvaluationHook, SeesItsOwnThreadOnly) {
  const Scene scene = zoo("rk4_mixed");
  int n = 0;
  {
    const EvaluationHook hook(count, &n);
    EXPECT_NO_THROW(require_no_callbacks("test"));
    std::thread([&] {
      MjDataPtr d(mj_makeData(scene.model.mj()));
      mj_step(scene.model.mj(), d.get());
      EXPECT_EQ(step_counted(scene, d), 4);
    }).join();
    EXPECT_NE(mjcb_control, nullptr);  // this thread still looks
  }
  EXPECT_EQ(n, 0);
  EXPECT_EQ(mjcb_control, nullptr);
}

TEST(EvaluationHook, LeavesTheCallbackOfTheProcessAlone) {
  const Scene scene = zoo("rk4_mixed");
  MjDataPtr d(mj_makeData(scene.model.mj()));
  const mjfGeneric own = [](const mjModel*, mjData*) {};
  mjcb_control = own;
  EXPECT_EQ(step_counted(scene, d), 0);
  EXPECT_EQ(mjcb_control, own);
  EXPECT_THROW(require_no_callbacks("test"), UnsupportedError);
  mjcb_control = nullptr;
}

}  // namespace
}  // namespace diffmj
