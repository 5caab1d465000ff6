// iLQR: its parts against dense solutions and differences, and what it finds and refuses.
#include "plan/ilqr.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <Eigen/Cholesky>
#include <cmath>
#include <random>

#include "diffmj/linearize.h"
#include "diffmj/sensors.h"
#include "diffmj/state.h"
#include "harness/models.h"
#include "harness/tolerances.h"
#include "plan/bound.h"
#include "plan/box_qp.h"
#include "plan/cost_terms.h"
#include "plan/gauss_newton.h"

namespace diffmj {
namespace {

Vector numbers(const Eigen::VectorXd& x) { return {x.data(), x.data() + x.size()}; }

// the minimum of ½ xᵀ H x + gᵀ x within bounds, one number after the other
Eigen::VectorXd coordinate_descent(const Eigen::MatrixXd& H, const Eigen::VectorXd& g,
                                   const Eigen::VectorXd& low, const Eigen::VectorXd& high) {
  Eigen::VectorXd x = Eigen::VectorXd::Zero(g.size()).cwiseMax(low).cwiseMin(high);
  for (int sweep = 0; sweep < 200000; sweep++) {
    double moved = 0;
    for (Eigen::Index i = 0; i < g.size(); i++) {
      const double to = std::clamp(x[i] - (H.row(i).dot(x) + g[i]) / H(i, i), low[i], high[i]);
      moved = std::max(moved, std::abs(to - x[i]));
      x[i] = to;
    }
    if (moved < 1e-15) break;
  }
  return x;
}

TEST(BoxQp, MatchesCoordinateDescent) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  BoxQp qp;
  for (const int n : {1, 2, 7, 20}) {
    for (int trial = 0; trial < 20; trial++) {
      const auto draw = [&] { return normal(random); };
      const Eigen::MatrixXd root = Eigen::MatrixXd::NullaryExpr(n, n + 2, draw);
      const Eigen::MatrixXd H = root * root.transpose();
      const Eigen::VectorXd g = 3 * Eigen::VectorXd::NullaryExpr(n, draw);
      Eigen::VectorXd low = -Eigen::VectorXd::NullaryExpr(n, draw).cwiseAbs(), high = -0.5 * low,
                      x = Eigen::VectorXd::NullaryExpr(n, draw);
      if (n > 2) {
        low[0] = high[0] = 0.1;  // one value
        high[1] = std::numeric_limits<double>::infinity();
      }
      ASSERT_TRUE(qp.solve(Matrix(H), g, low, high, x));
      const Eigen::VectorXd expected = coordinate_descent(H, g, low, high);
      EXPECT_LT((x - expected).cwiseAbs().maxCoeff(), 1e-9) << n << " " << trial;
      // what is free has no slope, and H⁻¹ is of the free ones
      const Eigen::VectorXd slope = H * x + g;
      for (const int i : qp.free()) EXPECT_LT(std::abs(slope[i]), 1e-9);
    }
  }
}

TEST(BoxQp, SaysWhereThereIsNoMinimum) {
  BoxQp qp;
  Matrix H(2, 2);
  H << 1, 2, 2, 1;
  const double inf = std::numeric_limits<double>::infinity();
  const Eigen::Vector2d g(1, 1), low(-inf, -inf), high(inf, inf);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(2);
  EXPECT_FALSE(qp.solve(H, g, low, high, x));
}

// every kind of residual: a hinge, a ball joint, a free box, a muscle-like activation, and a slide
// that presses its ball into the floor
constexpr const char* kScene = R"(<mujoco><option timestep="0.005" integrator="implicitfast"/>
  <default><geom solref="0.02 1" solimp="0.5 0.9 0.01"/></default><worldbody>
  <geom name="floor" type="plane" size="5 5 0.1"/>
  <site name="goal" pos="0.3 0.2 0.6" euler="20 30 40"/>
  <body name="upper" pos="0 0 1.5"><joint name="hinge" axis="0 1 0" damping="0.2"/>
    <geom name="rod" type="capsule" size="0.02" fromto="0 0 0 0 0 -0.5" mass="1" contype="0" conaffinity="0"/>
    <body name="lower" pos="0 0 -0.5"><joint name="wrist" type="ball" damping="0.05"/>
      <geom name="bob" type="box" size="0.05 0.08 0.03" pos="0 0 -0.2" mass="0.5" contype="0" conaffinity="0"/>
      <site name="tip" pos="0 0.02 -0.3" euler="10 0 0"/></body></body>
  <body name="box" pos="1 0 1"><freejoint name="free"/>
    <geom type="box" size="0.05 0.06 0.07" mass="0.3" contype="0" conaffinity="0"/></body>
  <body name="finger" pos="-1 0 0.099"><joint name="slide" type="slide" axis="0 0 1"/>
    <geom name="ball" type="sphere" size="0.1" mass="0.5"/><site name="pad" size="0.12"/></body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge"/>
    <general name="press" joint="slide" dyntype="filter" dynprm="0.03"/></actuator>
  <sensor><touch name="touch" site="pad"/><gyro name="gyro" site="tip"/>
    <actuatorfrc name="effort" actuator="motor"/><accelerometer name="shake" site="tip"/></sensor></mujoco>)";
