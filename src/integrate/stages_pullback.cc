#include "integrate/stages_pullback.h"

#include <utility>

#include "integrate/metric.h"
#include "mj/collider.h"
#include "stages/acceleration/noslip.h"
#include "stages/surrogate_field.h"

namespace diffmj {

void stage_field_pullback(const StepModel& impl, const StepInput& at, CVec act_from,
                          CVec act_dot_from, Workspace::Stage& stage,
                          const OracleMultipliers& multipliers, const VectorFieldBar& bar,
                          Workspace& workspace) {
  if (impl.path != GradientPath::kAnalytic) {
    vector_field_pullback(impl,
                          {.in = at,
                           .qacc = stage.qacc,
                           .F = {},
                           .act_from = act_from,
                           .act_dot_from = act_dot_from,
                           .act_next = multipliers.act_next_bar != nullptr},
                          stage.a_bar, multipliers, bar, workspace);
    return;
  }
  // gradient: with contacts from distance, or of smooth colliders in the backward pass, the
  // derivative of F̃ in place of that of F
  const ColliderScope scope(impl.backward_collider());
  bool constrained = stage.nefc > 0;
  CVec qacc = stage.qacc;
  if (impl.has_surrogate_field()) {
    constrained = surrogate_evaluate(impl, at, stage.qacc, workspace);
    qacc = workspace.field_qacc;
    if (!constrained) metric_factorize(impl, workspace);
  }
  const bool noslip = constrained && has_noslip(impl.mj());
  const int nv = impl.nv;
  Matrix &lambda = workspace.lambda, &mu = workspace.mu;
  const auto solve_metric = [&](Matrix& to) {
    to.resize(stage.a_bar.rows(), nv);
    for (Eigen::Index c = 0; c < to.rows(); c++) {
      metric_solve_transposed(impl, row_part(std::as_const(stage.a_bar), c, 0, nv),
                              row_part(to, c, 0, nv), workspace);
    }
  };
  OracleMultipliers all = multipliers;
  if (noslip) {
    qacc = workspace.noslip.qacc;
    metric_factorize(impl, workspace);
    solve_metric(mu);
    all.mu = &mu;
    for (Eigen::Index c = 0; c < mu.rows(); c++) {
      noslip_pullback(impl, row_part(mu, c, 0, nv), {}, row_part(stage.a_bar, c, 0, nv), workspace);
    }
  }
  if (constrained) {
    solve_lambda(impl, stage.a_bar, lambda, workspace);
  } else {
    // H is M, and so is Mhat
    solve_metric(lambda);
  }
  analytic_field_pullback(impl,
                          {.in = at,
                           .qacc = qacc,
                           .b = noslip ? CVec(stage.qacc) : CVec(),
                           .act_from = act_from,
                           .act_dot_from = act_dot_from,
                           .constrained = constrained,
                           .has_metric = false},
                          lambda, all, bar, workspace);
}

void step_end_pullback(const StepModel& impl, const Tableau& tableau, double h, StepBar& bar,
                       Workspace& workspace) {
  const int nv = impl.nv;
  const Eigen::Index ncotangent = bar.next.rows();
  Vec U = workspace.F;
  std::fill(U.begin(), U.end(), 0.0);
  for (size_t i = 0; i < tableau.nstage; i++) {
    if (tableau.b[i] != 0) eigen(U) += h * tableau.b[i] * eigen(CVec(workspace.stages[i].k));
  }
  Matrix& U_bar = workspace.b_bar;
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
