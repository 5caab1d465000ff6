// Gradients through the jump of forces where a contact or limit becomes active, against differences
// of rollouts that are solved anew.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>

#include "base/ridders.h"
#include "harness/models.h"

namespace diffmj {
namespace {

struct Bounce {
  std::string mjcf;
  Vector qpos, qvel;
  double duration = 0;    // [s]
  Vector direction = {};  // in which derivatives are compared; empty: all at once
};

ModelOptions options(Integrator integrator, double tolerance, double duration) {
  ModelOptions o{.integrator = integrator};
  o.adaptive.stepping.rtol = o.adaptive.stepping.atol = tolerance;
  o.adaptive.stepping.max_steps = 1000000;
  o.adaptive.interval = duration;
  return o;
}

// the loss is a weighted sum of the final position and velocity
Vector weights(size_t n) {
  Vector w(n);
  for (size_t i = 0; i < n; i++) w[i] = std::cos(static_cast<double>(i));
  return w;
}

// d(loss)/d(initial tangent) along a direction, by differences of rollouts solved to 1e-12
double differences(const Bounce& b, const Vector& direction) {
  const Model model = Model::from_xml(b.mjcf, options(Integrator::kDopri8, 1e-12, b.duration));
  const State x{
      .time = 0, .qpos = b.qpos, .qvel = b.qvel, .act = Vector(static_cast<size_t>(model.na()))};
  const auto nv = static_cast<size_t>(model.nv()), nq = static_cast<size_t>(model.nq());
  const Trajectory base = rollout(model, {.qpos = x.qpos, .qvel = x.qvel}, 1);
  EXPECT_TRUE(base.ok()) << base.message;
  EXPECT_FALSE(base.integrator.events.empty()) << "nothing becomes active";
  const State end{.time = 0,
                  .qpos = Vector(base.qpos.end() - static_cast<ptrdiff_t>(nq), base.qpos.end()),
                  .qvel = Vector(base.qvel.end() - static_cast<ptrdiff_t>(nv), base.qvel.end()),
                  .act = {}};
  const Vector w = weights(2 * nv);
  const auto loss = [&](double h) {
    Vector dx = direction;
    for (double& value : dx) value *= h;
    const State moved = plus(model, x, dx);
    const Trajectory t = rollout(model, {.qpos = moved.qpos, .qvel = moved.qvel}, 1);
    EXPECT_TRUE(t.ok()) << t.message;
    const State final{.time = 0,
                      .qpos = Vector(t.qpos.end() - static_cast<ptrdiff_t>(nq), t.qpos.end()),
                      .qvel = Vector(t.qvel.end() - static_cast<ptrdiff_t>(nv), t.qvel.end()),
                      .act = {}};
    Vector d(2 * nv);
    minus(model, final, end, d);
    double sum = 0;
    for (size_t i = 0; i < d.size(); i++) sum += w[i] * d[i];
    return sum;
  };
  // the rollouts carry noise of 1e-11: few halvings of a step at which curvature is small
  return ridders(loss, {.step = 1e-4, .levels = 5}).derivative;
}

Gradient gradient(const Bounce& b, Adjoint adjoint, bool events,
                  const std::vector<std::string>& params = {},
                  std::optional<int> checkpoints = {}) {
  ModelOptions o = options(Integrator::kTsit5, 1e-11, b.duration);
  o.adaptive.adjoint = adjoint;
  o.adaptive.events = events;
  o.adaptive.checkpoints = checkpoints;
  const Model model = Model::from_xml(b.mjcf, o);
  const Trajectory t = rollout(model, {.qpos = b.qpos, .qvel = b.qvel}, 1);
  EXPECT_TRUE(t.ok()) << t.message;
  const auto nv = static_cast<size_t>(model.nv());
  const Vector w = weights(2 * nv);
  Vector q(2 * nv), v(2 * nv);
  std::copy_n(w.begin(), nv, q.begin() + static_cast<ptrdiff_t>(nv));
  std::copy_n(w.begin() + static_cast<ptrdiff_t>(nv), nv, v.begin() + static_cast<ptrdiff_t>(nv));
  return rollout_pullback(model, t, {.qpos_tangent = q, .qvel = v, .params = params});
}

double along(const Gradient& g, const Vector& direction) {
  double sum = 0;
  const size_t nv = g.qvel.size();
  for (size_t i = 0; i < nv; i++) {
    sum += g.qpos_tangent[i] * direction[i] + g.qvel[i] * direction[nv + i];
  }
  return sum;
}

Bounce point_mass(double d0, const std::string& solref) {
  const std::string geom =
      "solref='" + solref + "' solimp='" + std::to_string(d0) + " .95 .001 .5 2'/>";
  return {.mjcf =
              "<mujoco><option><flag refsafe='disable'/></option><worldbody>"
              "<geom name='floor' type='plane' size='5 5 .1' " +
              geom +
              "<body pos='0 0 .3'><joint type='slide' axis='0 0 1'/>"
              "<geom name='ball' type='sphere' size='.1' density='100' " +
              geom + "</body></worldbody></mujoco>",
          .qpos = {0},
          .qvel = {-1},
          .duration = .25};
}

// DESIGN of the term: the error without it is 1 % at d0 = 0 and a factor of 100 at the default
TEST(Jump, PointMassAtAnyImpedance) {
  for (const std::string solref : {".005 .2", "-100000 -200"}) {
    for (const double d0 : {0., .01, .5, .9}) {
      SCOPED_TRACE(solref + ", d0 = " + std::to_string(d0));
      const Bounce b = point_mass(d0, solref);
      const Vector direction = {1, .3};
      const double expected = differences(b, direction);
      for (const Adjoint adjoint :
           {Adjoint::kDiscrete, Adjoint::kInterpolated, Adjoint::kBacksolve}) {
        EXPECT_NEAR(along(gradient(b, adjoint, true), direction) / expected, 1, 1e-6)
            << adjoint_name(adjoint);
      }
      // it is this term that makes it right
      const double without = along(gradient(b, Adjoint::kInterpolated, false), direction);
      EXPECT_GT(std::abs(without / expected - 1), d0 > 0 ? .1 : 1e-3);
    }
  }
}

class JumpScenes : public ::testing::TestWithParam<std::pair<std::string, Bounce>> {};

TEST_P(JumpScenes, AdjointsMatchDifferences) {
  const Bounce& b = GetParam().second;
  Vector direction = b.direction;
  for (size_t i = direction.size(); i < 2 * b.qvel.size(); i++) {
    direction.push_back(std::sin(1. + static_cast<double>(i)));
  }
  const double expected = differences(b, direction);
  for (const Adjoint adjoint : {Adjoint::kDiscrete, Adjoint::kInterpolated, Adjoint::kBacksolve}) {
    EXPECT_NEAR(along(gradient(b, adjoint, true), direction) / expected, 1, 1e-4)
        << adjoint_name(adjoint);
  }
}

TEST_P(JumpScenes, AnyNumberOfCheckpointsGivesTheSameBits) {
  const Bounce& b = GetParam().second;
  for (const Adjoint adjoint : {Adjoint::kDiscrete, Adjoint::kInterpolated}) {
    const Gradient all = gradient(b, adjoint, true, {"geom_size"});
    for (const int n : {3, 20}) {
      const Gradient some = gradient(b, adjoint, true, {"geom_size"}, n);
      EXPECT_EQ(some.qpos_tangent, all.qpos_tangent);
      EXPECT_EQ(some.qvel, all.qvel);
      EXPECT_EQ(some.params, all.params);
    }
  }
}

const std::pair<std::string, Bounce> kScenes[] = {
    {"hinge_limit",
     {R"(<mujoco><compiler angle='radian'/><option gravity='0 0 -9.81'/><worldbody>
        <body><joint axis='0 1 0' limited='true' range='-.5 1'/>
        <geom type='capsule' size='.02' fromto='0 0 0 .3 0 0'/></body></worldbody></mujoco>)",
      {.2},
      {1.5},
      .3}},
    {"tendon_limit",
     {R"(<mujoco><option gravity='0 0 -9.81'/><worldbody><site name='a' pos='0 0 1'/>
        <body><joint type='slide' axis='0 0 1'/><joint type='slide' axis='1 0 0'/>
        <geom size='.05'/><site name='b' pos='0 0 0'/></body></worldbody>
        <tendon><spatial limited='true' range='0 1.2'><site site='a'/><site site='b'/></spatial>
        </tendon></mujoco>)",
      {0, .1},
      {-.5, .3},
      .3}},
    // much friction on an elliptic cone
    {"rough_floor",
     {R"(<mujoco><option gravity='0 0 -9.81' cone='elliptic'/><worldbody>
        <geom type='plane' size='5 5 .1' friction='2'/>
        <body pos='0 0 .3'><freejoint/><geom size='.1' density='500' friction='2'/></body>
        </worldbody></mujoco>)",
      {0, 0, .3, 1, 0, 0, 0},
      {.5, .2, -.5, 1, 2, 3},
      .18}},
    // the second wall while the first one pushes
    {"two_walls",
     {R"(<mujoco><option gravity='0 0 0'/><default><geom condim='1'/></default><worldbody>
        <geom type='plane' size='5 5 .1' zaxis='1 0 0' pos='-.3 0 0'/>
        <geom type='plane' size='5 5 .1' zaxis='0 1 0' pos='0 -.302 0'/>
        <body><freejoint/><geom size='.1' density='500'/></body></worldbody></mujoco>)",
      {0, 0, 0, 1, 0, 0, 0},
      {-1, -1, .2, .1, .2, .3},
      .3}},
    // friction holds edges of the pyramids until each wall is left
    {"two_rough_walls",
     {R"(<mujoco><option gravity='0 0 0'/><worldbody>
        <geom type='plane' size='5 5 .1' zaxis='1 0 0' pos='-.3 0 0'/>
        <geom type='plane' size='5 5 .1' zaxis='0 1 0' pos='0 -.302 0'/>
        <body><freejoint/><geom size='.1' density='500'/></body></worldbody></mujoco>)",
      {0, 0, 0, 1, 0, 0, 0},
      {-1, -1, .2, .1, .2, .3},
      .3}},
    // a spring pushes it back
    {"pushed_ball",
     {R"(<mujoco><option gravity='0 0 -9.81'/><worldbody><geom type='plane' size='5 5 .1'/>
        <body pos='0 0 .1'><joint type='slide' axis='0 0 1' stiffness='800' springref='-.02'/>
        <joint type='slide' axis='1 0 0'/><geom size='.1' mass='1'/></body></worldbody></mujoco>)",
      {.02, 0},
      {-.1, .7},
      .3}},
    // an edge that rolls is left and touched again and again, both corners at once: they do not
    // come apart
    {"rolling_cube",
     {R"(<mujoco><option gravity='0 0 -2'><flag refsafe='disable'/></option>
        <default><geom solref='.005 1' solimp='.9 .95 .001 .5 2'/></default><worldbody>
        <geom type='plane' size='5 5 .1'/><body pos='0 0 .2'><freejoint/>
        <geom type='box' size='.05 .05 .05' density='100' euler='60 0 0'/></body></worldbody>
        </mujoco>)",
      {0, 0, .2, 1, 0, 0, 0},
      {0, -.1, -2, 0, 0, 0},
      .66,
      {0, .3, .1, 0, 0, 0, 0, .2, 1, .5, 0, 0}}},
};
INSTANTIATE_TEST_SUITE_P(Scenes, JumpScenes, ::testing::ValuesIn(kScenes),
                         [](const auto& info) { return info.param.first; });

