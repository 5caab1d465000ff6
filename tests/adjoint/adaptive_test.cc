// Adjoints of Runge-Kutta methods: against differences of the same steps, against each
// other, and against themselves with fewer states kept.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>

#include "diffmj/error.h"
#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

ModelOptions adaptive(Integrator integrator, double tolerance) {
  ModelOptions o{.integrator = integrator};
  o.adaptive.stepping.rtol = o.adaptive.stepping.atol = tolerance;
  return o;
}

// as far as two vectors differ, relative to the larger
double difference(const Vector& a, const Vector& b) {
  double d = 0, size = 0;
  for (size_t i = 0; i < a.size(); i++) {
    d += std::pow(a[i] - b[i], 2);
    size += std::pow(std::max(std::abs(a[i]), std::abs(b[i])), 2);
  }
  return size == 0 ? 0 : std::sqrt(d / size);
}

class AdaptiveZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(AdaptiveZoo, DiscreteAdjointMatchesDifferencesOfTheSameSteps) {
  const Scene scene = zoo(GetParam(), adaptive(Integrator::kTsit5, 1e-5));
  const size_t n = rollout_ntangent(scene, 2);
  EXPECT_TRUE(check_pullback(rollout_operation(scene, 2), Vector(n, 0.0), n,
                             {.tolerance = tolerances().trajectory, .directions = 4}));
}

INSTANTIATE_TEST_SUITE_P(Zoo, AdaptiveZoo, ::testing::ValuesIn(zoo_names()),
                         [](const auto& info) { return info.param; });

// A rotating body with a spring on a ball joint, a muscle and a filter: smooth, everything moves.
constexpr const char* kSmooth = R"(<mujoco>
  <option timestep="0.05"/>
  <worldbody>
    <body><joint name="ball" type="ball" stiffness="3" damping=".1"/>
      <geom type="box" size=".1 .05 .02" pos=".1 .05 0" density="500"/>
      <site name="tip" pos=".2 0 .03"/>
      <body pos=".2 0 0"><joint name="hinge" axis="0 1 0" stiffness="1" damping=".02"/>
        <geom type="capsule" size=".02" fromto="0 0 0 .1 .02 .05" density="800"/></body></body>
    <body pos="1 0 0"><freejoint/><geom type="box" size=".1 .2 .3"/></body>
    <site name="anchor" pos="0 .3 .3"/>
  </worldbody>
  <tendon><spatial name="t"><site site="anchor"/><site site="tip"/></spatial></tendon>
  <actuator>
    <muscle name="m" tendon="t" ctrllimited="false" lengthrange=".2 .6" force="5" vmax="1e6" timeconst=".1 .2"
      tausmooth="5"/>
    <general name="f" joint="hinge" dyntype="filterexact" dynprm=".03" gainprm=".2"/>
    <general name="i" joint="hinge" dyntype="integrator" gainprm=".1" actlimited="true"
      actrange="-1 1"/>
  </actuator>
</mujoco>)";

Scene smooth(const ModelOptions& options) {
  Scene scene{.name = "smooth", .model = Model::from_xml(kSmooth, options)};
  scene.x = default_state(scene.model);
  scene.x.qvel = {1, -2, 1.5, .5, .2, -.3, .1, 2, -1, 3};
  scene.x.act = {.3, .1, .2};
  scene.ctrl = {.6, -.4, .7};
  return scene;
}

struct Result {
  Trajectory trajectory;
  Gradient gradient;
};

Result run(const Scene& scene, int nstep, const std::vector<std::string>& params = {}) {
  const auto rows = static_cast<size_t>(nstep) + 1;
  Result out{.trajectory = rollout(scene.model, scene.input(), nstep), .gradient = {}};
  EXPECT_TRUE(out.trajectory.ok()) << out.trajectory.message;
  Vector q(rows * static_cast<size_t>(scene.model.nv())), v(q.size()),
      w(rows * static_cast<size_t>(scene.model.na()));
  for (size_t i = 0; i < q.size(); i++) {
    q[i] = std::sin(static_cast<double>(i));
    v[i] = .1 * std::cos(3. * static_cast<double>(i));
  }
  for (size_t i = 0; i < w.size(); i++) w[i] = std::sin(2. * static_cast<double>(i));
  out.gradient = rollout_pullback(scene.model, out.trajectory,
                                  {.qpos_tangent = q, .qvel = v, .act = w, .params = params});
  return out;
}

