// Limits of stability: of the methods, against the steps themselves, and of models, against the
// eigenvalues of the whole Jacobian as the pullback of the vector field has it.
#include "integrate/stability.h"

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <cmath>
#include <random>

#include "harness/models.h"
#include "record/input.h"
#include "setup/workspace_lease.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/evaluate_stages.h"
#include "stages/oracle.h"

namespace diffmj {
namespace {

using Complex = std::complex<double>;

// one step of x' = λ x from x = 1
Complex step(const Tableau& t, Complex z) {
  std::vector<Complex> k;
  Complex end = 1;
  for (size_t i = 0; i < t.nstage; i++) {
    Complex x = 1;
    for (size_t j = 0; j < i; j++) x += t.A[i][j] * k[j];
    k.push_back(z * x);
  }
  for (size_t i = 0; i < t.nstage; i++) end += t.b[i] * k[i];
  return end;
}

TEST(StabilityPolynomial, IsWhatAStepDoes) {
  for (const Tableau* t : kTableaus) {
    const StabilityPolynomial R(*t);
    for (const Complex z : {Complex(-1.3, 0), Complex(0.2, 1.1), Complex(-3, 2), Complex(1, -2)}) {
      EXPECT_NEAR(R.value(z), std::abs(step(*t, z)), 1e-12 * std::abs(step(*t, z))) << t->name;
    }
  }
}

TEST(StabilityPolynomial, LimitsAreWhereStepsBeginToGrow) {
  for (const Tableau* t : kTableaus) {
    const StabilityPolynomial R(*t);
    for (const double angle : {0.5, 0.55, 0.65, 0.8, 0.9, 1.0}) {
      const Complex ray = std::polar(1.0, M_PI * angle);
      const double limit = R.limit(7.0 * ray), most = 1 + StabilityPolynomial::kGrowth;
      for (double s = 0.02; s < 1; s += 0.02) {
        EXPECT_LE(std::abs(step(*t, s * limit * ray)), most + 1e-9) << t->name << ", " << angle;
      }
      EXPECT_GT(std::abs(step(*t, 1.001 * limit * ray)), most) << t->name << ", " << angle;
    }
    EXPECT_NEAR(R.limit(-1), R.real_limit(), 1e-9) << t->name;
    EXPECT_NEAR(R.limit(Complex(0, -2)), R.imaginary_limit(), 1e-9) << t->name;
    // what the motion itself amplifies has no limit
    EXPECT_TRUE(std::isinf(R.limit(3))) << t->name;
  }
}

// ∂F/∂x at the state of a scene, (nv + na) x (2 nv + na), by the pullback
class Field {
 public:
  explicit Field(const Scene& scene)
      : impl(scene.model.impl()), workspace(impl), method(impl, *workspace) {
    reset_data(scene.model, scene.mocap_pos, scene.mocap_quat, *workspace);
    in = {.begin = 0,
          .end = 1,
          .ctrl = scene.ctrl,
          .ctrl_end = {},
          .qfrc_applied = {},
          .xfrc_applied = {}};
    start.qpos = scene.x.qpos;
    start.qvel = scene.x.qvel;
    start.act = scene.x.act;
    method.begin(start, in, 0);
    EvaluationTimes times;
    EXPECT_TRUE(method.place(0) && method.evaluate(0, times));
    const Workspace::Stage& first = method.stage(0);
    qacc = first.qacc;
    act_dot = first.act_dot;
    start.qacc = qacc;
    start.act_dot = act_dot;
    start.nefc = first.nefc;
  }

  Matrix derivative() {
    const int n = impl.nv + impl.na;
    Workspace::Stage at;
    at.resize(impl);
    std::copy(start.qpos.begin(), start.qpos.end(), at.qpos.begin());
    std::copy(start.qvel.begin(), start.qvel.end(), at.qvel.begin());
    std::copy(start.act.begin(), start.act.end(), at.act.begin());
    at.qacc = qacc;
    at.nefc = start.nefc;
    at.a_bar = Matrix::Identity(n, n).leftCols(impl.nv);
    at.act_dot_bar = Matrix::Identity(n, n).rightCols(impl.na);
    Matrix x = Matrix::Zero(n, 2 * impl.nv + impl.na), ctrl = Matrix::Zero(n, impl.nu),
           qfrc = Matrix::Zero(n, impl.nv), xfrc(n, 0);
    method.field_pullback(0, at, {x, ctrl, qfrc, xfrc}, false);
    return x;
  }