// a radius moves the moment of touch
TEST(Jump, SizesAndMarginsMoveTheEvent) {
  const auto scene = [](double size, double margin) {
    return Bounce{
        "<mujoco><worldbody><geom type='plane' size='5 5 .1'/><body pos='0 0 .5'>"
        "<joint type='slide' axis='0 0 1'/><geom type='sphere' size='" +
            std::to_string(size) + "' margin='" + std::to_string(margin) +
            "' mass='1'/></body></worldbody></mujoco>",
        {0},
        {-2},
        .25};
  };
  const auto loss = [&](double size, double margin) {
    const Bounce b = scene(size, margin);
    const Model model = Model::from_xml(b.mjcf, options(Integrator::kDopri8, 1e-12, b.duration));
    const Trajectory t = rollout(model, {.qpos = b.qpos, .qvel = b.qvel}, 1);
    return weights(2)[0] * t.qpos[1] + weights(2)[1] * t.qvel[1];
  };
  const Gradient g =
      gradient(scene(.1, .01), Adjoint::kInterpolated, true, {"geom_size", "geom_margin"});
  // decimals of the model's text: large steps
  const double h = 1e-4;
  const double size = (loss(.1 + h, .01) - loss(.1 - h, .01)) / (2 * h),
               margin = (loss(.1, .01 + h) - loss(.1, .01 - h)) / (2 * h);
  EXPECT_NEAR(g.params.at("geom_size")[3] / size, 1, 1e-4);
  EXPECT_NEAR(g.params.at("geom_margin")[1] / margin, 1, 1e-4);
}

