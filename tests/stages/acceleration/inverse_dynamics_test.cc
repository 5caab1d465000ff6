// M a + c and M x against MuJoCo's, their pullbacks against differences of MuJoCo's.
#include "stages/acceleration/inverse_dynamics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/stage_fixture.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

// M a + c of MuJoCo, with the armature of joints alone: that of actuators is another stage's
Vector rne(Stage& stage) {
  Vector force(stage.qacc.size());
  mj_comVel(stage.m, stage.d);
  std::copy(stage.qacc.begin(), stage.qacc.end(), stage.d->qacc);
  mj_rne(stage.m, stage.d, 1, force.data());
  for (size_t i = 0; i < force.size(); i++) force[i] += stage.m->dof_armature[i] * stage.qacc[i];
  return force;
}

void pull_rne(Stage& stage, CVec lambda, const StageBar& bar) {
  stage.sweep.use(stage.m, stage.d, lambda, stage.sweep.L);
  inverse_dynamics_pullback(stage.m, stage.d, 1, stage.sweep, bar.params);
}

// M x of MuJoCo, x = qacc, without the armature of actuators
Vector mass_times(Stage& stage) {
  const mjModel* m = stage.m;
  Vector force(stage.qacc.size());
  mj_makeM(m, stage.d);
  mj_mulM(m, stage.d, force.data(), stage.qacc.data());
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    const int type = m->actuator_trntype[i];
    if (type != mjTRN_JOINT && type != mjTRN_JOINTINPARENT) continue;
    const int joint = m->actuator_trnid[2 * i];
    const double gear = m->actuator_gear[6 * m->actuator_outadr[i]];
    for (int k = m->jnt_dofadr[joint]; k < m->jnt_dofadr[joint] + dof_count(m->jnt_type[joint]);
         k++) {
      const auto dof = static_cast<size_t>(k);
      force[dof] -= gear * gear * m->actuator_armature[i] * stage.qacc[dof];
    }
  }
  return force;
}

void pull_mass(Stage& stage, CVec mu, const StageBar& bar) {
  Sweep& s = stage.sweep;
  s.use(stage.m, stage.d, mu, s.U);
  s.use(stage.m, stage.d, stage.qacc, s.C);
  mass_form_pullback(stage.m, stage.d, 1, s.U, s.C, s, bar.params);
}

const std::vector<Parameter> kInertias = {Parameter::kBodyMass,    Parameter::kBodyInertia,
                                          Parameter::kBodyIpos,    Parameter::kBodyIquat,
                                          Parameter::kDofArmature, Parameter::kGravity};
const std::vector<Parameter> kFrames = {Parameter::kBodyPos, Parameter::kBodyQuat,
                                        Parameter::kJntPos, Parameter::kJntAxis};

void forward_matches_mujoco(const Scene& scene) {
  Stage stage(scene);
  stage.set(Vector(stage.size()));
  Sweep& s = stage.sweep;
  const Vector lambda = wave(stage.qacc.size(), 2.0), force = rne(stage),
               momentum = mass_times(stage);
  stage.begin_sweep();
  s.use(stage.m, stage.d, lambda, s.L);
  s.use(stage.m, stage.d, stage.qacc, s.C);
  double phi = 0, psi = 0, size = 1;
  for (size_t i = 0; i < force.size(); i++) {
    phi += lambda[i] * force[i];
    psi += lambda[i] * momentum[i];
    size += std::abs(lambda[i] * force[i]) + std::abs(lambda[i] * momentum[i]);
  }
  EXPECT_NEAR(inverse_dynamics(stage.m, stage.d, s), phi, tolerances().forward * size);
  // the armature of tendons is not in the sweep
  if (stage.m->ntendon > 0) return;
  EXPECT_NEAR(mass_form(stage.m, stage.d, s.L, s.C), psi, tolerances().forward * size);
}

void pullback_matches_differences(const Scene& scene) {
  EXPECT_TRUE(check_stage(scene, rne, pull_rne));
  EXPECT_TRUE(check_stage(scene, rne, pull_rne, {.parameters = kInertias}));
  EXPECT_TRUE(check_stage(scene, rne, pull_rne, {.parameters = kFrames}));
}

class InverseDynamicsZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(InverseDynamicsZoo, ForwardMatchesMujoco) { forward_matches_mujoco(zoo(GetParam())); }

