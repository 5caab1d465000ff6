#include "integrate/field_pullback.h"

#include <utility>

#include "integrate/metric.h"
#include "mj/collider.h"
#include "stages/acceleration/noslip.h"
#include "stages/surrogate_field.h"

namespace diffmj {
namespace {

// M μ = a_bar, every row; M must be factorised
void solve_mass(const StepModel& impl, const Matrix& a_bar, Matrix& mu, Workspace& workspace) {
  mu.resize(a_bar.rows(), impl.nv);
  for (Eigen::Index c = 0; c < mu.rows(); c++) {
    metric_solve_transposed(impl, row_part(a_bar, c, 0, impl.nv), row_part(mu, c, 0, impl.nv),
                            workspace);
  }
}

// What the pullback reads, where it was not evaluated yet. A surrogate field is evaluated in place
// of F.
void evaluate_point(const StepModel& impl, const FieldPoint& at, bool constrained,
                    Workspace& workspace) {
  if (impl.has_surrogate_field()) return;
  if (!at.evaluated) {
    vector_field_evaluate(impl, at.in, at.qacc, constrained, workspace);
    if (!constrained) metric_factorize(impl, workspace);
  } else if (constrained) {
    solution_factorize(impl, at.qacc, workspace);
  }
}

}  // namespace

void analytic_point_pullback(const StepModel& impl, const FieldPoint& at, Matrix& a_bar,
                             const Multipliers& given, const VectorFieldBar& bar,
                             Workspace& workspace) {
  evaluate_point(impl, at, at.nefc > 0, workspace);
  Multipliers multipliers = given;
  // gradient: with contacts from distance, or of smooth colliders in the backward pass, the
  // derivative of F̃ in place of that of F
  const ColliderScope scope(impl.backward_collider());
  bool constrained = at.nefc > 0;
  CVec qacc = at.qacc;
  if (impl.has_surrogate_field()) {
    constrained = surrogate_evaluate(impl, at.in, at.qacc, workspace);
    qacc = workspace.field_qacc;
    if (!constrained) metric_factorize(impl, workspace);
  }
  const bool noslip = constrained && has_noslip(impl.mj());
  const int nv = impl.nv;
  Matrix &lambda = workspace.step.lambda, &mu = workspace.step.mu;
  if (noslip) {
    qacc = workspace.noslip.qacc;
    metric_factorize(impl, workspace);
    solve_mass(impl, a_bar, mu, workspace);
    multipliers.mu = &mu;
    for (Eigen::Index c = 0; c < mu.rows(); c++) {
      noslip_pullback(impl, row_part(std::as_const(mu), c, 0, nv), {}, row_part(a_bar, c, 0, nv),
                      workspace);
    }
  }
  if (constrained) {
    solve_lambda(impl, a_bar, lambda, workspace);
  } else {
    // H is M, and so is Mhat
    solve_mass(impl, a_bar, lambda, workspace);
  }
  analytic_field_pullback(impl,
                          {.in = at.in,
                           .qacc = qacc,
                           .b = noslip ? at.qacc : CVec(),
                           .act_from = at.act_from,
                           .act_dot_from = at.act_dot_from,
                           .constrained = constrained,
                           .has_metric = false},
                          lambda, multipliers, bar, workspace);
}

void oracle_point_pullback(const StepModel& impl, const FieldPoint& at, Matrix& a_bar,
                           const Multipliers& multipliers, const VectorFieldBar& bar,
                           Workspace& workspace) {
  evaluate_point(impl, at, true, workspace);  // H is read in any case
  oracle_field_pullback(impl,
                        {.in = at.in,
                         .qacc = at.qacc,
                         .F = {},
                         .act_from = at.act_from,
                         .act_dot_from = at.act_dot_from,
                         .act_next = multipliers.act_next_bar != nullptr},
                        a_bar, multipliers, bar, workspace);
}

void field_pullback(const StepModel& impl, const FieldPoint& at, Matrix& a_bar,
                    const Multipliers& multipliers, const VectorFieldBar& bar,
                    Workspace& workspace) {
  impl.differentiation.field_pullback(impl, at, a_bar, multipliers, bar, workspace);
}

}  // namespace diffmj
