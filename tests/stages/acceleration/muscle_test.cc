// Muscles: curves against MuJoCo's own, pullbacks against differences on every piece of the curves,
// whole steps against the oracle and against differences of mj_step.
// label: smoke
#include "stages/acceleration/muscle.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "harness/models.h"
#include "harness/stage_fixture.h"
#include "harness/tolerances.h"
#include "model/parameters.h"
#include "stages/position/transmission.h"

namespace diffmj {
namespace {

// a muscle at a given place of its curves; x = (length, velocity, lengthrange, acc0, prm)
constexpr size_t kSize = 5 + kMusclePrm;
MuscleIn muscle_at(const Vector& x, double smoothing = 0) {
  return {.length = x[0],
          .velocity = x[1],
          .lengthrange = &x[2],
          .acc0 = x[4],
          .prm = &x[5],
          .smoothing = smoothing};
}

class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {}
  double between(double a, double b) {
    return a + (b - a) * std::uniform_real_distribution<double>(0, 1)(random_);
  }
  bool chance(double p) { return between(0, 1) < p; }

 private:
  std::mt19937 random_;
};

// (range, force, scale, lmin, lmax, vmax, fpmax, fvmax)
void random_prm(Random& random, double* prm) {
  prm[0] = random.between(0.6, 0.9);
  prm[1] = random.between(1, 1.3);
  prm[2] = random.chance(0.5) ? -1 : random.between(2, 9);
  prm[3] = random.between(5, 20);
  prm[4] = random.between(0.3, 0.6);
  prm[5] = random.between(1.4, 1.8);
  prm[6] = random.between(0.8, 2);
  prm[7] = random.between(0.8, 1.6);
  prm[8] = random.between(1.15, 1.5);
}

// Places in the middle of every piece: L of the six of FL (those of FP among them), V of the four
// of FV.
constexpr int kLengthPieces = 6, kVelocityPieces = 4;
double length_in(int piece, const double* prm) {
  const double a = (prm[4] + 1) / 2, b = (1 + prm[5]) / 2;
  const double knots[] = {prm[4] - 0.3, prm[4], a, 1, b, prm[5], prm[5] + 0.3};
  return 0.45 * knots[piece] + 0.55 * knots[piece + 1];
}
double velocity_in(int piece, const double* prm) {
  const double knots[] = {-1.4, -1, 0, prm[8] - 1, prm[8] + 0.5};
  return 0.45 * knots[piece] + 0.55 * knots[piece + 1];
}

Vector random_muscle(Random& random, int length_piece, int velocity_piece) {
  Vector x(kSize);
  random_prm(random, &x[5]);
  const double *prm = &x[5], L0 = random.between(0.2, 0.6);
  x[0] = random.between(-0.2, 0.5);
  x[1] = velocity_in(velocity_piece, prm) * L0 * prm[6];
  x[2] = x[0] - (length_in(length_piece, prm) - prm[0]) * L0;
  x[3] = x[2] + (prm[1] - prm[0]) * L0;
  x[4] = random.between(2, 6);
  return x;
}

template <class Fn>
void for_each_piece(Fn&& fn) {
  Random random(1);
  for (int i = 0; i < kLengthPieces; i++) {
    for (int j = 0; j < kVelocityPieces; j++) {
      SCOPED_TRACE("pieces " + std::to_string(i) + ", " + std::to_string(j));
      for (int n = 0; n < 3; n++) fn(random_muscle(random, i, j));
    }
  }
}

double mj_gain(const Vector& x) { return mju_muscleGain(x[0], x[1], &x[2], x[4], &x[5]); }
double mj_bias(const Vector& x) { return mju_muscleBias(x[0], &x[2], x[4], &x[5]); }

TEST(Muscle, ForwardMatchesMujoco) {
  const double tolerance = 10 * tolerances().forward;
  for_each_piece([&](const Vector& x) {
    EXPECT_NEAR(muscle_gain(muscle_at(x)).gain, mj_gain(x), tolerance);
    EXPECT_NEAR(muscle_bias(muscle_at(x)), mj_bias(x), tolerance);
  });
  // parameters out of order: whatever MuJoCo makes of them
  Random random(2);
  for (int n = 0; n < 1000; n++) {
    Vector x(kSize);
    for (double& value : x) value = random.between(-0.5, 1.5);
    const double gain = mj_gain(x), bias = mj_bias(x);
    EXPECT_NEAR(muscle_gain(muscle_at(x)).gain, gain, tolerance * std::max(1.0, std::abs(gain)));
    EXPECT_NEAR(muscle_bias(muscle_at(x)), bias, tolerance * std::max(1.0, std::abs(bias)));
  }
}

Operation gain_operation(double smoothing) {
  return {
      .forward =
          [=](const Vector& x) {
            const MuscleGain y = muscle_gain(muscle_at(x, smoothing));
            return Vector{y.gain, y.slope};
          },
      .pullback =
          [=](const Vector& x, const Vector& y_bar, Vector& x_bar) {
            muscle_gain_pullback(muscle_at(x, smoothing), {.gain = y_bar[0], .slope = y_bar[1]},
                                 {.length = &x_bar[0],
                                  .velocity = &x_bar[1],
                                  .prm = &x_bar[5],
                                  .lengthrange = &x_bar[2],
                                  .acc0 = &x_bar[4]});
          },
  };
}
Operation bias_operation(double smoothing) {
  return {
      .forward = [=](const Vector& x) { return Vector{muscle_bias(muscle_at(x, smoothing))}; },
      .pullback =
          [=](const Vector& x, const Vector& y_bar, Vector& x_bar) {
            muscle_bias_pullback(muscle_at(x, smoothing), y_bar[0],
                                 {.length = &x_bar[0],
                                  .velocity = &x_bar[1],
                                  .prm = &x_bar[5],
                                  .lengthrange = &x_bar[2],
                                  .acc0 = &x_bar[4]});
          },
  };
}
const CheckPullbackOptions kCheck = {
    .tolerance = tolerances().smooth, .smallest = 1e-6, .step = 1e-3, .directions = 4};

TEST(Muscle, PullbackMatchesDifferences) {
  for (const double smoothing : {0.0, 0.05}) {
    for_each_piece([&](const Vector& x) {
      EXPECT_TRUE(check_pullback(gain_operation(smoothing), x, kSize, kCheck));
      EXPECT_TRUE(check_pullback(bias_operation(smoothing), x, kSize, kCheck));
    });
  }
}

// without parameters: the same, with fewer numbers carried
TEST(Muscle, PullbackOfTheStateAloneIsTheSame) {
  for_each_piece([&](const Vector& x) {
    Vector all(kSize), state(2);
    gain_operation(0).pullback(x, {0.7, -0.4}, all);
    bias_operation(0).pullback(x, {0.3}, all);
    const MuscleBar bar{.length = &state[0], .velocity = &state[1]};
    muscle_gain_pullback(muscle_at(x), {.gain = 0.7, .slope = -0.4}, bar);
    muscle_bias_pullback(muscle_at(x), 0.3, bar);
    for (size_t i = 0; i < 2; i++) EXPECT_NEAR(state[i], all[i], 1e-12 * (1 + std::abs(all[i])));
  });
}

// at L = 1, half way up FV: FL = 1, FL' = 0, FV = ¼, FV' = 1
TEST(Muscle, ClosedForm) {
  const Vector x = {0.2, -0.4, 0, 0.4, 1, 0.8, 1.2, 50, 0, 0.5, 1.6, 0.8, 1.3, 1.2};
  const MuscleGain gain = muscle_gain(muscle_at(x));  // L0 = 1, V = -½
  EXPECT_NEAR(gain.gain, -12.5, 1e-12);
  EXPECT_NEAR(gain.slope, -50 / 0.8, 1e-12);
  Vector x_bar(kSize);
  gain_operation(0).pullback(x, {1, 0}, x_bar);
  EXPECT_NEAR(x_bar[0], 0, 1e-9);
  EXPECT_NEAR(x_bar[1], -50 / 0.8, 1e-9);
  EXPECT_NEAR(x_bar[5 + 2], -0.25, 1e-12);
}

// x = (ctrl, act, prm)
double mj_dynamics(const Vector& x) { return mju_muscleDynamics(x[0], x[1], &x[2]); }
MuscleDynamicsIn dynamics_at(const Vector& x, double smoothing = 0) {
  return {.ctrl = x[0], .act = x[1], .prm = &x[2], .smoothing = smoothing};
}
void dynamics_pullback(const Vector& x, double smoothing, double y_bar, Vector& x_bar) {
  muscle_dynamics_pullback(dynamics_at(x, smoothing), y_bar,
                           {.ctrl = &x_bar[0], .act = &x_bar[1], .prm = &x_bar[2]});
}

TEST(MuscleDynamics, MatchesMujocoAndDifferences) {
  Random random(3);
  for (const double smoothing : {0.0, 0.1}) {
    for (int n = 0; n < 60; n++) {
      const bool smooth = n % 2 == 1;
      const double act = random.between(-0.3, 1.3);
      double ctrl = random.between(-0.3, 1.3);
      // away from the clamps and, where tau switches, from ctrl = act
      for (const double bound : {0.0, 1.0}) {
        if (std::abs(ctrl - bound) < 0.02) ctrl += 0.05;
      }
      if (std::min(std::abs(act), std::abs(act - 1)) < 0.02) continue;
      if (!smooth && std::abs(std::clamp(ctrl, 0.0, 1.0) - act) < 0.02) continue;
      Vector x = {ctrl, act, random.between(0.05, 0.1), random.between(0.1, 0.2)};
      if (smooth) x.push_back(random.between(0.3, 0.8));  // tausmooth that is 0 is no variable
      SCOPED_TRACE(::testing::PrintToString(x));
      const auto padded = [](Vector y) {
        y.resize(5);
        return y;
      };
      if (smoothing == 0) {
        const Vector at = padded(x);
        EXPECT_NEAR(muscle_dynamics(dynamics_at(at)), mj_dynamics(at), 100 * tolerances().forward);
      }
      const Operation op = {
          .forward =
              [=](const Vector& y) {
                const Vector at = padded(y);
                return Vector{muscle_dynamics(dynamics_at(at, smoothing))};
              },
          .pullback =
              [=](const Vector& y, const Vector& y_bar, Vector& x_bar) {
                Vector all(5);
                dynamics_pullback(padded(y), smoothing, y_bar[0], all);
                for (size_t k = 0; k < x_bar.size(); k++) x_bar[k] += all[k];
              },
      };
      EXPECT_TRUE(
          check_pullback(op, x, x.size(), {.tolerance = tolerances().smooth, .smallest = 1e-6}));
    }
  }
}

// where tau switches: the side MuJoCo takes, or the side inside at a bound
TEST(MuscleDynamics, WhereTauSwitches) {
  const auto slopes = [](double at) {
    Vector bar(5);
    dynamics_pullback({at, at, 0.01, 0.04, 0}, 0, 1, bar);
    return bar;
  };
  EXPECT_NEAR(slopes(0.5)[0], 1.25 / 0.04, 1e-9);
  EXPECT_NEAR(slopes(0.5)[1], -1.25 / 0.04, 1e-9);
  EXPECT_NEAR(slopes(0)[0], 1 / (0.01 * 0.5), 1e-9);  // rises
  EXPECT_NEAR(slopes(0)[1], -0.5 / 0.04, 1e-9);       // falls
  EXPECT_NEAR(slopes(1)[0], 2 / 0.04, 1e-9);
  EXPECT_NEAR(slopes(1)[1], -1 / (0.01 * 2), 1e-9);
  // MuJoCo's own step away from there is the same
  for (const double at : {0.0, 1.0}) {
    const double h = at == 0 ? 1e-7 : -1e-7;
    const double by_ctrl = mj_dynamics({at + h, at, 0.01, 0.04, 0}) / h,
                 by_act = mj_dynamics({at, at + h, 0.01, 0.04, 0}) / h;
    EXPECT_NEAR(slopes(at)[0], by_ctrl, 1e-3 * std::abs(by_ctrl));
    EXPECT_NEAR(slopes(at)[1], by_act, 1e-3 * std::abs(by_act));
  }
}

// as the width goes to 0 the surrogate is the derivative, in pieces and at their ends
TEST(MuscleSmoothing, ConvergesToTheExactDerivative) {
  const auto pulled = [](const Vector& x, double smoothing) {
    Vector x_bar(kSize);
    gain_operation(smoothing).pullback(x, {1, 0}, x_bar);
    bias_operation(smoothing).pullback(x, {1}, x_bar);
    return x_bar;
  };
  const auto converges = [&](const Vector& x) {
    const Vector exact = pulled(x, 0);
    for (const double smoothing : {1e-2, 1e-4, 1e-6, 1e-300}) {
      const Vector value = pulled(x, smoothing);
      for (size_t i = 0; i < kSize; i++) {
        // curvatures are below a hundred times the force
        EXPECT_NEAR(value[i], exact[i], 1e4 * smoothing + 1e-9) << i << ", " << smoothing;
      }
    }
  };
  for_each_piece(converges);
  Random random(5);
  for (int n = 0; n < 20; n++) {
    Vector x = random_muscle(random, n % kLengthPieces, n % kVelocityPieces);
    const double *prm = &x[5], L0 = (x[3] - x[2]) / (prm[1] - prm[0]);
    const double knots[] = {prm[4], (prm[4] + 1) / 2, 1, (1 + prm[5]) / 2, prm[5]};
    x[0] = x[2] + (knots[n % 5] - prm[0]) * L0;
    converges(x);
    x[1] = (n % 2 == 0 ? -1 : prm[8] - 1) * L0 * prm[6];
    converges(x);
  }
}

// half a width beyond the ends of FL, FV and FP, where the exact derivatives are 0
TEST(MuscleSmoothing, FlatPiecesHaveASlopeNearTheirEnds) {
  constexpr double kWidth = 0.05;
  Random random(6);
  for (int n = 0; n < 10; n++) {
    Vector x = random_muscle(random, 2, 1);
    const double *prm = &x[5], L0 = (x[3] - x[2]) / (prm[1] - prm[0]);
    const auto at = [&](double L, double V) {
      x[0] = x[2] + (L - prm[0]) * L0;
      x[1] = V * L0 * prm[6];
    };
    const auto pulled = [&](const Operation& op, const Vector& y_bar) {
      Vector x_bar(kSize);
      op.pullback(x, y_bar, x_bar);
      for (double value : x_bar) EXPECT_TRUE(std::isfinite(value));
      return x_bar;
    };
    const auto gain = [&](double smoothing) { return pulled(gain_operation(smoothing), {1, 0}); };
    for (const double L : {prm[4] - kWidth / 2, prm[5] + kWidth / 2}) {
      at(L, -0.2);
      EXPECT_EQ(gain(0)[0], 0);
      EXPECT_GT(std::abs(gain(kWidth)[0]), 1e-2);
      // and controls see a force
      EXPECT_EQ(muscle_gain(muscle_at(x)).gain, 0);
      EXPECT_LT(muscle_gain(muscle_at(x, kWidth)).gain, -1e-3);
    }
    for (const double V : {-1 - kWidth / 2, prm[8] - 1 + kWidth / 2}) {
      at(0.9, V);
      EXPECT_EQ(gain(0)[1], 0);
      EXPECT_LT(gain(kWidth)[1], -1e-2);
    }
    at(1 - kWidth / 2, 0);
    EXPECT_EQ(pulled(bias_operation(0), {1})[0], 0);
    EXPECT_LT(pulled(bias_operation(kWidth), {1})[0], -1e-2);
  }
}

// where tau switches: the mean of both sides; far from there: the side
TEST(MuscleSmoothing, TimeConstantsBlend) {
  const auto slope = [](double ctrl, double smoothing) {
    Vector bar(5);
    dynamics_pullback({ctrl, 0.5, 0.01, 0.04, 0}, smoothing, 1, bar);
    return bar[0];
  };
  const double rise = 1 / (0.01 * 1.25), fall = 1.25 / 0.04;
  for (const double smoothing : {1e-6, 0.01, 0.1}) {
    EXPECT_NEAR(slope(0.5, smoothing), (rise + fall) / 2, 1e-9);
  }
  EXPECT_NEAR(slope(0.6, 0.01), rise, 1e-9);
  EXPECT_NEAR(slope(0.4, 0.01), fall, 1e-9);
  EXPECT_GT(slope(0.505, 0.01), slope(0.495, 0.01));
}

// A random tree (tests/harness) whose actuators are muscles, each in a piece of its curves; gains,
// biases and dynamics of other types among them. It keeps the clamps and integrators of the tree.
Scene random_muscles(unsigned seed, const ModelOptions& options = {}) {
  Scene scene = random_tree(seed);
  const MjModelPtr copy(mj_copyModel(nullptr, scene.model.mj()));
  mjModel* m = copy.get();
  const MjDataPtr data(mj_makeData(m));
  mjData* d = data.get();
  std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
  std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
  mj_forward(m, d);
  Random random(seed);
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    const int out = m->actuator_outadr[i], turn = static_cast<int>(seed) + 7 * i;
    const Vector x = random_muscle(random, turn % kLengthPieces, turn % kVelocityPieces);
    const double L0 = (x[3] - x[2]) / (x[6] - x[5]);
    const double length = d->actuator_length[out], velocity = d->actuator_velocity[out];
    m->actuator_lengthrange[2 * out] = length - x[0] + x[2];
    m->actuator_lengthrange[2 * out + 1] = length - x[0] + x[3];
    m->actuator_acc0[out] = x[4];
    double *gainprm = m->actuator_gainprm + mjNGAIN * i,
           *biasprm = m->actuator_biasprm + mjNBIAS * i;
    if (!random.chance(0.2)) {
      m->actuator_gaintype[i] = mjGAIN_MUSCLE;
      std::copy_n(&x[5], kMusclePrm, gainprm);
      // the piece of FV, or the slowest that velocity allows
      const double V = velocity_in(turn % kVelocityPieces, gainprm);
      if (velocity * V > 0.02) gainprm[6] = velocity / (V * L0);
    }
    if (!random.chance(0.2)) {
      m->actuator_biastype[i] = mjBIAS_MUSCLE;
      random_prm(random, biasprm);
    }
    if (m->actuator_actnum[i] == 1 && !random.chance(0.2)) {
      m->actuator_dyntype[i] = mjDYN_MUSCLE;
      double* dynprm = m->actuator_dynprm + mjNDYN * i;
      dynprm[0] = random.between(0.02, 0.05);
      dynprm[1] = random.between(0.06, 0.1);
      dynprm[2] = random.chance(0.5) ? random.between(0.3, 0.9) : 0;
    }
  }
  scene.name = "muscles " + std::to_string(seed);
  scene.model = Model::from_mjmodel(m, options);
  return scene;
}