// the oracle takes the gradient of a violation from MuJoCo's J: of a pyramid, from two edges whose
// friction cancels
TEST(Jump, TheOracleHasTheSameTerm) {
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (const char* condim : {"1", "3", "6"}) {
      SCOPED_TRACE(std::string(cone) + ", condim " + condim);
      const std::string mjcf =
          std::string("<mujoco><option cone='") + cone +
          "'/><worldbody><geom type='plane' size='5 5 .1' condim='" + condim +
          "'/><body pos='0 0 .3' euler='20 30 0'><freejoint/><geom type='box' size='.1 .08 .06' " +
          "density='100' condim='" + condim + "'/></body></worldbody></mujoco>";
      const auto g = [&](GradientPath path, bool events) {
        ModelOptions o = options(Integrator::kTsit5, 1e-9, .2);
        o.gradient_path = path;
        o.adaptive.events = events;
        const Model model = Model::from_xml(mjcf, o);
        const Trajectory t = rollout(model, {.qvel = Vector{.4, .2, -1, .5, 1, 0}}, 1);
        EXPECT_TRUE(t.ok()) << t.message;
        EXPECT_EQ(t.integrator.events.empty(), !events);
        Vector q(12);
        for (size_t i = 0; i < 6; i++) q[6 + i] = weights(6)[i];
        return rollout_pullback(model, t, {.qpos_tangent = q});
      };
      const Gradient analytic = g(GradientPath::kAnalytic, true),
                     oracle = g(GradientPath::kOracle, true),
                     without = g(GradientPath::kOracle, false);
      double scale = 0, error = 0, share = 0;
      for (size_t i = 0; i < 6; i++) {
        scale = std::max(scale, std::abs(analytic.qpos_tangent[i]));
        error = std::max(error, std::abs(analytic.qpos_tangent[i] - oracle.qpos_tangent[i]));
        share = std::max(share, std::abs(without.qpos_tangent[i] - oracle.qpos_tangent[i]));
      }
      EXPECT_LT(error, 1e-5 * scale);
      EXPECT_GT(share, 0.1 * scale) << "the term hardly matters";
    }
  }
}

