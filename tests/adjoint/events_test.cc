// Rollouts full of events: contacts that are left and touched again, many contacts at once, and
// bodies at rest on their margin.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "harness/models.h"
#include "record/tape.h"

namespace diffmj {
namespace {

// two balls of a billiard, 3 mm above the table
const char kBilliard[] = R"(<mujoco><default><geom friction='.2'/></default><worldbody>
    <geom name='table' type='box' size='1 1 .05' pos='0 0 -.05'/>
    <body pos='-.2 0 .033'><freejoint/><geom name='a' size='.03' mass='.17'/></body>
    <body pos='0 .01 .033'><freejoint/><geom name='b' size='.03' mass='.17'/></body>
    </worldbody></mujoco>)";
const Vector kBreak = {3, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0};

// a round foot that rocks on its rim
const char kFoot[] = R"(<mujoco><default><geom solref='.01 .1'/></default><worldbody>
    <geom name='floor' type='plane' size='5 5 .1'/>
    <body pos='0 0 .281'><freejoint/><geom type='box' size='.1 .06 .1' mass='5'/>
    <geom name='foot' type='cylinder' size='.06 .03' pos='0 0 -.25' mass='1'/></body></worldbody>
    </mujoco>)";
const Vector kRocking = {.49, 0, -.05, -.43, 0, 0};

// a cylinder that slides along a wall in an oblique frame, and touches it without pressing
const char kTouching[] = R"(<mujoco><option gravity='0 0 0'/><worldbody>
    <body pos='.3 .1 .2' euler='10 20 30'>
    <geom name='wall' type='plane' size='.5 .5 .5' zaxis='1 0 0'/>
    <body pos='.05 0 .01'><joint type='slide' axis='0 1 0'/><joint type='slide' axis='1 0 0'/>
    <joint axis='1 0 0'/><geom name='rod' type='cylinder' size='.05 .05' euler='0 90 0'/></body>
    </body></worldbody></mujoco>)";

// a ball at rest on the floor, to the last bit
const char kResting[] = R"(<mujoco><worldbody><geom name='floor' type='plane' size='5 5 .1'/>
    <body pos='0 0 .1'><joint type='slide' axis='0 0 1'/><geom name='ball' size='.1'/></body>
    </worldbody></mujoco>)";

// a joint at rest at its limit, into which another one's motion drives it
const char kRestingLimit[] = R"(<mujoco><compiler angle='radian'/><option gravity='0 0 0'/>
    <worldbody><body><joint name='first' axis='0 0 1' limited='true' range='0 1'/>
    <geom type='capsule' size='.02' fromto='0 0 0 .3 0 0'/>
    <body pos='.3 0 0'><joint axis='0 1 0' damping='1'/>
    <geom type='capsule' size='.02' fromto='0 0 0 .3 .1 .1'/></body></body></worldbody></mujoco>)";

// a capsule that topples and rolls over its end
std::string toppling(const std::string& solimp) {
  return "<mujoco><default><geom solimp='" + solimp + R"(' /></default><worldbody>
    <geom name='floor' type='plane' size='5 5 .1'/><body pos='0 0 .1'><freejoint/>
    <geom name='rod' type='capsule' size='.05 .05'/></body></worldbody></mujoco>)";
}
const Vector kTopple = {.3, 0, 0, 0, 3, 0};

ModelOptions options(double tolerance, double interval) {
  ModelOptions o{.integrator = Integrator::kTsit5};
  o.adaptive.stepping.rtol = o.adaptive.stepping.atol = tolerance;
  o.adaptive.stepping.max_steps = 100000;
  o.adaptive.interval = interval;
  return o;
}

// of the sum of the final positions
Gradient gradient(const Model& model, const Trajectory& t) {
  Vector bar(static_cast<size_t>((t.nstep + 1) * t.nv));
  std::fill(bar.end() - t.nv, bar.end(), 1.0);
  return rollout_pullback(model, t, {.qpos_tangent = bar});
}

void expect_finite(const Gradient& g) {
  for (const Vector* x : {&g.qpos_tangent, &g.qvel}) {
    for (const double value : *x) EXPECT_TRUE(std::isfinite(value));
  }
}