Gradient gradient(const Scene& scene, int nstep, const std::vector<std::string>& params) {
  const Trajectory t = rollout(scene.model, scene.input(), nstep);
  const auto rows = static_cast<size_t>(nstep + 1);
  const Vector qpos = wave(rows * static_cast<size_t>(scene.model.nv()), 0.1),
               qvel = wave(rows * static_cast<size_t>(scene.model.nv()), 0.7),
               act = wave(rows * static_cast<size_t>(scene.model.na()), 1.3);
  return rollout_pullback(scene.model, t,
                          {.qpos_tangent = qpos, .qvel = qvel, .act = act, .params = params});
}

const std::vector<std::string> kFields = {"actuator_gainprm", "actuator_biasprm",
                                          "actuator_dynprm",  "actuator_lengthrange",
                                          "actuator_acc0",    "actuator_gear"};

void expect_near(const Vector& value, const Vector& expected, const std::string& what) {
  ASSERT_EQ(value.size(), expected.size());
  double size = 1;
  for (double x : expected) size = std::max(size, std::abs(x));
  for (size_t i = 0; i < value.size(); i++) {
    EXPECT_NEAR(value[i], expected[i], tolerances().stage * size) << what << "[" << i << "]";
  }
}

void agrees_with_oracle(const Scene& scene, int nstep) {
  ASSERT_EQ(scene.model.gradient_path(), GradientPath::kAnalytic);
  const Gradient a = gradient(scene, nstep, kFields),
                 b = gradient(with_options(scene, {.gradient_path = GradientPath::kOracle}), nstep,
                              kFields);
  expect_near(a.qpos_tangent, b.qpos_tangent, scene.name + " qpos");
  expect_near(a.qvel, b.qvel, scene.name + " qvel");
  expect_near(a.act, b.act, scene.name + " act");
  expect_near(a.ctrl, b.ctrl, scene.name + " ctrl");
  for (const std::string& name : kFields) {
    expect_near(a.params.at(name), b.params.at(name), scene.name + " " + name);
  }
}

