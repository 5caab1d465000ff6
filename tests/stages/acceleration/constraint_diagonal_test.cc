// Rollouts of models of the zoo with the flag diagexact: MuJoCo's diagonal, and gradients through
// it.
#include "stages/acceleration/constraint_diagonal.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "model/parameters.h"

namespace diffmj {
namespace {

constexpr int kSteps = 2;

Scene exact_zoo(const std::string& name, const ModelOptions& options = {}) {
  Scene scene = zoo(name);
  const MjModelPtr copy = movable_copy(scene.model.tightened().mj());
  copy->opt.enableflags |= mjENBL_DIAGEXACT;
  scene.model = Model::from_mjmodel(copy.get(), options);
  return scene;
}

class ConstraintDiagonal : public ::testing::TestWithParam<std::string> {};

// what the pullback takes R to be made of
TEST_P(ConstraintDiagonal, IsMujocos) {
  const Scene scene = exact_zoo(GetParam());
  const mjModel* m = scene.model.mj();
  ASSERT_TRUE(diagonal_is_exact(m));
  const MjDataPtr d(mj_makeData(m));
  std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
  std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
  std::copy(scene.ctrl.begin(), scene.ctrl.end(), d->ctrl);
  mj_forward(m, d.get());
  ASSERT_GT(d->nefc, 0);
  Vector unit(static_cast<size_t>(d->nefc)), row(static_cast<size_t>(m->nv)), z(row.size());
  for (int i = 0; i < d->nefc; i++) {
    // rows after the first of a contact follow from that
    const int type = d->efc_type[i];
    const bool contact = type == mjCNSTR_CONTACT_PYRAMIDAL || type == mjCNSTR_CONTACT_ELLIPTIC;
    if (contact && d->contact[d->efc_id[i]].efc_address != i) continue;
    unit.assign(unit.size(), 0.0);
    unit[static_cast<size_t>(i)] = 1;
    mj_mulJacTVec(m, d.get(), row.data(), unit.data());
    mj_solveM(m, d.get(), z.data(), row.data(), 1);
    const double A = mju_dot(row.data(), z.data(), static_cast<int>(m->nv));
    const double I = d->efc_KBIP[4 * i + 2], mu = contact ? d->contact[d->efc_id[i]].mu : 0;
    const double share = type == mjCNSTR_CONTACT_PYRAMIDAL ? 2 * mu * mu : 1;
    EXPECT_NEAR(d->efc_R[i], share * A * (1 - I) / I, 1e-10 * d->efc_R[i]) << "row " << i;
  }
}

TEST_P(ConstraintDiagonal, AgreesWithOracle) {
  for (const Integrator integrator :
       {Integrator::kEuler, Integrator::kImplicit, Integrator::kImplicitFast, Integrator::kRk4}) {
    const auto gradient = [&](GradientPath path) {
      const Scene scene = exact_zoo(GetParam(), {.integrator = integrator, .gradient_path = path});
      EXPECT_EQ(scene.model.gradient_path(), path) << scene.model.gradient_path_reason();
      const Trajectory t = rollout(scene.model, scene.input(), kSteps);
      Vector bar((kSteps + 1) * static_cast<size_t>(scene.model.nv()));
      for (size_t i = 0; i < bar.size(); i++) bar[i] = std::sin(0.1 + 1.7 * static_cast<double>(i));
      const Gradient g = rollout_pullback(scene.model, t, {.qpos_tangent = bar, .qvel = bar});
      Vector all = g.qpos_tangent;
      all.insert(all.end(), g.qvel.begin(), g.qvel.end());
      all.insert(all.end(), g.ctrl.begin(), g.ctrl.end());
      return all;
    };
    const Vector analytic = gradient(GradientPath::kAnalytic),
                 oracle = gradient(GradientPath::kOracle);
    double size = 1;
    for (const double x : oracle) size = std::max(size, std::abs(x));
    for (size_t i = 0; i < oracle.size(); i++) {
      EXPECT_NEAR(analytic[i], oracle[i], tolerances().stage * size)
          << integrator_name(integrator) << ", entry " << i;
    }
  }
}

TEST_P(ConstraintDiagonal, AgreesWithDifferences) {
  const Scene scene = exact_zoo(GetParam());
  const size_t n = rollout_ntangent(scene, kSteps);
  EXPECT_TRUE(check_pullback(
      rollout_operation(scene, kSteps), Vector(n), n,
      {.tolerance = tolerances().trajectory, .smallest = 1e-3, .step = 1e-4, .directions = 4}));
}

INSTANTIATE_TEST_SUITE_P(Zoo, ConstraintDiagonal,
                         ::testing::Values("flags", "contact_plane", "contact_plane_ell", "limits",
                                           "eq_connect", "eq_weld", "eq_couple", "contact_pairs",
                                           "tendon_fixed", "tendon_spatial_dyn"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace diffmj
