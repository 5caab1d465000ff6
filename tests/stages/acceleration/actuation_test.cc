// Forces of actuators and their activations: pullbacks against differences of mj_fwdActuation.
#include "stages/acceleration/actuation.h"

#include <gtest/gtest.h>

#include "harness/stage_fixture.h"
#include "harness/tolerances.h"
#include "setup/model_impl.h"
#include "stages/evaluate_stages.h"
#include "stages/position/transmission.h"
#include "stages/velocity/passive.h"

namespace diffmj {
namespace {

// (qfrc_actuator, act_dot, act_next)
Vector actuate(Stage& stage) {
  const mjModel* m = stage.m;
  mjData* d = stage.d;
  mj_comVel(m, d);
  mj_passive(m, d);
  mj_tendon(m, d);
  mj_transmission(m, d);
  for (int i = 0; i < static_cast<int>(m->nout); i++) {
    d->actuator_velocity[i] = moment_dot(d, i, stage.x.qvel);
  }
  mj_fwdActuation(m, d);
  Vector y(d->qfrc_actuator, d->qfrc_actuator + m->nv);
  y.insert(y.end(), d->act_dot, d->act_dot + m->na);
  // the integrator's way of it, with a mass matrix to solve
  Eigen::VectorXd b(m->nv), act_next(m->na);
  mj_makeM(m, d);
  mj_factorM(m, d);
  advance_with_force(stage.scene.model.impl(), m, {}, b, act_next, stage.workspace);
  y.insert(y.end(), act_next.begin(), act_next.end());
  mj_fwdActuation(m, d);
  return y;
}

void pull(Stage& stage, CVec bar, const StageBar& to) {
  Workspace& w = stage.workspace;
  const ModelImpl& impl = stage.scene.model.impl();
  const auto nv = static_cast<size_t>(impl.nv), na = static_cast<size_t>(impl.na);
  const CVec lambda = bar.first(nv);
  const StepInput at = stage.input();
  // gravity compensation that actuators carry, within their clamps
  if (stage.m->flg_gravcomp) {
    clamp_lambda(stage.m, stage.d, lambda, w.lambda_gravcomp);
    for (size_t k = 0; k < nv; k++) {
      if (!stage.m->jnt_actgravcomp[stage.m->dof_jntid[k]]) w.lambda_gravcomp[k] = 0;
    }
    stage.sweep.use(stage.m, stage.d, w.lambda_gravcomp, stage.sweep.G);
    gravcomp_pullback(stage.m, stage.d, stage.sweep.G, stage.sweep, to.params);
  }
  const ActuationIn in{.in = &at,
                       .lambda = lambda,
                       .act_dot_bar = bar.subspan(nv, na),
                       .act_next_bar = bar.subspan(nv + na, na),
                       .act_from = {},
                       .act_dot_from = {},
                       .h = 0,
                       .mu = {},
                       .b = {}};
  actuation_pullback(impl, in, {.qpos = to.qpos, .qvel = to.qvel, .act = to.act, .ctrl = to.ctrl},
                     stage.sweep, to.params, w);
}

const std::vector<Parameter> kGains = {Parameter::kActuatorGainprm, Parameter::kActuatorBiasprm,
                                       Parameter::kActuatorGear, Parameter::kSitePos,
                                       Parameter::kActuatorDynprm};

void matches_differences(const Scene& scene) {
  if (has_controllers(scene.model.mj())) {
    // controllers are differences themselves, of step 1e-6
    EXPECT_TRUE(check_stage(scene, actuate, pull, {.tolerance = tolerances().stage})) << scene.name;
    return;
  }
  EXPECT_TRUE(check_stage(scene, actuate, pull)) << scene.name;
  EXPECT_TRUE(check_stage(scene, actuate, pull, {.parameters = kGains})) << scene.name;
}

class ActuationZoo : public ::testing::TestWithParam<std::string> {};

// the actuators on tendons, all of group 1, are of another path
TEST_P(ActuationZoo, PullbackMatchesDifferences) {
  Scene scene = analytic_zoo(GetParam());
  MjModelPtr copy(mj_copyModel(nullptr, scene.model.mj()));
  if (copy->ntendon > 0) copy->opt.disableactuator |= 1 << 1;
  scene.model = Model::from_mjmodel(copy.get());
  matches_differences(scene);
}

INSTANTIATE_TEST_SUITE_P(Zoo, ActuationZoo,
                         ::testing::Values("act_basic", "act_general", "act_servo",
                                           "act_servo_clamp", "springs_poly", "humanoid"),
                         [](const auto& info) { return info.param; });

TEST(ActuationTrees, PullbackMatchesDifferences) {
  for (unsigned seed = 1; seed <= 60; seed++) matches_differences(random_tree(seed));
}

Scene arm(const std::string& joint, const std::string& actuator, const std::string& option = "") {
  return scene_from_xml("<mujoco><compiler angle='radian'/><option integrator='Euler' " + option +
                        "/><worldbody>"
                        "<body gravcomp='.6'><joint name='a' axis='0 1 0' " +
                        joint +
                        "/><geom size='.1' pos='.3 0 0'/>"
                        "<body pos='.4 0 0' gravcomp='1.1'><joint name='b' axis='0 1 .4'/><geom "
                        "size='.1' pos='.2 0 0'/>"
                        "<site name='s' pos='.1 .1 0' euler='.3 .2 .1'/></body></body></worldbody>"
                        "<actuator>" +
                        actuator + "</actuator></mujoco>");
}

// every clamp, on and off
TEST(Actuation, Clamps) {
  const std::string servo = "<position joint='a' kp='5' kv='.3' ";
  const std::string filter =
      "<general joint='b' dyntype='filterexact' dynprm='.05' gainprm='3' biastype='affine' "
      "biasprm='.1 -2 -.3' ";
  const std::string disabled = servo + "group='3'/>" + filter + "group='3'/>";
  for (const Scene& scene : {
           arm("", servo + "forcerange='-.01 .01'/>"),
           arm("", servo + "forcerange='-100 100'/>"),
           arm("", servo + "ctrlrange='-.1 .1'/>"),
           arm("", servo + "ctrlrange='-.1 .1'/>", "actuatorgroupdisable='0'"),
           arm("", disabled, "actuatorgroupdisable='3'"),
           arm("actuatorfrcrange='-.01 .01'", servo + "/>"),
           arm("actuatorfrcrange='-100 100'", servo + "/>"),
           arm("actuatorfrcrange='-.01 .01' actuatorgravcomp='true'", servo + "/>"),
           arm("actuatorfrcrange='-100 100' actuatorgravcomp='true'", servo + "/>"),
           arm("", filter + "/>"),
           arm("", filter + "actearly='true'/>"),
           arm("", filter + "actearly='true' actrange='-.1 .1'/>"),
           arm("", filter + "actrange='-2 2' actearly='true'/>"),
           arm("", "<intvelocity joint='a' kp='3' kv='.2' actrange='-2 2'/>"),
           arm("", "<motor site='s' gear='1 2 0 0 .3 0' forcerange='-.1 .1'/>"),
       }) {
    matches_differences(scene);
  }
}

// cotangents of z from a force on the first dof
Vector pulled(const Scene& scene) {
  Stage stage(scene);
  stage.set(Vector(stage.size()));
  const size_t ny = actuate(stage).size();
  Vector z_bar(stage.size()), y_bar(ny);
  const StageBar bar(stage, z_bar);
  y_bar[0] = 1;
  stage.begin_sweep();
  pull(stage, y_bar, bar);
  kinematics_pullback(stage.m, stage.d, stage.sweep, bar.qpos, bar.qvel, bar.params);
  return z_bar;
}

// τ = g (kp u - kp g q - kv g v), g the gear
TEST(Actuation, PositionServo) {
  const Vector z_bar = pulled(arm("", "<position joint='a' kp='5' kv='.3' gear='2'/>"));
  const Vector expected = {-20, 0, -1.2, 0, 10};
  for (size_t i = 0; i < expected.size(); i++) EXPECT_NEAR(z_bar[i], expected[i], 1e-13) << i;
}

// at its very bound a control counts as within, so that an optimiser can leave the bound
TEST(Actuation, ControlAtItsBound) {
  for (const char* actuator : {"<motor joint='a' gear='2' ctrlrange='-.5 .5'/>",
                               "<pid joint='a' kp='2' input='pos' posrange='-.5 .5'/>"}) {
    Scene scene = arm("", actuator);
    for (const double bound : {-0.5, 0.5}) {
      scene.ctrl = {bound};
      EXPECT_NEAR(pulled(scene)[4], 2, 1e-8) << actuator;
      scene.ctrl = {1.001 * bound};
      EXPECT_NEAR(pulled(scene)[4], 0, 1e-8) << actuator;
    }
  }
}

// what the analytic path does not know is named
TEST(Actuation, ObstaclesAreNamed) {
  EXPECT_EQ(actuation_obstacle(arm("", "<motor joint='a'/>").model.mj(), 0), "");
  EXPECT_EQ(actuation_obstacle(arm("", "<muscle joint='a' lengthrange='-1 1'/>").model.mj(), 0),
            "");
  const Model held = Model::from_xml(
      "<mujoco><worldbody><body name='b'><freejoint/><geom size='.1'/></body></worldbody>"
      "<actuator><adhesion body='b' ctrlrange='0 1'/></actuator></mujoco>");
  EXPECT_EQ(actuation_obstacle(held.mj(), 0), "a body transmission (adhesion)");
}

}  // namespace
}  // namespace diffmj
