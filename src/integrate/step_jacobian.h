// Derivatives of one step as matrices, x' = f(x, u, θ) in the tangent space:
//
//   A = ∂x'/∂x,   B = ∂x'/∂u,   P = ∂x'/∂θ,   Q = ∂x'/∂(qfrc_applied)
//
// Euler, implicit, implicitfast:  v' = v + h b,  q' = q ⊕ h v',  act' = next(act, act_dot). Only b
// takes derivatives of the dynamics. Rows of q' follow from those of v', and all rows of act' are
// one pullback, since each activation depends on itself and its control alone
// (docs/derivations/steps.md, eq. 15 and 16). ∂b comes from the field's matrices
// (stages/field_matrix.h) and one factorisation; of parameters beside those of actuators, and where
// the model has something without a matrix form, from one pullback per row. Other steps take one
// per row of x'.
#ifndef DIFFMJ_INTEGRATE_STEP_JACOBIAN_H_
#define DIFFMJ_INTEGRATE_STEP_JACOBIAN_H_

#include <vector>

#include "integrate/step.h"
#include "stages/field_matrix.h"

namespace diffmj {

struct StepJacobian {
  Matrix A, B, P, Q;  // 2 nv + na rows each
  Matrix B_end;       // where controls are linear, by those of the next row; else 0

  void resize(const StepModel& impl, const ParameterColumns& columns);

  // Scratch of step_jacobian.
  FieldMatrix field;
  Matrix X, MX;
  StepBar bar;
  Matrix row_P;
  std::vector<ParameterBar> row_params;
};

struct StepJacobianOptions {
  bool applied = true;   // Q is wanted, too
  bool by_rows = false;  // never by the field's matrices
};

// As step_pullback, whose rows these are: in and qacc of a step that was taken. Sets out.
void step_jacobian(const StepModel& impl, const StepInput& in, CVec qacc,
                   const ParameterColumns& columns, const StepJacobianOptions& options,
                   StepJacobian& out, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_STEP_JACOBIAN_H_
