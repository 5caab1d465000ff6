#include "record/solver_limit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "diffmj/rollout.h"
#include "harness/models.h"
#include "mj/handle.h"

namespace diffmj {
namespace {

// Boxes that fall on each other: many rows, which one iteration cannot satisfy.
std::string boxes(int iterations, const char* solver = "Newton") {
  std::string bodies;
  for (int i = 0; i < 4; i++) {
    bodies += "<body pos='" + std::to_string(0.02 * i) + " 0 " + std::to_string(0.1 + 0.21 * i) +
              "'><freejoint/><geom type='box' size='.1 .1 .1'/></body>";
  }
  return "<mujoco><option iterations='" + std::to_string(iterations) + "' solver='" + solver +
         "'/><worldbody><geom type='plane' size='2 2 .1'/>" + bodies + "</worldbody></mujoco>";
}

const Warning* warning_of(const Trajectory& t) {
  for (const Warning& warning : t.warnings) {
    if (warning.kind == WarningKind::kSolver) return &warning;
  }
  return nullptr;
}

TEST(SolverLimit, WarnsWhereIterationsAreTooFew) {
  for (const char* solver : {"Newton", "CG", "PGS"}) {
    SCOPED_TRACE(solver);
    const Model model = Model::from_xml(boxes(1, solver));
    const Trajectory t = rollout(model, {}, 100);
    const Warning* warning = warning_of(t);
    ASSERT_TRUE(warning);
    EXPECT_GT(warning->count, 1);
    EXPECT_LE(warning->count, 100);
    EXPECT_NE(warning->text.find("iterations = 1 "), std::string::npos) << warning->text;
    EXPECT_NE(warning->text.find(std::to_string(warning->count) + " of 100 steps"),
              std::string::npos)
        << warning->text;
  }
}

TEST(SolverLimit, IsSilentWhereTheSolverConverges) {
  const Model model = Model::from_xml(boxes(100));
  EXPECT_FALSE(warning_of(rollout(model, {}, 100)));
}

TEST(SolverLimit, IsSilentWhereNoGradientDependsOnTheSolution) {
  // differences of whole steps are those of the steps as they are
  const Model differences =
      Model::from_xml(boxes(1), {.gradient_path = GradientPath::kDifferences});
  EXPECT_FALSE(warning_of(rollout(differences, {}, 100)));
  const Model model = Model::from_xml(boxes(1));
  EXPECT_FALSE(warning_of(rollout(model, {}, 100, {.keep_stages = false})));
}

TEST(SolverLimit, ResidualIsThatOfTheEquationOfMotion) {
  const Model model = Model::from_xml(boxes(100));
  const mjModel* m = model.mj();
  MjDataPtr d(mj_makeData(m));
  for (int i = 0; i < 60; i++) mj_step(m, d.get());
  ASSERT_GT(d->nefc, 0);
  Vector qacc(d->qacc_warmstart, d->qacc_warmstart + m->nv), scratch;
  const SolverResidual solved = solver_residual(m, d.get(), qacc, scratch);
  EXPECT_LT(solved.residual, 1e-6 * solved.constraints);
  // where everything separates no constraint acts, and M a - qfrc_smooth remains
  const double up = 1e4;
  for (int body = 0; body < 4; body++) qacc[static_cast<size_t>(6 * body + 2)] = up * (body + 1);
  const SolverResidual apart = solver_residual(m, d.get(), qacc, scratch);
  EXPECT_EQ(apart.constraints, 0);
  Vector Ma(qacc.size());
  mj_mulM(m, d.get(), Ma.data(), qacc.data());
  double expected = 0;
  for (size_t k = 0; k < Ma.size(); k++) {
    expected += (Ma[k] - d->qfrc_smooth[k]) * (Ma[k] - d->qfrc_smooth[k]);
  }
  EXPECT_NEAR(apart.residual, std::sqrt(expected), 1e-9 * apart.residual);
}

}  // namespace
}  // namespace diffmj
