// check_gradient(): agrees, differs or is inconclusive, and says why.
// label: smoke
#include "diffmj/check.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/ridders.h"
#include "harness/models.h"

namespace diffmj {
namespace {

bool mentions(const std::vector<std::string>& lines, const std::string& word) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(word) != std::string::npos; });
}

TEST(Check, PassesOnSmoothModels) {
  for (const char* name : {"joints_order", "contact_plane_ell", "act_muscle"}) {
    const Scene scene = zoo(name);
    const CheckReport report = check_gradient(scene.model, scene.input(), {.directions = 3});
    EXPECT_TRUE(report.passed) << name;
    EXPECT_EQ(report.directions.size(), 3U);
    EXPECT_LT(report.solver_residual, 1e-6) << name;
    EXPECT_LT(report.adjoint_residual, 1e-10) << name;
    for (const CheckDirection& direction : report.directions) EXPECT_LT(direction.error, 1e-6);
  }
}

const char* const kBall =
    "<mujoco><option timestep='.001' gravity='0 0 0'/><worldbody>"
    "<geom name='floor' type='plane' size='5 5 1'/><body name='ball'><joint type='slide' "
    "axis='0 0 1'/><geom name='ball' size='.1'/></body></worldbody></mujoco>";

// 1e-11 m inside a floor with MuJoCo's default contacts, moving slowly: any difference crosses
TEST(Check, IsInconclusiveAtFirstTouch) {
  const Model model = Model::from_xml(kBall);
  const Vector qpos = {0.1 - 1e-11}, qvel = {-1e-3};
  const CheckReport report =
      check_gradient(model, {.qpos = qpos, .qvel = qvel}, {.nstep = 1, .directions = 2});
  EXPECT_FALSE(report.passed);
  for (const CheckDirection& direction : report.directions) {
    EXPECT_EQ(direction.verdict, CheckDirection::Verdict::kInconclusive);
  }
  EXPECT_EQ(report.nearest_kink.step, 0);
  EXPECT_NE(report.nearest_kink.what.find("geom 'ball'"), std::string::npos)
      << report.nearest_kink.what;
  EXPECT_LT(report.nearest_kink.distance, 1e-6);
}

TEST(Check, SaysWhatTheModelUsesAndWhatWouldHelp) {
  const Model model = Model::from_xml(kBall);
  const Vector qpos = {0.5};
  const CheckReport report = check_gradient(model, {.qpos = qpos}, {.nstep = 1, .directions = 1});
  EXPECT_TRUE(mentions(report.features, "1 slide"));
  EXPECT_TRUE(mentions(report.features, "1 plane, 1 sphere"));
  EXPECT_TRUE(mentions(report.advice, "solimp d0 = 0.9"));
  const CheckReport noslip =
      check_gradient(zoo("noslip").model, zoo("noslip").input(), {.nstep = 1, .directions = 1});
  EXPECT_EQ(noslip.path, GradientPath::kDifferences);
  EXPECT_TRUE(mentions(noslip.advice, "noslip"));
  EXPECT_TRUE(mentions(check_gradient(zoo("solver_cg").model, zoo("solver_cg").input(),
                                      {.nstep = 1, .directions = 1})
                           .advice,
                       "CG"));
}

// the residual is that of the model's own solver, cut short here
TEST(Check, ReportsASolverThatStopsEarly) {
  mjModel* m = mj_copyModel(nullptr, zoo("contact_plane").model.mj());
  m->opt.iterations = 1;
  const Model cut = Model::from_mjmodel(m);
  mj_deleteModel(m);
  const Scene scene = zoo("contact_plane");
  const CheckReport report = check_gradient(cut, scene.input(), {.nstep = 1, .directions = 1});
  EXPECT_GT(report.solver_residual, 1e-4);
  EXPECT_TRUE(mentions(report.advice, "stops early"));
  EXPECT_TRUE(report.passed);  // the derivative is that of the optimum, and right there
}

TEST(Check, RejectsBadOptions) {
  const Model model = Model::from_xml(kBall);
  EXPECT_THROW((void)check_gradient(model, {}, {.nstep = 0}), InputError);
  EXPECT_THROW((void)check_gradient(model, {}, {.directions = 0}), InputError);
  EXPECT_THROW((void)check_gradient(model, {}, {.interrupted = [] { return true; }}), Interrupted);
  double last = -1;
  (void)check_gradient(model, {}, {.nstep = 1, .directions = 2, .progress = [&](double share) {
                                     EXPECT_GE(share, last);
                                     last = share;
                                   }});
  EXPECT_EQ(last, 1);
}

TEST(Ridders, ErrorBarHoldsTheError) {
  const RiddersResult smooth = ridders([](double h) { return std::sin(1 + 3 * h); });
  EXPECT_NEAR(smooth.derivative, 3 * std::cos(1), 1e-10);
  EXPECT_LE(std::abs(smooth.derivative - 3 * std::cos(1)), 10 * smooth.error_bar);
  EXPECT_EQ(smooth.corner, 0);
  const RiddersResult corner = ridders([](double h) { return std::abs(h) + h; });
  EXPECT_NEAR(corner.corner, 1, 1e-9);
}

}  // namespace
}  // namespace diffmj
