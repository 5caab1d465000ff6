#include "stages/acceleration/constraint_solve.h"

#include <cmath>
#include <span>

#include "diffmj/error.h"
#include "mj/call.h"

namespace diffmj {
namespace {

constexpr int kMaxDim = 6;  // rows of one contact

// non-zeros of row i: columns and values; the dense case lists every column
int read_row(const mjModel* m, const mjData* d, int i, int* column, double* value) {
  int n = 0;
  if (mj_isSparse(m)) {
    for (int k = d->efc_J_rowadr[i]; k < d->efc_J_rowadr[i] + d->efc_J_rownnz[i]; k++) {
      column[n] = d->efc_J_colind[k];
      value[n++] = d->efc_J[k];
    }
    return n;
  }
  const auto nv = static_cast<int>(m->nv);
  const double* row = d->efc_J + static_cast<ptrdiff_t>(i) * nv;
  for (int j = 0; j < nv; j++) {
    if (row[j] == 0) continue;
    column[n] = j;
    value[n++] = row[j];
  }
  return n;
}

// S of the rows that share a zone; returns false where it is zero
bool curvature(const mjData* d, Zone zone, CVec y, int i, int dim, double* S) {
  if (zone == Zone::kSatisfied || zone == Zone::kLinear) return false;
  if (zone == Zone::kCone) {
    cone_hessian(d->contact[d->efc_id[i]], d->efc_D[i], &y[static_cast<size_t>(i)], S);
    return true;
  }
  std::fill(S, S + dim * dim, 0.0);
  for (int k = 0; k < dim; k++) S[k * dim + k] = d->efc_D[i + k];
  return true;
}

// I depends on the row's own pos; of connect and weld on the length of all their rows together
void add_impedance_bar(const mjModel* m, const mjData* d, int i, double imp_bar,
                       std::vector<double>& pos_bar) {
  const double slope = d->efc_KBIP[4 * i + 3] * imp_bar;
  const int type = d->efc_type[i] == mjCNSTR_EQUALITY ? m->eq_type[d->efc_id[i]] : -1;
  if (type != mjEQ_CONNECT && type != mjEQ_WELD) {
    pos_bar[static_cast<size_t>(i)] += slope;
    return;
  }
  int first = i;
  while (first > 0 && d->efc_type[first - 1] == mjCNSTR_EQUALITY &&
         d->efc_id[first - 1] == d->efc_id[i]) {
    first--;
  }
  const int size = type == mjEQ_CONNECT ? 3 : 6;
  const double length = mju_norm(d->efc_pos + first, size);
  if (length < mjMINVAL) return;
  for (int k = first; k < first + size; k++) {
    pos_bar[static_cast<size_t>(k)] += slope * d->efc_pos[k] / length;
  }
}

// H = Lᵀ L in place, leaves first: what is behind different joints stays apart, and the cost is
// that of the couplings there are. Reads and writes the lower triangle; false if H is not positive
// definite.
bool factorize(Matrix& H, Workspace& workspace) {
  const auto n = static_cast<int>(H.rows());
  std::vector<int>&column = workspace.newton.factor_column, &row = workspace.newton.factor_row;
  column.clear();
  row.clear();
  row.push_back(0);
  for (int k = n - 1; k >= 0; k--) {
    const size_t begin = column.size();
    if (!(H(k, k) > 0)) return false;
    const double pivot = std::sqrt(H(k, k));
    H(k, k) = pivot;
    for (int j = 0; j < k; j++) {
      if (H(k, j) == 0) continue;
      H(k, j) /= pivot;
      column.push_back(j);
    }
    // neighbours without a gap are one segment of the row, which vectorises
    const auto count = static_cast<int>(column.size() - begin);
    const bool dense = count > 0 && column.back() - column[begin] + 1 == count;
    for (size_t p = begin; p < column.size(); p++) {
      const int i = column[p], first = column[begin];
      const double scale = H(k, i);
      if (dense) {
        H.row(i).segment(first, i - first + 1) -= scale * H.row(k).segment(first, i - first + 1);
      } else {
        for (size_t q = begin; q <= p; q++) H(i, column[q]) -= scale * H(k, column[q]);
      }
    }
    row.push_back(static_cast<int>(column.size()));
  }
  return true;
}

}  // namespace

int constraint_rows_at(const mjData* d, int i) {
  return d->efc_type[i] == mjCNSTR_CONTACT_ELLIPTIC ? d->contact[d->efc_id[i]].dim : 1;
}

Zone constraint_zone(const mjData* d, CVec y, int i) {
  const double* yi = &y[static_cast<size_t>(i)];
  switch (d->efc_type[i]) {
    case mjCNSTR_EQUALITY:
      return Zone::kQuadratic;

    case mjCNSTR_FRICTION_DOF:
    case mjCNSTR_FRICTION_TENDON: {
      const double reach = d->efc_R[i] * d->efc_frictionloss[i];
      return *yi <= -reach || *yi >= reach ? Zone::kLinear : Zone::kQuadratic;
    }

    case mjCNSTR_CONTACT_ELLIPTIC: {
      const mjContact& contact = d->contact[d->efc_id[i]];
      const double mu = contact.mu;
      const double N = mu * yi[0];
      double T2 = 0;
      for (int j = 1; j < contact.dim; j++) {
        T2 += std::pow(contact.friction[j - 1] * yi[j], 2);
      }
      const double T = std::sqrt(T2);
      if (N >= mu * T || (T <= 0 && N >= 0)) return Zone::kSatisfied;
      if (mu * N + T <= 0 || (T <= 0 && N < 0)) return Zone::kQuadratic;
      return Zone::kCone;
    }

    default:  // limits, frictionless and pyramidal contacts
      return *yi >= 0 ? Zone::kSatisfied : Zone::kQuadratic;
  }
}

void cone_hessian(const mjContact& contact, double D0, const double* y, double* S) {
  const int dim = contact.dim;
  const double mu = contact.mu;
  const double Dm = D0 / (mu * mu * (1 + mu * mu));

  // U = scale y is the contact's space in which the cone is round
  double scale[kMaxDim] = {}, U[kMaxDim] = {}, T2 = 0;
  for (int j = 0; j < dim; j++) {
    scale[j] = j == 0 ? mu : contact.friction[j - 1];
    U[j] = scale[j] * y[j];
    if (j > 0) T2 += U[j] * U[j];
  }
  const double N = U[0], T = std::sqrt(T2);

  // with t = U/T the tangent direction:  ∂(N - μT) = (1, -μ t),  ∂²T = (I - t tᵀ)/T
  for (int j = 0; j < dim; j++) {
    for (int k = 0; k < dim; k++) {
      const double tj = j == 0 ? -1 / mu : U[j] / T, tk = k == 0 ? -1 / mu : U[k] / T;
      double s = mu * mu * tj * tk;
      if (j > 0 && k > 0) s -= (N - mu * T) * mu * ((j == k ? 1 : 0) - tj * tk) / T;
      S[j * dim + k] = Dm * scale[j] * scale[k] * s;
    }
  }
}

void constraint_force(const mjData* d, Zone zone, CVec y, int i, Vec f) {
  const int dim = constraint_rows_at(d, i);
  const double* yi = &y[static_cast<size_t>(i)];
  double* fi = &f[static_cast<size_t>(i)];
  switch (zone) {
    case Zone::kSatisfied:
      std::fill(fi, fi + dim, 0.0);
      break;
    case Zone::kQuadratic:
      for (int j = 0; j < dim; j++) fi[j] = -d->efc_D[i + j] * yi[j];
      break;
    case Zone::kLinear:
      *fi = *yi < 0 ? d->efc_frictionloss[i] : -d->efc_frictionloss[i];
      break;
    case Zone::kCone: {
      const mjContact& contact = d->contact[d->efc_id[i]];
      const double mu = contact.mu;
      double T2 = 0;
      for (int j = 1; j < dim; j++) T2 += std::pow(contact.friction[j - 1] * yi[j], 2);
      const double T = std::sqrt(T2);
      // -ds/dy of s = ½ Dm (N - μT)²
      const double slope = d->efc_D[i] / (mu * mu * (1 + mu * mu)) * (mu * yi[0] - mu * T);
      fi[0] = -slope * mu;
      for (int j = 1; j < dim; j++) {
        fi[j] = slope * mu * std::pow(contact.friction[j - 1], 2) * yi[j] / T;
      }
      break;
    }
  }
}

void newton_factorize(const mjModel* m, const mjData* d, CVec qacc, Workspace& workspace) {
  const auto nv = static_cast<size_t>(m->nv);
  Matrix& H = workspace.newton.H;
  read_mass_matrix(m, d, H);

  const int nefc = d->nefc;
  workspace.newton.y.resize(static_cast<size_t>(nefc));
  workspace.newton.zone.resize(static_cast<size_t>(nefc));
  const Vec y = workspace.newton.y;
  if (nefc > 0) {
    mj_call("mj_mulJacVec", [&] { mj_mulJacVec(m, d, y.data(), qacc.data()); });
    for (int i = 0; i < nefc; i++) y[static_cast<size_t>(i)] -= d->efc_aref[i];
  }

  // H = M + Jᵀ S J, one block of rows at a time
  double S[kMaxDim * kMaxDim];
  int count[kMaxDim];
  for (int i = 0, dim = 1; i < nefc; i += dim) {
    dim = constraint_rows_at(d, i);
    const Zone zone = constraint_zone(d, y, i);
    workspace.newton.zone[static_cast<size_t>(i)] = zone;
    if (!curvature(d, zone, y, i, dim, S)) continue;
    for (int k = 0; k < dim; k++) {
      count[k] = read_row(m, d, i + k, &workspace.newton.row_column[static_cast<size_t>(k) * nv],
                          &workspace.newton.row_value[static_cast<size_t>(k) * nv]);
    }
    if (dim == 1) {
      // columns ascend: the lower triangle of one row's outer product
      const int* c = workspace.newton.row_column.data();
      const double* v = workspace.newton.row_value.data();
      for (int p = 0; p < count[0]; p++) {
        const double scale = S[0] * v[p];
        for (int q = 0; q <= p; q++) H(c[p], c[q]) += scale * v[q];
      }
      continue;
    }
    for (int j = 0; j < dim; j++) {
      for (int k = 0; k < dim; k++) {
        const double s = S[j * dim + k];
        if (s == 0) continue;
        const int* cj = &workspace.newton.row_column[static_cast<size_t>(j) * nv];
        const int* ck = &workspace.newton.row_column[static_cast<size_t>(k) * nv];
        const double* vj = &workspace.newton.row_value[static_cast<size_t>(j) * nv];
        const double* vk = &workspace.newton.row_value[static_cast<size_t>(k) * nv];
        for (int p = 0; p < count[j]; p++) {
          for (int q = 0; q < count[k]; q++) {
            if (ck[q] <= cj[p]) H(cj[p], ck[q]) += s * vj[p] * vk[q];
          }
        }
      }
    }
  }

  if (!factorize(H, workspace)) {
    throw Error(
        "newton_factorize: the Newton matrix M + Jᵀ S J is not positive definite; the "
        "model's inertia is singular or its state not finite: add armature to its joints");
  }
}

void mass_factorize(const mjModel* m, const mjData* d, CVec added, Workspace& workspace) {
  Matrix& H = workspace.newton.H;
  read_mass_matrix(m, d, H);
  if (!added.empty()) H.diagonal() += eigen(added);
  if (!factorize(H, workspace)) {
    throw Error(
        "mass_factorize: the mass matrix is not positive definite; the model's inertia is singular "
        "or its state not finite: add armature to its joints");
  }
}

// non-zeros of the factor beside its diagonal, of its k-th row from the last
static std::span<const int> factor_columns(const Workspace& workspace, int k) {
  const auto i = static_cast<size_t>(k);
  return std::span<const int>(workspace.newton.factor_column)
      .subspan(
          static_cast<size_t>(workspace.newton.factor_row[i]),
          static_cast<size_t>(workspace.newton.factor_row[i + 1] - workspace.newton.factor_row[i]));
}

void newton_solve_columns(const Workspace& workspace, Matrix& X) {
  const Matrix& L = workspace.newton.H;
  const auto n = static_cast<int>(L.rows());
  // as newton_solve, a row of all right-hand sides at a time
  for (int k = n - 1; k >= 0; k--) {
    X.row(k) /= L(k, k);
    for (int j : factor_columns(workspace, n - 1 - k)) X.row(j) -= L(k, j) * X.row(k);
  }
  for (int k = 0; k < n; k++) {
    for (int j : factor_columns(workspace, n - 1 - k)) X.row(k) -= L(k, j) * X.row(j);
    X.row(k) /= L(k, k);
  }
}

void newton_solve(const Workspace& workspace, CVec a_bar, Vec lambda) {
  std::copy(a_bar.begin(), a_bar.end(), lambda.begin());
  const Matrix& L = workspace.newton.H;
  const auto n = static_cast<int>(L.rows());
  const auto columns = [&](int k) { return factor_columns(workspace, k); };
  // rows are stored last first: Lᵀ y = a_bar, then L λ = y
  for (int k = n - 1; k >= 0; k--) {
    const double y = lambda[static_cast<size_t>(k)] /= L(k, k);
    for (int j : columns(n - 1 - k)) lambda[static_cast<size_t>(j)] -= L(k, j) * y;
  }
  for (int k = 0; k < n; k++) {
    double x = lambda[static_cast<size_t>(k)];
    for (int j : columns(n - 1 - k)) x -= L(k, j) * lambda[static_cast<size_t>(j)];
    lambda[static_cast<size_t>(k)] = x / L(k, k);
  }
}

void constraint_force_to_acceleration(const mjModel* m, const mjData* d, CVec force_bar, Vec a_bar,
                                      Workspace& workspace) {
  std::vector<double>& p = workspace.constraint.J_lambda;
  p.assign(static_cast<size_t>(d->nefc), 0.0);
  double S[kMaxDim * kMaxDim];
  for (int i = 0, dim = 1; i < d->nefc; i += dim) {
    dim = constraint_rows_at(d, i);
    if (!curvature(d, workspace.newton.zone[static_cast<size_t>(i)], workspace.newton.y, i, dim, S))
      continue;
    for (int j = 0; j < dim; j++) {
      for (int k = 0; k < dim; k++) {
        p[static_cast<size_t>(i + j)] += S[j * dim + k] * force_bar[static_cast<size_t>(i + k)];
      }
    }
  }
  std::vector<double>& JTp = workspace.newton.H_lambda;
  mj_call("mj_mulJacTVec", [&] { mj_mulJacTVec(m, d, JTp.data(), p.data()); });
  eigen(a_bar) -= eigen(CVec(JTp));
}

bool force_scales(const mjData* d, int first, int i, const Workspace& workspace) {
  const bool elliptic = d->efc_type[i] == mjCNSTR_CONTACT_ELLIPTIC;
  const Zone zone = workspace.newton.zone[static_cast<size_t>(elliptic ? first : i)];
  return (zone == Zone::kQuadratic || zone == Zone::kCone) && d->efc_R[i] > mjMINVAL;
}

void constraint_force_pullback(const mjModel* m, const mjData* d, CVec lambda, CVec force_bar,
                               CVec y_bar, Workspace& workspace) {
  const auto nefc = static_cast<size_t>(d->nefc);
  RowsBar& bar = workspace.constraint.rows;
  for (auto* x : {&bar.J_lambda, &bar.J_a, &bar.J_v, &bar.aref, &bar.pos}) x->assign(nefc, 0.0);
  std::vector<double>& J_lambda = workspace.constraint.J_lambda;
  J_lambda.resize(nefc);
  mj_call("mj_mulJacVec", [&] { mj_mulJacVec(m, d, J_lambda.data(), lambda.data()); });
  if (!force_bar.empty()) eigen(Vec(J_lambda)) += eigen(force_bar);

  double S[kMaxDim * kMaxDim];
  for (int i = 0, dim = 1; i < d->nefc; i += dim) {
    dim = constraint_rows_at(d, i);
    const Zone zone = workspace.newton.zone[static_cast<size_t>(i)];
    if (zone == Zone::kSatisfied && y_bar.empty()) continue;
    constraint_force(d, zone, workspace.newton.y, i, bar.J_lambda);
    const bool curved = curvature(d, zone, workspace.newton.y, i, dim, S);
    const bool scales = force_scales(d, i, i, workspace);
    double imp_bar = 0;
    for (int j = 0; j < dim; j++) {
      const auto row = static_cast<size_t>(i + j);
      double p = 0;
      for (int k = 0; k < dim && curved; k++) {
        p += S[j * dim + k] * J_lambda[static_cast<size_t>(i + k)];
      }
      if (!y_bar.empty()) p -= y_bar[row];
      const mjtNum* KBIP = d->efc_KBIP + 4 * (i + j);
      const double K = KBIP[0], B = KBIP[1], imp = KBIP[2];
      bar.J_a[row] = -p;
      bar.aref[row] = p;
      bar.J_v[row] = -B * p;
      const Violation r = row_violation(d, i + j, workspace);
      bar.pos[row] -= K * imp * r.slope * p;
      imp_bar -= K * r.value * p;
      if (scales) imp_bar += bar.J_lambda[row] * J_lambda[row] / (imp * (1 - imp));
    }
    add_impedance_bar(m, d, i, imp_bar, bar.pos);
  }
}

double newton_residual(const mjModel* m, const mjData* d, CVec lambda, CVec a_bar,
                       Workspace& workspace) {
  const double norm = eigen(a_bar).norm();
  if (norm == 0) return 0;
  std::vector<double>& residual = workspace.newton.H_lambda;
  const int nefc = d->nefc;
  std::vector<double> J_lambda(static_cast<size_t>(nefc)), p(J_lambda.size());
  std::vector<double> JTp(static_cast<size_t>(m->nv));
  mj_call("mj_mulM", [&] {
    mj_mulM(m, d, residual.data(), lambda.data());
    if (nefc > 0) mj_mulJacVec(m, d, J_lambda.data(), lambda.data());
  });
  double S[kMaxDim * kMaxDim];
  for (int i = 0, dim = 1; i < nefc; i += dim) {
    dim = constraint_rows_at(d, i);
    const Zone zone = workspace.newton.zone[static_cast<size_t>(i)];
    if (!curvature(d, zone, workspace.newton.y, i, dim, S)) continue;
    for (int j = 0; j < dim; j++) {
      for (int k = 0; k < dim; k++) {
        p[static_cast<size_t>(i + j)] += S[j * dim + k] * J_lambda[static_cast<size_t>(i + k)];
      }
    }
  }
  if (nefc > 0) {
    mj_call("mj_mulJacTVec", [&] { mj_mulJacTVec(m, d, JTp.data(), p.data()); });
    eigen(Vec(residual)) += eigen(CVec(JTp));
  }
  return (eigen(CVec(residual)) - eigen(a_bar)).norm() / norm;
}

}  // namespace diffmj
