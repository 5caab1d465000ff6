// Dispatchers in mjCOLLISIONFUNC: nobody but the calls that ask for it sees another collider.
#include "mj/collider.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "diffmj/diffmj.h"
#include "mj/handle.h"
#include "setup/model_impl.h"

namespace diffmj {
namespace {

// every pair of shapes, near each other
std::string shapes(bool hfield) {
  return std::string("<mujoco><asset>") +
         (hfield ? "<hfield name='h' nrow='3' ncol='3' size='.5 .5 .1 .1' elevation='0 1 0 1 0 1 0 "
                   "1 0'/>"
                 : "") +
         R"(<mesh name='m' vertex='.1 0 0 -.1 0 0 0 .1 0 0 -.1 0 0 0 .1 0 0 -.1'/></asset>
<worldbody><geom type='plane' size='1 1 1' pos='0 0 -.05' euler='5 3 0'/>)" +
         (hfield ? "<geom type='hfield' hfield='h' pos='0 0 -.1'/>" : "") + R"(
<body pos='.02 .01 .03'><freejoint/><geom size='.08'/></body>
<body pos='.07 -.02 .01' euler='20 80 5'><freejoint/><geom type='capsule' size='.05 .1'/></body>
<body pos='-.03 .05 .02' euler='40 10 0'><freejoint/><geom type='ellipsoid' size='.05 .1 .08'/></body>
<body pos='.01 -.06 .04' euler='70 20 30'><freejoint/><geom type='cylinder' size='.05 .1'/></body>
<body pos='-.05 -.04 .05' euler='10 30 60'><freejoint/><geom type='box' size='.05 .1 .07'/></body>
<body pos='.03 .08 .02' euler='50 60 70'><freejoint/><geom type='mesh' mesh='m'/></body>
</worldbody></mujoco>)";
}

// all that MuJoCo says of contacts and distances after some steps
std::vector<double> fingerprint(const mjModel* m) {
  const MjDataPtr data(mj_makeData(m));
  mjData* d = data.get();
  std::vector<double> out;
  for (int step = 0; step < 10; step++) {
    mj_step(m, d);
    for (int i = 0; i < d->ncon; i++) {
      const mjContact& c = d->contact[i];
      out.push_back(c.dist);
      out.insert(out.end(), c.pos, c.pos + 3);
      out.insert(out.end(), c.frame, c.frame + 9);
    }
  }
  const auto ngeom = static_cast<int>(m->ngeom);
  for (int a = 0; a < ngeom; a++) {
    for (int b = a + 1; b < ngeom; b++) {
      std::array<mjtNum, 6> fromto = {};
      out.push_back(mj_geomDistance(m, d, a, b, 0.5, fromto.data()));
      out.insert(out.end(), fromto.begin(), fromto.end());
    }
  }
  return out;
}

// what the library itself finds
std::vector<double> rolled(const Model& model) {
  const State x = default_state(model);
  const Trajectory t = rollout(model,
                               {.qpos = x.qpos,
                                .qvel = x.qvel,
                                .act = {},
                                .ctrl = {},
                                .qfrc_applied = {},
                                .xfrc_applied = {},
                                .mocap_pos = {},
                                .mocap_quat = {}},
                               10);
  return t.qpos;
}

class ColliderTest : public ::testing::TestWithParam<bool> {};

TEST_P(ColliderTest, IsSeenByNobodyElse) {
  const std::string xml = shapes(GetParam());
  const Model plain = Model::from_xml(xml);
  const std::vector<double> before = fingerprint(plain.mj()), rolled_before = rolled(plain);

  const Model smooth = Model::from_xml(xml, {.collisions = {Collisions::kSmooth, 0.02}});
  EXPECT_EQ(fingerprint(plain.mj()), before);
  EXPECT_EQ(fingerprint(smooth.mj()), before) << "the user's calls on our copy of the model";
  EXPECT_EQ(rolled(plain), rolled_before);
  const std::vector<double> rolled_smooth = rolled(smooth);
  EXPECT_NE(rolled_smooth, rolled_before);

  // asked for, but outside of our calls of MuJoCo
  {
    const ColliderScope scope(smooth.impl().collider());
    EXPECT_EQ(fingerprint(plain.mj()), before);
  }

  // two simulators and the user at once
  std::atomic<int> wrong = 0;
  const auto repeat = [&](auto fn, const std::vector<double>& expected) {
    return std::thread([&wrong, fn, expected] {
      for (int i = 0; i < 20; i++) wrong += fn() != expected;
    });
  };
  std::vector<std::thread> threads;
  threads.push_back(repeat([&] { return rolled(smooth); }, rolled_smooth));
  threads.push_back(repeat([&] { return rolled(plain); }, rolled_before));
  threads.push_back(repeat([&] { return fingerprint(plain.mj()); }, before));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);

  // a callback in the middle of a rollout is the user's
  const State x = default_state(smooth);
  int calls = 0;
  RolloutOptions options;
  options.progress = [&](double) {
    calls++;
    EXPECT_EQ(fingerprint(plain.mj()), before);
  };
  (void)rollout(smooth,
                {.qpos = x.qpos,
                 .qvel = x.qvel,
                 .act = {},
                 .ctrl = {},
                 .qfrc_applied = {},
                 .xfrc_applied = {},
                 .mocap_pos = {},
                 .mocap_quat = {}},
                10, options);
  EXPECT_GT(calls, 0);
}

INSTANTIATE_TEST_SUITE_P(HeightField, ColliderTest, ::testing::Bool());

}  // namespace
}  // namespace diffmj
