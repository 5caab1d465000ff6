#include "stages/vector_field.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/surrogate_field.h"

namespace diffmj {
namespace {

// xfrc_applied acts at the bodies' centres of mass: λᵀ Jᵀ xfrc
void xfrc_pullback(const ModelImpl& impl, const Matrix& lambda, Matrix& xfrc_bar,
                   Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  double* jacobian = workspace.body_jacobian.data();
  const Eigen::Map<const Matrix> J(jacobian, 6, impl.nv);
  for (int body = 1; body < impl.nbody; body++) {
    mj_call("mj_jacBodyCom", [&] { mj_jacBodyCom(m, d, jacobian, jacobian + 3 * impl.nv, body); });
    xfrc_bar.middleCols(6 * body, 6).noalias() += lambda * J.transpose();
  }
}

// g contains -qfrc_applied and -Jᵀ xfrc_applied
void applied_forces_pullback(const ModelImpl& impl, const Matrix& lambda, const VectorFieldBar& bar,
                             Workspace& workspace) {
  bar.qfrc_applied += lambda;
  if (bar.xfrc_applied.cols() > 0) xfrc_pullback(impl, lambda, bar.xfrc_applied, workspace);
}

}  // namespace

void vector_field(const ModelImpl& impl, const StepInput& in, Workspace& workspace,
                  EvaluationTimes& times) {
  using Clock = std::chrono::steady_clock;
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  Clock::time_point last = Clock::now();
  const auto lap = [&last](double& seconds) {
    const Clock::time_point now = Clock::now();
    seconds += std::chrono::duration<double>(now - last).count();
    last = now;
  };
  times.count++;
  if (cfd_forward(impl)) {
    surrogate_field(impl, in, in.qacc_warmstart, workspace);
    lap(times.constraint);
    return;
  }
  try {
    mj_call("mj_forward", [&] {
      write_input(m, d, in);
      mj_fwdPosition(CollidingModel(m), d);
      lap(times.position);
      mj_fwdVelocity(m, d);
      if (in.mask) in.mask->hold(d);
      lap(times.velocity);
      mj_fwdActuation(m, d);
      lap(times.actuation);
      mj_fwdAcceleration(m, d);
      lap(times.acceleration);
      mj_fwdConstraint(m, d);
      lap(times.constraint);
    });
    for (int i = 0; i < std::max(1, std::min(d->nisland, +mjNISLAND)); i++) {
      times.solver_niter += d->solver_niter[i];
    }
  } catch (const MujocoError&) {
    reset_keeping_mocap(impl, workspace);
    throw;
  }
}

void vector_field_evaluate(const ModelImpl& impl, const StepInput& in, CVec qacc, bool constrained,
                           Workspace& workspace) {
  if (impl.path == GradientPath::kAnalytic) {
    evaluate_analytic(impl, in, constrained, workspace);
  } else {
    evaluate_stages(impl, in, workspace);
  }
  if (constrained) newton_factorize(impl.mj(), workspace.data.get(), qacc, workspace);
}

void solve_lambda(const ModelImpl& impl, const Matrix& a_bar, Matrix& lambda,
                  Workspace& workspace) {
  lambda.resize(a_bar.rows(), impl.nv);
  for (Eigen::Index i = 0; i < a_bar.rows(); i++) {
    newton_solve(workspace, row_part(a_bar, i, 0, impl.nv), row_part(lambda, i, 0, impl.nv));
  }
}

void vector_field_pullback(const ModelImpl& impl, const OracleProblem& problem, const Matrix& a_bar,
                           OracleMultipliers multipliers, const VectorFieldBar& bar,
                           Workspace& workspace) {
  Matrix& lambda = workspace.lambda;
  solve_lambda(impl, a_bar, lambda, workspace);
  applied_forces_pullback(impl, lambda, bar, workspace);
  multipliers.lambda = &lambda;
  oracle_pullback(impl, problem, multipliers, bar.x, bar.ctrl, workspace);
  oracle_parameters_pullback(impl, problem, multipliers, bar.params, workspace);
}

void analytic_field_pullback(const ModelImpl& impl, const AnalyticProblem& problem,
                             const Matrix& lambda, OracleMultipliers multipliers,
                             const VectorFieldBar& bar, Workspace& workspace) {
  multipliers.lambda = &lambda;
  applied_forces_pullback(impl, lambda, bar, workspace);
  const ParameterBar rest = oracle_parameters(impl.mj(), bar.params);
  ParameterBar params = bar.params;
  for (size_t i = 0; i < params.field.size(); i++) {
    if (!rest.field[i].empty()) params.field[i] = {};
  }
  analytic_pullback(impl, problem, multipliers, bar.x, bar.ctrl, params, workspace);
  if (!rest.any()) return;

  // F = M a, which the oracle answers with b
  const OracleProblem again{.in = problem.in,
                            .qacc = problem.qacc,
                            .F = multipliers.b_bar ? CVec(workspace.F) : CVec(),
                            .act_from = problem.act_from,
                            .act_dot_from = problem.act_dot_from,
                            .act_next = multipliers.act_next_bar != nullptr,
                            .force_bar = problem.force_bar};
  evaluate_stages(impl, problem.in, workspace);
  if (multipliers.b_bar) {
    mj_call("mj_mulM", [&] {
      mj_mulM(impl.mj(), workspace.data.get(), workspace.F.data(), problem.qacc.data());
    });
  }
  newton_factorize(impl.mj(), workspace.data.get(), problem.qacc, workspace);
  oracle_parameters_pullback(impl, again, multipliers, rest, workspace);
}

}  // namespace diffmj
