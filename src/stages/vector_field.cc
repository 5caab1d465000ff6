#include "stages/vector_field.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "stages/acceleration/constraint_projection.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/noslip.h"
#include "stages/analytic.h"
#include "stages/evaluate_stages.h"
#include "stages/position/constraint_onset.h"
#include "stages/surrogate_field.h"

namespace diffmj {
namespace {

// xfrc_applied acts at the bodies' centres of mass: λᵀ Jᵀ xfrc
void xfrc_pullback(const StageModel& impl, const Matrix& lambda, Matrix& xfrc_bar,
                   Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  double* jacobian = workspace.step.body_jacobian.data();
  const Eigen::Map<const Matrix> J(jacobian, 6, impl.nv);
  for (int body = 1; body < impl.nbody; body++) {
    mj_call("mj_jacBodyCom", [&] { mj_jacBodyCom(m, d, jacobian, jacobian + 3 * impl.nv, body); });
    xfrc_bar.middleCols(6 * body, 6).noalias() += lambda * J.transpose();
  }
}

// g contains -qfrc_applied and -Jᵀ xfrc_applied
void applied_forces_pullback(const StageModel& impl, const Matrix& lambda,
                             const VectorFieldBar& bar, Workspace& workspace) {
  bar.qfrc_applied += lambda;
  if (bar.xfrc_applied.cols() > 0) xfrc_pullback(impl, lambda, bar.xfrc_applied, workspace);
}

// What vector_field_pullback does with a no-slip pass, whose stages and solution are in the
// workspace.
void noslip_oracle_pullback(const StageModel& impl, const OracleProblem& problem,
                            const Matrix& a_bar, const Multipliers& multipliers,
                            const VectorFieldBar& bar, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  const int nv = impl.nv;
  // each cotangent has a problem of its own, and the stages are moved by every one
  for (Eigen::Index c = 0; c < a_bar.rows(); c++) {
    if (c > 0) {
      evaluate_stages(impl, problem.in, workspace);
      noslip_solve(impl, workspace);
    }
    Matrix one = a_bar.row(c), mu(1, nv), lambda;
    mj_call("mj_solveM", [&] {
      mj_factorM(m, d);
      mj_solveM(m, d, mu.data(), one.data(), 1);
    });
    noslip_pullback(impl, row_part(mu, 0, 0, nv), problem.force_bar, row_part(one, 0, 0, nv),
                    workspace);
    projection_pullback(m, d, workspace);
    noslip_jacobian_pullback(d, row_part(mu, 0, 0, nv), workspace);
    solve_lambda(impl, one, lambda, workspace);

    const std::vector<double> qacc = workspace.noslip.qacc;
    std::vector<double> difference(qacc);
    eigen(Vec(difference)) -= eigen(problem.qacc);
    const std::vector<double> force_bar = workspace.noslip.main_force_bar;
    OracleProblem at_main = problem;
    at_main.qacc = qacc;
    at_main.force_bar = force_bar;
    at_main.noslip = true;
    // μᵀ (M a - Mhat b), or μᵀ M (a - b) where the integrator has no matrix of its own
    if (!multipliers.b_bar) at_main.mass_vector = difference;

    const auto row = [c](const Matrix* from, Matrix& to) -> const Matrix* {
      if (!from) return nullptr;
      to = from->row(c);
      return &to;
    };
    Matrix b_bar, act_dot_bar, act_next_bar;
    const Multipliers of_one{.lambda = &lambda,
                             .mu = &mu,
                             .b_bar = row(multipliers.b_bar, b_bar),
                             .act_dot_bar = row(multipliers.act_dot_bar, act_dot_bar),
                             .act_next_bar = row(multipliers.act_next_bar, act_next_bar)};
    Matrix x = bar.x.row(c), ctrl = bar.ctrl.row(c), qfrc = bar.qfrc_applied.row(c),
           xfrc = bar.xfrc_applied.row(c);
    applied_forces_pullback(impl, lambda, {x, ctrl, qfrc, xfrc}, workspace);
    oracle_pullback(impl, at_main, of_one, x, ctrl, workspace);
    oracle_parameters_pullback(impl, at_main, of_one, bar.params, workspace);
    bar.x.row(c) = x;
    bar.ctrl.row(c) = ctrl;
    bar.qfrc_applied.row(c) = qfrc;
    if (xfrc.cols() > 0) bar.xfrc_applied.row(c) = xfrc;
  }
}

}  // namespace

void vector_field(const StageModel& impl, const StepInput& in, Workspace& workspace,
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
  workspace.constraint.onset = impl.options.adaptive.onset;
  if (cfd_forward(impl)) {
    surrogate_field(impl, in, in.qacc_warmstart, workspace);
    lap(times.constraint);
    return;
  }
  try {
    mj_call("mj_forward", [&] {
      write_input(m, d, in);
      mj_fwdPosition(CollidingModel(m), d);
      apply_constraint_onset(m, d, impl.options.adaptive.onset);
      lap(times.position);
      mj_fwdVelocity(m, d);
      if (in.suppression) in.suppression->suppress(d, true);
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

void vector_field_evaluate(const StageModel& impl, const StepInput& in, CVec qacc, bool constrained,
                           Workspace& workspace) {
  impl.differentiation.evaluate(impl, in, constrained, workspace);
  if (constrained) solution_factorize(impl, qacc, workspace);
}

BackwardField backward_field_evaluate(const StageModel& impl, const StepInput& in, CVec qacc,
                                      bool constrained, Workspace& workspace) {
  if (impl.has_surrogate_field()) {
    constrained = surrogate_evaluate(impl, in, qacc, workspace);
    return {workspace.field_qacc, constrained};
  }
  vector_field_evaluate(impl, in, qacc, constrained, workspace);
  return {qacc, constrained};
}

void solution_factorize(const StageModel& impl, CVec qacc, Workspace& workspace) {
  if (has_noslip(impl.mj())) {
    noslip_solve(impl, workspace);
  } else {
    newton_factorize(impl.mj(), workspace.data.get(), qacc, workspace);
  }
}

void solve_lambda(const StageModel& impl, const Matrix& a_bar, Matrix& lambda,
                  Workspace& workspace) {
  lambda.resize(a_bar.rows(), impl.nv);
  for (Eigen::Index i = 0; i < a_bar.rows(); i++) {
    newton_solve(workspace, row_part(a_bar, i, 0, impl.nv), row_part(lambda, i, 0, impl.nv));
  }
}

void oracle_field_pullback(const StageModel& impl, const OracleProblem& problem,
                           const Matrix& a_bar, Multipliers multipliers, const VectorFieldBar& bar,
                           Workspace& workspace) {
  if (has_noslip(impl.mj()) && workspace.data->nefc > 0) {
    noslip_oracle_pullback(impl, problem, a_bar, multipliers, bar, workspace);
    return;
  }
  Matrix& lambda = workspace.step.lambda;
  solve_lambda(impl, a_bar, lambda, workspace);
  applied_forces_pullback(impl, lambda, bar, workspace);
  multipliers.lambda = &lambda;
  oracle_pullback(impl, problem, multipliers, bar.x, bar.ctrl, workspace);
  oracle_parameters_pullback(impl, problem, multipliers, bar.params, workspace);
}

void analytic_field_pullback(const StageModel& impl, const AnalyticProblem& problem,
                             const Matrix& lambda, Multipliers multipliers,
                             const VectorFieldBar& bar, Workspace& workspace) {
  multipliers.lambda = &lambda;
  applied_forces_pullback(impl, lambda, bar, workspace);
  if (!bar.row_params.empty()) {
    analytic_pullback(impl, problem, multipliers, bar.x, bar.ctrl, bar.row_params, workspace);
    return;
  }
  if (!bar.params.any()) {
    analytic_pullback(impl, problem, multipliers, bar.x, bar.ctrl, {&bar.params, 1}, workspace);
    return;
  }
  const ParameterBar rest = oracle_parameters(impl.mj(), bar.params, problem.sensor_bar),
                     own = analytic_parameters(impl.mj(), bar.params, problem.sensor_bar);
  analytic_pullback(impl, problem, multipliers, bar.x, bar.ctrl, {&own, 1}, workspace);
  if (!rest.any()) return;

  // F = M a, which the oracle answers with b
  OracleProblem again{.in = problem.in,
                      .qacc = problem.qacc,
                      .F = multipliers.b_bar ? CVec(workspace.step.F) : CVec(),
                      .act_from = problem.act_from,
                      .act_dot_from = problem.act_dot_from,
                      .act_next = multipliers.act_next_bar != nullptr,
                      .force_bar = problem.force_bar,
                      .sensor_bar = problem.sensor_bar};
  mjData* d = workspace.data.get();
  evaluate_stages(impl, problem.in, workspace);
  newton_factorize(impl.mj(), d, problem.qacc, workspace);
  if (multipliers.b_bar) {
    mj_call("mj_mulM",
            [&] { mj_mulM(impl.mj(), d, workspace.step.F.data(), problem.qacc.data()); });
  }
  std::vector<double> difference;
  if (problem.constrained && has_noslip(impl.mj())) {
    // without what diagexact has in them: the oracle moves R itself
    const CVec mu = row_part(*multipliers.mu, 0, 0, impl.nv);
    std::fill(workspace.noslip.a_bar.begin(), workspace.noslip.a_bar.end(), 0.0);
    noslip_pullback(impl, mu, problem.force_bar, workspace.noslip.a_bar, workspace);
    projection_pullback(impl.mj(), d, workspace);
    noslip_jacobian_pullback(d, mu, workspace);
    again.noslip = true;
    again.force_bar = workspace.noslip.main_force_bar;
    if (!multipliers.b_bar) {
      difference.assign(problem.qacc.begin(), problem.qacc.end());
      eigen(Vec(difference)) -= eigen(problem.b);
      again.mass_vector = difference;
    } else if (d->nefc > 0) {
      mj_call("mj_mulJacTVec", [&] {
        mj_mulJacTVec(impl.mj(), d, workspace.newton.H_lambda.data(),
                      workspace.noslip.change.data());
      });
      eigen(Vec(workspace.step.F)) += eigen(CVec(workspace.newton.H_lambda));
    }
  }
  oracle_parameters_pullback(impl, again, multipliers, rest, workspace);
}

}  // namespace diffmj
