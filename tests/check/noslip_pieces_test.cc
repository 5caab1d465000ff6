// The certificate of models with a no-slip pass: the case of each of its updates and its number of
// sweeps belong to the piece that differences must keep to.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>
#include <string>

#include "diffmj/check.h"
#include "diffmj/state.h"
#include "harness/models.h"
#include "mj/handle.h"
#include "setup/workspace_lease.h"
#include "stages/step_input.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

// two sliders with dry friction, one on the other; relative to the inertia, a sweep that improves
// the cost by less than the tolerance is the last one
Model sliders(double tolerance) {
  const Model model = Model::from_xml(
      "<mujoco><option gravity='0 0 0' noslip_iterations='3'/>"
      "<default><joint type='slide' frictionloss='1'/></default><worldbody>"
      "<body><joint name='x' axis='1 0 0'/><geom size='.1' mass='1'/>"
      "<body><joint name='y' axis='1 1 0'/><geom size='.1' mass='1'/></body></body>"
      "</worldbody><actuator><motor joint='x'/><motor joint='y'/></actuator></mujoco>");
  const MjModelPtr copy(mj_copyModel(nullptr, model.mj()));
  copy->opt.noslip_tolerance = tolerance;
  return Model::from_mjmodel(copy.get(), {});
}

struct Evaluated {
  explicit Evaluated(const Model& model, const Vector& ctrl) : workspace(model.impl()) {
    const State x = default_state(model);
    StepInput in;
    in.qpos = x.qpos;
    in.qvel = x.qvel;
    in.ctrl = ctrl;
    vector_field_evaluate(model.impl(), in, {}, true, *workspace);
  }
  const Noslip& pass() { return workspace->noslip; }
  WorkspaceLease workspace;
};

void expect_passed(const Model& model, const Vector& ctrl) {
  const CheckReport report = check_gradient(model, {.ctrl = ctrl}, {.nstep = 1, .directions = 12});
  EXPECT_TRUE(report.passed) << report.reason;
  for (const CheckDirection& direction : report.directions) {
    EXPECT_LT(direction.error, 1e-6) << verdict_name(direction.verdict);
  }
}

// The main solver sticks: its bounds are 10 % further away. The pass is near its own, inside of
// some and beyond others.
TEST(NoslipPieces, DifferencesKeepToTheCaseOfEachUpdate) {
  const Vector distance = {2e-7, -3e-7, 5e-7, -8e-7, 1.3e-6, -2e-6, 4e-6, -7e-6};
  std::string bodies, motors;
  Vector ctrl;
  for (size_t i = 0; i < distance.size(); i++) {
    const std::string name = "x" + std::to_string(i);
    bodies += "<body><joint name='" + name +
              "' type='slide' frictionloss='1'/><geom size='.1' mass='1'/></body>";
    motors += "<motor joint='" + name + "'/>";
    ctrl.push_back(1 - distance[i]);
  }
  const Model model = Model::from_xml(
      "<mujoco><option gravity='0 0 0' noslip_iterations='1'><flag contact='disable'/></option>"
      "<worldbody>" +
      bodies + "</worldbody><actuator>" + motors + "</actuator></mujoco>");
  Evaluated at(model, ctrl);
  ASSERT_EQ(at.pass().updates.size(), distance.size());
  for (size_t i = 0; i < distance.size(); i++) {
    EXPECT_EQ(at.pass().updates[i].which,
              distance[i] > 0 ? Noslip::Case::kInside : Noslip::Case::kLow);
    EXPECT_LT(std::abs(at.pass().main_force[i]), 0.95);
  }
  expect_passed(model, ctrl);
}

// The second sweep is within 1e-6 of being the last one, or is.
TEST(NoslipPieces, DifferencesKeepToTheNumberOfSweeps) {
  const Vector ctrl = {0.3, 0.4};
  Evaluated all(sliders(0), ctrl);
  ASSERT_EQ(all.pass().sweeps.size(), 3U);
  const double improvement = all.pass().sweeps[1].improvement;
  ASSERT_GT(improvement, 1e-4);
  for (const double relative : {1 - 1e-6, 1 + 1e-6}) {
    const Model model = sliders(relative * improvement);
    Evaluated at(model, ctrl);
    ASSERT_EQ(at.pass().sweeps.size(), relative < 1 ? 3U : 2U);
    expect_passed(model, ctrl);
  }
}

}  // namespace
}  // namespace diffmj