TEST(MuscleModels, TreesAgreeWithOracle) {
  for (unsigned seed = 1; seed <= 60; seed++) agrees_with_oracle(random_muscles(seed), 1);
}

TEST(MuscleModels, TreesMatchDifferencesOfMjStep) {
  for (unsigned seed = 1; seed <= 60; seed++) {
    const Scene scene = random_muscles(seed);
    const size_t n = rollout_ntangent(scene, 1);
    EXPECT_TRUE(check_pullback(rollout_operation(scene, 1), Vector(n), n,
                               {.tolerance = tolerances().step, .step = 1e-4, .directions = 3}))
        << scene.name;
  }
}

// the rollout does not know of smoothing; the gradient converges to the exact one
TEST(MuscleModels, SmoothingIsOfTheBackwardPassAlone) {
  for (unsigned seed = 1; seed <= 8; seed++) {
    const Scene exact = random_muscles(seed);
    const Gradient expected = gradient(exact, 1, kFields);
    const Vector qvel = rollout(exact.model, exact.input(), 10).qvel;
    double difference = 0;
    for (const double smoothing : {0.3, 1e-9}) {
      const Scene scene = with_options(exact, {.muscle_smoothing = smoothing});
      EXPECT_EQ(scene.model.muscle_smoothing(), smoothing);
      EXPECT_EQ(rollout(scene.model, scene.input(), 10).qvel, qvel);
      const Gradient value = gradient(scene, 1, kFields);
      for (size_t i = 0; i < value.qvel.size(); i++) {
        difference = std::max(difference, std::abs(value.qvel[i] - expected.qvel[i]));
      }
      if (smoothing > 0.1) {
        EXPECT_GT(difference, 1e-6) << scene.name;
        continue;
      }
      expect_near(value.qpos_tangent, expected.qpos_tangent, scene.name + " qpos");
      expect_near(value.qvel, expected.qvel, scene.name + " qvel");
      expect_near(value.ctrl, expected.ctrl, scene.name + " ctrl");
      for (const std::string& name : kFields) {
        expect_near(value.params.at(name), expected.params.at(name), scene.name + " " + name);
      }
    }
  }
}

