#include "stages/acceleration/constraint_diagonal.h"

#include "stages/acceleration/constraint_solve.h"

namespace diffmj {
namespace {

// rows from i on that have the A of row i
int rows_of_diagonal(const mjData* d, int i) {
  const int type = d->efc_type[i];
  if (type == mjCNSTR_CONTACT_PYRAMIDAL) return 2 * (d->contact[d->efc_id[i]].dim - 1);
  return constraint_rows_at(d, i);
}

}  // namespace

void constraint_diagonal_pullback(const mjData* d, Workspace& workspace) {
  const RowsBar& bar = workspace.constraint.rows;
  Projection& p = workspace.projection;
  for (int i = 0, n = 1; i < d->nefc; i += n) {
    n = rows_of_diagonal(d, i);
    double log_A_bar = 0;
    for (int k = i; k < i + n; k++) {
      const auto row = static_cast<size_t>(k);
      if (!force_scales(d, i, k, workspace)) continue;
      log_A_bar -= bar.J_lambda[row] * workspace.constraint.J_lambda[row];
    }
    if (log_A_bar == 0) continue;
    const auto row = static_cast<size_t>(i);
    for (int e = p.begin[row]; e < p.begin[row + 1]; e++) {
      const auto entry = static_cast<size_t>(e);
      if (p.column[entry] == i) p.A_bar[entry] += log_A_bar / p.A[entry];
    }
  }
}

}  // namespace diffmj