void expect_names(const Trajectory& t, const std::set<std::string>& known) {
  for (const Event& event : t.integrator.events) {
    const std::string name = event.what.substr(event.release ? std::string("end of ").size() : 0);
    EXPECT_TRUE(known.contains(name)) << event.what;
  }
  for (const EventRecord& record : t.tape->events) {
    EXPECT_EQ(record.constraints.size(), static_cast<size_t>(record.event.count));
  }
}

struct Scene {
  const char* name;
  const char* mjcf;
  Vector qvel;
  double tolerance, interval;
  int nstep;
  std::set<std::string> contacts;
};

void PrintTo(const Scene& scene, std::ostream* out) { *out << scene.name; }

class Events : public ::testing::TestWithParam<Scene> {};

// What is left and touched again within one step is not new where the step begins.
TEST_P(Events, AreThoseOfTheRolloutInTheBackwardPass) {
  const Scene& scene = GetParam();
  for (const Adjoint adjoint : {Adjoint::kDiscrete, Adjoint::kInterpolated}) {
    for (const bool cfd : {false, true}) {
      SCOPED_TRACE(std::string(adjoint_name(adjoint)) + (cfd ? ", cfd" : ""));
      ModelOptions o = options(scene.tolerance, scene.interval);
      o.adaptive.adjoint = adjoint;
      if (cfd) o.cfd = Cfd{.law = CfdLaw{.width = .05}};
      const Model model = Model::from_xml(scene.mjcf, o);
      const Trajectory t = rollout(model, {.qvel = scene.qvel}, scene.nstep);
      ASSERT_TRUE(t.ok()) << t.message;
      const auto again = [&](const Event& event) {
        const Event* before = &event - 1;
        return !event.release && before->release && event.step == before->step + 1;
      };
      EXPECT_TRUE(std::any_of(t.integrator.events.begin() + 1, t.integrator.events.end(), again))
          << "nothing is touched again at once";
      expect_names(t, scene.contacts);
      expect_finite(gradient(model, t));
    }
  }
}

TEST_P(Events, AdjointsAgree) {
  const Scene& scene = GetParam();
  std::vector<Gradient> all;
  for (const Adjoint adjoint : {Adjoint::kDiscrete, Adjoint::kInterpolated, Adjoint::kBacksolve}) {
    ModelOptions o = options(1e-7, scene.interval);
    o.adaptive.adjoint = adjoint;
    const Model model = Model::from_xml(scene.mjcf, o);
    all.push_back(gradient(model, rollout(model, {.qvel = scene.qvel}, scene.nstep)));
  }
  double size = 0;
  for (const double x : all[0].qpos_tangent) size = std::max(size, std::abs(x));
  for (size_t i = 1; i < all.size(); i++) {
    for (size_t k = 0; k < all[i].qpos_tangent.size(); k++) {
      EXPECT_NEAR(all[i].qpos_tangent[k], all[0].qpos_tangent[k], 1e-3 * size) << i << ", " << k;
    }
  }
}

TEST_P(Events, CheckpointsGiveTheSameBits) {
  const Scene& scene = GetParam();
  ModelOptions o = options(scene.tolerance, scene.interval);
  const Model all = Model::from_xml(scene.mjcf, o);
  o.adaptive.checkpoints = 7;
  const Model some = Model::from_xml(scene.mjcf, o);
  const RolloutInput input{.qvel = scene.qvel};
  const Gradient a = gradient(all, rollout(all, input, scene.nstep)),
                 b = gradient(some, rollout(some, input, scene.nstep));
  EXPECT_EQ(a.qpos_tangent, b.qpos_tangent);
  EXPECT_EQ(a.qvel, b.qvel);
}

const Scene kScenes[] = {
    {"billiard",
     kBilliard,
     kBreak,
     1e-4,
     .01,
     40,
     {"contact of geom 'a' and geom 'table'", "contact of geom 'b' and geom 'table'",
      "contact of geom 'a' and geom 'b'"}},
    {"foot", kFoot, kRocking, 1e-5, .01, 40, {"contact of geom 'floor' and geom 'foot'"}},
};
INSTANTIATE_TEST_SUITE_P(Scenes, Events, ::testing::ValuesIn(kScenes),
                         [](const auto& info) { return info.param.name; });

