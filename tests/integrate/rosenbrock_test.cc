// label: smoke
// The linearly implicit method: its coefficients, the derivative of the field as a matrix, and the
// systems with it.
#include "integrate/rosenbrock.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <limits>

#include "harness/models.h"
#include "integrate/rosenbrock_conditions.h"
#include "integrate/runge_kutta.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

template <class Real>
Real worst(const TableauOf<Real>& t) {
  Real out = rosenbrock_consistency(t);
  for (int n = 1; n <= t.order; n++) {
    const RosenbrockResidual<Real> r(t, static_cast<size_t>(n));
    out = std::max(out, r.b);
    if (n <= t.embedded_order) out = std::max(out, r.bhat);
    if (n <= t.dense_order) out = std::max(out, r.dense);
  }
  return out;
}

TEST(Rodas4p, ConditionsHoldInLongDoubleAndDouble) {
  // measured: 1e-14, what 16 digits leave
  EXPECT_LT(worst(exact::kRodas4p), 1e-13L);
  EXPECT_LT(worst(kRodas4p), 1e-13);
  EXPECT_EQ(find_tableau("rodas4p"), &kRodas4p);
}

TEST(Rodas4p, ConditionsSeeEveryNumber) {
  const auto seen = [](auto&& change) {
    exact::ExactTableau t = exact::kRodas4p;
    change(t);
    EXPECT_GT(worst(t), 1e-9L);
  };
  for (size_t i = 0; i < kRodas4p.nsolve(); i++) {
    SCOPED_TRACE(i);
    for (size_t j = 0; j < i; j++) {
      seen([&](auto& t) { t.A[i][j] += 1e-6L; });
      seen([&](auto& t) { t.C[i][j] += 1e-6L; });
    }
    seen([&](auto& t) { t.b[i] += 1e-6L; });
    seen([&](auto& t) { t.c[i] += 1e-6L; });
    seen([&](auto& t) { t.gamma_time[i] += 1e-6L; });
    for (size_t m = 0; m < 3; m++) seen([&](auto& t) { t.dense[i][m] += 1e-6L; });
  }
  seen([&](auto& t) { t.gamma += 1e-6L; });
}

// R(z) = 1 + z bΓ (1 - z β)⁻¹ 1 on the imaginary axis, and far to the left
TEST(Rodas4p, IsStableWherePerturbationsDoNotGrow) {
  const RosenbrockForm<double> form(kRodas4p);
  const auto n = static_cast<Eigen::Index>(form.n);
  Eigen::MatrixXcd beta(n, n);
  Eigen::RowVectorXcd b(n);
  for (Eigen::Index j = 0; j < n; j++) {
    b[j] = 0;
    for (Eigen::Index i = 0; i < n; i++) {
      const auto row = static_cast<size_t>(i), column = static_cast<size_t>(j);
      beta(i, j) = form.beta[row][column];
      b[j] += kRodas4p.b[row] * form.gamma[row][column];
    }
  }
  const auto R = [&](std::complex<double> z) {
    const Eigen::MatrixXcd I = Eigen::MatrixXcd::Identity(n, n);
    return std::abs(1.0 + z * (b * (I - z * beta).partialPivLu().solve(Eigen::VectorXcd::Ones(n)))(0));
  };
  for (double y = -3; y < 5; y += 0.05) {
    EXPECT_LE(R({0, std::pow(10, y)}), 1 + 1e-12);
    EXPECT_LE(R({-std::pow(10, y), std::pow(10, y)}), 1 + 1e-12);
  }
  EXPECT_LT(R(-1e9), 1e-6);
}

// what a Rosenbrock sees of a scene: the rates at its start
struct Evaluated {
  explicit Evaluated(const Scene& scene)
      : workspace(scene.model.impl()), method(scene.model.impl(), *workspace) {
    EvaluationTimes times;
    x = scene.x;
    method.begin({.time = 0, .qpos = x.qpos, .qvel = x.qvel, .act = x.act, .qacc = {}, .act_dot = {}},
                 {.begin = 0, .end = 1, .ctrl = scene.ctrl, .ctrl_end = {}, .qfrc_applied = {},
                  .xfrc_applied = {}},
                 0);
    EXPECT_TRUE(method.place(0) && method.evaluate(0, times));
  }
  State x;
  WorkspaceLease workspace;
  RungeKutta method;
};