TEST_P(InverseDynamicsZoo, PullbackMatchesDifferences) {
  pullback_matches_differences(zoo(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Zoo, InverseDynamicsZoo, ::testing::ValuesIn(zoo_names()),
                         [](const auto& info) { return info.param; });

TEST(InverseDynamicsTrees, ForwardMatchesMujoco) {
  for (unsigned seed = 1; seed <= 40; seed++) {
    SCOPED_TRACE(seed);
    forward_matches_mujoco(random_tree(seed));
  }
}

TEST(InverseDynamicsTrees, PullbackMatchesDifferences) {
  for (unsigned seed = 1; seed <= 40; seed++) {
    SCOPED_TRACE(seed);
    pullback_matches_differences(random_tree(seed));
  }
}

TEST(InverseDynamicsTrees, MassFormPullbackMatchesDifferences) {
  for (unsigned seed = 1; seed <= 40; seed++) {
    SCOPED_TRACE(seed);
    const Scene scene = random_tree(seed);
    EXPECT_TRUE(check_stage(scene, mass_times, pull_mass));
    // MuJoCo leaves out of M what a body that is simple does not have before its parameters move
    EXPECT_TRUE(check_stage(
        scene, mass_times, pull_mass,
        {.parameters = {Parameter::kBodyMass, Parameter::kBodyInertia, Parameter::kDofArmature}}));
  }
}

// a pendulum: φ = λ (m l² a + m g l sin q), so dφ/dq = λ m g l cos q
TEST(InverseDynamics, Pendulum) {
  Scene scene = scene_from_xml(
      "<mujoco><worldbody><body><joint axis='0 1 0'/>"
      "<inertial pos='0 0 -0.5' mass='2' diaginertia='1e-9 1e-9 "
      "1e-9'/></body></worldbody></mujoco>");
  scene.x.qpos = {0.4};
  scene.x.qvel = {0.7};
  Stage stage(scene);
  stage.set(Vector(stage.size()));
  stage.qacc = {1.3};
  stage.begin_sweep();
  const Vector lambda = {0.9};
  stage.sweep.use(stage.m, stage.d, lambda, stage.sweep.L);
  const double mgl = 2 * 9.81 * 0.5;
  EXPECT_NEAR(inverse_dynamics(stage.m, stage.d, stage.sweep),
              0.9 * (2 * 0.25 * 1.3 + mgl * std::sin(0.4)), 1e-8);
  Vector qpos_bar(1), qvel_bar(1);
  inverse_dynamics_pullback(stage.m, stage.d, 1, stage.sweep, {});
  kinematics_pullback(stage.m, stage.d, stage.sweep, qpos_bar, qvel_bar, {});
  EXPECT_NEAR(qpos_bar[0], 0.9 * mgl * std::cos(0.4), 1e-8);
  EXPECT_NEAR(qvel_bar[0], 0, 1e-12);
}

// cotangents of (qpos, qvel) when every tree stands `away` from where it was
Vector pulled_at(const Scene& from, double away) {
  MjModelPtr copy(mj_copyModel(nullptr, from.model.mj()));
  Scene scene = from;
  for (int body = 1; body < static_cast<int>(copy->nbody); body++) {
    if (copy->body_parentid[body] == 0) copy->body_pos[3 * body] += away;
  }
  for (int joint = 0; joint < static_cast<int>(copy->njnt); joint++) {
    if (copy->jnt_type[joint] == mjJNT_FREE) {
      scene.x.qpos[static_cast<size_t>(copy->jnt_qposadr[joint])] += away;
    }
  }
  scene.model = Model::from_mjmodel(copy.get());
  Stage stage(scene);
  stage.set(Vector(stage.size()));
  Vector z_bar(stage.size());
  const StageBar bar(stage, z_bar);
  const Vector lambda = wave(stage.qacc.size(), 2.0);
  stage.begin_sweep();
  pull_rne(stage, lambda, bar);
  kinematics_pullback(stage.m, stage.d, stage.sweep, bar.qpos, bar.qvel, bar.params);
  return z_bar;
}

// a kilometre away nothing is lost: spatial vectors are about the tree's own centre of mass
TEST(InverseDynamics, PullbackIsTheSameFarAway) {
  for (unsigned seed = 1; seed <= 20; seed++) {
    const Scene scene = random_tree(seed);
    const Vector here = pulled_at(scene, 0), there = pulled_at(scene, 1000);
    double size = 1;
    for (double value : here) size = std::max(size, std::abs(value));
    for (size_t i = 0; i < here.size(); i++) EXPECT_NEAR(there[i], here[i], 1e-9 * size) << seed;
  }
}

}  // namespace
}  // namespace diffmj
