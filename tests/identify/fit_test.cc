// Fits: the gradient of an objective against differences, and parameters that are found again.
#include "diffmj/fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

constexpr const char* kPendulum = R"(<mujoco><option timestep="0.005"/><worldbody>
  <body><joint name="hinge" axis="0 1 0" damping="0.2" frictionloss="0"/>
    <geom name="rod" type="capsule" size="0.02" fromto="0 0 0 0 0 -0.5" mass="1"/>
    <site name="tip" pos="0 0 -0.5"/>
    <body name="hand" pos="0 0 -0.5"><joint name="wrist" type="ball" damping="0.05"/>
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
  const std::vector<std::string> bodies = {"hand"};
  return with_bodies(model, out, bodies);
}

Objective objective(const std::vector<std::string>& targets = {},
                    const Vector& truth = {0.3, 0.1, 0.8}, int length = 5,
                    const ResidualLoss& loss = {}) {
  const ParametricModel family = ParametricModel::from_attributes(kPendulum, kAttributes);
  const std::vector<Recording> recordings = {recording(truth)};
  return {family,
          segments(family.at(family.start()), recordings,
                   {.length = length, .stride = 3, .targets = targets}),
          loss};
}

using Kind = ResidualLoss::Kind;
// small enough that residuals at the start are on both sides of it
constexpr ResidualLoss kLosses[] = {
    {Kind::kSoftL1, 0.01}, {Kind::kHuber, 0.01}, {Kind::kCauchy, 0.01}};

Vector sine_moves(size_t n) {
  Vector out(n);
  for (size_t i = 0; i < n; i++) out[i] = 0.1 * std::sin(static_cast<double>(i));
  return out;
}

