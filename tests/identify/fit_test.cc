// Fits: the gradient of an objective against differences, and parameters that are found again.
#include "diffmj/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

constexpr const char* kPendulum = R"(<mujoco><option timestep="0.005"/><worldbody>
  <body><joint name="hinge" axis="0 1 0" damping="0.2" frictionloss="0"/>
    <geom name="rod" type="capsule" size="0.02" fromto="0 0 0 0 0 -0.5" mass="1"/>
    <site name="tip" pos="0 0 -0.5"/>
    <body pos="0 0 -0.5"><joint name="wrist" type="ball" damping="0.05"/>
      <geom name="bob" type="box" size="0.05 0.08 0.03" mass="0.5"/><site name="imu" pos="0 0.02 0"/></body></body>
  </worldbody><actuator><motor name="motor" joint="hinge"/></actuator>
  <sensor><gyro name="gyro" site="imu"/><framequat name="quat" objtype="site" objname="imu"/></sensor></mujoco>)";

const std::vector<std::string> kAttributes = {"hinge/damping[0]", "wrist/damping[0]", "bob/mass"};

// what a pendulum with other parameters did
Recording recording(const std::vector<double>& truth, int nstep = 60) {
  const ParametricModel family = ParametricModel::from_attributes(kPendulum, kAttributes);
  const Model model = family.at(truth);
  Vector ctrl(static_cast<size_t>(nstep));
  for (size_t i = 0; i < ctrl.size(); i++) ctrl[i] = 3 * std::sin(0.1 * static_cast<double>(i / 2));
  const Vector qpos = {1, 0.8, 0.4, 0.4, 0.2}, qvel = {0, 1, -2, 0.5};
  const Trajectory t =
      rollout(model, {.qpos = qpos, .qvel = qvel, .ctrl = ctrl}, nstep, {.sensors = true});
  Recording out = record(model, t, 2);
  const Vector sites = poses(model, t, {"site_xpos"}).site_xpos;
  for (int i = 0; i <= nstep; i += 2) {
    out.sites["tip"].insert(out.sites["tip"].end(), sites.begin() + 6 * i,
                            sites.begin() + 6 * i + 3);
  }
  return out;
}

Objective objective(const std::vector<std::string>& targets = {},
                    const Vector& truth = {0.3, 0.1, 0.8}) {
  const ParametricModel family = ParametricModel::from_attributes(kPendulum, kAttributes);
  const std::vector<Recording> recordings = {recording(truth)};
  return {family, segments(family.at(family.start()), recordings,
                           {.length = 5, .stride = 3, .targets = targets})};
}

TEST(Objective, GradientMatchesDifferences) {
  for (const std::string target : {"qpos", "qvel", "sensordata", "site:tip"}) {
    const Objective f = objective({target});
    const Operation op{
        .forward = [=](const Vector& theta) { return Vector{f.evaluate(theta, false).loss}; },
        .pullback =
            [=](const Vector& theta, const Vector& y_bar, Vector& bar) {
              const Vector g = f.evaluate(theta).gradient;
              for (size_t i = 0; i < g.size(); i++) bar[i] += y_bar[0] * g[i];
            },
    };
    EXPECT_TRUE(
        check_pullback(op, f.family().start(), 3,
                       {.tolerance = tolerances().trajectory, .step = 1e-3, .directions = 3}))
        << target;
  }
}

TEST(Objective, IsZeroAtTheTruth) {
  const Vector truth = {0.3, 0.1, 0.8};
  const Objective::Value value = objective({}, truth).evaluate(truth);
  EXPECT_LT(value.loss, 1e-20);
  for (const double g : value.gradient) EXPECT_NEAR(g, 0, 1e-9);
}

TEST(Objective, HasTheSameBitsOnAnyThreads) {
  const Objective f = objective();
  const Objective::Value one = f.evaluate(f.family().start(), true, {}, {.nthread = 1});
  for (const int nthread : {2, 5}) {
    const Objective::Value other = f.evaluate(f.family().start(), true, {}, {.nthread = nthread});
    EXPECT_EQ(one.loss, other.loss);
    EXPECT_EQ(one.gradient, other.gradient);
  }
}

