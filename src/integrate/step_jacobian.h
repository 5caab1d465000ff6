// Derivatives of one step as matrices, x' = f(x, u, θ) in the tangent space:
//
//   A = ∂x'/∂x,   B = ∂x'/∂u,   P = ∂x'/∂θ,   Q = ∂x'/∂(qfrc_applied)
//
// Euler, implicit, implicitfast:  v' = v + h b,  q' = q ⊕ h v',  act' = next(act, act_dot). Only b
// takes derivatives of the dynamics. Rows of q' follow from those of v', and all rows of act' are
// one pullback, since each activation depends on itself and its control alone
// (docs/derivations/steps.md, eq. 15 and 16). ∂b comes from the field's matrices
// (stages/field_matrix.h) and one factorisation; of parameters beside those of actuators, and where
// the model has something without a matrix form, from one pullback per row.
//
// RK4: tangents of the stages, one after the other, all columns of (x, u) at once
// (docs/derivations/steps.md, eq. 18). With parameters, and where the model has something without a
// matrix form, it takes one pullback per row of x', as other steps do.
#ifndef DIFFMJ_INTEGRATE_STEP_JACOBIAN_H_
#define DIFFMJ_INTEGRATE_STEP_JACOBIAN_H_

#include <array>
#include <vector>

#include "integrate/step.h"
#include "stages/acceleration/actuation.h"
#include "stages/field_matrix.h"

namespace diffmj {

struct StepJacobian {
  Matrix A, B, P, Q;  // 2 nv + na rows each
  Matrix B_end;       // where controls are linear, by those of the next row; else 0

  void resize(const StepModel& impl, const ParameterColumns& columns);

  // Scratch of step_jacobian.
  FieldMatrix field;
  Matrix X, MX;
  struct Rk4Stage {
    Matrix x, k, a, act_dot;  // 2 nv + na, nv, nv, na rows: of its state, slope and rates
  };
  std::array<Rk4Stage, 4> stages;
  Matrix u, next;                       // nv, 2 nv + na rows
  Matrix ones, next_act, next_act_dot;  // 1 x na
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

// The same of RK4 by matrices; the model must have no obstacle to them, and no surrogate field.
void rk4_jacobian(const StepModel& impl, const StepInput& in, const StepJacobianOptions& options,
                  StepJacobian& out, Workspace& workspace);

// The pullback of cotangents of act_dot or act' alone, of which the other is empty, added to the
// first rows of x (2 nv + na columns) and ctrl and to params.
void activation_pullback(const StepModel& impl, const StepInput& in, CVec act_dot_bar,
                         CVec act_next_bar, Matrix& x, Matrix& ctrl, const ParameterBar& params,
                         Workspace& workspace);

// Activation k of act' depends on act[k] and one control alone, and no other activation on that
// control. Calls fn(actuator, activation, control); false if it is not so.
template <class Fn>
bool for_each_activation(const mjModel* m, Fn&& fn) {
  if (has_controllers(m)) return false;
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    const int nact = m->actuator_actnum[i], nctrl = m->actuator_ctrlnum[i];
    if (nact == 0) continue;
    if (nact != (m->actuator_dyntype[i] == mjDYN_INTEGRATOR ? nctrl : 1)) return false;
    for (int k = 0; k < nact; k++) {
      fn(i, m->actuator_actadr[i] + k, nctrl > 0 ? m->actuator_ctrladr[i] + k : -1);
    }
  }
  return true;
}

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_STEP_JACOBIAN_H_
