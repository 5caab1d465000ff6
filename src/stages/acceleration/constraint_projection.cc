#include "stages/acceleration/constraint_projection.h"

#include <algorithm>

#include "mj/call.h"

namespace diffmj {
namespace {

using MatrixMap = Eigen::Map<Matrix>;

MatrixMap rows_of(std::vector<double>& x, size_t nrow, int nv) {
  return {x.data(), static_cast<Eigen::Index>(nrow), nv};
}

// J_i y
double row_dot(const mjModel* m, const mjData* d, int i, CVec y) {
  if (mj_isSparse(m)) {
    double sum = 0;
    for (int k = d->efc_J_rowadr[i]; k < d->efc_J_rowadr[i] + d->efc_J_rownnz[i]; k++) {
      sum += d->efc_J[k] * y[static_cast<size_t>(d->efc_J_colind[k])];
    }
    return sum;
  }
  return mju_dot(d->efc_J + static_cast<ptrdiff_t>(i) * m->nv, y.data(), static_cast<int>(m->nv));
}

}  // namespace

void projection_read(const mjModel* m, const mjData* d, Workspace& workspace) {
  Projection& p = workspace.projection;
  const bool sparse = mj_isSparse(m) != 0;
  p.begin.assign(1, 0);
  p.column.clear();
  p.A.clear();
  for (int i = 0; i < d->nefc; i++) {
    const int n = sparse ? d->efc_AR_rownnz[i] : d->nefc;
    const int address = sparse ? d->efc_AR_rowadr[i] : i * d->nefc;
    for (int k = 0; k < n; k++) {
      const int column = sparse ? d->efc_AR_colind[address + k] : k;
      p.column.push_back(column);
      p.A.push_back(d->efc_AR[address + k] - (column == i ? d->efc_R[i] : 0));
    }
    p.begin.push_back(static_cast<int>(p.A.size()));
  }
  p.A_bar.assign(p.A.size(), 0.0);
}

void projection_read_diagonal(const mjModel* m, const mjData* d, Workspace& workspace) {
  Projection& p = workspace.projection;
  const auto nv = static_cast<size_t>(m->nv);
  p.begin.assign(1, 0);
  p.column.clear();
  p.A.clear();
  for (int i = 0; i < d->nefc; i++) {
    p.column.push_back(i);
    p.A.push_back(row_dot(m, d, i, CVec(p.Z).subspan(static_cast<size_t>(i) * nv, nv)));
    p.begin.push_back(i + 1);
  }
  p.A_bar.assign(p.A.size(), 0.0);
}

void projection_solve(const mjModel* m, mjData* d, Workspace& workspace) {
  Projection& p = workspace.projection;
  const auto nefc = static_cast<size_t>(d->nefc), nv = static_cast<size_t>(m->nv);
  p.Z.resize(nefc * nv);
  // J_bar is free until the pullback
  p.J_bar.assign(nefc * nv, 0.0);
  for (int i = 0; i < d->nefc; i++) {
    double* row = &p.J_bar[static_cast<size_t>(i) * nv];
    if (!mj_isSparse(m)) {
      std::copy_n(d->efc_J + static_cast<size_t>(i) * nv, nv, row);
      continue;
    }
    for (int k = d->efc_J_rowadr[i]; k < d->efc_J_rowadr[i] + d->efc_J_rownnz[i]; k++) {
      row[d->efc_J_colind[k]] = d->efc_J[k];
    }
  }
  if (nefc == 0) return;
  mj_call("mj_solveM", [&] { mj_solveM(m, d, p.Z.data(), p.J_bar.data(), d->nefc); });
}

void projection_pullback(const mjModel* m, const mjData* d, Workspace& workspace) {
  Projection& p = workspace.projection;
  const auto nefc = static_cast<size_t>(d->nefc);
  const auto nv = static_cast<int>(m->nv);
  p.J_bar.assign(nefc * static_cast<size_t>(nv), 0.0);
  p.M_bar.resize(static_cast<size_t>(nv) * static_cast<size_t>(nv));
  MatrixMap Z = rows_of(p.Z, nefc, nv), J_bar = rows_of(p.J_bar, nefc, nv);
  for (size_t i = 0; i < nefc; i++) {
    const auto row = static_cast<Eigen::Index>(i);
    for (int e = p.begin[i]; e < p.begin[i + 1]; e++) {
      const double bar = p.A_bar[static_cast<size_t>(e)];
      if (bar == 0) continue;
      const Eigen::Index column = p.column[static_cast<size_t>(e)];
      J_bar.row(row) += bar * Z.row(column);
      J_bar.row(column) += bar * Z.row(row);
    }
  }
  rows_of(p.M_bar, static_cast<size_t>(nv), nv).noalias() = -0.5 * (Z.transpose() * J_bar);
}

}  // namespace diffmj