const std::vector<std::string> kParams = {"body_mass",        "dof_damping",     "jnt_stiffness",
                                          "actuator_gainprm", "actuator_dynprm", "opt.gravity"};

void expect_near(const Gradient& a, const Gradient& b, double tolerance) {
  EXPECT_LE(difference(a.qpos_tangent, b.qpos_tangent), tolerance);
  EXPECT_LE(difference(a.qvel, b.qvel), tolerance);
  EXPECT_LE(difference(a.act, b.act), tolerance);
  EXPECT_LE(difference(a.ctrl, b.ctrl), tolerance);
  EXPECT_LE(difference(a.qfrc_applied, b.qfrc_applied), tolerance);
  for (const auto& [name, values] : a.params) {
    EXPECT_LE(difference(values, b.params.at(name)), tolerance) << name;
  }
}

void expect_equal(const Gradient& a, const Gradient& b) {
  EXPECT_EQ(a.qpos_tangent, b.qpos_tangent);
  EXPECT_EQ(a.qvel, b.qvel);
  EXPECT_EQ(a.act, b.act);
  EXPECT_EQ(a.ctrl, b.ctrl);
  EXPECT_EQ(a.qfrc_applied, b.qfrc_applied);
  EXPECT_EQ(a.params, b.params);
}

// stopped within the last interval that there is, where no other one is begun
TEST(Adaptive, InterruptedWithinAnIntervalIsNoGradient) {
  for (const Adjoint adjoint : {Adjoint::kDiscrete, Adjoint::kInterpolated, Adjoint::kBacksolve}) {
    SCOPED_TRACE(adjoint_name(adjoint));
    ModelOptions o{.integrator = Integrator::kTsit5};
    o.adaptive.adjoint = adjoint;
    o.adaptive.interval = 1;
    o.adaptive.step = 1e-4;
    const Scene scene = smooth(o);
    const Trajectory t = rollout(scene.model, scene.input(), 1);
    ASSERT_TRUE(t.ok()) << t.message;
    const Vector bar(2 * static_cast<size_t>(scene.model.nv()), 1.0);
    int asked = 0;
    const RolloutOptions stop{.interrupted = [&] { return asked++ > 0; },
                              .progress =
                                  [](double share) {
                                    EXPECT_GE(share, 0);
                                    EXPECT_LE(share, 1);
                                  }};
    EXPECT_THROW((void)rollout_pullback(scene.model, t, {.qpos_tangent = bar}, stop), Interrupted);
    EXPECT_EQ(asked, 2);
  }
}

class AdaptiveMethods : public ::testing::TestWithParam<Integrator> {};

TEST_P(AdaptiveMethods, DiscreteAdjointMatchesDifferencesOfTheSameSteps) {
  for (const Control control : {Control::kHold, Control::kLinear}) {
    ModelOptions o = adaptive(GetParam(), 1e-3);
    o.adaptive.control = control;
    if (GetParam() == Integrator::kExplicitEuler) o.adaptive.step = 0.01;
    const Scene scene = smooth(o);
    const size_t n = rollout_ntangent(scene, 3);
    EXPECT_TRUE(check_pullback(rollout_operation(scene, 3), Vector(n, 0.0), n,
                               {.tolerance = tolerances().trajectory, .directions = 4}));
  }
}

TEST_P(AdaptiveMethods, AnyNumberOfCheckpointsGivesTheSameBits) {
  for (const Adjoint adjoint : {Adjoint::kDiscrete, Adjoint::kInterpolated}) {
    ModelOptions o = adaptive(GetParam(), 1e-3);
    o.adaptive.adjoint = adjoint;
    o.adaptive.step = .006;
    const Result all = run(smooth(o), 4, kParams);
    EXPECT_EQ(all.gradient.nrecomputed, 0);
    for (const int n : {1, 2, 3, 7, 1000}) {
      o.adaptive.checkpoints = n;
      const Result some = run(smooth(o), 4, kParams);
      EXPECT_EQ(some.trajectory.qpos, all.trajectory.qpos);
      expect_equal(some.gradient, all.gradient);
      if (n < 30) {
        EXPECT_GT(some.gradient.nrecomputed, 0);
      } else {
        EXPECT_EQ(some.gradient.nrecomputed, 0);
      }
    }
  }
}

