// Costs: the gradient of every term, with every norm, against differences.
#include "diffmj/cost.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "plan/cost_terms.h"

namespace diffmj {
namespace {

// a hinge, a ball joint, a free box, and a slide that presses its ball into the floor
constexpr const char* kScene = R"(<mujoco><option timestep="0.005" integrator="implicitfast"/>
  <default><geom solref="0.02 1" solimp="0.5 0.9 0.01"/></default><worldbody>
  <geom name="floor" type="plane" size="5 5 0.1"/>
  <site name="goal" pos="0.3 0.2 0.6" euler="20 30 40"/>
  <body name="upper" pos="0 0 1.5"><joint name="hinge" axis="0 1 0" damping="0.2"/>
    <geom name="rod" type="capsule" size="0.02" fromto="0 0 0 0 0 -0.5" mass="1" contype="0" conaffinity="0"/>
    <site name="elbow" pos="0 0 -0.5"/>
    <body name="lower" pos="0 0 -0.5"><joint name="wrist" type="ball" damping="0.05"/>
      <geom name="bob" type="box" size="0.05 0.08 0.03" pos="0 0 -0.2" mass="0.5" contype="0" conaffinity="0"/>
      <site name="tip" pos="0 0.02 -0.3" euler="10 0 0"/></body></body>
  <body name="box" pos="1 0 1"><freejoint name="free"/>
    <geom type="box" size="0.05 0.06 0.07" mass="0.3" contype="0" conaffinity="0"/></body>
  <body name="finger" pos="-1 0 0.099"><joint name="slide" type="slide" axis="0 0 1"/>
    <geom name="ball" type="sphere" size="0.1" mass="0.5"/><site name="pad" size="0.12"/></body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge"/><motor name="press" joint="slide"/></actuator>
  <sensor><touch name="touch" site="pad"/><gyro name="gyro" site="tip"/></sensor></mujoco>)";

constexpr int kSteps = 12;

Model model() {
  static const Model kModel = Model::from_xml(kScene).tightened();
  return kModel;
}

// z: tangent of the start, controls, forces
struct Inputs {
  explicit Inputs(const Vector& z) {
    const Model m = model();
    const auto n = static_cast<size_t>(m.ntangent());
    State start = default_state(m);
    start.qpos = {0.7, 0.9, 0.3, 0.1, 0.2, 1, 0.1, 1, 0.8, 0.2, 0.4, -0.3, 0};
    mju_normalize4(start.qpos.data() + 1);
    mju_normalize4(start.qpos.data() + 8);
    start.qvel = {0.5, 0.3, -0.6, 0.4, 0.1, 0.2, 0.9, 1.1, -0.7, 0.4, -0.01};
    x = plus(m, start, CVec(z).first(n));
    ctrl.assign(z.begin() + static_cast<ptrdiff_t>(n),
                z.begin() + static_cast<ptrdiff_t>(n) + kSteps * m.nu());
    for (int i = 0; i < kSteps; i++) ctrl[static_cast<size_t>(2 * i + 1)] -= 3;  // presses
    qfrc.assign(z.begin() + static_cast<ptrdiff_t>(n) + kSteps * m.nu(), z.end());
  }
  using CVec = std::span<const double>;
  RolloutInput input() const {
    return {.qpos = x.qpos, .qvel = x.qvel, .act = x.act, .ctrl = ctrl, .qfrc_applied = qfrc};
  }
  State x;
  Vector ctrl, qfrc;
};
size_t ninput() {
  const Model m = model();
  return static_cast<size_t>(m.ntangent() + kSteps * (m.nu() + m.nv()));
}

Operation operation(const Cost& cost) {
  const auto roll = [cost](const Vector& z) {
    const Inputs in(z);
    return rollout(model(), in.input(), kSteps, {.sensors = cost.sensors()});
  };
  return {
      .forward = [=](const Vector& z) { return Vector{cost.evaluate(model(), roll(z)).total}; },
      .pullback =
          [=](const Vector& z, const Vector& y_bar, Vector& z_bar) {
            const Trajectory t = roll(z);
            const Cost::Evaluation value = cost.evaluate(model(), t, true);
            const Gradient g = rollout_pullback(model(), t, value.bars.view());
            size_t at = 0;
            const auto add = [&](const Vector& x, const Vector& direct) {
              for (size_t i = 0; i < x.size(); i++) {
                z_bar[at++] += y_bar[0] * (x[i] + (direct.empty() ? 0 : direct[i]));
              }
            };
            add(g.qpos_tangent, {});
            add(g.qvel, {});
            add(g.act, {});
            add(g.ctrl, value.bars.ctrl);
            add(g.qfrc_applied, value.bars.qfrc_applied);
          },
  };
}

Vector start() {
  Vector z(ninput());
  for (size_t i = 0; i < z.size(); i++) z[i] = 0.1 * std::sin(1.7 * static_cast<double>(i) + 0.3);
  // the start itself: its tangent space is the one gradients live in
  std::fill_n(z.begin(), model().ntangent(), 0.0);
  return z;
}

TEST(Cost, GradientOfEveryTermMatchesDifferences) {
  for (CostTerm term : terms_of_every_kind()) {
    const bool of_steps = std::holds_alternative<ControlEffort>(term.of) ||
                          std::holds_alternative<ControlRate>(term.of) ||
                          std::holds_alternative<ForceEffort>(term.of);
    term.weight = 0.7;
    if (!of_steps) term.terminal = 0.4;
    const Cost cost(model(), {term});
    EXPECT_TRUE(
        check_pullback(operation(cost), start(), ninput(),
                       {.tolerance = tolerances().trajectory, .step = 1e-3, .directions = 3}))
        << cost.names()[0];
  }
}

TEST(Cost, GradientOfEveryNormMatchesDifferences) {
  for (const Norm norm : {Norm::kSquared, Norm::kL2, Norm::kHuber, Norm::kCosh}) {
    // within the scale and beyond it
    for (const double scale : {0.05, 3.0}) {
      const Cost cost(model(), {{.of = Distance{site("tip"), site("goal")},
                                 .norm = norm,
                                 .scale = norm == Norm::kCosh ? 10 * scale : scale}});
      EXPECT_TRUE(
          check_pullback(operation(cost), start(), ninput(),
                         {.tolerance = tolerances().trajectory, .step = 1e-3, .directions = 3}))
          << norm_name(norm) << " " << scale;
      EXPECT_EQ(norm_from_name(norm_name(norm)), norm);
    }
  }
}

// a slide of mass 1 that nothing moves: its residual is what the reference says
TEST(Cost, ReferencesAreLinearBetweenTheirTimes) {
  const Model m = Model::from_xml(R"(<mujoco><option timestep="0.1" gravity="0 0 0"/><worldbody>
    <body name="b"><joint name="x" type="slide"/><geom size="0.1" mass="1"/></body>
    </worldbody></mujoco>)");
  const auto mean_of_squares = [&](const CostQuantity& of, double start) {
    // states at 0.1, 0.2, 0.3 and 0.4 s after the start
    const Trajectory t = rollout(m, {.time = start}, 4);
    return Cost(m, {{.of = of}}).evaluate(m, t).total;
  };
  const Reference line{.time = {0.1, 0.3}, .values = {1, 5}};
  EXPECT_NEAR(mean_of_squares(JointPosition{{"x"}, {}, line}, 0), (1 + 9 + 25 + 25) / 4.0, 1e-12);
  EXPECT_NEAR(mean_of_squares(JointPosition{{"x"}, {}, line}, -0.2), (1 + 1 + 1 + 9) / 4.0, 1e-12);
  EXPECT_NEAR(mean_of_squares(JointPosition{{"x"}, {}, line}, 7), 25, 1e-12);
  Frame point;
  point.pos_over_time = {.time = {0.1, 0.3}, .values = {0, 1, 0, 0, 5, 0}};
  EXPECT_NEAR(mean_of_squares(Distance{body("b"), point}, 0), (1 + 9 + 25 + 25) / 4.0, 1e-12);
}

// q and -q are the same rotation, and half way between two of them is half the angle
TEST(Cost, RotationsTakeTheShortWay) {
  const Model m = Model::from_xml(R"(<mujoco><option timestep="0.1" gravity="0 0 0"/><worldbody>
    <body name="b"><joint name="ball" type="ball"/><geom size="0.1" mass="1"/></body>
    </worldbody></mujoco>)");
  const double half = 0.25;  // of the angle at the end, 0.5
  const Reference turn{.time = {0, 0.2},
                       .values = {1, 0, 0, 0, -std::cos(half), -std::sin(half), 0, 0}};
  const Trajectory t = rollout(m, {}, 2);
  Frame turning;
  turning.quat_over_time = turn;
  for (const CostQuantity& of : {CostQuantity(JointPosition{{"ball"}, {}, turn}),
                                 CostQuantity(Orientation{body("b"), turning})}) {
    EXPECT_NEAR(Cost(m, {{.of = of}}).evaluate(m, t).total, (0.0625 + 0.25) / 2, 1e-9);
  }
}

TEST(Cost, NormsAgreeWithTheirFormulas) {
  // one step, whose state is known: the distance of two fixed points
  const auto value = [](Norm norm, double scale, double length) {
    const Cost cost(model(), {{.of = Distance{fixed({length, 0, 0}), fixed({0, 0, 0})},
                               .norm = norm,
                               .scale = scale,
                               .weight = 2,
                               .terminal = 3}});
    return cost.evaluate(model(), rollout(model(), {}, 4)).total / 5;
  };
  EXPECT_NEAR(value(Norm::kSquared, 1, 0.3), 0.09, 1e-15);
  EXPECT_NEAR(value(Norm::kL2, 0.4, 0.3), 0.1, 1e-15);
  EXPECT_NEAR(value(Norm::kHuber, 0.4, 0.3), 0.09, 1e-15);
  EXPECT_NEAR(value(Norm::kHuber, 0.1, 0.3), 0.05, 1e-15);
  EXPECT_NEAR(value(Norm::kCosh, 0.1, 0.3), 0.02 * (std::cosh(3.0) - 1), 1e-15);
}

TEST(Cost, IsTheSumOfItsTermsAndOwnCosts) {
  std::vector<CostTerm> all = terms_of_every_kind();
  // the square of the first coordinate at the end, and of the first control
  const OwnCost own{.function = [](const OwnCost::Batch& b) {
    for (size_t k = 0; k < b.trajectories.size(); k++) {
      const Trajectory& t = *b.trajectories[k];
      const auto last = static_cast<size_t>(t.nstep * t.nq);
      *b.values[k] += t.qpos[last] * t.qpos[last] + t.ctrl[0] * t.ctrl[0];
      if (b.bars.empty()) continue;
      b.bars[k]->qpos[last] += 2 * t.qpos[last];
      b.bars[k]->ctrl[0] += 2 * t.ctrl[0];
    }
  }};
  const Cost cost(model(), all, {own, own});
  EXPECT_TRUE(
      check_pullback(operation(cost), start(), ninput(),
                     {.tolerance = tolerances().trajectory, .step = 1e-3, .directions = 3}));
  const Inputs in(start());
  const Trajectory t = rollout(model(), in.input(), kSteps, {.sensors = true});
  double sum = 0;
  for (const CostTerm& term : all) sum += Cost(model(), {term}).evaluate(model(), t).total;
  for (int i = 0; i < 2; i++) sum += Cost(model(), {}, {own}).evaluate(model(), t).total;
  EXPECT_NEAR(cost.evaluate(model(), t).total, sum, 1e-12 * sum);
}

TEST(Cost, OfABatchAllocatesNothingTheSecondTime) {
  const Cost cost(model(), terms_of_every_kind());
  const Inputs in(start());
  const std::vector<RolloutInput> inputs(3, in.input());
  std::vector<Poses> poses(3);
  const std::vector<Trajectory> t =
      rollout_batch(model(), inputs, kSteps,
                    {.sensors = true, .observables = cost.observables(), .poses = poses});
  std::vector<Cost::Evaluation> out(3);
  cost.evaluate(model(), t, poses, true, out, 1);
  const Vector before = out[1].bars.ctrl;
  const size_t count = allocations();
  cost.evaluate(model(), t, poses, true, out, 1);
  // the loop over the batch itself takes a few, whatever the number of steps
  EXPECT_LE(allocations() - count, 4U);
  EXPECT_EQ(out[1].bars.ctrl, before);
  EXPECT_EQ(out[2].total, cost.evaluate(model(), t[2]).total);
}

TEST(Cost, RefusesWhatItCannotRead) {
  const auto message = [](const CostTerm& term) {
    try {
      const Cost cost(model(), {term});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(
      message({.of = Distance{site("tap"), site("goal")}}).find("the model has no site 'tap'"),
      std::string::npos);
  EXPECT_NE(message({.of = Orientation{subtree("box"), site("goal")}}).find("no orientation"),
            std::string::npos);
  EXPECT_NE(message({.of = JointPosition{{"hinge"}, {1, 2}}}).find("target has 2"),
            std::string::npos);
  const auto reference = [&](const Reference& x, const std::vector<double>& target = {}) {
    return message({.of = JointPosition{{"hinge"}, target, x}});
  };
  EXPECT_NE(reference({{0, 1, 1}, {0, 0, 0}}).find("must increase, but 1 s comes after 1 s"),
            std::string::npos);
  EXPECT_NE(reference({{0, NAN}, {0, 0}}).find("time 1 of the reference is nan"),
            std::string::npos);
  EXPECT_NE(reference({{0, 1}, {0, NAN}}).find("a number of the reference is nan"),
            std::string::npos);
  EXPECT_NE(reference({{0, 1}, {0, 0, 0}}).find("3 numbers at 2 times, expected 1 at each"),
            std::string::npos);
  EXPECT_NE(reference({{0, 1}, {0, 0}}, {1}).find("give one of them"), std::string::npos);
  Frame turning = body("box");
  turning.quat_over_time = {{0}, {1, 0, 0, 0}};
  EXPECT_NE(message({.of = Orientation{site("tip"), turning}}).find("for fixed frames"),
            std::string::npos);
  EXPECT_NE(message({.of = ControlRate{}, .terminal = 1}).find("terminal"), std::string::npos);
  EXPECT_NE(message({.of = ControlRate{}, .weight = -1}).find("weight"), std::string::npos);
  EXPECT_NE(message({.of = ControlRate{}, .norm = Norm::kHuber, .scale = 0}).find("scale"),
            std::string::npos);
  EXPECT_THROW((void)norm_from_name("l1"), InputError);
  EXPECT_THROW(Cost(model(), {}), InputError);
}

}  // namespace
}  // namespace diffmj
