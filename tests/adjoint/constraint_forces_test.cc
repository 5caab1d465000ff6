// A loss on constraint forces: constraint_forces() against MuJoCo, and its cotangents against
// differences.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>
#include <memory>

#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

constexpr int kSteps = 2;

// forces of all steps, as a function of the tangent of the state and of the controls, which are
// held
Operation force_operation(const Scene& scene, GradientPath path) {
  const Model model = Model::from_mjmodel(scene.model.tightened().mj(), {.gradient_path = path});
  const auto n = static_cast<size_t>(model.ntangent());
  const auto run = [=](const Vector& z) {
    const State x = plus(model, scene.x, std::span(z).first(n));
    Vector ctrl = scene.ctrl;
    for (size_t i = 0; i < ctrl.size(); i++) ctrl[i] += z[n + i];
    RolloutInput input = scene.input();
    input.qpos = x.qpos;
    input.qvel = x.qvel;
    input.act = x.act;
    input.ctrl = ctrl;
    return rollout(model, input, kSteps);
  };
  return {
      .forward =
          [=](const Vector& z) {
            const Trajectory t = run(z);
            Vector y;
            for (int i = 0; i < kSteps; i++) {
              const Vector force = constraint_forces(model, t, i).force;
              y.insert(y.end(), force.begin(), force.end());
            }
            return y;
          },
      .pullback =
          [=](const Vector& z, const Vector& y_bar, Vector& z_bar) {
            const Trajectory t = run(z);
            std::vector<Vector> bar;
            auto at = y_bar.begin();
            for (const StepRecord& step : t.steps) {
              bar.emplace_back(at, at + step.nefc);
              at += step.nefc;
            }
            const Gradient g = rollout_pullback(model, t, {.efc_force = bar});
            size_t i = 0;
            for (const Vector* part : {&g.qpos_tangent, &g.qvel, &g.act}) {
              for (double value : *part) z_bar[i++] += value;
            }
            const auto nu = static_cast<size_t>(model.nu());
            for (size_t k = 0; k < g.ctrl.size(); k++) z_bar[i + k % nu] += g.ctrl[k];
          },
  };
}

class ConstraintForces : public ::testing::TestWithParam<std::string> {};

TEST_P(ConstraintForces, AreMujocos) {
  const Scene scene = zoo(GetParam());
  const Model model = scene.model.tightened();
  const Trajectory t = rollout(model, scene.input(), 1);
  const diffmj::ConstraintForces forces = constraint_forces(model, t, 0);
  const std::unique_ptr<mjData, void (*)(mjData*)> d(mj_makeData(model.mj()), mj_deleteData);
  std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
  std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
  std::copy(scene.x.act.begin(), scene.x.act.end(), d->act);
  std::copy(scene.ctrl.begin(), scene.ctrl.end(), d->ctrl);
  mj_forward(model.mj(), d.get());
  ASSERT_EQ(forces.force.size(), static_cast<size_t>(d->nefc));
  ASSERT_GT(d->nefc, 0);
  double size = 1;
  for (int i = 0; i < d->nefc; i++) size = std::max(size, std::abs(d->efc_force[i]));
  for (int i = 0; i < d->nefc; i++) {
    EXPECT_NEAR(forces.force[static_cast<size_t>(i)], d->efc_force[i], 1e-6 * size) << i;
  }
  ASSERT_EQ(forces.contacts.size(), static_cast<size_t>(d->ncon));
  for (int i = 0; i < d->ncon; i++) {
    mjtNum wrench[6];
    mj_contactForce(model.mj(), d.get(), i, wrench);
    EXPECT_NEAR(forces.contacts[static_cast<size_t>(i)].force[0], wrench[0], 1e-6 * size);
  }
}

TEST_P(ConstraintForces, PullbackMatchesDifferences) {
  const Scene scene = zoo(GetParam());
  const auto n = static_cast<size_t>(scene.model.ntangent()) + scene.ctrl.size();
  for (const GradientPath path : {GradientPath::kAnalytic, GradientPath::kOracle}) {
    // the oracle's noise on the humanoid's stiff contacts is 1e-5
    if (path == GradientPath::kOracle && GetParam() == "humanoid") continue;
    EXPECT_TRUE(check_pullback(force_operation(scene, path), Vector(n), n,
                               {.tolerance = tolerances().large_model, .step = 1e-4}))
        << gradient_path_name(path);
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, ConstraintForces,
                         ::testing::Values("contact_plane", "contact_plane_ell", "limits",
                                           "eq_connect", "eq_weld", "humanoid"),
                         [](const auto& info) { return info.param; });

TEST(ConstraintForcesErrors, NameWhatIsWrong) {
  const Scene scene = zoo("contact_plane");
  const Trajectory t = rollout(scene.model, scene.input(), 2);
  EXPECT_THROW((void)constraint_forces(scene.model, t, 2), InputError);
  const std::vector<Vector> short_of_one(1), wrong = {Vector(1), {}};
  EXPECT_THROW((void)rollout_pullback(scene.model, t, {.efc_force = short_of_one}), InputError);
  EXPECT_THROW((void)rollout_pullback(scene.model, t, {.efc_force = wrong}), InputError);
  const Model rk4 = with_options(scene, {.integrator = Integrator::kRk4}).model;
  const Trajectory other = rollout(rk4, scene.input(), 2);
  const std::vector<Vector> none(2);
  EXPECT_THROW((void)rollout_pullback(rk4, other, {.efc_force = none}), UnsupportedError);
}

}  // namespace
}  // namespace diffmj