TEST(Jump, EventsAreListed) {
  const Bounce b = point_mass(.9, ".005 .2");
  const Model model = Model::from_xml(b.mjcf, options(Integrator::kTsit5, 1e-8, b.duration));
  const Trajectory t = rollout(model, {.qpos = b.qpos, .qvel = b.qvel}, 1);
  ASSERT_EQ(t.integrator.events.size(), 1U);
  const Event& event = t.integrator.events[0];
  // 0.2 m down at 1 m/s and g
  const double speed = std::sqrt(1 + 2 * 9.81 * .2);
  EXPECT_NEAR(event.time, (speed - 1) / 9.81, 1e-12);
  EXPECT_NEAR(event.rate, -speed, 1e-9);
  EXPECT_EQ(event.what, "contact of geom 'floor' and geom 'ball'");
  EXPECT_EQ(event.count, 1);
  EXPECT_GT(event.jump, 100);
  EXPECT_FALSE(event.grazing);
  EXPECT_EQ(t.integrator.time[static_cast<size_t>(event.step) + 1], event.time);
}

TEST(Jump, EndsWithForceAreListed) {
  const Bounce& b = kScenes[6].second;
  const Model model = Model::from_xml(b.mjcf, options(Integrator::kTsit5, 1e-8, b.duration));
  const Trajectory t = rollout(model, {.qpos = b.qpos, .qvel = b.qvel}, 1);
  ASSERT_TRUE(t.ok());
  int begins = 0, ends = 0;
  for (const Event& event : t.integrator.events) {
    (event.release ? ends : begins)++;
    EXPECT_EQ(event.rate > 0, event.release);
    EXPECT_EQ(event.what.starts_with("end of contact of"), event.release) << event.what;
    EXPECT_GT(event.jump, 0);
  }
  EXPECT_GT(begins, 0);
  EXPECT_GT(ends, 0);
}

// the moment of touch and the end of an interval differ by rounding
TEST(Jump, EventsAtTheEndOfAnIntervalAreFound) {
  ModelOptions o = options(Integrator::kTsit5, 1e-7, .01);
  for (const Integrator integrator : {Integrator::kHeun, Integrator::kTsit5}) {
    o.integrator = integrator;
    const Model model = Model::from_xml(
        "<mujoco><option gravity='0 0 0'/><worldbody><geom type='plane' size='5 5 .1'/>"
        "<body><joint type='slide' axis='0 0 1'/><geom size='.05'/></body></worldbody></mujoco>",
        o);
    for (int k = 10; k <= 20; k++) {
      const Trajectory t = rollout(model, {.qpos = Vector{.05 + .01 * k}, .qvel = Vector{-1}}, 22);
      ASSERT_TRUE(t.ok()) << t.message;
      ASSERT_FALSE(t.integrator.events.empty())
          << integrator_name(integrator) << ", interval " << k;
      EXPECT_NEAR(t.integrator.events[0].time, .01 * k, 1e-12);
    }
  }
}

