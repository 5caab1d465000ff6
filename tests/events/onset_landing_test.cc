// Steps that end where a contact or limit sets in, and the time at which it did.
#include "events/onset_landing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "diffmj/rollout.h"
#include "harness/models.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

std::string ball(const std::string& option, const std::string& geom) {
  return "<mujoco><option gravity='0 0 0' " + option +
         "/><worldbody><geom type='plane' size='1 1 1'/><body><freejoint/>"
         "<geom type='sphere' size='.1' mass='1' " +
         geom + "/></body></worldbody></mujoco>";
}

OnsetBegin begin_of(const Model& model, const Vector& qpos, const Vector& qvel, double elapsed) {
  WorkspaceLease workspace(model.impl());
  mjData* d = workspace->data.get();
  std::copy(qpos.begin(), qpos.end(), d->qpos);
  std::copy(qvel.begin(), qvel.end(), d->qvel);
  mj_fwdPosition(model.mj(), d);
  mj_fwdVelocity(model.mj(), d);
  return find_onset_begin(d, elapsed).value_or(OnsetBegin{-1, -1});
}

TEST(OnsetLanding, BeginIsWhereTheViolationWasZero) {
  // 3 mm deep at 0.5 m/s towards the floor, and sliding: since 6 ms, whatever the rows
  for (const char* option : {"cone='pyramidal'", "cone='elliptic'"}) {
    for (const char* geom : {"condim='1'", "condim='3'", "condim='4'", "condim='6'"}) {
      const Model model = Model::from_xml(ball(option, geom), {.integrator = Integrator::kTsit5});
      const Vector qpos = {0, 0, 0.097, 1, 0, 0, 0}, qvel = {0.7, -0.2, -0.5, 0, 0, 0};
      const OnsetBegin begin = begin_of(model, qpos, qvel, 0.01);
      EXPECT_NEAR(begin.ago, 0.006, 1e-12) << option << " " << geom;
      EXPECT_NEAR(begin.speed, 0.5, 1e-12) << option << " " << geom;
      // before the step, and where it leaves: none
      EXPECT_EQ(begin_of(model, qpos, qvel, 0.005).ago, -1);
      EXPECT_EQ(begin_of(model, qpos, {0, 0, 0.5, 0, 0, 0}, 0.01).ago, -1);
    }
  }
}

TEST(OnsetLanding, LimitsBeginToo) {
  const Model model = Model::from_xml(
      "<mujoco><compiler autolimits='true'/><worldbody><body><joint type='slide' range='-1 1'/>"
      "<geom size='.1'/></body></worldbody></mujoco>",
      {.integrator = Integrator::kTsit5});
  const OnsetBegin begin = begin_of(model, {1.002}, {0.4}, 1);
  EXPECT_NEAR(begin.ago, 0.005, 1e-12);
  EXPECT_NEAR(begin.speed, 0.4, 1e-12);
}

// A ball that flies at 1 m/s meets the floor after 0.0537 s.
Trajectory fall(double tolerance, const std::string& geom) {
  const Model model = Model::from_xml(
      ball("", geom),
      {.integrator = Integrator::kAuto,
       .adaptive = {
           .stepping = {.rtol = tolerance, .atol = tolerance}, .interval = 0.1, .onset = 1e-4}});
  const Vector qpos = {0, 0, 0.1537, 1, 0, 0, 0}, qvel = {0.3, 0, -1, 0, 0, 0};
  RolloutInput input;
  input.qpos = qpos;
  input.qvel = qvel;
  return rollout(model, input, 1);
}

TEST(OnsetLanding, AStepEndsWhereTheContactBegins) {
  const Trajectory t = fall(1e-6, "");
  ASSERT_EQ(t.outcome, Outcome::kSuccess) << t.message;
  double nearest = 1;
  for (const double time : t.integrator.time) {
    nearest = std::min(nearest, std::abs(time - 0.0537));
  }
  // 1 % before it at most
  EXPECT_LT(nearest, 0.011 * 0.0537);
  EXPECT_LT(t.integrator.nrejected, 10);
}

TEST(OnsetLanding, StepsStillFollowTheTolerance) {
  // also where steps are so short that every begin shows: none is repeated for ever
  const Trajectory exact = fall(1e-12, "");
  for (const double tolerance : {1e-5, 1e-6, 1e-8, 1e-10}) {
    const Trajectory t = fall(tolerance, "");
    ASSERT_EQ(t.outcome, Outcome::kSuccess) << t.message;
    for (size_t k = 0; k < 3; k++) {
      EXPECT_NEAR(t.integrator.end_qpos[k], exact.integrator.end_qpos[k], 10 * tolerance);
    }
    EXPECT_LT(t.integrator.nrejected, t.integrator.naccepted);
  }
}

}  // namespace
}  // namespace diffmj