class FieldJacobianZoo : public ::testing::TestWithParam<std::string> {};

// rows of the oracle, which shares nothing with the matrices
TEST_P(FieldJacobianZoo, MatchesTheOracle) {
  ModelOptions o{.integrator = Integrator::kRodas4p};
  const Scene fast = zoo(GetParam(), o);
  o.gradient_path = GradientPath::kOracle;
  const Scene slow = zoo(GetParam(), o);
  Matrix a[2], w[2];
  int k = 0;
  for (const Scene* scene : {&fast, &slow}) {
    Evaluated at(*scene);
    FieldJacobian jacobian(scene->model.impl());
    Workspace::Stage& first = at.method.stage(0);
    jacobian.compute(at.method.input_at(0, first), first.qacc, first.nefc, false, *at.workspace);
    a[k] = jacobian.a;
    w[k++] = jacobian.act_dot;
  }
  // measured: 3e-6, by the oracle's differences
  EXPECT_LT((a[0] - a[1]).cwiseAbs().maxCoeff(), 2e-5 * std::max(1.0, a[1].cwiseAbs().maxCoeff()));
  if (w[0].size() > 0) {
    EXPECT_LT((w[0] - w[1]).cwiseAbs().maxCoeff(), 1e-6 * std::max(1.0, w[1].cwiseAbs().maxCoeff()));
  }
}

// κ - W whole, with what the elimination takes out of it
TEST_P(FieldJacobianZoo, SystemsAreSolved) {
  const Scene scene = zoo(GetParam(), {.integrator = Integrator::kRodas4p});
  Evaluated at(scene);
  const int nv = scene.model.nv(), na = scene.model.na(), n = 2 * nv + na;
  FieldJacobian jacobian(scene.model.impl());
  Workspace::Stage& first = at.method.stage(0);
  jacobian.compute(at.method.input_at(0, first), first.qacc, first.nefc, false, *at.workspace);
  ImplicitSystem system(scene.model.impl());
  const mjModel* m = scene.model.mj();
  for (const double chart : {0.5, 1.0}) {
    const double kappa = 300;
    Eigen::MatrixXd whole = Eigen::MatrixXd::Zero(n, n);
    whole.block(0, nv, nv, nv).setIdentity();
    for (int j = 0; j < static_cast<int>(m->njnt); j++) {
      const int type = m->jnt_type[j];
      if (type != mjJNT_FREE && type != mjJNT_BALL) continue;
      const int dof = m->jnt_dofadr[j] + (type == mjJNT_FREE ? 3 : 0);
      const Vector3 v(&scene.x.qvel[static_cast<size_t>(dof)]);
      for (int k = 0; k < 3; k++) {
        whole.block<3, 1>(dof, dof + k) = -chart * v.cross(Vector3(Vector3::Unit(k)));
      }
    }
    whole.middleRows(nv, nv) = jacobian.a.leftCols(n);
    whole.bottomRows(na) = jacobian.act_dot.leftCols(n);
    whole = (kappa * Eigen::MatrixXd::Identity(n, n) - whole).eval();
    ASSERT_TRUE(system.factorize(jacobian, scene.x.qvel, chart, kappa));
    const Eigen::VectorXd r = Eigen::VectorXd::Random(n);
    Eigen::VectorXd x = r, y = r;
    system.solve(x);
    system.solve_transposed(y);
    EXPECT_LT((whole * x - r).norm(), 1e-9 * (1 + whole.norm() * x.norm()));
    EXPECT_LT((whole.transpose() * y - r).norm(), 1e-9 * (1 + whole.norm() * y.norm()));
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, FieldJacobianZoo, ::testing::ValuesIn(zoo_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace diffmj
