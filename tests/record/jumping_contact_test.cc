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
  EXPECT_NE(what.find("use collisions=\"smooth\""), std::string::npos) << what;
}

TEST(JumpingContact, IsAWarningOfRolloutsThatRejectManySteps) {
  const Model model = Model::from_xml(kCubes, {.integrator = Integrator::kTsit5});
  WorkspaceLease workspace(model.impl());
  const Vector qpos = {0.1199, 0.12}, qvel = {1, 0}, far = {0.5, 0};
  StepStart start{.time = 0.3, .qpos = qpos, .qvel = qvel, .act = {}, .qacc = {}, .act_dot = {}};
  start.ncon = 4;
  // three in a row are what a contact that sets in takes
  JumpingContact few;
  for (int i = 0; i < 3; i++) few.rejected(start, 1e-3, 7);
  few.accepted();
  EXPECT_FALSE(few.warning(model, *workspace));
  JumpingContact many;
  for (int i = 0; i < 5; i++) many.rejected(start, i == 0 ? 1e-3 : 1e-5, 7);
  many.accepted();
  start.qpos = far;
  for (int i = 0; i < 4; i++) many.rejected(start, 1e-3, 9);
  const std::optional<Warning> warning = many.warning(model, *workspace);
  ASSERT_TRUE(warning);
  EXPECT_EQ(warning->kind, WarningKind::kJump);
  EXPECT_EQ(warning->first_step, 7);
  EXPECT_EQ(warning->text.rfind("jump: at 0.3 s the contact of geom 'fixed'", 0), 0U)
      << warning->text;
  // of few rejections among many steps
  for (int i = 0; i < 100; i++) many.accepted();
  EXPECT_FALSE(many.warning(model, *workspace));
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