// free flight has no error: the first long step would end behind the post
TEST(Jump, WhatComesAndGoesBetweenStagesIsFound) {
  for (const Integrator integrator :
       {Integrator::kBosh3, Integrator::kTsit5, Integrator::kDopri8}) {
    SCOPED_TRACE(integrator_name(integrator));
    const Model model = Model::from_xml(
        "<mujoco><option gravity='0 0 0'/><worldbody><geom name='post' size='.02'/>"
        "<body name='ball' pos='-5 0 0'><joint type='slide' axis='1 0 0'/>"
        "<geom name='ball' size='.05'/></body></worldbody></mujoco>",
        options(integrator, 1e-6, 1));
    const Trajectory t = rollout(model, {.qvel = Vector{10}}, 1);
    ASSERT_TRUE(t.ok()) << t.message;
    ASSERT_FALSE(t.integrator.events.empty());
    EXPECT_NEAR(t.integrator.events[0].time, .493, 1e-9);
    EXPECT_LT(t.qvel[1], 5);  // [m/s]: it was slowed down
  }
}

// corners that touch together are one event
TEST(Jump, ACubeThatLandsFlatIsOneEvent) {
  const Model model = Model::from_xml(
      "<mujoco><worldbody><geom type='plane' size='5 5 .1'/><body pos='0 0 .3'><freejoint/>"
      "<geom type='box' size='.1 .1 .1'/></body></worldbody></mujoco>",
      options(Integrator::kTsit5, 1e-8, .22));
  const Trajectory t = rollout(model, {}, 1);
  ASSERT_TRUE(t.ok());
  ASSERT_EQ(t.integrator.events.size(), 1U);
  EXPECT_EQ(t.integrator.events[0].count, 4);
}

// a ball that falls from 2e-8 m above the floor
TEST(Jump, GrazingIsNoticed) {
  const Model model = Model::from_xml(
      "<mujoco><worldbody><geom name='floor' type='plane' size='5 5 .1'/>"
      "<body pos='0 0 .1'><joint type='slide' axis='0 0 1'/><geom name='ball' size='.1'/></body>"
      "</worldbody></mujoco>",
      options(Integrator::kTsit5, 1e-10, .01));
  const Trajectory t = rollout(model, {.qpos = Vector{2e-8}}, 2);
  ASSERT_TRUE(t.ok());
  ASSERT_EQ(t.integrator.events.size(), 1U);
  EXPECT_TRUE(t.integrator.events[0].grazing);
  EXPECT_FALSE(t.integrator.events[0].at_rest);
  ASSERT_EQ(t.warnings.size(), 1U);
  EXPECT_EQ(t.warnings[0].kind, WarningKind::kGrazing);
  EXPECT_NE(t.warnings[0].text.find("contact of geom 'floor' and geom 'ball'"), std::string::npos)
      << t.warnings[0].text;
  // a higher start falls longer: δt = δz / speed
  const Vector bar = {0, 1, 0};
  const Gradient g = rollout_pullback(model, t, {.qpos_tangent = bar});
  const double h = 1e-9;
  const auto height = [&](double z) { return rollout(model, {.qpos = Vector{z}}, 2).qpos[1]; };
  const double expected = (height(2e-8 + h) - height(2e-8 - h)) / (2 * h);
  EXPECT_NEAR(g.qpos_tangent[0] / expected, 1, 1e-2);
}

// at the top of its flight a ball reaches the ceiling, by 2e-8 m, and gravity is all it feels
TEST(Jump, GrazingWithoutForceIsNoWarning) {
  const double speed = std::sqrt(2 * 9.81 * (.4 + 2e-8));
  const Model model = Model::from_xml(
      "<mujoco><worldbody><geom type='plane' size='5 5 .1' zaxis='0 0 -1' pos='0 0 1'/>"
      "<body pos='0 0 .5'><joint type='slide' axis='0 0 1'/><geom size='.1'/></body></worldbody>"
      "</mujoco>",
      options(Integrator::kTsit5, 1e-8, speed / 9.81));
  const Trajectory t = rollout(model, {.qvel = Vector{speed}}, 2);
  ASSERT_TRUE(t.ok());
  ASSERT_EQ(t.integrator.events.size(), 1U);
  EXPECT_TRUE(t.integrator.events[0].grazing);
  EXPECT_EQ(t.integrator.events[0].jump, 0);
  EXPECT_TRUE(t.warnings.empty());
}

}  // namespace
}  // namespace diffmj
