// Models that have settled are at kinks: limits that just hold, muscles whose activation has met
// its control, contacts that carry little. Their gradient is right on the side they are on, and
// check_gradient() says so; a wrong one is found there, too.
// label: smoke
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <random>
#include <string>

#include "check/directions.h"
#include "check/rollout_function.h"
#include "diffmj/check.h"
#include "diffmj/rollout.h"
#include "diffmj/state.h"

namespace diffmj {
namespace {

using Verdict = CheckDirection::Verdict;
using Method = CheckDirection::Method;

struct Start {
  State x;
  Vector ctrl;
  RolloutInput input() const {
    return {.qpos = x.qpos, .qvel = x.qvel, .act = x.act, .ctrl = ctrl, .time = x.time};
  }
};

Start settle(const Model& model, int nstep, Vector ctrl = {}) {
  Start start{.x = default_state(model), .ctrl = std::move(ctrl)};
  if (start.ctrl.empty()) start.ctrl.assign(static_cast<size_t>(model.nu()), 0.0);
  const Trajectory t = rollout(model, start.input(), nstep);
  EXPECT_TRUE(t.ok()) << t.message;
  start.x.time = t.time.back();
  start.x.qpos.assign(t.qpos.end() - t.nq, t.qpos.end());
  start.x.qvel.assign(t.qvel.end() - t.nv, t.qvel.end());
  start.x.act.assign(t.act.end() - t.na, t.act.end());
  return start;
}

std::string text(const CheckReport& report) {
  std::string out = report.reason;
  for (const CheckDirection& d : report.directions) {
    out += std::string("\n") + verdict_name(d.verdict) + " " + method_name(d.method) + " " +
           std::to_string(d.adjoint) + " " + std::to_string(d.differences) + " step " +
           std::to_string(d.step) + " " + d.kink;
  }
  return out;
}

// two fingers that a servo holds at the ends of their ranges
const char* const kFingers = R"(<mujoco><option gravity='0 0 0'/><worldbody>
    <body><joint name='hand' axis='0 1 0' damping='.1'/><geom size='.05' pos='.1 0 0' contype='0'/>
    <body><joint name='left' type='slide' axis='1 0 0' limited='true' range='0 .04' damping='10'/>
      <geom size='.01' contype='0' conaffinity='0'/></body>
    <body><joint name='right' type='slide' axis='0 0 1' limited='true' range='0 .04' damping='10'/>
      <geom size='.01' contype='0' conaffinity='0'/></body></body></worldbody>
    <actuator><position name='open' joint='left' kp='100' ctrlrange='0 .04'/>
      <position name='open too' joint='right' kp='100' ctrlrange='0 .04'/></actuator></mujoco>)";

Start near_limit(const Model& model, double distance) {
  Start start{.x = default_state(model), .ctrl = {0.04, 0.04}};
  start.x.qpos = {0.3, 0.04 - distance, 0.04 + distance};
  return start;
}

TEST(KinksAtRest, LimitsThatAreAlmostMet) {
  const Model model = Model::from_xml(kFingers);
  for (const double distance : {1e-9, 1e-13, 0.0, -1e-9}) {
    const Start start = near_limit(model, distance);
    const CheckReport report = check_gradient(model, start.input(), {.nstep = 5});
    EXPECT_TRUE(report.passed) << distance << ": " << text(report);
  }
}

const char* const kMuscles = R"(<mujoco><option timestep='.002' integrator='%s'/><worldbody>
    <body><joint name='a' axis='0 1 0' damping='.3'/><geom size='.1' pos='.2 0 0' contype='0'/>
    <body pos='.3 0 0'><joint name='b' axis='0 1 0' damping='.3'/>
      <geom size='.05' pos='.1 0 0' contype='0' conaffinity='0'/></body></body></worldbody>
    <actuator><muscle name='m0' joint='a' lengthrange='-1 1' force='3'/>
      <muscle name='m1' joint='a' gear='-1' lengthrange='-1 1' force='4'/>
      <muscle name='m2' joint='b' lengthrange='-1 1' force='3'/>
      <muscle name='m3' joint='b' gear='-1' lengthrange='-1 1' force='3'/></actuator></mujoco>)";

Model muscles(const char* integrator) {
  std::string xml = kMuscles;
  return Model::from_xml(xml.replace(xml.find("%s"), 2, integrator));
}

// activation and control are equal: at a bound, between the bounds, and after they have met
TEST(KinksAtRest, MusclesWhoseActivationHasMetItsControl) {
  for (const char* integrator : {"Euler", "implicitfast", "RK4"}) {
    const Model model = muscles(integrator);
    for (const double level : {0.0, 0.3, 1.0}) {
      Start start{.x = default_state(model), .ctrl = Vector(4, level)};
      start.x.act.assign(4, level);
      // the force-velocity curve bends at 0, which the metric of implicit integrators sees
      for (const Vector& qvel : {Vector{0.1, -0.2}, Vector{0, 0}}) {
        start.x.qvel = qvel;
        const CheckReport report = check_gradient(model, start.input(), {.nstep = 4});
        EXPECT_TRUE(report.passed) << integrator << " " << level << ": " << text(report);
      }
    }
    const Start settled = settle(model, 1500, {0.2, 0, 0.7, 1});
    const CheckReport report = check_gradient(model, settled.input(), {.nstep = 4});
    EXPECT_TRUE(report.passed) << integrator << ", settled: " << text(report);
  }
}

