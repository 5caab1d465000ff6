#include "mj/active_set.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "harness/models.h"
#include "mj/handle.h"

namespace diffmj {
namespace {

// A ball on a plane, alone on its slide: all edges of its pyramid carry the same force.
TEST(ActiveSet, TellsTheImpedancesPieces) {
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (const int condim : {1, 3, 4, 6}) {
      SCOPED_TRACE(std::string(cone) + ", condim " + std::to_string(condim));
      const Model model = Model::from_xml(
          std::string("<mujoco><option cone='") + cone + "'/><default><geom condim='" +
          std::to_string(condim) +
          "' solimp='.5 .9 .01 .4 2'/></default><worldbody><geom type='plane' size='1 1 1'/>"
          "<body><joint type='slide' axis='0 0 1'/><geom size='.1'/></body></worldbody></mujoco>");
      const mjModel* m = model.mj();
      const MjDataPtr d(mj_makeData(m));
      const auto set_at = [&](double depth) {
        d->qpos[0] = .1 - depth;
        mj_forward(m, d.get());
        return active_set(m, d.get());
      };
      // not there; before the midpoint, behind it, where it is flat
      EXPECT_EQ(set_at(-.001), 0u);
      EXPECT_EQ(std::set<size_t>({set_at(.001), set_at(.005), set_at(.02)}).size(), 3u);
      EXPECT_EQ(set_at(.001), set_at(.003));
      EXPECT_EQ(set_at(.012), set_at(.02));
    }
  }
}

}  // namespace
}  // namespace diffmj