TEST(MuscleModels, SmoothingIsRefusedWhereItHasNoEffect) {
  const Scene scene = random_muscles(1);
  EXPECT_THROW((void)with_options(scene, {.muscle_smoothing = -0.1}), InputError);
  EXPECT_THROW((void)with_options(scene, {.muscle_smoothing = NAN}), InputError);
  EXPECT_THROW(
      (void)with_options(scene, {.gradient_path = GradientPath::kOracle, .muscle_smoothing = 0.1}),
      UnsupportedError);
  EXPECT_NO_THROW((void)with_options(scene, {.muscle_smoothing = 0.1}));
}

// gains whose slope in velocity is multiplied with an input that is 0: the input still has a
// derivative through the metric of implicit integrators
TEST(MuscleModels, MetricAtZeroInput) {
  const std::string body =
      "<mujoco><compiler angle='radian'/><option integrator='implicitfast'/><worldbody><body>"
      "<joint name='a' axis='0 1 0'/><geom size='.1' pos='.3 0 0'/></body></worldbody><actuator>";
  for (const char* actuator :
       {"<general joint='a' gaintype='affine' gainprm='1 .5 -20'/>",
        "<muscle joint='a' lengthrange='-1 1' force='20' vmax='2' ctrllimited='false'/>"}) {
    Scene scene = scene_from_xml(body + actuator + "</actuator></mujoco>");
    scene.ctrl = {scene.model.na() > 0 ? 0.5 : 0.0};
    scene.x.qvel = {-0.3};
    if (scene.model.na() > 0) scene.x.act = {0.0};
    agrees_with_oracle(scene, 1);
  }
}