TEST(Fit, FindsTheParametersAgain) {
  const Vector truth = {0.3, 0.1, 0.8};
  const Objective f = objective({}, truth);
  const std::vector<FitBounds> bounds = {{.low = 0}, {.low = 0, .high = 1}, {.low = 0}};
  const FitResult result =
      fit(f, f.family().start(),
          {.bounds = bounds, .iterations = 500, .rate = 0.06, .beta1 = 0.9, .beta2 = 0.99});
  for (size_t i = 0; i < truth.size(); i++) {
    EXPECT_NEAR(result.theta[i], truth[i], 0.01 * truth[i]) << f.family().names()[i];
  }
  EXPECT_EQ(result.history.size(), 501u);
  EXPECT_LT(result.loss, 1e-3 * result.history[0].loss);
  const Uncertainty known = uncertainty(f, result.theta);
  EXPECT_TRUE(known.undetermined.empty());
  for (size_t i = 0; i < truth.size(); i++) {
    EXPECT_LT(known.error[i], 0.02 * truth[i]);
    EXPECT_EQ(known.correlation[4 * i], 1);
  }
}

TEST(Fit, OfMinibatchesIsReproducible) {
  const Objective f = objective();
  const FitOptions options{.iterations = 20, .minibatch = 3, .seed = 7};
  FitOptions threads = options, seed = options;
  threads.nthread = 3;
  seed.seed = 8;
  const FitResult one = fit(f, f.family().start(), options),
                  same = fit(f, f.family().start(), threads),
                  other = fit(f, f.family().start(), seed);
  EXPECT_EQ(one.theta, same.theta);
  EXPECT_NE(one.theta, other.theta);
}

TEST(Fit, StopsWithWhatItHas) {
  const Objective f = objective();
  int calls = 0;
  const FitResult result =
      fit(f, f.family().start(), {.iterations = 30, .progress = [&](const FitStep&) { calls++; }});
  EXPECT_EQ(calls, 31);
  bool stop = false;
  const FitResult stopped = fit(f, f.family().start(),
                                {.iterations = 1000,
                                 .interrupted = [&] { return stop; },
                                 .progress = [&](const FitStep& s) { stop = s.iteration == 4; }});
  EXPECT_TRUE(stopped.interrupted);
  ASSERT_EQ(stopped.history.size(), 5u);
  EXPECT_EQ(stopped.theta, result.history[4].theta);
}

// mass and density of one geom: free flight tells neither
TEST(Uncertainty, NamesWhatTheDataDoNotDetermine) {
  const std::string ball = R"(<mujoco><worldbody><body name="ball"><freejoint/>
      <geom name="ball" size="0.1" mass="1" friction="0.3 0.1 0.1"/></body></worldbody></mujoco>)";
  const std::vector<std::string> attributes = {"geom:ball/mass", "option/gravity[2]"};
  const ParametricModel family = ParametricModel::from_attributes(ball, attributes);
  const Model model = family.at(family.start());
  const std::vector<Recording> recordings = {record(model, rollout(model, {}, 20))};
  const Objective f(family, segments(model, recordings, {.length = 10}));
  const Uncertainty known = uncertainty(f, family.start());
  ASSERT_EQ(known.undetermined.size(), 1u);
  EXPECT_NEAR(std::abs(known.undetermined[0][0]), 1, 1e-6);
  EXPECT_TRUE(std::isinf(known.error[0]));
  EXPECT_FALSE(std::isinf(known.error[1]));
}

TEST(FitErrors, NameTheParameter) {
  const Objective f = objective();
  const std::vector<FitBounds> outside = {{.low = 1}, {}, {}}, few = {{}};
  EXPECT_THROW((void)fit(f, f.family().start(), {.bounds = outside}), InputError);
  EXPECT_THROW((void)fit(f, f.family().start(), {.bounds = few}), InputError);
  EXPECT_THROW((void)fit(f, Vector{1}, {}), InputError);
  EXPECT_THROW((void)fit(f, f.family().start(), {.rate = 0}), InputError);
  EXPECT_THROW(Objective(f.family(), {}), InputError);
}

}  // namespace
}  // namespace diffmj
