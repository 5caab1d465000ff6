// Dispatchers are installed while other threads collide: the thread sanitizer sees no race, and
// whoever collides meanwhile has MuJoCo's contacts.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "mj/collider.h"
#include "mj/handle.h"

namespace diffmj {
namespace {

TEST(Collider, InstallsWhileOthersCollide) {
  char error[256] = "";
  const MjSpecPtr spec(mj_parseXMLString(
      "<mujoco><worldbody><geom type='plane' size='1 1 1'/><body pos='0 0 .09'><freejoint/><geom "
      "size='.1'/></body></worldbody></mujoco>",
      nullptr, error, sizeof(error)));
  ASSERT_TRUE(spec) << error;
  const MjModelPtr model(mj_compile(spec.get(), nullptr));
  ASSERT_TRUE(model);
  const mjModel* m = model.get();
  const MjDataPtr data(mj_makeData(m));
  mj_kinematics(m, data.get());

  std::atomic<bool> begun{false}, done{false};
  std::atomic<int> wrong{0};
  std::thread other([&] {
    const Collider self{.type = m->geom_type};
    while (!done) {
      std::array<mjPreContact, kMaxSeen> found;
      const int n = collide_as_mujoco(self, m, data.get(), found.data(), 0, 1, 0, false);
      wrong += n != 1 || found[0].dist > -0.0099 || found[0].dist < -0.0101;
      begun = true;
    }
  });
  while (!begun) std::this_thread::yield();
  for (int type1 = 0; type1 < mjNGEOMTYPES; type1++) {
    for (int type2 = type1; type2 < mjNGEOMTYPES; type2++) install_dispatcher(type1, type2);
  }
  done = true;
  other.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace diffmj