constexpr int kSteps = 12;

Model scene() {
  static const Model kModel = Model::from_xml(kScene).tightened();
  return kModel;
}

std::vector<CostTerm> terms() {
  std::vector<CostTerm> out = terms_of_every_kind();
  out.push_back({.of = SensorValue{"effort"}});
  out.push_back({.of = SensorValue{"shake", {0, 0, 9}}});
  return out;
}

Trajectory scene_rollout(bool sensors) {
  const Model m = scene();
  Vector qpos = {0.7, 0.9, 0.3, 0.1, 0.2, 1, 0.1, 1, 0.8, 0.2, 0.4, -0.3, 0};
  mju_normalize4(qpos.data() + 1);
  mju_normalize4(qpos.data() + 8);
  const Vector qvel = {0.5, 0.3, -0.6, 0.4, 0.1, 0.2, 0.9, 1.1, -0.7, 0.4, -0.01}, act = {-3};
  Vector ctrl;
  for (int i = 0; i < kSteps; i++) {
    ctrl.push_back(0.3 * std::sin(i));
    ctrl.push_back(-3 + 0.2 * std::cos(i));
  }
  Trajectory t = rollout(m, {.qpos = qpos, .qvel = qvel, .act = act, .ctrl = ctrl}, kSteps,
                         {.sensors = sensors});
  EXPECT_TRUE(t.ok()) << t.message;
  return t;
}

// r at state or step i as a function of (dx, du) there, against its Jacobian
TEST(GaussNewton, JacobianOfEveryTermMatchesDifferences) {
  const Model m = scene();
  const auto n = static_cast<size_t>(m.ntangent()), nu = static_cast<size_t>(m.nu());
  for (const CostTerm& term : terms()) {
    const Cost cost(m, {term});
    const Residual& residual = *cost.bound().terms[0].residual;
    const Trajectory t = scene_rollout(cost.sensors());
    // of the last state too, whose sensors read the last control
    for (const int i : {4, residual.of_steps() ? kSteps - 1 : kSteps}) {
      const auto value = [&](const Vector& d) {
        Trajectory moved = t;
        const auto k = static_cast<size_t>(i), last = static_cast<size_t>(std::min(i, kSteps - 1));
        const auto part = [&](Vector& x, size_t width, size_t at) {
          return std::span(x).subspan(at * width, width);
        };
        State x = default_state(m);
        const auto copy = [&](std::span<double> from, Vector& to) {
          to.assign(from.begin(), from.end());
        };
        const auto nq = static_cast<size_t>(m.nq()), nv = static_cast<size_t>(m.nv()),
                   na = static_cast<size_t>(m.na());
        copy(part(moved.qpos, nq, k), x.qpos);
        copy(part(moved.qvel, nv, k), x.qvel);
        copy(part(moved.act, na, k), x.act);
        const State y = plus(m, x, std::span(d).first(n));
        std::copy(y.qpos.begin(), y.qpos.end(), part(moved.qpos, nq, k).begin());
        std::copy(y.qvel.begin(), y.qvel.end(), part(moved.qvel, nv, k).begin());
        std::copy(y.act.begin(), y.act.end(), part(moved.act, na, k).begin());
        for (size_t j = 0; j < nu; j++) moved.ctrl[last * nu + j] += d[n + j];
        moved.sensordata.clear();
        if (cost.sensors()) moved.sensordata = sensordata(m, moved);
        const Poses p = poses(m, moved, cost.observables());
        Vector r(static_cast<size_t>(residual.size()));
        residual.value(m, moved, p, i, r);
        return r;
      };
      const Poses p = poses(m, t, cost.observables());
      JacobianPlace place(m, t, p);
      const Operation op{
          .forward = value, .pullback = [&](const Vector& d, const Vector& r_bar, Vector& bar) {
            EXPECT_EQ(d, Vector(d.size()));
            JacobianRows rows;
            rows.clear();
            place.move(i);
            residual.jacobian(place, value(d), rows);
            ASSERT_EQ(rows.rows(), residual.size());
            for (size_t k = 0; k < r_bar.size(); k++) {
              for (size_t at = rows.begin[k]; at < rows.begin[k + 1]; at++) {
                bar[static_cast<size_t>(rows.column[at])] += r_bar[k] * rows.value[at];
              }
            }
          }};
      EXPECT_TRUE(check_pullback(op, Vector(n + nu), n + nu,
                                 {.tolerance = tolerances().stage, .step = 1e-4, .levels = 8}))
          << cost.names()[0] << " at " << i;
    }
  }
}