// Where the end of a step is no stage of the method, contacts that are left near it are found, too.
TEST(EventsOfAllMethods, GiveTheSameGradient) {
  std::vector<Gradient> all;
  for (const Integrator integrator : {Integrator::kDopri8, Integrator::kHeun, Integrator::kMidpoint,
                                      Integrator::kRalston, Integrator::kBosh3}) {
    ModelOptions o = options(1e-5, .01);
    o.integrator = integrator;
    const Model model = Model::from_xml(kBilliard, o);
    all.push_back(gradient(model, rollout(model, {.qvel = kBreak}, 40)));
  }
  double size = 0;
  for (const double x : all[0].qpos_tangent) size = std::max(size, std::abs(x));
  for (size_t i = 1; i < all.size(); i++) {
    for (size_t k = 0; k < all[i].qpos_tangent.size(); k++) {
      // methods of order 2 leave 1 %
      EXPECT_NEAR(all[i].qpos_tangent[k], all[0].qpos_tangent[k], .03 * size) << i << ", " << k;
    }
  }
}

// rounding puts it inside and outside in turn
TEST(AtRest, WhatTouchesWithoutPressingIsNoEvent) {
  for (const double tolerance : {1e-5, 1e-8}) {
    const Model model = Model::from_xml(kTouching, options(tolerance, .01));
    const Trajectory t = rollout(model, {.qvel = Vector{.3, 0, 2}}, 20);
    ASSERT_TRUE(t.ok()) << t.message;
    EXPECT_TRUE(t.integrator.events.empty());
    EXPECT_TRUE(t.warnings.empty());
    EXPECT_GT(t.integrator.smallest_step, 1e-5);
    // nothing acts on it
    EXPECT_NEAR(t.qpos[20 * 3], .06, 1e-12);
    EXPECT_NEAR(gradient(model, t).qpos_tangent[1], 1, 1e-12);
  }
}

// the derivative of motions that start inside
void expect_one_sided(const char* mjcf, const Vector& qvel, const std::string& what) {
  ModelOptions o = options(1e-11, .05);
  const Model model = Model::from_xml(mjcf, o);
  const Trajectory t = rollout(model, {.qvel = qvel}, 1);
  ASSERT_TRUE(t.ok()) << t.message;
  ASSERT_EQ(t.integrator.events.size(), 1U);
  const Event& event = t.integrator.events[0];
  EXPECT_EQ(event.what, what);
  EXPECT_TRUE(event.at_rest);
  EXPECT_TRUE(event.grazing);
  EXPECT_LT(event.time, 1e-6);
  EXPECT_GT(event.jump, 1);
  ASSERT_EQ(t.warnings.size(), 1U);
  EXPECT_EQ(t.warnings[0].kind, WarningKind::kGrazing);
  EXPECT_NE(t.warnings[0].text.find("one-sided"), std::string::npos) << t.warnings[0].text;

  const auto loss = [&](double inside) {
    Vector qpos(static_cast<size_t>(model.nq()));
    qpos[0] = -inside;
    const Trajectory moved = rollout(model, {.qpos = qpos, .qvel = qvel}, 1);
    EXPECT_TRUE(moved.ok());
    double sum = 0;
    for (int k = 0; k < model.nv(); k++) sum += moved.qpos[static_cast<size_t>(model.nq() + k)];
    return sum;
  };
  // second order, of points inside alone; what is left is of the third
  const double h = 1e-5;
  const double expected = (5 * loss(h) - 8 * loss(2 * h) + 3 * loss(3 * h)) / (2 * h);
  for (const Adjoint adjoint : {Adjoint::kDiscrete, Adjoint::kInterpolated, Adjoint::kBacksolve}) {
    o.adaptive.adjoint = adjoint;
    const Model other = Model::from_xml(mjcf, o);
    const Gradient g = gradient(other, rollout(other, {.qvel = qvel}, 1));
    EXPECT_NEAR(g.qpos_tangent[0], expected, 1e-4) << adjoint_name(adjoint);
  }
}

TEST(AtRest, ABallOnItsMarginHasTheOneSidedDerivative) {
  expect_one_sided(kResting, {0}, "contact of geom 'floor' and geom 'ball'");
}

TEST(AtRest, AJointAtItsLimitHasTheOneSidedDerivative) {
  expect_one_sided(kRestingLimit, {0, 5}, "limit of joint 'first'");
}

