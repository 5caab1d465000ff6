#include "integrate/stages_pullback.h"

#include <algorithm>

namespace diffmj {

void step_end_pullback(const StepModel& impl, const Tableau& tableau, double h, StepBar& bar,
                       Workspace& workspace) {
  const int nv = impl.nv;
  const Eigen::Index ncotangent = bar.next.rows();
  Vec U = workspace.step.F;
  std::fill(U.begin(), U.end(), 0.0);
  for (size_t i = 0; i < tableau.nstage; i++) {
    if (tableau.b[i] != 0) eigen(U) += h * tableau.b[i] * eigen(CVec(workspace.stages[i].k));
  }
  Matrix& U_bar = workspace.step.b_bar;
  U_bar.setZero(ncotangent, nv);
  for (Eigen::Index c = 0; c < ncotangent; c++) {
    integrate_pos_pullback(impl.mj(), U, row_part(bar.next, c, 0, nv), row_part(bar.x, c, 0, nv),
                           row_part(U_bar, c, 0, nv));
  }
  bar.x.middleCols(nv, nv) += bar.next.middleCols(nv, nv);
  for (size_t i = 0; i < tableau.nstage; i++) {
    Workspace::Stage& stage = workspace.stages[i];
    stage.k_bar = h * tableau.b[i] * U_bar;
    stage.a_bar = h * tableau.b[i] * bar.next.middleCols(nv, nv);
    stage.u_bar.setZero(ncotangent, nv);
    stage.x_bar.setZero(ncotangent, 2 * nv + impl.na);
  }
}

}  // namespace diffmj