// with the curvatures of its norms
TEST(GaussNewton, CurvatureIsTheNormsOwnOrAbove) {
  const Vector r = {0.3, -0.05, 0.2};
  for (const Norm norm : {Norm::kSquared, Norm::kL2, Norm::kHuber, Norm::kCosh}) {
    for (const double scale : {0.05, 0.1, 2.0}) {
      Vector h(3), bar(3);
      norm_curvature(norm, scale, r, h);
      const double value = norm_pullback(norm, scale, r, bar);
      std::mt19937 random(1);
      std::normal_distribution<double> normal;
      for (int trial = 0; trial < 50; trial++) {
        Vector moved = r;
        double model = value;
        for (size_t i = 0; i < 3; i++) {
          const double d = (norm == Norm::kCosh ? 1e-3 : 0.3) * normal(random);
          moved[i] += d;
          model += bar[i] * d + 0.5 * h[i] * d * d;
        }
        const double truth = norm_value(norm, scale, moved);
        if (norm == Norm::kSquared) {
          EXPECT_NEAR(model, truth, 1e-13);
        } else if (norm == Norm::kCosh) {
          // the third order is what is left
          EXPECT_NEAR(model, truth, 1e-5 * (1 + truth) / scale);
        } else {
          EXPECT_GE(model, truth - 1e-13);
        }
      }
    }
  }
}

// the cost's first order, and A and B, swept back: the gradient that PlanObjective has
TEST(GaussNewton, GradientIsThatOfTheObjective) {
  const Model m = scene();
  std::vector<CostTerm> all = terms();
  int k = 0;
  for (CostTerm& term : all) {
    term.norm = static_cast<Norm>(k++ % 4);
    term.scale = 1;
    term.weight = 0.3 + 0.1 * k;
    const bool of_steps = std::holds_alternative<ControlEffort>(term.of) ||
                          std::holds_alternative<ControlRate>(term.of) ||
                          std::holds_alternative<ForceEffort>(term.of);
    if (of_steps) term.norm = Norm::kHuber;
    if (!of_steps && k % 2 == 0) term.terminal = 0.7;
  }
  const Cost cost(m, all);
  const Trajectory t = scene_rollout(true);
  const Poses p = poses(m, t, cost.observables());
  std::vector<CostExpansion> expansions;
  StopSignal never({});
  expand_cost(m, cost, t, p, 2, never, expansions);
  const TrajectoryLinearization steps = linearize(m, t);
  const Eigen::Index n = m.ntangent(), nu = m.nu();
  Matrix u_bar = Matrix::Zero(kSteps, nu);
  Eigen::VectorXd x_bar = expansions[kSteps].x;
  u_bar.row(kSteps - 1) += expansions[kSteps].u;
  for (int i = kSteps - 1; i >= 0; i--) {
    const CostExpansion& e = expansions[static_cast<size_t>(i)];
    const Eigen::Map<const Matrix> A(&steps.A[static_cast<size_t>(i * n * n)], n, n),
        B(&steps.B[static_cast<size_t>(i * n * nu)], n, nu);
    u_bar.row(i) += B.transpose() * x_bar + e.u + e.change;
    if (i > 0) u_bar.row(i - 1) -= e.change;
    x_bar = A.transpose() * x_bar + e.x;
  }
  PlanObjective f(m, cost, {.horizon = kSteps});
  f.set_start({.qpos = std::span(t.qpos).first(static_cast<size_t>(m.nq())),
               .qvel = std::span(t.qvel).first(static_cast<size_t>(m.nv())),
               .act = std::span(t.act).first(static_cast<size_t>(m.na()))});
  std::vector<PlanObjective::Value> out;
  f.evaluate(
      1, [&](int, Vector& z) { z = t.ctrl; }, true, out);
  ASSERT_TRUE(out[0].ok) << out[0].message;
  const Eigen::Map<const Eigen::VectorXd> expected(out[0].gradient.data(), kSteps * nu),
      ours(u_bar.data(), kSteps * nu);
  EXPECT_LT((ours - expected).norm(), 1e-9 * expected.norm());
  // Hessians have both halves
  for (const CostExpansion& e : expansions) {
    EXPECT_LT((e.xx - e.xx.transpose()).norm(), 1e-12 * (1 + e.xx.norm()));
  }
}