TEST(Chatter, IsNamedOnce) {
  const Model model = Model::from_xml(toppling(".9 .95 .001"), options(1e-5, .002));
  const Trajectory t = rollout(model, {.qvel = kTopple}, 150);
  ASSERT_TRUE(t.ok()) << t.message;
  const auto is_chatter = [](const Warning& w) { return w.kind == WarningKind::kChatter; };
  ASSERT_EQ(std::count_if(t.warnings.begin(), t.warnings.end(), is_chatter), 1);
  const Warning& warning = *std::find_if(t.warnings.begin(), t.warnings.end(), is_chatter);
  EXPECT_GT(warning.count, 10);
  EXPECT_LE(warning.count, static_cast<int>(t.integrator.events.size()));
  for (const char* part : {"contact of geom 'floor' and geom 'rod'", "events per second",
                           "integrator=\"model\"", "solimp"}) {
    EXPECT_NE(warning.text.find(part), std::string::npos) << part << " in: " << warning.text;
  }
  // it begins with the first of them
  const double from = model.interval() * warning.first_step;
  EXPECT_GE(t.integrator.events.back().time, from);
  EXPECT_LE(t.integrator.events.front().time, from + model.interval());
  expect_finite(gradient(model, t));
}

// Beginnings amplify, ends take it back: of one contact enough is left of the digits.
TEST(Chatter, OfOneContactHasTheRightGradient) {
  const std::string mjcf = toppling(".9 .95 .001");
  const Vector qpos = {0, 0, .1001, 1, 0, 0, 0};
  const Model fine = Model::from_xml(mjcf, options(1e-10, .3));
  const auto loss = [&](double speed) {
    const Vector qvel = {speed, 0, 0, 0, 3, 0};
    const Trajectory t = rollout(fine, {.qpos = qpos, .qvel = qvel}, 1);
    EXPECT_TRUE(t.ok()) << t.message;
    return t.qpos[7] + t.qpos[9];  // forwards and up
  };
  const double h = 1e-4, expected = (loss(.3 + h) - loss(.3 - h)) / (2 * h);
  for (const Adjoint adjoint : {Adjoint::kDiscrete, Adjoint::kInterpolated}) {
    ModelOptions o = options(1e-8, .3);
    o.adaptive.adjoint = adjoint;
    const Model model = Model::from_xml(mjcf, o);
    const Trajectory t = rollout(model, {.qpos = qpos, .qvel = kTopple}, 1);
    ASSERT_TRUE(t.ok()) << t.message;
    EXPECT_GT(t.integrator.events.size(), 40U);
    Vector bar(12);
    bar[6] = bar[8] = 1;
    const Gradient g = rollout_pullback(model, t, {.qpos_tangent = bar});
    EXPECT_NEAR(g.qvel[0] / expected, 1, 5e-3) << adjoint_name(adjoint);
  }
}

TEST(Chatter, EndsWhereForcesBeginSoftly) {
  const Model model = Model::from_xml(toppling("0 .95 .001"), options(1e-5, .002));
  const Trajectory t = rollout(model, {.qvel = kTopple}, 150);
  ASSERT_TRUE(t.ok()) << t.message;
  EXPECT_LE(t.integrator.events.size(), 4U);
  for (const Warning& warning : t.warnings) EXPECT_NE(warning.kind, WarningKind::kChatter);
}

TEST(Chatter, IsSaidToExhaustTheBudget) {
  ModelOptions o = options(1e-5, .002);
  o.adaptive.stepping.max_steps = 220;
  const Model model = Model::from_xml(toppling(".9 .95 .001"), o);
  const Trajectory t = rollout(model, {.qvel = kTopple}, 150);
  ASSERT_EQ(t.outcome, Outcome::kBudgetExhausted);
  EXPECT_NE(t.message.find("chatter: contact of geom 'floor' and geom 'rod'"), std::string::npos)
      << t.message;
}

// four corners that touch one after another, and stay
TEST(Chatter, IsNoneWhereContactsBeginAlone) {
  const Model model = Model::from_xml(
      "<mujoco><worldbody><geom type='plane' size='5 5 .1'/><body pos='0 0 .12'><freejoint/>"
      "<geom type='box' size='.1 .1 .1'/></body></worldbody></mujoco>",
      options(1e-5, .002));
  const Trajectory t = rollout(model, {.qvel = Vector{0, 0, 0, .1, .2, 0}}, 150);
  ASSERT_TRUE(t.ok()) << t.message;
  EXPECT_FALSE(t.integrator.events.empty());
  for (const Warning& warning : t.warnings) {
    EXPECT_NE(warning.kind, WarningKind::kChatter) << warning.text;
  }
}

}  // namespace
}  // namespace diffmj
