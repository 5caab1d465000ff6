// The analytic path on what no model of the zoo has: steps against differences of mj_step.
#include <gtest/gtest.h>

#include "harness/stage_fixture.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

constexpr Integrator kIntegrators[] = {Integrator::kEuler, Integrator::kRk4, Integrator::kImplicit,
                                       Integrator::kImplicitFast};

void step_matches_differences(const Scene& scene, int directions) {
  ASSERT_EQ(scene.model.gradient_path(), GradientPath::kAnalytic);
  const size_t n = rollout_ntangent(scene, 1);
  EXPECT_TRUE(check_pullback(
      rollout_operation(scene, 1), Vector(n), n,
      {.tolerance = tolerances().smooth, .smallest = 1e-2, .directions = directions}))
      << scene.name << ", " << integrator_name(scene.model.integrator());
}

struct Case {
  const char *name, *mjcf;
};
class AnalyticCorners : public ::testing::TestWithParam<Case> {};

TEST_P(AnalyticCorners, StepMatchesDifferences) {
  for (const Integrator integrator : kIntegrators) {
    step_matches_differences(scene_from_xml(GetParam().mjcf, {.integrator = integrator}), 6);
  }
}

constexpr Case kCases[] = {
    {"hinge_below_mocap",
     "<mujoco><worldbody><body mocap='true' pos='1 2 3' euler='10 20 30'><geom size='.1'/>"
     "<site name='m' pos='.1 .2 .3'/><body pos='.2 0 0'><joint axis='0 1 0' pos='.1 0 0'/>"
     "<geom size='.1' pos='.1 .2 0'/><site name='s' pos='.1 0 0'/></body></body></worldbody>"
     "<actuator><position site='s' refsite='m' kp='3' kv='.4' gear='1 2 3 .4 .5 .6'/></actuator>"
     "</mujoco>"},
    {"several_damped_actuators_on_a_joint",
     "<mujoco><worldbody><body><joint type='ball' damping='.1 .2'/>"
     "<geom type='box' size='.1 .2 .3' pos='.1 0 0'/><body pos='.3 0 0'>"
     "<joint name='b' axis='1 0 1'/><geom size='.1' pos='0 .1 0'/></body></body></worldbody>"
     "<actuator><motor joint='b' gear='2' damping='.1 .2 .05' armature='.02'/>"
     "<motor joint='b' gear='-.5' damping='.2' armature='.1'/>"
     "<position joint='b' kp='3' kv='.2' gear='.7' damping='.03' armature='.01'/></actuator>"
     "</mujoco>"},
    {"damped_actuator_in_parent",
     "<mujoco><worldbody><body><joint axis='0 1 0' damping='.1 .2'/>"
     "<geom type='box' size='.1 .2 .3' pos='.1 0 0'/><body pos='.3 0 0'>"
     "<joint name='b' axis='1 0 1'/><geom size='.1' pos='0 .1 0'/></body></body></worldbody>"
     "<actuator><motor jointinparent='b' gear='2' damping='.1 .2 .05' armature='.02'/></actuator>"
     "</mujoco>"},
    {"actuator_gravcomp_without_actuators",
     "<mujoco><worldbody><body gravcomp='.7'><joint axis='0 1 0' actuatorgravcomp='true'/>"
     "<geom size='.1' pos='.1 .2 0'/></body></worldbody></mujoco>"},
    {"actuator_gravcomp_of_a_disabled_group",
     "<mujoco><option actuatorgroupdisable='0'/><worldbody><body gravcomp='.7'>"
     "<joint name='a' axis='0 1 0' actuatorgravcomp='true' actuatorfrcrange='-100 100'/>"
     "<geom size='.1' pos='.1 .2 0'/></body></worldbody><actuator><motor joint='a'/></actuator>"
     "</mujoco>"},
    {"no_gear_no_gain",
     "<mujoco><worldbody><body><freejoint/><geom type='box' size='.1 .2 .3'/><body pos='.3 0 0'>"
     "<joint name='b' axis='1 0 1'/><geom size='.1' pos='0 .1 0'/><site name='s' pos='0 .1 .1'/>"
     "</body></body></worldbody><actuator><position joint='b' kp='3' gear='0'/>"
     "<general joint='b' gainprm='0' biastype='affine' biasprm='1 -2 -.3'/>"
     "<general site='s' gear='0 0 0 0 0 0' gainprm='1' biastype='affine' biasprm='1 -2 -.3'/>"
     "</actuator></mujoco>"},
    // implicitfast takes the fluid on a lone free body, and on what is welded to it, as it is
    {"lone_free_body_with_a_welded_one_in_a_fluid",
     "<mujoco><option density='50' viscosity='.3' wind='1 0 .4'/><worldbody><body gravcomp='.4'>"
     "<joint name='f' type='free' stiffness='1 2 3' damping='.2 .3 .1'/>"
     "<geom type='box' size='.1 .2 .3'/><body pos='.3 0 0' euler='20 40 10' gravcomp='.5'>"
     "<geom type='capsule' size='.1 .2' pos='0 .1 0' fluidshape='ellipsoid'/></body></body>"
     "</worldbody><actuator><general joint='f' gear='1 2 3 .4 .5 .6' gainprm='1' biastype='affine'"
     " biasprm='1 -2 -.3'/></actuator></mujoco>"},
    {"servos_on_a_lone_free_body",
     "<mujoco><worldbody><site name='w' pos='1 0 0'/><body><joint type='free'/>"
     "<geom type='box' size='.1 .2 .3' pos='.1 0 0'/><site name='s' pos='.3 .1 .2'/></body>"
     "</worldbody><actuator><general site='s' gear='1 2 3 .4 .5 .6' gainprm='1' biastype='affine'"
     " biasprm='1 -2 -.3'/><position site='s' refsite='w' gear='1 0 0 0 .5 0' kp='4' kv='.6'/>"
     "</actuator></mujoco>"},
    // D has no entries for dofs of two trees
    {"servos_between_two_trees",
     "<mujoco><worldbody><body><joint type='free'/><geom type='box' size='.1 .2 .3' pos='.1 0 0'/>"
     "<site name='s' pos='.3 .1 .2'/></body><body pos='1 0 0'><joint axis='0 1 0'/>"
     "<geom type='box' size='.1 .2 .3' pos='.1 0 0'/><site name='t' pos='.3 .1 .2'/></body>"
     "</worldbody><actuator><position site='s' refsite='t' gear='1 .4 0 0 .5 0' kp='4' kv='.6'/>"
     "<general cranksite='s' slidersite='t' cranklength='3' gainprm='2' biastype='affine'"
     " biasprm='0 -2 -.5'/></actuator></mujoco>"},
};
INSTANTIATE_TEST_SUITE_P(Models, AnalyticCorners, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// every switch of smooth dynamics, with every integrator
TEST(AnalyticSwitches, StepMatchesDifferences) {
  for (const int flags :
       {int{mjDSBL_SPRING}, int{mjDSBL_DAMPER}, mjDSBL_SPRING | mjDSBL_DAMPER,
        int{mjDSBL_ACTUATION}, int{mjDSBL_GRAVITY}, int{mjDSBL_CLAMPCTRL}, int{mjDSBL_EULERDAMP}}) {
    SCOPED_TRACE(flags);
    for (unsigned seed = 1; seed <= 10; seed++) {
      const Scene tree = random_tree(seed);
      const MjModelPtr copy(mj_copyModel(nullptr, tree.model.mj()));
      copy->opt.disableflags |= flags;
      for (const Integrator integrator : kIntegrators) {
        Scene scene = tree;
        scene.model = Model::from_mjmodel(copy.get(), {.integrator = integrator});
        step_matches_differences(scene, 2);
      }
    }
  }
}

}  // namespace
}  // namespace diffmj