// two masses that are pushed: states are linear in the controls, the cost quadratic
Model linear(const char* range = "") {
  return Model::from_xml(
      std::string(R"(<mujoco><option gravity="0 0 -1" timestep="0.02"/><worldbody>
      <body><joint type="slide" name="x" axis="1 0 0" damping="0.3"/><geom size="0.1" mass="1"/>
        <body><joint type="slide" name="z" axis="0.6 0 0.8" stiffness="2"/><geom size="0.1" mass="0.4"/></body>
      </body></worldbody><actuator><motor joint="x" )") +
      range + R"(/><general joint="z" dyntype="filter" dynprm="0.1" )" + range +
      R"(/></actuator></mujoco>)");
}
Cost quadratic(const Model& m, bool change) {
  std::vector<CostTerm> all = {
      {.of = JointPosition{{"x", "z"}, {0.3, -0.2}}, .weight = 1, .terminal = 2},
      {.of = JointVelocity{}, .weight = 0.1, .terminal = 0.3},
      {.of = ControlEffort{{}, {0.1, 0.2}}, .weight = 1e-3}};
  if (change) all.push_back({.of = ControlRate{}, .weight = 1e-4});
  return {m, all};
}

// H and g of the cost as a function of the decision variables
struct Dense {
  Eigen::MatrixXd H;
  Eigen::VectorXd g, low, high;
};
Dense dense(const Model& m, const Cost& cost, PlanOptions o) {
  PlanObjective f(m, cost, o);
  f.set_start({});
  constexpr double kUnit = 0.25;  // within the bounds
  const auto n = static_cast<int>(f.variables().size());
  std::vector<PlanObjective::Value> out;
  f.evaluate(
      n + 1,
      [&](int i, Vector& z) {
        z.assign(static_cast<size_t>(n), 0.0);
        if (i > 0) z[static_cast<size_t>(i) - 1] = kUnit;
      },
      true, out);
  const auto gradient = [&](int i) {
    return Eigen::Map<const Eigen::VectorXd>(out[static_cast<size_t>(i)].gradient.data(), n);
  };
  Dense x{.H = Eigen::MatrixXd(n, n), .g = gradient(0), .low = {}, .high = {}};
  for (int i = 0; i < n; i++) x.H.col(i) = (gradient(i + 1) - gradient(0)) / kUnit;
  x.low = Eigen::Map<const Eigen::VectorXd>(f.variables().low().data(), n);
  x.high = Eigen::Map<const Eigen::VectorXd>(f.variables().high().data(), n);
  return x;
}

struct Layout {
  std::optional<int> knots;
  Interpolation interpolation;
  bool change;
};
constexpr Layout kLayouts[] = {
    {{}, Interpolation::kLinear, false}, {{}, Interpolation::kLinear, true},
    {7, Interpolation::kZero, false},    {7, Interpolation::kZero, true},
    {7, Interpolation::kLinear, false},  {7, Interpolation::kLinear, true},
    {1, Interpolation::kLinear, true},   {30, Interpolation::kLinear, true},
    {16, Interpolation::kLinear, true}};

PlanOptions options_of(const Layout& x) {
  return {.method = PlanMethod::kIlqr,
          .horizon = 30,
          .knots = x.knots,
          .interpolation = x.interpolation,
          .iterations = 1,
          .regularization = 0};
}