TEST(KinksAtRest, ControlsAtTheirBounds) {
  const Model model = Model::from_xml(kFingers);
  Start start{.x = default_state(model), .ctrl = {0.04, 0}};
  start.x.qpos = {0.3, 0.02, 0.02};
  const CheckReport report = check_gradient(model, start.input(), {.nstep = 5});
  EXPECT_TRUE(report.passed) << text(report);
}

// wherever it tilts to, a cylinder that stands has other contact points
TEST(KinksAtRest, ACylinderThatStandsUnderEveryIntegrator) {
  const char* const xml = R"(<mujoco><worldbody><geom name='floor' type='plane' size='5 5 1'/>
      <body pos='0 0 .0499'><freejoint/><geom name='can' type='cylinder' size='.08 .05'/></body>
      </worldbody></mujoco>)";
  const Start start = settle(Model::from_xml(xml), 300);
  for (const Integrator integrator :
       {Integrator::kEuler, Integrator::kImplicit, Integrator::kRk4, Integrator::kTsit5}) {
    const Model model = Model::from_xml(xml, {.integrator = integrator});
    const CheckReport report = check_gradient(model, start.input(), {.nstep = 4});
    EXPECT_TRUE(report.passed) << integrator_name(integrator) << ": " << text(report);
    EXPECT_TRUE(std::any_of(report.advice.begin(), report.advice.end(), [](const auto& line) {
      return line.find("the check leaves out the position of") != std::string::npos;
    }));
  }
}

TEST(KinksAtRest, BodiesThatLieOnAFloor) {
  const char* const geoms[] = {
      "type='box' size='.1 .07 .05'",
      "type='box' size='.1 .07 .05' margin='.01' gap='.01'",
      "type='cylinder' size='.08 .05'",
      "type='cylinder' size='.08 .05' margin='.002'",
      "type='capsule' size='.05 .1' euler='0 90 0'",
      "type='ellipsoid' size='.1 .07 .05'",
      "type='sphere' size='.05' margin='.001'",
  };
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (const char* geom : geoms) {
      const Model model =
          Model::from_xml(std::string("<mujoco><option cone='") + cone + R"('/><worldbody>
          <geom name='floor' type='plane' size='5 5 1'/>
          <body pos='0 0 .0499'><freejoint/><geom name='body' )" +
                          geom + "/></body></worldbody></mujoco>");
      const Start start = settle(model, 300);
      const CheckReport report = check_gradient(model, start.input(), {.nstep = 5});
      EXPECT_TRUE(report.passed) << cone << " " << geom << ": " << text(report);
    }
  }
}

// The gradient of a model with other numbers is a wrong one: it is found in every direction, though
// all of them meet a kink.
TEST(KinksAtRest, AWrongGradientIsFoundAtKinks) {
  const auto wrong_is_found = [](const Model& model, const Start& start, auto&& spoil) {
    mjModel* m = mj_copyModel(nullptr, model.mj());
    spoil(m);
    const Model wrong = Model::from_mjmodel(m).tightened(), right = model.tightened();
    mj_deleteModel(m);
    RolloutFunction function(right, start.input(), 3, {});
    std::mt19937 random(3);
    for (Vector* bar : {&function.qpos_bar, &function.qvel_bar, &function.act_bar}) {
      *bar = random_vector(bar->size(), 1, random);
    }
    StepwiseCheck good(right, function, 1e-5), bad(wrong, function, 1e-5);
    EXPECT_LT(good.distance(function.gradient(right)), 1e-9);
    for (int i = 0; i < 4; i++) {
      const Vector u = random_vector(function.size(), 0.1, random);
      EXPECT_EQ(check_rollout(function, function.gradient(right), u, 1e-5).verdict,
                Verdict::kAtKink);
      EXPECT_EQ(good.direction(random).verdict, Verdict::kAgrees);
      EXPECT_EQ(bad.direction(random).verdict, Verdict::kDiffers);
    }
  };
  const Model fingers = Model::from_xml(kFingers);
  wrong_is_found(fingers, near_limit(fingers, 1e-13), [](mjModel* m) { m->dof_damping[1] = 9.9; });
  const Model muscle = muscles("Euler");
  Start start{.x = default_state(muscle), .ctrl = Vector(4, 0.3)};
  start.x.act.assign(4, 0.3);
  wrong_is_found(muscle, start, [](mjModel* m) { m->body_mass[2] *= 1.01; });
  wrong_is_found(muscle, start, [](mjModel* m) { m->actuator_dynprm[mjNDYN * 2 + 1] *= 1.1; });
}

}  // namespace
}  // namespace diffmj
