#include "integrate/metric.h"

#include "mj/call.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/inverse_dynamics.h"
#include "stages/velocity/passive.h"

// Exported by libmujoco, which mj_implicit calls first: derivatives of the smooth forces by qvel
// into qDeriv; flg_bias: with those of c.
extern "C" MJAPI void mjd_smooth_vel(  // NOLINT(readability-identifier-naming)
    const mjModel* m, mjData* d, int flg_bias);

namespace diffmj {
namespace {

// A = U L: U unit upper, L lower, both in place
void factorize(const MetricPattern& pattern, Matrix& A) {
  for (int i = static_cast<int>(A.rows()) - 1; i >= 0; i--) {
    const std::span<const int> row = pattern.row(i);
    const double pivot = A(i, i);
    for (const int j : row) {
      const double u = A(j, i) /= pivot;
      for (const int k : row) A(j, k) -= u * A(i, k);
    }
  }
}

void solve_transposed(const MetricPattern& pattern, const Matrix& A, Vec x) {
  const auto nv = static_cast<int>(A.rows());
  // Lᵀ z = r
  for (int i = nv - 1; i >= 0; i--) {
    const double z = x[static_cast<size_t>(i)] /= A(i, i);
    for (const int j : pattern.row(i)) x[static_cast<size_t>(j)] -= A(i, j) * z;
  }
  // Uᵀ x = z
  for (int i = 0; i < nv; i++) {
    for (const int j : pattern.row(i)) {
      x[static_cast<size_t>(i)] -= A(j, i) * x[static_cast<size_t>(j)];
    }
  }
}

void solve_columns(const MetricPattern& pattern, const Matrix& A, Matrix& X) {
  const auto nv = static_cast<int>(A.rows());
  // U Z = X
  for (int i = nv - 1; i >= 0; i--) {
    for (const int j : pattern.row(i)) X.row(j) -= A(j, i) * X.row(i);
  }
  // L X = Z
  for (int i = 0; i < nv; i++) {
    for (const int j : pattern.row(i)) X.row(i) -= A(i, j) * X.row(j);
    X.row(i) /= A(i, i);
  }
}

void implicit_metric(const StepModel& impl, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  const double h = m->opt.timestep;
  mj_call("mjd_smooth_vel",
          [&] { mjd_smooth_vel(m, d, m->opt.integrator == mjINT_IMPLICIT ? 1 : 0); });
  Matrix& A = workspace.step.response;
  for (const int body : impl.metric_pattern.free_bodies) {
    const int i = m->body_dofadr[body];
    A.block<6, 6>(i, i).setZero();
  }
  for (int i = 0; i < impl.nv; i++) {
    for (int p = m->D_rowadr[i]; p < m->D_rowadr[i] + m->D_rownnz[i]; p++) {
      A(i, m->D_colind[p]) = -h * d->qDeriv[p];
    }
  }
  for (int i = 0; i < impl.nv; i++) {
    for (int p = m->M_rowadr[i]; p < m->M_rowadr[i] + m->M_rownnz[i]; p++) {
      const int j = m->M_colind[p];
      A(i, j) += d->M[p];
      if (j != i) A(j, i) += d->M[p];
    }
  }
  for (const int body : impl.metric_pattern.free_bodies) {
    const int i = m->body_dofadr[body];
    A.block<6, 3>(i, i + 3) += h * FreeBodyBias(m, d, body).by_velocity(Vector3(d->qvel + i + 3));
  }
  factorize(impl.metric_pattern, A);
}

}  // namespace

void metric_factorize(const StepModel& impl, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  if (impl.advance == Advance::kImplicit) {
    implicit_metric(impl, workspace);
    return;
  }
  const bool damped = impl.advance == Advance::kImplicitSymmetric;
  const auto diagonal = [&](int i) { return m->M_rowadr[i] + m->M_rownnz[i] - 1; };
  Vec saved = workspace.probes.saved_qvel;
  for (int i = 0; i < impl.nv && damped; i++) {
    saved[static_cast<size_t>(i)] = d->M[diagonal(i)];
    d->M[diagonal(i)] += m->opt.timestep * Damping(m, i).slope(d->qvel[i]);
  }
  mj_call("mj_factorM", [&] { mj_factorM(m, d); });
  for (int i = 0; i < impl.nv && damped; i++) d->M[diagonal(i)] = saved[static_cast<size_t>(i)];
}

void metric_solve_transposed(const StepModel& impl, CVec b_bar, Vec mu, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  if (impl.advance == Advance::kImplicit) {
    std::copy(b_bar.begin(), b_bar.end(), mu.begin());
    solve_transposed(impl.metric_pattern, workspace.step.response, mu);
    return;
  }
  mj_call("mj_solveM", [&] { mj_solveM(m, d, mu.data(), b_bar.data(), 1); });
}

void metric_solve_columns(const StepModel& impl, Matrix& X, Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  if (impl.advance == Advance::kImplicit) {
    implicit_metric(impl, workspace);
    solve_columns(impl.metric_pattern, workspace.step.response, X);
    return;
  }
  Vec damping = workspace.probes.saved_qvel;
  const bool damped = impl.advance == Advance::kImplicitSymmetric;
  for (int i = 0; i < impl.nv && damped; i++) {
    damping[static_cast<size_t>(i)] = m->opt.timestep * Damping(m, i).slope(d->qvel[i]);
  }
  mass_factorize(m, d, damped ? CVec(damping) : CVec(), workspace);
  newton_solve_columns(workspace, X);
}

void mass_multiply_columns(const mjModel* m, const mjData* d, const Matrix& X, Matrix& to) {
  to.setZero(X.rows(), X.cols());
  for (int i = 0; i < static_cast<int>(m->nv); i++) {
    for (int p = m->M_rowadr[i]; p < m->M_rowadr[i] + m->M_rownnz[i]; p++) {
      const int j = m->M_colind[p];
      to.row(i) += d->M[p] * X.row(j);
      if (j != i) to.row(j) += d->M[p] * X.row(i);
    }
  }
}

}  // namespace diffmj