TEST(Ilqr, SolvesALinearQuadraticProblemInOneIteration) {
  const Model m = linear();
  for (const Layout& layout : kLayouts) {
    const Cost cost = quadratic(m, layout.change);
    const Plan plan = Planner(m, cost, options_of(layout)).plan({});
    const Dense x = dense(m, cost, options_of(layout));
    const Vector expected = numbers(x.H.ldlt().solve(-x.g));
    ASSERT_EQ(plan.variables.size(), expected.size());
    for (size_t i = 0; i < expected.size(); i++) {
      EXPECT_NEAR(plan.variables[i], expected[i], 1e-6)
          << layout.knots.value_or(0) << " " << interpolation_name(layout.interpolation) << " "
          << layout.change << " " << i;
    }
    EXPECT_EQ(plan.history.size(), 2U);
  }
}

TEST(Ilqr, KeepsBoundsAndIsOptimalWithinThem) {
  const Model m = linear("ctrllimited=\"true\" ctrlrange=\"-0.4 0.7\"");
  for (const Layout& layout : kLayouts) {
    PlanOptions o = options_of(layout);
    o.iterations = 30;
    const Cost cost = quadratic(m, layout.change);
    const Plan plan = Planner(m, cost, o).plan({});
    const Dense x = dense(m, cost, o);
    const Vector expected = numbers(coordinate_descent(x.H, x.g, x.low, x.high));
    int held = 0;
    for (size_t i = 0; i < expected.size(); i++) {
      EXPECT_NEAR(plan.variables[i], expected[i], 1e-6)
          << layout.knots.value_or(0) << " " << interpolation_name(layout.interpolation) << " "
          << layout.change << " " << i;
      held += expected[i] == -0.4 || expected[i] == 0.7;
    }
    EXPECT_GT(held, 0);
    for (const double u : plan.ctrl) EXPECT_TRUE(u >= -0.4 && u <= 0.7) << u;
  }
}

// an arm with a free tip, and a ball that it hits
constexpr const char* kArm = R"(<mujoco><option timestep="0.01"/><worldbody>
  <geom type="plane" size="3 3 0.1" pos="0 0 -0.6"/>
  <body><joint name="a" type="ball" damping="0.1"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0.4 0 0" mass="1"/>
    <body pos="0.4 0 0"><joint name="b" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.4 0 0" mass="0.7"/>
      <site name="tip" pos="0.4 0 0"/></body></body>
  <body name="ball" pos="0.5 0 -0.5"><freejoint/><geom size="0.1" mass="0.2"/><site name="ball"/></body>
  </worldbody>
  <actuator><motor joint="a" gear="0 1 0" ctrlrange="-15 15"/><motor joint="a" gear="0 0 1" ctrlrange="-15 15"/>
    <motor joint="b" ctrlrange="-6 6"/></actuator></mujoco>)";
Cost reach(const Model& m) {
  return {m,
          {{.of = Distance{site("tip"), {.pos = {0.4, 0.4, 0.1}}}, .weight = 1, .terminal = 4},
           {.of = Distance{site("ball"), {.pos = {0.8, 0, -0.5}}}, .norm = Norm::kHuber},
           {.of = JointVelocity{}, .weight = 1e-3},
           {.of = ControlEffort{}, .weight = 1e-4},
           {.of = ControlRate{}, .weight = 1e-7}}};
}

TEST(Ilqr, CostsFallAndAreThoseOfThePlan) {
  for (const char* integrator : {"Euler", "implicitfast", "RK4"}) {
    std::string text = kArm;
    text.replace(text.find("<option"), 7, std::string("<option integrator=\"") + integrator + "\"");
    const Model m = Model::from_xml(text);
    for (const std::optional<int> knots : {std::optional<int>(), std::optional<int>(6)}) {
      std::vector<Plan> plans;
      // the same bits on any number of threads
      const bool all = std::string(integrator) == "Euler";
      for (const int nthread : all ? std::vector{1, 2, 5} : std::vector{1}) {
        Planner planner(m, reach(m),
                        {.method = PlanMethod::kIlqr,
                         .horizon = 60,
                         .knots = knots,
                         .iterations = 12,
                         .nthread = nthread});
        plans.push_back(planner.plan({}));
      }
      const Plan& plan = plans[0];
      for (const Plan& other : plans) {
        EXPECT_EQ(plan.variables, other.variables);
        EXPECT_EQ(plan.gains, other.gains);
      }
      EXPECT_EQ(plan.gains.size(), !knots ? 60U * 3U * 20U : 0U);
      EXPECT_LT(plan.cost, 0.3 * plan.history[0].cost) << integrator << " " << knots.value_or(0);
      for (size_t i = 1; i < plan.history.size(); i++) {
        EXPECT_LE(plan.history[i].cost, plan.history[i - 1].cost);
      }
      // its closed loop has the bits of an open one with the same controls
      const Trajectory t = rollout(m, {.ctrl = plan.ctrl}, 60);
      EXPECT_EQ(reach(m).evaluate(m, t).total, plan.cost);
    }
  }
}

