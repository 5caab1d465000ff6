// Passive forces, one kind at a time: pullbacks against differences of mj_passive.
#include "stages/velocity/passive.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/stage_fixture.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

// one kind of force of mj_passive
StageForward force(mjtNum* mjData::*kind) {
  return [kind](Stage& stage) {
    mj_comVel(stage.m, stage.d);
    mj_passive(stage.m, stage.d);
    const mjtNum* from = stage.d->*kind;
    return Vector(from, from + stage.m->nv);
  };
}

void pull_spring(Stage& stage, CVec lambda, const StageBar& bar) {
  if (passive_enabled(stage.m)) spring_pullback(stage.m, stage.d, lambda, bar.qpos, bar.params);
}
void pull_damper(Stage& stage, CVec lambda, const StageBar& bar) {
  if (!passive_enabled(stage.m)) return;
  damper_pullback(stage.m, lambda, stage.x.qvel, 0, {}, {}, bar.qvel, bar.params);
}
void pull_gravcomp(Stage& stage, CVec lambda, const StageBar& bar) {
  if (!passive_enabled(stage.m)) return;
  stage.sweep.use(stage.m, stage.d, lambda, stage.sweep.L);
  gravcomp_pullback(stage.m, stage.d, stage.sweep.L, stage.sweep, bar.params);
}
void pull_fluid(Stage& stage, CVec lambda, const StageBar&) {
  if (!passive_enabled(stage.m)) return;
  stage.sweep.use(stage.m, stage.d, lambda, stage.sweep.L);
  fluid_pullback(stage.m, stage.d, stage.sweep.L, stage.sweep);
}

::testing::AssertionResult check_spring(const Scene& scene) {
  return check_stage(scene, force(&mjData::qfrc_spring), pull_spring,
                     {.parameters = {Parameter::kJntStiffness, Parameter::kQposSpring}});
}
::testing::AssertionResult check_damper(const Scene& scene) {
  return check_stage(scene, force(&mjData::qfrc_damper), pull_damper,
                     {.parameters = {Parameter::kDofDamping, Parameter::kActuatorGear}});
}
::testing::AssertionResult check_gravcomp(const Scene& scene) {
  return check_stage(
      scene, force(&mjData::qfrc_gravcomp), pull_gravcomp,
      {.parameters = {Parameter::kBodyMass, Parameter::kBodyIpos, Parameter::kGravity}});
}
::testing::AssertionResult check_fluid(const Scene& scene) {
  return check_stage(scene, force(&mjData::qfrc_fluid), pull_fluid,
                     {.parameters = {Parameter::kBodyIpos, Parameter::kBodyIquat}});
}

void all_match(const Scene& scene) {
  EXPECT_TRUE(check_spring(scene)) << scene.name;
  EXPECT_TRUE(check_damper(scene)) << scene.name;
  EXPECT_TRUE(check_gravcomp(scene)) << scene.name;
  EXPECT_TRUE(check_fluid(scene)) << scene.name;
}

// the scene with other disable flags
Scene with_flags(const Scene& from, int flags) {
  MjModelPtr copy(mj_copyModel(nullptr, from.model.mj()));
  copy->opt.disableflags |= flags;
  Scene scene = from;
  scene.model = Model::from_mjmodel(copy.get());
  return scene;
}

class PassiveZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(PassiveZoo, PullbackMatchesDifferences) { all_match(analytic_zoo(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Zoo, PassiveZoo, ::testing::ValuesIn(analytic_zoo_names()),
                         [](const auto& info) { return info.param; });

TEST(PassiveTrees, PullbackMatchesDifferences) {
  for (unsigned seed = 1; seed <= 60; seed++) all_match(random_tree(seed));
}

// every type of joint, with polynomials, away from its reference
constexpr const char* kJoints =
    "<mujoco><option density='300' viscosity='.4' wind='.5 -.3 .2'/><worldbody>"
    "<body gravcomp='.6'><joint type='free' stiffness='3 2 1' damping='.5 .3 .2'/>"
    "<geom type='box' size='.1 .2 .15' pos='.02 .01 0'/>"
    "<body pos='.3 0 0' gravcomp='1.2'><joint name='h' axis='0 1 .5' pos='.1 0 0' stiffness='4 1.5 "
    "2.5'"
    " damping='.3 .15 .05' springref='20'/><geom type='capsule' size='.05 .1' "
    "fluidshape='ellipsoid'/></body>"
    "<body pos='0 .4 0'><joint type='ball' pos='0 .1 0' stiffness='1 .6 .8' damping='.1 .2 .1'/>"
    "<geom type='ellipsoid' size='.1 .07 .05' fluidshape='ellipsoid'/>"
    "<body pos='0 .2 .1' gravcomp='.3'><joint type='slide' axis='1 1 0' stiffness='50 30 400' "
    "damping='.5 .4'"
    " springref='-.03'/><geom size='.05'/></body></body></body></worldbody>"
    "<actuator><motor joint='h' gear='1.5' damping='.05 .02 .01' "
    "armature='.01'/></actuator></mujoco>";

TEST(Passive, EveryJoint) { all_match(scene_from_xml(kJoints)); }

TEST(Passive, Switches) {
  const Scene scene = scene_from_xml(kJoints);
  for (const int flags : {int{mjDSBL_SPRING}, int{mjDSBL_DAMPER}, mjDSBL_SPRING | mjDSBL_DAMPER,
                          int{mjDSBL_GRAVITY}}) {
    SCOPED_TRACE(flags);
    all_match(with_flags(scene, flags));
  }
}

// x k(x) of a hinge: τ = -x (4 + 1.5 x + 2.5 x²), and of a damper: τ = -v (0.3 + 0.2 |v|)
TEST(Passive, ClosedForm) {
  Scene scene = scene_from_xml(
      "<mujoco><compiler angle='radian'/><worldbody><body><joint stiffness='4 1.5 2.5' damping='.3 "
      ".2'"
      " springref='.1'/><geom size='.1'/></body></worldbody></mujoco>");
  scene.x.qpos = {0.6};
  scene.x.qvel = {-0.8};
  Stage stage(scene);
  stage.set(Vector(stage.size()));
  const Vector lambda = {0.7};
  Vector qpos_bar(1), qvel_bar(1);
  spring_pullback(stage.m, stage.d, lambda, qpos_bar, {});
  damper_pullback(stage.m, lambda, stage.x.qvel, 0, {}, {}, qvel_bar, {});
  EXPECT_NEAR(qpos_bar[0], -0.7 * (4 + 2 * 1.5 * 0.5 + 3 * 2.5 * 0.25), 1e-14);
  EXPECT_NEAR(qvel_bar[0], -0.7 * (0.3 + 2 * 0.2 * 0.8), 1e-14);
}

// |d| has no derivative at 0, d k(|d|) has: -k
TEST(Passive, SpringsAtTheirReferenceAreFinite) {
  Scene scene = scene_from_xml(kJoints);
  scene.x = default_state(scene.model);
  Stage stage(scene);
  stage.set(Vector(stage.size()));
  const Vector lambda = wave(stage.qacc.size(), 0.2);
  Vector z_bar(stage.size());
  const StageBar bar(stage, z_bar);
  pull_spring(stage, lambda, bar);
  for (double value : z_bar) EXPECT_TRUE(std::isfinite(value));
  for (size_t k = 0; k < 6; k++) EXPECT_NEAR(bar.qpos[k], -3 * lambda[k], 1e-14);
  for (size_t k = 7; k < 10; k++) EXPECT_NEAR(bar.qpos[k], -lambda[k], 1e-14);
}

}  // namespace
}  // namespace diffmj
