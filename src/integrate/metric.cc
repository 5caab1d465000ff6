#include "integrate/metric.h"

#include "base/dual.h"
#include "mj/call.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/oracle.h"
#include "stages/velocity/passive.h"

// Exported by libmujoco, which mj_implicit calls first: derivatives of the smooth forces by qvel
// into qDeriv; flg_bias: with those of c.
extern "C" MJAPI void mjd_smooth_vel(  // NOLINT(readability-identifier-naming)
    const mjModel* m, mjData* d, int flg_bias);

namespace diffmj {
namespace {

// ∂c/∂v of a lone free body, by its dofs (velocity of its origin in the world, angular
// velocity in its own axes): c depends on the latter only
Eigen::Matrix<double, 6, 3> free_body_bias(const mjModel* m, const mjData* d, int body) {
  using T = Dual<3>;
  using VectorT = Eigen::Matrix<T, 3, 1>;
  const auto cross = [](const VectorT& a, const VectorT& b) {
    return VectorT(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]);
  };
  const auto mul = [](const Eigen::Matrix3d& A, const VectorT& x) {
    VectorT y;
    for (int i = 0; i < 3; i++) y[i] = A(i, 0) * x[0] + A(i, 1) * x[1] + A(i, 2) * x[2];
    return y;
  };
  const Rotation R(d->xmat + 9 * body);
  // with what is welded to it, about the common centre of mass: the origin of its tree
  const SpatialInertia I(d->crb + 10 * static_cast<ptrdiff_t>(body));
  const Vector3 lever = -from_origin(m, d, body, d->xpos + 3 * body);
  const int dof = m->body_dofadr[body];
  VectorT w, s;
  for (int k = 0; k < 3; k++) {
    w[k] = T(d->qvel[dof + 3 + k]);
    w[k].d[static_cast<size_t>(k)] = 1;
    s[k] = T(lever[k]);
  }
  w = mul(R, w);
  VectorT force = cross(w, cross(w, s));
  for (int k = 0; k < 3; k++) force[k] = I.mass * force[k];
  const VectorT lever_torque = cross(s, force), gyroscopic = cross(w, mul(I.rotational, w));
  VectorT torque;
  for (int k = 0; k < 3; k++) torque[k] = lever_torque[k] + gyroscopic[k];
  torque = mul(R.transpose(), torque);
  Eigen::Matrix<double, 6, 3> out;
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 3; k++) {
      out(i, k) = force[i].d[static_cast<size_t>(k)];
      out(3 + i, k) = torque[i].d[static_cast<size_t>(k)];
    }
  }
  return out;
}

bool alone(const mjModel* m, int dof) {
  return m->opt.integrator == mjINT_IMPLICITFAST && is_lone_free_body(m, m->dof_bodyid[dof]);
}

// Calls fn(j) for the non-zeros j < i of row i: D's, or all of a lone free body, or none.
template <class Fn>
void for_each_lower(const mjModel* m, int i, Fn&& fn) {
  if (alone(m, i)) {
    for (int j = m->body_dofadr[m->dof_bodyid[i]]; j < i; j++) fn(j);
  } else if (!metric_is_diagonal(m, i)) {
    for (int p = m->D_rowadr[i]; m->D_colind[p] < i; p++) fn(m->D_colind[p]);
  }
}

// A = U L: U unit upper, L lower, both in place
void factorize(const mjModel* m, Matrix& A) {
  for (int i = static_cast<int>(m->nv) - 1; i >= 0; i--) {
    for_each_lower(m, i, [&](int j) {
      const double u = A(j, i) /= A(i, i);
      for_each_lower(m, i, [&](int k) { A(j, k) -= u * A(i, k); });
    });
  }
}

void solve_transposed(const mjModel* m, const Matrix& A, Vec x) {
  // Lᵀ z = r
  for (int i = static_cast<int>(m->nv) - 1; i >= 0; i--) {
    const double z = x[static_cast<size_t>(i)] /= A(i, i);
    for_each_lower(m, i, [&](int j) { x[static_cast<size_t>(j)] -= A(i, j) * z; });
  }
  // Uᵀ x = z
  for (int i = 0; i < static_cast<int>(m->nv); i++) {
    for_each_lower(
        m, i, [&](int j) { x[static_cast<size_t>(i)] -= A(j, i) * x[static_cast<size_t>(j)]; });
  }
}

void solve_columns(const mjModel* m, const Matrix& A, Matrix& X) {
  // U Z = X
  for (int i = static_cast<int>(m->nv) - 1; i >= 0; i--) {
    for_each_lower(m, i, [&](int j) { X.row(j) -= A(j, i) * X.row(i); });
  }
  // L X = Z
  for (int i = 0; i < static_cast<int>(m->nv); i++) {
    for_each_lower(m, i, [&](int j) { X.row(i) -= A(i, j) * X.row(j); });
    X.row(i) /= A(i, i);
  }
}

void implicit_metric(const StepModel& impl, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  const double h = m->opt.timestep;
  mj_call("mjd_smooth_vel",
          [&] { mjd_smooth_vel(m, d, m->opt.integrator == mjINT_IMPLICIT ? 1 : 0); });
  Matrix& A = workspace.response;
  for (int i = 0; i < impl.nv; i++) {
    if (alone(m, i) && i == m->body_dofadr[m->dof_bodyid[i]]) A.block<6, 6>(i, i).setZero();
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
  for (int i = 0; i < impl.nv; i++) {
    const int body = m->dof_bodyid[i];
    if (!alone(m, i) || i != m->body_dofadr[body]) continue;
    A.block<6, 3>(i, i + 3) += h * free_body_bias(m, d, body);
  }
  factorize(m, A);
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
  Vec saved = workspace.saved_qvel;
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
    solve_transposed(m, workspace.response, mu);
    return;
  }
  mj_call("mj_solveM", [&] { mj_solveM(m, d, mu.data(), b_bar.data(), 1); });
}

void metric_solve_columns(const StepModel& impl, Matrix& X, Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  if (impl.advance == Advance::kImplicit) {
    implicit_metric(impl, workspace);
    solve_columns(m, workspace.response, X);
    return;
  }
  Vec damping = workspace.saved_qvel;
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