TEST(Ilqr, EndsWhereGradientsVanish) {
  const Model m = Model::from_xml(kArm);
  const Cost cost = reach(m);
  PlanOptions o{.method = PlanMethod::kIlqr, .horizon = 40, .iterations = 200};
  const Plan plan = Planner(m, cost, o).plan({});
  EXPECT_LT(plan.history.size(), 200U);  // converged
  PlanObjective f(m, cost, o);
  f.set_start({});
  std::vector<PlanObjective::Value> out;
  f.evaluate(
      2, [&](int i, Vector& z) { z = i == 0 ? f.variables().zero() : plan.variables; }, true, out);
  const auto norm = [&](const PlanObjective::Value& x) {
    double sum = 0;
    for (size_t i = 0; i < x.gradient.size(); i++) {
      const bool held = std::abs(plan.variables[i]) == f.variables().high()[i];
      if (!held) sum += x.gradient[i] * x.gradient[i];
    }
    return std::sqrt(sum);
  };
  EXPECT_LT(norm(out[1]), 1e-4 * norm(out[0]));
}

TEST(Ilqr, FeedbackHoldsAPlanThatIsPushed) {
  // an upright pole: without feedback a push makes it fall
  const Model m = Model::from_xml(R"(<mujoco><option timestep="0.01"/><worldbody><body>
    <joint name="cart" type="slide" axis="1 0 0"/><geom size="0.1" mass="1" contype="0" conaffinity="0"/>
    <body><joint name="pole" axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0 0 0.6" mass="0.3"
      contype="0" conaffinity="0"/></body></body></worldbody>
    <actuator><motor joint="cart"/></actuator></mujoco>)");
  const Cost cost(m, {{.of = JointPosition{}, .weight = 1, .terminal = 10},
                      {.of = JointVelocity{}, .weight = 0.01},
                      {.of = ControlEffort{}, .weight = 1e-4}});
  Planner planner(m, cost, {.method = PlanMethod::kIlqr, .horizon = 150, .iterations = 20});
  const Plan plan = planner.plan({.qpos = Vector{0, 0.1}});
  const Trajectory planned = rollout(m, {.qpos = Vector{0, 0.1}, .ctrl = plan.ctrl}, 150);
  ASSERT_EQ(plan.gains.size(), 150U * 4U);
  State x{.qpos = {0, 0.15}, .qvel = {0, 0}, .act = {}};  // beside the plan's start
  const auto open = rollout(m, {.qpos = x.qpos, .qvel = x.qvel, .ctrl = plan.ctrl}, 150);
  for (size_t i = 0; i < 150; i++) {
    double u = plan.ctrl[i];
    for (size_t k = 0; k < 2; k++) {
      u += plan.gains[4 * i + k] * (x.qpos[k] - planned.qpos[2 * i + k]);
      u += plan.gains[4 * i + 2 + k] * (x.qvel[k] - planned.qvel[2 * i + k]);
    }
    const Trajectory t = rollout(m, {.qpos = x.qpos, .qvel = x.qvel, .ctrl = Vector{u}}, 1);
    x.qpos = {t.qpos[2], t.qpos[3]};
    x.qvel = {t.qvel[2], t.qvel[3]};
  }
  EXPECT_LT(std::abs(x.qpos[1] - planned.qpos.back()), 0.02);
  EXPECT_GT(std::abs(open.qpos.back() - planned.qpos.back()), 0.5);
}