// The adjoints differ by their errors, which the tolerance bounds: of a method, times the number of
// steps. Dense output of dopri8 is of order 5 only, and its steps are long.
TEST_P(AdaptiveMethods, AdjointsAgreeToTheTolerance) {
  if (GetParam() == Integrator::kExplicitEuler) GTEST_SKIP() << "has no error estimate";
  const bool low = GetParam() < Integrator::kBosh3;
  for (const Control control : {Control::kHold, Control::kLinear}) {
    ModelOptions o = adaptive(GetParam(), low ? 1e-6 : 1e-9);
    o.adaptive.control = control;
    const Result discrete = run(smooth(o), 4, kParams);
    for (const Adjoint adjoint : {Adjoint::kInterpolated, Adjoint::kBacksolve}) {
      SCOPED_TRACE(adjoint_name(adjoint));
      o.adaptive.adjoint = adjoint;
      const Result other = run(smooth(o), 4, kParams);
      EXPECT_EQ(other.trajectory.qpos, discrete.trajectory.qpos);
      const bool dense = GetParam() == Integrator::kDopri8 && adjoint == Adjoint::kInterpolated;
      expect_near(other.gradient, discrete.gradient, low ? 1e-4 : dense ? 1e-5 : 1e-6);
      EXPECT_GT(other.gradient.naccepted, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, AdaptiveMethods,
                         ::testing::Values(Integrator::kExplicitEuler, Integrator::kHeun,
                                           Integrator::kMidpoint, Integrator::kRalston,
                                           Integrator::kBosh3, Integrator::kTsit5,
                                           Integrator::kDopri5, Integrator::kDopri8),
                         [](const auto& info) { return integrator_name(info.param); });

class LinearlyImplicit : public ::testing::TestWithParam<Integrator> {};

// another method, and the discrete adjoint: rotations, activations of every kind, parameters
TEST_P(LinearlyImplicit, GradientIsThatOfTsit5) {
  for (const Control control : {Control::kHold, Control::kLinear}) {
    ModelOptions o = adaptive(Integrator::kTsit5, 1e-10);
    o.adaptive.control = control;
    const Result expected = run(smooth(o), 4, kParams);
    o = adaptive(GetParam(), 1e-8);
    o.adaptive.control = control;
    const Result found = run(smooth(o), 4, kParams);
    EXPECT_LE(difference(found.trajectory.qpos, expected.trajectory.qpos), 1e-6);
    EXPECT_LE(difference(found.trajectory.act, expected.trajectory.act), 1e-6);
    expect_near(found.gradient, expected.gradient, 1e-5);
    EXPECT_GT(found.gradient.naccepted, 0);
  }
}

TEST_P(LinearlyImplicit, AnyNumberOfCheckpointsGivesTheSameBits) {
  ModelOptions o = adaptive(GetParam(), 1e-4);
  const Result all = run(smooth(o), 4, kParams);
  for (const int n : {1, 3, 1000}) {
    o.adaptive.checkpoints = n;
    const Result some = run(smooth(o), 4, kParams);
    EXPECT_EQ(some.trajectory.qpos, all.trajectory.qpos);
    expect_equal(some.gradient, all.gradient);
    EXPECT_EQ(some.gradient.nrecomputed > 0, n < 30);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, LinearlyImplicit,
                         ::testing::Values(Integrator::kRodas4p, Integrator::kAuto),
                         [](const auto& info) { return integrator_name(info.param); });

// every feature of the zoo, constraints included: states by steps that both methods resolve
TEST_P(AdaptiveZoo, LinearlyImplicitStepsMakeTheSameMotion) {
  const Scene fine = zoo(GetParam(), adaptive(Integrator::kTsit5, 1e-8)),
              scene = zoo(GetParam(), adaptive(Integrator::kRodas4p, 1e-7));
  const Trajectory expected = rollout(fine.model, fine.input(), 5),
                   found = rollout(scene.model, scene.input(), 5);
  ASSERT_TRUE(expected.ok() && found.ok()) << expected.message << found.message;
  EXPECT_LE(difference(found.qpos, expected.qpos), 1e-5);
  EXPECT_LE(difference(found.qvel, expected.qvel), 1e-4);
}

}  // namespace
}  // namespace diffmj