  // the bound that all eigenvalues together set
  double bound() {
    const mjModel* m = impl.mj();
    const int nv = impl.nv, n = 2 * nv + impl.na;
    Matrix J = Matrix::Zero(n, n);
    J.topRows(nv).middleCols(nv, nv).setIdentity();
    J.bottomRows(nv + impl.na) = derivative();
    for (int j = 0; j < impl.na; j++) {
      if (m->actuator_dyntype[impl.act_actuator[static_cast<size_t>(j)]] == mjDYN_FILTEREXACT) {
        J.row(2 * nv + j).setZero();
        J.col(2 * nv + j).setZero();
      }
    }
    const Eigen::EigenSolver<Eigen::MatrixXd> solver(J);
    const StabilityPolynomial R(*impl.tableau);
    double best = std::numeric_limits<double>::infinity();
    for (const Complex value : solver.eigenvalues()) {
      if (std::abs(value) > 0) best = std::min(best, R.limit(value) / std::abs(value));
    }
    return best;
  }

  const ModelImpl& impl;
  WorkspaceLease workspace;
  RungeKutta method;
  IntervalInput in;
  StepStart start;
  Vector qacc, act_dot;
};

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const std::string& name : zoo_names()) {
    if (name != "noslip") out.push_back(name);  // it has no vector field
  }
  return out;
}

class StabilityZoo : public ::testing::TestWithParam<std::string> {
 protected:
  const Scene scene = with_options(zoo(GetParam()), {.integrator = Integrator::kTsit5});
};

TEST_P(StabilityZoo, PushforwardIsTheTransposeOfThePullback) {
  Field field(scene);
  const ModelImpl& impl = field.impl;
  const Matrix J = field.derivative();
  const StepInput in{.time = 0,
                     .qpos = field.start.qpos,
                     .qvel = field.start.qvel,
                     .act = field.start.act,
                     .qacc_warmstart = {},
                     .ctrl = scene.ctrl,
                     .qfrc_applied = {},
                     .xfrc_applied = {}};
  const OracleProblem problem{
      .in = in, .qacc = field.qacc, .F = {}, .act_from = {}, .act_dot_from = {}};
  Workspace& workspace = *field.workspace;
  evaluate_stages(impl, in, workspace);
  newton_factorize(impl.mj(), workspace.data.get(), field.qacc, workspace);
  oracle_linearize(impl, problem, workspace);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  Vector x(static_cast<size_t>(J.cols())), a(static_cast<size_t>(impl.nv)),
      w(static_cast<size_t>(impl.na));
  for (int i = 0; i < 3; i++) {
    for (double& value : x) value = normal(random);
    oracle_pushforward(impl, problem, x, a, w, workspace);
    Eigen::VectorXd y(J.rows());
    y << eigen(CVec(a)), eigen(CVec(w));
    const Eigen::VectorXd expected = J * eigen(CVec(x));
    // one-sided differences, of an estimate that needs two digits
    EXPECT_LT((y - expected).norm(), 1e-3 * expected.norm() + 1e-6);
  }
}

TEST_P(StabilityZoo, LimitIsThatOfAllEigenvalues) {
  Field field(scene);
  const double bound = field.bound();
  if (std::isinf(bound)) return;
  Stability stability(field.impl, *field.workspace);
  // a step so long that the limit matters: at once, and again from what was found
  for (int look = 0; look < 3; look++) {
    EXPECT_TRUE(look > 0 || stability.due(10 * bound, field.start));
    stability.look(10 * bound, field.start, field.in);
    EXPECT_LT(stability.limit(), bound) << "look " << look;
    EXPECT_GT(stability.limit(), 0.8 * bound) << "look " << look;
    EXPECT_FALSE(stability.due(10 * bound, field.start));
    for (int i = 0; i < 16; i++) stability.follow();
    EXPECT_TRUE(stability.due(10 * bound, field.start));
  }
}

TEST_P(StabilityZoo, FarFromTheLimitFewProductsSayThatItIsFar) {
  Field field(scene);
  const double bound = field.bound();
  if (std::isinf(bound)) return;
  Stability stability(field.impl, *field.workspace);
  stability.look(1e-3 * bound, field.start, field.in);
  EXPECT_GT(stability.limit(), 4e-3 * bound);
  // as soon as a step comes near it is not far any more
  EXPECT_TRUE(stability.due(4 * bound, field.start));
  stability.look(4 * bound, field.start, field.in);
  EXPECT_LT(stability.limit(), bound);
  EXPECT_GT(stability.limit(), 0.8 * bound);
}

TEST_P(StabilityZoo, ALookAllocatesNothing) {
  Field field(scene);
  if (!field.impl.differentiation.of_stages) return;
  Stability stability(field.impl, *field.workspace);
  stability.look(1, field.start, field.in);
  stability.look(1, field.start, field.in);  // sizes the scratch of rows that come and go
  const size_t before = allocations();
  stability.look(1, field.start, field.in);
  EXPECT_EQ(allocations() - before, 0U);
}

INSTANTIATE_TEST_SUITE_P(Zoo, StabilityZoo, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace diffmj