// MuJoCo takes controls above 1e10 for 0, so that a step to them may seem to lower the cost
TEST(Ilqr, LeavesOutControlsThatAreTooLarge) {
  const Model m = Model::from_xml(R"(<mujoco><option timestep="0.02" gravity="0 0 0"/><worldbody>
    <body><joint name="x" type="slide"/><geom size="0.1" mass="1"/></body></worldbody>
    <actuator><motor joint="x" gear="1e-12"/></actuator></mujoco>)");
  // to where only a control of 5e13 brings it
  const Cost cost(m, {{.of = JointPosition{{}, {1}}}});
  Planner planner(m, cost, {.method = PlanMethod::kIlqr, .horizon = 10, .iterations = 3});
  const Plan plan = planner.plan({.qvel = Vector{0.1}});
  for (const double u : plan.ctrl) EXPECT_LE(std::abs(u), 1e10);
  EXPECT_GT(plan.ndiverged, 0);
  EXPECT_NE(plan.message.find("exceeds 1e10"), std::string::npos) << plan.message;
  (void)planner.plan({.qvel = Vector{0.1}});
}

TEST(Ilqr, PlansWithAdaptiveSteps) {
  ModelOptions options;
  options.integrator = Integrator::kTsit5;
  const Model m = Model::from_xml(kArm, options);
  Planner planner(m, reach(m), {.method = PlanMethod::kIlqr, .horizon = 20, .iterations = 4});
  const Plan plan = planner.plan({});
  EXPECT_LT(plan.cost, 0.9 * plan.history[0].cost);
  EXPECT_EQ(reach(m).evaluate(m, rollout(m, {.ctrl = plan.ctrl}, 20)).total, plan.cost);
  options.adaptive.control = Control::kLinear;
  const Model between = Model::from_xml(kArm, options);
  EXPECT_THROW(Planner(between, reach(between), {.method = PlanMethod::kIlqr}), InputError);
  options.adaptive.control = Control::kHold;
  options.adaptive.adjoint = Adjoint::kBacksolve;
  const Model not_kept = Model::from_xml(kArm, options);
  EXPECT_THROW(Planner(not_kept, reach(not_kept), {.method = PlanMethod::kIlqr}), InputError);
  EXPECT_THROW((void)linearize(not_kept, rollout(not_kept, {}, 3)), UnsupportedError);
}

TEST(Ilqr, PlansOneStep) {
  const Model m = linear();
  const Cost cost = quadratic(m, true);
  const Plan plan =
      Planner(m, cost,
              {.method = PlanMethod::kIlqr, .horizon = 1, .iterations = 1, .regularization = 0})
          .plan({});
  const Dense x = dense(m, cost, {.horizon = 1});
  const Vector expected = numbers(x.H.ldlt().solve(-x.g));
  for (size_t i = 0; i < 2; i++) EXPECT_NEAR(plan.ctrl[i], expected[i], 1e-6);
}

TEST(Ilqr, StartsFromTheBestOfSeveral) {
  const Model m = Model::from_xml(kArm);
  PlanOptions o{.method = PlanMethod::kIlqr, .horizon = 30, .iterations = 0};
  const double one = Planner(m, reach(m), o).plan({}).cost;
  o.starts = 16;
  const Plan plan = Planner(m, reach(m), o).plan({});
  EXPECT_EQ(plan.history[0].nrollout, 16);
  EXPECT_LT(plan.cost, one);
}

TEST(Ilqr, RefusesWhatItDoesNotDo) {
  const Model m = Model::from_xml(kArm);
  const auto refuses = [&](PlanOptions o, const char* text) {
    o.method = PlanMethod::kIlqr;
    try {
      Planner(m, reach(m), o);
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  refuses({.forces = true}, "forces");
  refuses({.velocity = true}, "velocity");
  refuses({.knots = 5, .interpolation = Interpolation::kCubic}, "linear or zero");
  refuses({.regularization = -1}, "regularization");
  refuses({.starts = 100}, "starts");
  const Cost own(m, {{.of = ControlEffort{}}},
                 {{.function = [](const OwnCost::Batch&) {}, .name = "mine"}});
  EXPECT_THROW(Planner(m, own, {.method = PlanMethod::kIlqr}), UnsupportedError);
  const Model none = Model::from_xml(
      R"(<mujoco><worldbody><body><freejoint/><geom size="0.1"/></body></worldbody></mujoco>)");
  EXPECT_THROW(Planner(none, Cost(none, {{.of = JointPosition{}}}), {.method = PlanMethod::kIlqr}),
               InputError);
}

}  // namespace
}  // namespace diffmj
