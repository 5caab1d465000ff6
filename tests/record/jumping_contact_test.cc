#include "record/jumping_contact.h"

#include <gtest/gtest.h>

#include "harness/models.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

// Two cubes that overlap. The shortest way out is along the axis along which they are farthest
// apart, and so the normal turns by 90 degrees where x passes y.
constexpr const char* kCubes = R"(<mujoco>
  <asset><mesh name="cube" vertex="-1 -1 -1 1 -1 -1 -1 1 -1 1 1 -1 -1 -1 1 1 -1 1 -1 1 1 1 1 1"
    scale=".1 .1 .1"/></asset>
  <worldbody>
    <geom name="fixed" type="mesh" mesh="cube"/>
    <body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
      <geom name="moving" type="mesh" mesh="cube"/></body>
  </worldbody></mujoco>)";

std::string find(const Model& model, const Vector& qpos, const Vector& qvel) {
  WorkspaceLease workspace(model.impl());
  const StepStart start{
      .time = 0, .qpos = qpos, .qvel = qvel, .act = {}, .qacc = {}, .act_dot = {}};
  return find_jumping_contact(model, start, 1e-3, *workspace);
}

TEST(JumpingContact, IsNamedWithItsTurn) {
  const Model model = Model::from_xml(kCubes, {.integrator = Integrator::kTsit5});
  const std::string what = find(model, {0.1199, 0.12}, {1, 0});
  EXPECT_NE(what.find("contact of geom 'fixed' and geom 'moving' jumps"), std::string::npos)
      << what;
  EXPECT_NE(what.find("90 degrees"), std::string::npos) << what;
  EXPECT_NE(what.find("overlap by 0.08 m"), std::string::npos) << what;
}

TEST(JumpingContact, GeomsWithoutANameHaveThatOfTheirBody) {
  std::string xml = kCubes;
  xml.replace(xml.find("<body>"), 6, "<body name=\"tool\">");
  const std::string name = "name=\"moving\" ";
  xml.erase(xml.find(name), name.size());
  const Model model = Model::from_xml(xml, {.integrator = Integrator::kTsit5});
  const std::string what = find(model, {0.1199, 0.12}, {1, 0});
  EXPECT_NE(what.find("geom 'fixed' and geom 1 of body 'tool' jumps"), std::string::npos) << what;
}

TEST(JumpingContact, SmoothMotionAndTouchingHaveNone) {
  const Model model = Model::from_xml(kCubes, {.integrator = Integrator::kTsit5});
  EXPECT_EQ(find(model, {0.15, 0.01}, {1, 0.3}), "");
  // from outside
  EXPECT_EQ(find(model, {0.2005, 0.01}, {-1, 0}), "");
  EXPECT_EQ(find(model, {0.5, 0}, {-1, 0}), "");
}

}  // namespace
}  // namespace diffmj
