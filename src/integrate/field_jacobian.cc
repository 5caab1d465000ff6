#include "integrate/field_jacobian.h"

#include <algorithm>
#include <utility>

#include "integrate/field_pullback.h"
#include "integrate/metric.h"
#include "integrate/step_jacobian.h"
#include "mj/collider.h"
#include "stages/acceleration/actuation.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/surrogate_field.h"

namespace diffmj {

FieldJacobian::FieldJacobian(const StepModel& impl)
    : impl_(impl),
      diagonal_(for_each_activation(impl.mj(), [](int, int, int) {})),
      has_matrices_(diagonal_ && FieldMatrix::obstacle(impl).empty()) {
  const int width = 2 * impl.nv + impl.na + impl.nu;
  a.setZero(impl.nv, width);
  act_dot.setZero(impl.na, width);
  ones_.setOnes(1, impl.na);
  x_bar_.setZero(1, 2 * impl.nv + impl.na);
  ctrl_bar_.setZero(1, impl.nu);
}

void FieldJacobian::compute(const StepInput& in, CVec qacc, int nefc, bool backward,
                            Workspace& workspace) {
  const ColliderScope scope(backward ? impl_.backward_collider() : impl_.collider());
  const bool surrogate = backward ? impl_.has_surrogate_field() : cfd_forward(impl_);
  if (has_matrices_) {
    by_matrices(in, qacc, nefc, surrogate, workspace);
    activation_rows(in, workspace);
  } else {
    by_rows(in, qacc, nefc, workspace);
  }
}

void FieldJacobian::by_matrices(const StepInput& in, CVec qacc, int nefc, bool surrogate,
                                Workspace& workspace) {
  bool constrained = nefc > 0;
  if (surrogate) {
    constrained = surrogate_evaluate(impl_, in, qacc, workspace);
    qacc = workspace.field_qacc;
  } else {
    vector_field_evaluate(impl_, in, qacc, constrained, workspace);
  }
  const ParameterColumns none;
  field_.compute(impl_,
                 {.in = in,
                  .qacc = qacc,
                  .b = {},
                  .act_from = {},
                  .act_dot_from = {},
                  .constrained = constrained,
                  .has_metric = false},
                 none, workspace);
  a = field_.G;
  if (constrained) {
    newton_solve_columns(workspace, a);
  } else {
    metric_solve_columns(impl_, a, workspace);
  }
}

// all of them are one pullback
void FieldJacobian::activation_rows(const StepInput& in, Workspace& workspace) {
  const int nv = impl_.nv, na = impl_.na;
  if (na == 0) return;
  x_bar_.setZero();
  ctrl_bar_.setZero();
  activation_pullback(impl_, in, row_part(std::as_const(ones_), 0, 0, na), {}, x_bar_, ctrl_bar_,
                      {}, workspace);
  act_dot.setZero();
  for_each_activation(impl_.mj(), [&](int, int act, int control) {
    act_dot(act, 2 * nv + act) = x_bar_(0, 2 * nv + act);
    if (control >= 0) act_dot(act, 2 * nv + na + control) = ctrl_bar_(0, control);
  });
}

void FieldJacobian::by_rows(const StepInput& in, CVec qacc, int nefc, Workspace& workspace) {
  const int nv = impl_.nv, na = impl_.na, nrow = nv + na;
  rows_x_.setZero(nrow, 2 * nv + na);
  rows_ctrl_.setZero(nrow, impl_.nu);
  rows_qfrc_.setZero(nrow, nv);
  rows_xfrc_.setZero(nrow, 0);
  a_bar_.setZero(nrow, nv);
  a_bar_.topRows(nv).setIdentity();
  act_dot_bar_.setZero(nrow, na);
  act_dot_bar_.bottomRows(na).setIdentity();
  Multipliers multipliers;
  if (na > 0) multipliers.act_dot_bar = &act_dot_bar_;
  field_pullback(impl_, {.in = in, .qacc = qacc, .nefc = nefc}, a_bar_, multipliers,
                 {rows_x_, rows_ctrl_, rows_qfrc_, rows_xfrc_}, workspace);
  a.leftCols(2 * nv + na) = rows_x_.topRows(nv);
  a.rightCols(impl_.nu) = rows_ctrl_.topRows(nv);
  act_dot.leftCols(2 * nv + na) = rows_x_.bottomRows(na);
  act_dot.rightCols(impl_.nu) = rows_ctrl_.bottomRows(na);
}

}  // namespace diffmj