TEST(Objective, GradientMatchesDifferences) {
  for (const std::string target : {"qpos", "qvel", "sensordata", "site:tip", "body_pos:hand",
                                   "body_quat:hand", "body_mat:hand"}) {
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

// ½ s² ρ(r²/s²), with ρ as scipy defines it
TEST(ResidualLoss, HasItsFormula) {
  const Vector theta = objective().family().start();
  const Objective plain = objective({"qvel"});
  const Vector r = plain.residuals(theta);
  const double s = 0.01;
  for (const ResidualLoss& loss : kLosses) {
    const Objective f = objective({"qvel"}, {0.3, 0.1, 0.8}, 5, loss);
    double expected = 0;
    int beyond = 0;
    for (const double x : r) {
      const double u = x * x / (s * s);
      beyond += u > 1;
      const double rho = loss.kind == Kind::kSoftL1  ? 2 * (std::sqrt(1 + u) - 1)
                         : loss.kind == Kind::kHuber ? (u <= 1 ? u : 2 * std::sqrt(u) - 1)
                                                     : std::log(1 + u);
      expected += 0.5 * s * s * rho / f.nsegment();
    }
    ASSERT_GT(beyond, 10);
    ASSERT_LT(beyond, static_cast<int>(r.size()) - 10);
    EXPECT_NEAR(f.evaluate(theta, false).loss / expected, 1, 1e-12);
    double squares = 0;
    for (const double x : f.residuals(theta)) squares += 0.5 * x * x / f.nsegment();
    EXPECT_NEAR(squares / expected, 1, 1e-12);
  }
}

TEST(ResidualLoss, GradientMatchesDifferences) {
  for (const ResidualLoss& loss : kLosses) {
    SCOPED_TRACE(residual_loss_name(loss.kind));
    const Objective f = objective({"qvel", "body_mat:hand"}, {0.3, 0.1, 0.8}, 5, loss);
    const Operation value{
        .forward = [=](const Vector& theta) { return Vector{f.evaluate(theta, false).loss}; },
        .pullback =
            [=](const Vector& theta, const Vector& y_bar, Vector& bar) {
              const Vector g = f.evaluate(theta).gradient;
              for (size_t i = 0; i < g.size(); i++) bar[i] += y_bar[0] * g[i];
            },
    };
    EXPECT_TRUE(
        check_pullback(value, f.family().start(), 3,
                       {.tolerance = tolerances().trajectory, .step = 1e-4, .directions = 3}));
    // of single residuals, in starting states
    const Vector theta = f.family().start();
    const size_t nx = 8, nsegment = static_cast<size_t>(f.nsegment());
    const Operation residuals{
        .forward = [=](const Vector& moves) { return f.residuals(theta, {.moves = moves}).values; },
        .pullback =
            [=](const Vector& moves, const Vector& y_bar, Vector& bar) {
              const Objective::Residuals r = f.residuals(theta, {.start = true, .moves = moves});
              for (size_t i = 0; i < nsegment; i++) {
                for (auto k = static_cast<size_t>(r.first[i]);
                     k < static_cast<size_t>(r.first[i + 1]); k++) {
                  for (size_t j = 0; j < nx; j++) bar[i * nx + j] += y_bar[k] * r.start[k * nx + j];
                }
              }
            },
    };
    const Vector moves = sine_moves(nsegment * nx);
    EXPECT_TRUE(
        check_pullback(residuals, moves, moves.size(),
                       {.tolerance = tolerances().trajectory, .step = 1e-4, .directions = 3}));
  }
}

// Rows of the recording that are simply wrong pull a least-squares fit away, not a robust one.
TEST(ResidualLoss, KeepsOutliersFromDeciding) {
  const Vector truth = {0.3, 0.1, 0.8};
  const ParametricModel family = ParametricModel::from_attributes(kPendulum, kAttributes);
  const size_t nv = 4;
  std::vector<Segment> cut =
      segments(family.at(family.start()), std::vector<Recording>{recording(truth)},
               {.length = 5, .stride = 3, .targets = std::vector<std::string>{"qvel"}});
  for (size_t i = 0; i < cut.size(); i += 4) cut[i].targets[0].values[3 * nv] += 2;
  const auto worst = [&](const ResidualLoss& loss, const FitOptions& options) {
    const FitResult found = fit(Objective(family, cut, loss), family.start(), options);
    double out = 0;
    for (size_t i = 0; i < truth.size(); i++) {
      out = std::max(out, std::abs(found.theta[i] / truth[i] - 1));
    }
    return out;
  };
  const std::vector<FitBounds> bounds(3, {0, 10});
  const FitOptions lm{
      .method = FitMethod::kLevenbergMarquardt, .bounds = bounds, .iterations = 100};
  const double least_squares = worst({}, lm);
  EXPECT_GT(least_squares, 0.1);
  EXPECT_LT(worst({Kind::kCauchy, 0.01}, lm), 1e-3);
  EXPECT_LT(worst({Kind::kHuber, 0.01}, lm), 0.5 * least_squares);
  EXPECT_LT(worst({Kind::kCauchy, 0.01}, {.bounds = bounds, .iterations = 500, .rate = 0.02}),
            0.01);
}

TEST(ResidualLoss, RefusesWhatIsNotThere) {
  EXPECT_THROW((void)residual_loss_from_name("square"), InputError);
  for (const ResidualLoss& loss : kLosses) {
    EXPECT_EQ(residual_loss_from_name(residual_loss_name(loss.kind)), loss.kind);
  }
  for (const double scale : {0.0, -1.0, std::nan("")}) {
    EXPECT_THROW((void)objective({"qpos"}, {0.3, 0.1, 0.8}, 5, {Kind::kHuber, scale}), InputError);
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

// J of the residuals against differences of them: by pullbacks where there are few residuals per
// segment, else by differences of rollouts
TEST(Objective, DerivativesOfResidualsMatchDifferences) {
  for (const std::string target : {"qpos", "sensordata", "site:tip", "body_mat:hand"}) {
    for (const int length : {1, 8}) {
      const Objective f = objective({target}, {0.3, 0.1, 0.8}, length);
      const Operation op{
          .forward = [=](const Vector& theta) { return f.residuals(theta); },
          .pullback =
              [=](const Vector& theta, const Vector& y_bar, Vector& bar) {
                const Objective::Residuals r = f.residuals(theta, {.theta = true});
                for (size_t i = 0; i < r.theta.size(); i++) {
                  bar[i % bar.size()] += y_bar[i / bar.size()] * r.theta[i];
                }
              },
      };
      EXPECT_TRUE(
          check_pullback(op, f.family().start(), 3,
                         {.tolerance = tolerances().trajectory, .step = 1e-3, .directions = 3}))
          << target << " " << length;
    }
  }
}

TEST(Objective, DerivativesInStartingStatesMatchDifferences) {
  const Objective f = objective({"qpos", "qvel", "sensordata"});
  const Vector theta = f.family().start();
  const size_t nx = 8, nsegment = static_cast<size_t>(f.nsegment());
  const Operation op{
      .forward = [=](const Vector& moves) { return f.residuals(theta, {.moves = moves}).values; },
      .pullback =
          [=](const Vector& moves, const Vector& y_bar, Vector& bar) {
            const Objective::Residuals r = f.residuals(theta, {.start = true, .moves = moves});
            for (size_t i = 0; i < nsegment; i++) {
              for (auto k = static_cast<size_t>(r.first[i]);
                   k < static_cast<size_t>(r.first[i + 1]); k++) {
                for (size_t j = 0; j < nx; j++) bar[i * nx + j] += y_bar[k] * r.start[k * nx + j];
              }
            }
          },
  };
  Vector moves(nsegment * nx);
  for (size_t i = 0; i < moves.size(); i++) moves[i] = 0.1 * std::sin(static_cast<double>(i));
  EXPECT_TRUE(
      check_pullback(op, moves, moves.size(),
                     {.tolerance = tolerances().trajectory, .step = 1e-3, .directions = 3}));
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

TEST(Fit, ByLevenbergMarquardtTakesFewIterations) {
  const Vector truth = {0.3, 0.1, 0.8};
  for (const int length : {1, 8}) {
    const Objective f = objective({}, truth, length);
    const FitResult result = fit(f, f.family().start(),
                                 {.method = FitMethod::kLevenbergMarquardt,
                                  .bounds = {{.low = 0}, {.low = 0, .high = 1}, {.low = 0}},
                                  .iterations = 30});
    EXPECT_TRUE(result.converged);
    EXPECT_LT(result.history.size(), 15u);
    for (size_t i = 0; i < truth.size(); i++) {
      EXPECT_NEAR(result.theta[i], truth[i], 1e-6 * truth[i]) << f.family().names()[i];
    }
  }
}

// noise of the recorded states goes into the parameters, unless the states are estimated, too
TEST(Fit, EstimatesStartingStates) {
  const Vector truth = {0.3, 0.1, 0.8};
  const ParametricModel family = ParametricModel::from_attributes(kPendulum, kAttributes);
  Recording noisy = recording(truth, 240);
  for (size_t i = 0; i < noisy.qvel.size(); i++) {
    noisy.qvel[i] += 0.2 * std::sin(1000.0 * static_cast<double>(i * i));
  }
  const std::vector<Recording> recordings = {noisy};
  const Objective f(
      family, segments(family.at(family.start()), recordings, {.length = 20, .targets = {"qpos"}}));
  FitOptions options{.method = FitMethod::kLevenbergMarquardt, .iterations = 30};
  const FitResult plain = fit(f, family.start(), options);
  options.estimate_starts = true;
  const FitResult result = fit(f, family.start(), options);
  EXPECT_GT(std::abs(plain.theta[0] - truth[0]), 0.01);
  for (size_t i = 0; i < truth.size(); i++) {
    EXPECT_NEAR(result.theta[i], truth[i], 1e-4 * truth[i]) << family.names()[i];
  }
  EXPECT_LT(result.loss, 1e-6 * plain.loss);
  ASSERT_EQ(result.moves.size(), static_cast<size_t>(f.nsegment() * 8));
  // what it moves the states by is the noise
  EXPECT_NEAR(result.moves[4], -0.2 * std::sin(0.0), 1e-3);
  EXPECT_NEAR(result.moves[5], -0.2 * std::sin(1000.0), 1e-3);
}

TEST(Fit, GoesOnFromACheckpoint) {
  const Objective f = objective();
  const std::string path = ::testing::TempDir() + "fit_checkpoint.txt";
  for (const FitMethod method : {FitMethod::kAdam, FitMethod::kLevenbergMarquardt}) {
    std::filesystem::remove(path);
    FitOptions options{
        .method = method,
        .iterations = 6,
        .minibatch = method == FitMethod::kAdam ? std::optional<int>(4) : std::nullopt,
        .checkpoint = path,
        .resume = true};
    const FitResult whole = fit(f, f.family().start(), options);
    std::filesystem::remove(path);
    options.interrupted = [] { return true; };
    const FitResult stopped = fit(f, f.family().start(), options);
    EXPECT_LT(stopped.history.size(), 3u);
    options.interrupted = {};
    options.iterations = 3;
    (void)fit(f, f.family().start(), options);
    options.iterations = 6;
    const FitResult rest = fit(f, f.family().start(), options);
    ASSERT_EQ(rest.history.size(), whole.history.size());
    if (method == FitMethod::kAdam) {
      EXPECT_EQ(rest.theta, whole.theta);
      EXPECT_EQ(rest.history.back().loss, whole.history.back().loss);
    } else {
      EXPECT_NEAR(rest.loss, whole.loss, 1e-6 * whole.history[0].loss);
    }
    options.seed = 1;
    EXPECT_THROW((void)fit(f, f.family().start(), options), InputError);
  }
  std::ofstream(path) << "diffmj fit 1\nproblem x\n";
  EXPECT_THROW((void)fit(f, f.family().start(), {.checkpoint = path, .resume = true}), InputError);
  std::filesystem::remove(path);
  EXPECT_THROW((void)fit(f, f.family().start(), {.resume = true}), InputError);
}

// a mass must be positive: with a trial that does not compile Levenberg-Marquardt takes a shorter
// step, and Adam ends with what it has
TEST(Fit, GoesOnWhereATrialFails) {
  const std::string cart = R"(<mujoco><option gravity="0 0 0"/><worldbody>
      <body><joint name="slide" type="slide" axis="1 0 0"/><geom name="cart" size="0.1" mass="5"/>
      </body></worldbody><actuator><motor joint="slide"/></actuator></mujoco>)";
  const std::vector<std::string> attributes = {"cart/mass"};
  const ParametricModel family = ParametricModel::from_attributes(cart, attributes);
  const Vector truth = {0.2}, ctrl = {1};
  const Model model = family.at(truth);
  const std::vector<Recording> recordings = {record(model, rollout(model, {.ctrl = ctrl}, 40))};
  const Objective f(family, segments(model, recordings, {.length = 10}));
  const FitResult lm =
      fit(f, family.start(), {.method = FitMethod::kLevenbergMarquardt, .iterations = 60});
  EXPECT_NEAR(lm.theta[0], 0.2, 1e-6);
  const FitResult adam = fit(f, family.start(), {.iterations = 60, .rate = 0.3});
  EXPECT_NE(adam.message.find("does not compile"), std::string::npos) << adam.message;
  EXPECT_LT(adam.loss, adam.history[0].loss);
  EXPECT_LT(adam.history.size(), 61u);
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

// residuals of a segment that all err to the same side say less than as many independent ones
TEST(Uncertainty, KnowsThatResidualsOfASegmentBelongTogether) {
  const Vector truth = {0.3, 0.1, 0.8};
  const ParametricModel family = ParametricModel::from_attributes(kPendulum, kAttributes);
  Recording clean = recording(truth, 480), shifted = clean, noisy = clean;
  const int length = 10;
  for (size_t i = 0; i < clean.sites["tip"].size(); i++) {
    const size_t row = i / 3, segment = (row + length - 1) / length;
    shifted.sites["tip"][i] += 1e-3 * std::sin(1000.0 * static_cast<double>(segment * segment));
    noisy.sites["tip"][i] += 1e-3 * std::sin(1000.0 * static_cast<double>(i * i));
  }
  const auto error = [&](const Recording& x) {
    const std::vector<Recording> recordings = {x};
    const Objective f(family, segments(family.at(truth), recordings,
                                       {.length = length, .targets = {"site:tip"}}));
    return uncertainty(f, truth).error;
  };
  const Vector together = error(shifted), apart = error(noisy);
  for (size_t i = 0; i < truth.size(); i++) EXPECT_GT(together[i], 1.5 * apart[i]) << i;
}

// a gradient that is rounding is no reason to move: a box tumbles as fast whatever its mass
TEST(Fit, ByAdamStaysWhereNothingMatters) {
  const std::string box = R"(<mujoco><worldbody><body name="box" pos="0 0 5"><freejoint/>
      <geom name="box" type="box" size="0.1 0.2 0.3" mass="1"/></body></worldbody></mujoco>)";
  const std::vector<std::string> attributes = {"geom:box/mass"};
  const ParametricModel family = ParametricModel::from_attributes(box, attributes);
  const Model model = family.at(family.start());
  const Vector qvel = {1, 2, 0, 3, 1, 2};
  Recording tumbling = record(model, rollout(model, {.qvel = qvel}, 20));
  for (double& x : tumbling.qvel) x += 1e-2;
  const std::vector<Recording> recordings = {tumbling};
  const Objective f(family, segments(model, recordings, {.length = 5}));
  const FitResult result = fit(f, family.start(), {.iterations = 30});
  EXPECT_NE(result.history[0].gradient[0], 0);
  EXPECT_NEAR(result.history.back().theta[0], 1, 1e-4);
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
  EXPECT_THROW((void)fit(f, f.family().start(), {.estimate_starts = true}), InputError);
  EXPECT_THROW(
      (void)fit(f, f.family().start(), {.method = FitMethod::kLevenbergMarquardt, .minibatch = 3}),
      InputError);
  EXPECT_THROW((void)fit_method_from_name("sgd"), InputError);
  EXPECT_THROW(Objective(f.family(), {}), InputError);
}

}  // namespace
}  // namespace diffmj
