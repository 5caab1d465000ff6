// One step: every integrator on models that were written for another, and no allocation.
// label: smoke
#include "integrate/step.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "record/input.h"
#include "record/trajectory.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

const std::vector<Integrator> kIntegrators = {Integrator::kEuler, Integrator::kRk4,
                                              Integrator::kImplicit, Integrator::kImplicitFast};
// joints, rotations, activations, damping, fluid, contacts, equalities, tendons
const std::vector<std::string> kModels = {
    "joints_order",    "joints_ball",   "spin_free",         "act_basic", "springs_poly",
    "fluid_ellipsoid", "contact_plane", "contact_plane_ell", "eq_weld",   "tendon_wrap",
    "act_muscle",      "act_servo",     "act_general",       "adhesion"};

TEST(Step, PullbackOfEveryIntegratorMatchesDifferences) {
  for (Integrator integrator : kIntegrators) {
    for (const std::string& name : kModels) {
      SCOPED_TRACE(name + ", " + integrator_name(integrator));
      const Scene scene = zoo(name, {.integrator = integrator});
      const size_t n = rollout_ntangent(scene, 1);
      EXPECT_TRUE(check_pullback(rollout_operation(scene, 1), Vector(n, 0.0), n,
                                 {.tolerance = tolerances().step, .directions = 4}));
    }
  }
}

// the differences of mj_step serve any model: both paths must agree
TEST(Step, DifferencesAgreeWithImplicitPath) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    const Scene scene = zoo(name);
    const Model model = scene.model.tightened();
    const ModelImpl& impl = model.impl();
    const Vector xfrc_applied(6 * static_cast<size_t>(model.nbody()), 0.1);
    RolloutInput pushed = scene.input();
    pushed.xfrc_applied = xfrc_applied;
    const Trajectory t = rollout(model, pushed, 1);
    WorkspaceLease workspace(impl);
    reset_data(model, scene.mocap_pos, scene.mocap_quat, *workspace);
    const StepInput in = step_input(t, 0);
    StepBar implicit, differences;
    for (StepBar* bar : {&implicit, &differences}) {
      bar->resize(impl, model.ntangent(), true);
      bar->next.setIdentity();
    }
    step_pullback(impl, in, t.qacc, implicit, *workspace);
    differences_step_pullback(impl, in, {}, differences, *workspace);
    // differences of the whole step at 1e-5 are the coarser of the two
    constexpr double kTolerance = 1e-5;
    EXPECT_LE((implicit.x - differences.x).norm(), kTolerance * implicit.x.norm());
    EXPECT_LE((implicit.ctrl - differences.ctrl).norm(),
              kTolerance * (implicit.ctrl.norm() + 1e-3));
    EXPECT_LE((implicit.qfrc_applied - differences.qfrc_applied).norm(),
              kTolerance * implicit.qfrc_applied.norm());
    EXPECT_LE((implicit.xfrc_applied - differences.xfrc_applied).norm(),
              kTolerance * implicit.xfrc_applied.norm());
  }
}

TEST(Step, PullbackAllocatesNothing) {
  for (Integrator integrator : kIntegrators) {
    for (const char* name : {"act_basic", "contact_plane_ell", "contact_pairs"}) {
      const Scene scene = zoo(name, {.integrator = integrator});
      const ModelImpl& impl = scene.model.impl();
      const Trajectory t = rollout(scene.model, scene.input(), 1);
      WorkspaceLease workspace(impl);
      reset_data(scene.model, scene.mocap_pos, scene.mocap_quat, *workspace);
      const StepInput in = step_input(t, 0);
      StepBar bar;
      bar.resize(impl, 1, true);
      bar.next.setOnes();
      step_pullback(impl, in, t.qacc, bar, *workspace);  // sizes the scratch
      const size_t before = allocations();
      step_pullback(impl, in, t.qacc, bar, *workspace);
      EXPECT_EQ(allocations() - before, 0U) << name << ", " << integrator_name(integrator);
    }
  }
}

// the scratch of a workspace carries nothing from one step to the next
TEST(Step, PullbackIgnoresWhatTheWorkspaceHeld) {
  const Scene scene = zoo("rk4_mixed");
  const ModelImpl& impl = scene.model.impl();
  const Trajectory t = rollout(scene.model, scene.input(), 5);
  WorkspaceLease workspace(impl);
  const auto run = [&](int i) {
    reset_data(scene.model, {}, {}, *workspace);
    StepBar bar;
    bar.resize(impl, 1, false);
    bar.next.setOnes();
    const StepInput in = step_input(t, i);
    step_pullback(impl, in, row(t.qacc, i, t.nv), bar, *workspace);
    return Matrix(bar.x);
  };
  const Matrix first = run(0);
  run(4);
  EXPECT_EQ(run(0), first);
}

}  // namespace
}  // namespace diffmj