// the fields at once; the step of the moved model is what is differenced
TEST(MuscleModels, ParametersMatchDifferencesOfMjStep) {
  for (unsigned seed = 1; seed <= 60; seed++) {
    const Scene scene = random_muscles(seed);
    size_t n = 0;
    for (const std::string& name : kFields) {
      n += static_cast<size_t>(parameter_field(name).size(scene.model.mj()));
    }
    const auto moved = [&](const Vector& z) {
      const MjModelPtr copy = movable_copy(scene.model.mj());
      size_t k = 0;
      for (const std::string& name : kFields) {
        const ParameterField& field = parameter_field(name);
        for (int i = 0; i < field.size(copy.get()); i++, k++) {
          double& value = field.data(copy.get())[i];
          // tausmooth that is 0 is no variable
          if (value != 0 || field.id != Parameter::kActuatorDynprm) value += z[k];
        }
      }
      Scene out = scene;
      out.model = Model::from_mjmodel(copy.get());
      return out;
    };
    const Operation op = {
        .forward =
            [&](const Vector& z) {
              const Trajectory t = rollout(moved(z).model, scene.input(), 1);
              Vector y(t.qvel.end() - t.nv, t.qvel.end());
              y.insert(y.end(), t.act.end() - t.na, t.act.end());
              return y;
            },
        .pullback =
            [&](const Vector& z, const Vector& y_bar, Vector& z_bar) {
              const Scene at = moved(z);
              const Trajectory t = rollout(at.model, scene.input(), 1);
              Vector qvel(2 * static_cast<size_t>(t.nv)), act(2 * static_cast<size_t>(t.na));
              std::copy_n(y_bar.begin(), t.nv, qvel.begin() + t.nv);
              std::copy_n(y_bar.begin() + t.nv, t.na, act.begin() + t.na);
              const Gradient g =
                  rollout_pullback(at.model, t, {.qvel = qvel, .act = act, .params = kFields});
              size_t k = 0;
              for (const std::string& name : kFields) {
                for (double x : g.params.at(name)) z_bar[k++] += x;
              }
            },
    };
    EXPECT_TRUE(check_pullback(
        op, Vector(n), n,
        {.tolerance = tolerances().stage, .smallest = 1e-3, .step = 1e-5, .directions = 2}))
        << scene.name;
  }
}

}  // namespace
}  // namespace diffmj
