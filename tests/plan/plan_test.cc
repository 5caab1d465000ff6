// Planners: their objective against differences, what they find, and what they do when rollouts
// diverge or the user has enough.
#include "diffmj/plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "plan/objective.h"

namespace diffmj {
namespace {

// a pusher, a puck that it touches on the way, and a free ball
constexpr const char* kPusher = R"(<mujoco><option timestep="0.01"/>
  <default><geom solref="0.02 1" solimp="0.5 0.9 0.01"/></default><worldbody>
  <body name="pusher" pos="0 0 0.1"><joint type="slide" axis="1 0 0" damping="1"/>
    <joint type="slide" axis="0 1 0" damping="1"/>
    <geom type="sphere" size="0.1" mass="0.5"/><site name="pusher"/></body>
  <body name="puck" pos="0.35 0.02 0.1"><joint type="slide" axis="1 0 0" damping="0.5"/>
    <joint type="slide" axis="0 1 0" damping="0.5"/>
    <geom type="sphere" size="0.1" mass="0.2"/><site name="puck"/></body>
  <site name="goal" pos="0.9 0.1 0.1"/></worldbody>
  <actuator><motor joint="pusher_x" ctrllimited="true" ctrlrange="-6 6"/>
    <motor joint="pusher_y" ctrllimited="true" ctrlrange="-6 6"/></actuator></mujoco>)";

Model model() {
  std::string text = kPusher;
  const auto name = [&](const char* axis, const char* joint) {
    text.replace(text.find("joint type=\"slide\" axis=\"" + std::string(axis)), 5,
                 std::string("joint name=\"") + joint + "\"");
  };
  name("1 0 0", "pusher_x");
  name("0 1 0", "pusher_y");
  return Model::from_xml(text);
}

Cost cost(const Model& m) {
  const Frame puck{.kind = Frame::Kind::kSite, .name = "puck"},
      pusher{.kind = Frame::Kind::kSite, .name = "pusher"},
      goal{.kind = Frame::Kind::kSite, .name = "goal"};
  return {m,
          {{.of = Distance{puck, goal}, .weight = 1, .terminal = 2},
           {.of = Distance{pusher, puck}, .norm = Norm::kHuber, .scale = 0.3, .weight = 0.1},
           {.of = ControlEffort{}, .weight = 1e-4},
           {.of = JointVelocity{}, .weight = 0, .terminal = 0.01}}};
}

// towards the puck
const Vector kForward = {2, 0.1};

TEST(PlanObjective, GradientMatchesDifferences) {
  const Model m = model().tightened();
  struct Case {
    std::optional<int> knots;
    Interpolation interpolation;
    bool others;
  };
  for (const Case& x :
       {Case{{}, Interpolation::kLinear, false}, Case{6, Interpolation::kZero, false},
        Case{6, Interpolation::kLinear, true}, Case{5, Interpolation::kCubic, true},
        Case{{}, Interpolation::kLinear, true}}) {
    const PlanOptions options{.horizon = 40,
                              .forces = x.others,
                              .velocity = x.others,
                              .knots = x.knots,
                              .interpolation = x.interpolation};
    PlanObjective f(m, cost(m), options);
    f.set_start({.qvel = Vector{0.8, 0, 0, 0}});
    Vector z = f.variables().zero();
    f.variables().set_ctrl(kForward, z);
    for (size_t i = 0; i < z.size(); i++) z[i] += 0.2 * std::sin(static_cast<double>(i));
    const auto value = [&](const Vector& at, bool gradient) {
      std::vector<PlanObjective::Value> out;
      f.evaluate(
          1, [&](int, Vector& to) { to = at; }, gradient, out);
      EXPECT_TRUE(out[0].ok) << out[0].message;
      return out[0];
    };
    const Operation op{
        .forward = [&](const Vector& at) { return Vector{value(at, false).cost}; },
        .pullback =
            [&](const Vector& at, const Vector& y_bar, Vector& bar) {
              const Vector g = value(at, true).gradient;
              for (size_t i = 0; i < g.size(); i++) bar[i] += y_bar[0] * g[i];
            },
    };
    EXPECT_TRUE(check_pullback(
        op, z, z.size(), {.tolerance = tolerances().trajectory, .step = 1e-3, .directions = 4}))
        << x.knots.value_or(0) << " " << interpolation_name(x.interpolation);
  }
}

PlanOptions options_of(PlanMethod method) {
  return {.method = method,
          .horizon = 80,
          .knots = 16,
          .iterations = method == PlanMethod::kHybrid ? 8 : 20,
          .rounds = 2,
          .rate = 0.1,
          .starts = 2,
          .samples = 24,
          .elites = 1,
          .refined = 2,
          .seed = 5};
}
constexpr PlanMethod kMethods[] = {PlanMethod::kGradient, PlanMethod::kSampling,
                                   PlanMethod::kHybrid, PlanMethod::kIlqr};

TEST(PlanObjective, GradientsOfKeptRolloutsAreTheSameBits) {
  const Model m = model();
  const PlanOptions o{.horizon = 60, .knots = 6, .nthread = 2};
  PlanObjective f(m, cost(m), o);
  f.set_start({});
  const auto fill = [&](int i, Vector& z) {
    z = f.variables().zero();
    f.variables().set_ctrl(kForward, z);
    z[3] += 0.1 * i;
  };
  std::vector<PlanObjective::Value> expected, kept;
  f.evaluate(5, fill, true, expected);
  f.evaluate_kept(5, fill, kept);
  const std::vector<int> which = {1, 4};
  f.differentiate_kept(which, kept);
  for (size_t k = 0; k < 5; k++) EXPECT_EQ(kept[k].cost, expected[k].cost);
  for (const int k : which) {
    EXPECT_EQ(kept[static_cast<size_t>(k)].gradient, expected[static_cast<size_t>(k)].gradient);
  }
  EXPECT_NE(expected[1].gradient, expected[4].gradient);
}

TEST(Planner, EveryMethodMovesThePuck) {
  const Model m = model();
  for (const PlanMethod method : kMethods) {
    SCOPED_TRACE(plan_method_name(method));
    Planner planner(m, cost(m), options_of(method));
    const Plan plan = planner.plan({.ctrl = kForward});
    EXPECT_LT(plan.cost, 0.6 * plan.history[0].cost);
    EXPECT_FALSE(plan.interrupted);
    EXPECT_EQ(plan.ndiverged, 0);
    // the cost is that of the plan
    const Trajectory t = rollout(m, {.ctrl = plan.ctrl}, 80);
    EXPECT_EQ(cost(m).evaluate(m, t).total, plan.cost);
    double sum = 0;
    for (const double x : plan.terms) sum += x;
    EXPECT_NEAR(sum, plan.cost, 1e-12);
    for (const double u : plan.ctrl) EXPECT_LE(std::abs(u), 6);
    // costs only fall, and the last plan is the start of the next
    for (size_t i = 1; i < plan.history.size(); i++) {
      EXPECT_LE(plan.history[i].cost, plan.history[i - 1].cost);
    }
    EXPECT_LE(planner.plan({}).cost, plan.cost);
  }
}

TEST(Planner, HasTheSameBitsOnAnyThreads) {
  const Model m = model();
  for (const PlanMethod method : kMethods) {
    SCOPED_TRACE(plan_method_name(method));
    std::vector<Vector> plans;
    for (const int nthread : {1, 2, 5}) {
      PlanOptions options = options_of(method);
      options.nthread = nthread;
      options.elites = method == PlanMethod::kSampling ? 3 : 1;
      Planner planner(m, cost(m), options);
      (void)planner.plan({.ctrl = kForward});
      planner.shift(0.05);
      plans.push_back(planner.plan({}).ctrl);
    }
    EXPECT_EQ(plans[0], plans[1]);
    EXPECT_EQ(plans[0], plans[2]);
    // noise is of the starts alone, and the first may be the best of them
    if (method == PlanMethod::kIlqr) continue;
    PlanOptions other = options_of(method);
    other.seed = 6;
    Planner planner(m, cost(m), other);
    (void)planner.plan({.ctrl = kForward});
    planner.shift(0.05);
    EXPECT_NE(planner.plan({}).ctrl, plans[0]);
  }
}

// The plan of one iteration after another, from the same state, is that of several at once.
TEST(Planner, KeepsMomentsFromPlanToPlan) {
  const Model m = model();
  const auto cost_after = [&](bool keep) {
    PlanOptions o = options_of(PlanMethod::kGradient);
    o.starts = o.iterations = 1;
    o.clip = 0;
    o.keep_moments = keep;
    Planner planner(m, cost(m), o);
    double least = 0;
    for (int i = 0; i < 4; i++) {
      if (i == 2) {
        // a planner that gets what another one kept goes on with the same bits
        Planner other(m, cost(m), o);
        other.restore(planner.memory());
        EXPECT_EQ(other.memory().moments.count, keep ? 2 : 0);
        planner = std::move(other);
      }
      least = planner.plan(i == 0 ? RolloutInput{.ctrl = kForward} : RolloutInput{}).cost;
    }
    return least;
  };
  PlanOptions o = options_of(PlanMethod::kGradient);
  o.starts = 1;
  o.iterations = 4;
  o.clip = 0;
  Planner at_once(m, cost(m), o);
  const double least = at_once.plan({.ctrl = kForward}).cost;
  EXPECT_EQ(cost_after(true), least);
  EXPECT_NE(cost_after(false), least);
}

// Starts that differ in nothing but their rate: the plan is the better of two.
TEST(Planner, StartsMayDifferInTheirRateAlone) {
  const Model m = model();
  const auto plan = [&](double rate, int starts) {
    PlanOptions o = options_of(PlanMethod::kGradient);
    o.iterations = 3;
    o.rate = rate;
    o.sigma = 0;
    o.starts = starts;
    o.rate_factor = 0.25;
    return Planner(m, cost(m), o).plan({.ctrl = kForward});
  };
  const Plan both = plan(0.2, 2);
  EXPECT_EQ(both.cost, std::min(plan(0.2, 1).cost, plan(0.05, 1).cost));
  EXPECT_NE(plan(0.2, 1).cost, plan(0.05, 1).cost);
  EXPECT_EQ(both.nrollout, 8);
}

TEST(Planner, FirstPlanHasMoreEffort) {
  const Model m = model();
  for (const PlanMethod method : kMethods) {
    SCOPED_TRACE(plan_method_name(method));
    PlanOptions o = options_of(method);
    o.iterations = 2;
    o.first_effort = 3;
    Planner planner(m, cost(m), o);
    EXPECT_EQ(planner.next_effort(), 3);
    const Plan first = planner.plan({.ctrl = kForward});
    EXPECT_EQ(planner.next_effort(), 1);
    const Plan second = planner.plan({});
    // iterations, of hybrid rounds; gradients and iLQR have one rollout more than iterations
    const auto count = [&](const Plan& x) {
      const auto n = static_cast<int>(x.history.size());
      if (method == PlanMethod::kHybrid) {
        // the samples, and the last iterates
        return static_cast<int>(std::count_if(x.history.begin(), x.history.end(),
                                              [](const PlanIteration& i) { return i.sampled; })) /
               2;
      }
      return method == PlanMethod::kSampling ? n : n - 1;
    };
    const int usual = method == PlanMethod::kHybrid ? o.rounds : o.iterations;
    EXPECT_EQ(count(first), 3 * usual);
    EXPECT_EQ(count(second), usual);
    planner.reset();
    EXPECT_EQ(planner.next_effort(), 3);
  }
}

// a mass that is pushed: the state is linear in the controls, the cost quadratic
Model pushed_mass() {
  return Model::from_xml(
      R"(<mujoco><option gravity="0 0 0" timestep="0.02"/><worldbody><body><joint type="slide" name="x"/>
      <geom size="0.1" mass="1"/></body></worldbody><actuator><motor joint="x"/></actuator></mujoco>)");
}
std::vector<CostTerm> to_a_place() {
  return {{.of = JointPosition{{"x"}, {0.3}}, .weight = 1, .terminal = 1},
          {.of = ControlEffort{}, .weight = 1e-3}};
}

TEST(Planner, HybridUsesIlqrWhereGradientsDoWell) {
  const Model m = pushed_mass();
  const PlanOptions o{.method = PlanMethod::kHybrid,
                      .horizon = 50,
                      .knots = 8,
                      .iterations = 4,
                      .rounds = 6,
                      .samples = 4,
                      .sigma = 0.01};
  const auto linearized = [](const Plan& plan) {
    return std::count_if(plan.history.begin(), plan.history.end(),
                         [](const PlanIteration& x) { return x.linearized; });
  };
  const Cost c(m, to_a_place());
  const Plan plan = Planner(m, c, o).plan({});
  EXPECT_GT(linearized(plan), 0);
  PlanOptions by_ilqr = o;
  by_ilqr.method = PlanMethod::kIlqr;
  EXPECT_NEAR(plan.cost, Planner(m, c, by_ilqr).plan({}).cost, 1e-6 * plan.cost);

  // forces are not its decision variables, and one round has no time for it
  PlanOptions forces = o;
  forces.forces = true;
  EXPECT_EQ(linearized(Planner(m, c, forces).plan({})), 0);
  PlanOptions once = o;
  once.rounds = 1;
  EXPECT_EQ(linearized(Planner(m, c, once).plan({})), 0);
}

TEST(Planner, FindsTheMinimumOfAQuadraticCost) {
  const Model m = pushed_mass();
  const Cost c(m, to_a_place());
  const PlanOptions options{
      .horizon = 50, .knots = 8, .iterations = 800, .rate = 0.1, .beta2 = 0.999};
  Planner planner(m, c, options);
  const Plan plan = planner.plan({});
  PlanObjective f(m, c, options);
  f.set_start({});
  std::vector<PlanObjective::Value> out;
  f.evaluate(
      2, [&](int i, Vector& z) { z = i == 0 ? f.variables().zero() : plan.variables; }, true, out);
  const auto norm = [](const Vector& x) {
    double sum = 0;
    for (const double v : x) sum += v * v;
    return std::sqrt(sum);
  };
  EXPECT_LT(norm(out[1].gradient), 1e-2 * norm(out[0].gradient));
  EXPECT_LT(plan.cost, 0.5 * plan.history[0].cost);
}

TEST(Planner, DecidesForcesAndTheVelocityOfTheStart) {
  const Model m = Model::from_xml(
      R"(<mujoco><option timestep="0.01"/><worldbody><body name="ball"><freejoint/>
      <geom size="0.1" mass="1"/></body></worldbody></mujoco>)");
  const Frame ball{.kind = Frame::Kind::kBody, .name = "ball"}, goal{.pos = {1, 0.5, 0.2}};
  const Cost c(m, {{.of = Distance{ball, goal}, .weight = 0, .terminal = 1}});
  Planner thrower(m, c, {.horizon = 50, .velocity = true, .iterations = 150, .rate = 0.3});
  const Plan throw_ball = thrower.plan({});
  EXPECT_LT(throw_ball.cost, 1e-4);
  // x = v t, z = v t - g t (t + h)/2
  EXPECT_NEAR(throw_ball.qvel[0], 2, 0.1);
  EXPECT_NEAR(throw_ball.qvel[2], 0.4 + 0.5 * 9.81 * 0.51, 0.1);
  EXPECT_TRUE(throw_ball.ctrl.empty());

  Planner carrier(m, c,
                  {.horizon = 50,
                   .forces = true,
                   .force_scale = 10,
                   .force_limit = 30,
                   .knots = 5,
                   .iterations = 150,
                   .rate = 0.1});
  const Plan carry = carrier.plan({});
  EXPECT_LT(carry.cost, 1e-3);
  EXPECT_EQ(carry.qfrc_applied.size(), 50U * 6U);
  for (const double x : carry.qfrc_applied) EXPECT_LE(std::abs(x), 30);
}

// a mass on a servo that is stiffer than its timestep allows once the control switches it on
Model diverging() {
  return Model::from_xml(
      R"(<mujoco><option gravity="0 0 0" timestep="0.01"/><worldbody><body><joint type="slide" name="x"/>
      <geom size="0.1" mass="1"/></body></worldbody><actuator>
      <general joint="x" gainprm="1e12" ctrllimited="true" ctrlrange="-1 1"/></actuator></mujoco>)");
}
Cost at_rest(const Model& m) {
  return {m, {{.of = JointPosition{}}, {.of = ControlEffort{}, .weight = 1e-3}}};
}

TEST(Planner, LeavesOutWhatDivergesAndSaysSo) {
  const Model m = diverging();
  for (const PlanMethod method : kMethods) {
    SCOPED_TRACE(plan_method_name(method));
    PlanOptions options = options_of(method);
    options.knots = 4;
    Planner planner(m, at_rest(m), options);
    const Plan plan = planner.plan({});
    EXPECT_TRUE(std::isfinite(plan.cost));
    EXPECT_GT(plan.ndiverged, 0);
    EXPECT_LT(plan.ndiverged, plan.nrollout);
    EXPECT_NE(plan.message.find("diverged"), std::string::npos) << plan.message;
    planner.reset();
    EXPECT_THROW((void)planner.plan({.qvel = Vector{9e9}, .ctrl = Vector{1}}), RolloutError);
  }
}

TEST(Planner, KeepsTheBestWhenInterrupted) {
  const Model m = model();
  for (const PlanMethod method : kMethods) {
    SCOPED_TRACE(plan_method_name(method));
    PlanOptions options = options_of(method);
    options.iterations = 1000000;
    options.rounds = 1000000;
    Planner planner(m, cost(m), options);
    int done = 0;
    const Plan plan = planner.plan(
        {.ctrl = kForward}, {.interrupted = [&] { return done >= 5; },
                             .progress = [&](const PlanIteration& x) { done = x.iteration; }});
    EXPECT_TRUE(plan.interrupted);
    EXPECT_GE(plan.history.size(), 5U);
    EXPECT_EQ(cost(m).evaluate(m, rollout(m, {.ctrl = plan.ctrl}, 80)).total, plan.cost);
    Planner fresh(m, cost(m), options);
    EXPECT_THROW((void)fresh.plan({}, {.interrupted = [] { return true; }}), Interrupted);
  }
}

TEST(Planner, EndsWithItsTimeBudget) {
  const Model m = model();
  for (const PlanMethod method : kMethods) {
    PlanOptions options = options_of(method);
    options.iterations = options.rounds = 1000000;
    options.seconds = 0.2;
    Planner planner(m, cost(m), options);
    const Plan plan = planner.plan({.ctrl = kForward});
    EXPECT_GE(plan.history.size(), 1U);
    EXPECT_FALSE(plan.interrupted);
    EXPECT_LT(plan.seconds, 5);  // a busy machine
  }
}

TEST(Planner, PlansWithACoarserTimestep) {
  const Model m = model();
  Planner planner(m, cost(m), {.horizon = 10, .timestep = 0.02, .iterations = 1});
  EXPECT_EQ(planner.model().timestep(), 0.02);
  const Plan plan = planner.plan({.ctrl = kForward});
  EXPECT_EQ(plan.ctrl.size(), 20U);
  const Trajectory t = rollout(planner.model(), {.ctrl = plan.ctrl}, 10);
  EXPECT_NEAR(t.time.back(), 0.2, 1e-12);
  EXPECT_EQ(cost(m).evaluate(planner.model(), t).total, plan.cost);
}

TEST(Planner, RefusesOptionsThatMakeNoSense) {
  const Model m = model();
  const auto refuses = [&](const PlanOptions& options) {
    EXPECT_THROW(Planner(m, cost(m), options), InputError);
  };
  refuses({.horizon = 0});
  refuses({.controls = false});
  refuses({.horizon = 10, .knots = 11});
  refuses({.horizon = 10, .knots = 0});
  refuses({.timestep = 0});
  refuses({.seconds = 0});
  refuses({.nthread = 0});
  refuses({.rate = 0});
  refuses({.rate_factor = 0});
  refuses({.beta1 = 1});
  refuses({.samples = 2, .elites = 3});
  Planner planner(m, cost(m), {.horizon = 10});
  EXPECT_THROW((void)planner.plan({.ctrl = Vector{1, 2, 3}}), InputError);
  EXPECT_THROW((void)plan_method_from_name("newton"), InputError);
  EXPECT_THROW((void)noise_from_name("blue"), InputError);
  EXPECT_THROW((void)interpolation_from_name("quintic"), InputError);
}

// A wall on the straight way: gradients stay before it, the hybrid finds the way round and arrives.
TEST(Planner, HybridGoesAroundAWall) {
  const Model m = Model::from_xml(R"(<mujoco><option timestep="0.02" gravity="0 0 0"/><worldbody>
    <geom type="box" size="0.02 0.2 0.1" pos="0.4 0 0"/>
    <body name="ball"><joint name="x" type="slide" axis="1 0 0" damping="2"/>
      <joint name="y" type="slide" axis="0 1 0" damping="2"/>
      <geom size="0.05" mass="0.5"/></body></worldbody>
    <actuator><motor joint="x" ctrlrange="-3 3"/><motor joint="y" ctrlrange="-3 3"/></actuator>
    </mujoco>)");
  const Cost to_goal(
      m, {{.of = Distance{{.kind = Frame::Kind::kBody, .name = "ball"}, {.pos = {0.8, 0, 0}}},
           .weight = 1,
           .terminal = 1}});
  PlanOptions o{.method = PlanMethod::kGradient, .horizon = 60, .knots = 6, .iterations = 200};
  Planner gradient(m, to_goal, o);
  const double before_wall = gradient.plan({}).cost;
  o.method = PlanMethod::kHybrid;
  o.iterations = 8;
  o.samples = 16;
  o.refined = 1;
  o.rounds = 12;
  o.sigma = 0.6;
  std::vector<Plan> plans;
  for (const int nthread : {1, 2, 5}) {
    o.nthread = nthread;
    Planner hybrid(m, to_goal, o);
    plans.push_back(hybrid.plan({}));
  }
  EXPECT_LT(plans[0].cost, 0.6 * before_wall);
  EXPECT_EQ(plans[0].ctrl, plans[1].ctrl);
  EXPECT_EQ(plans[0].ctrl, plans[2].ctrl);
}

}  // namespace
}  // namespace diffmj
