// The pullback of the vector field at one state, on whichever gradient path the model takes: what
// Runge-Kutta stages, states within a step and MuJoCo's RK4 have in common.
#ifndef DIFFMJ_INTEGRATE_FIELD_PULLBACK_H_
#define DIFFMJ_INTEGRATE_FIELD_PULLBACK_H_

#include "integrate/step_model.h"
#include "stages/vector_field.h"
#include "stages/workspace.h"

namespace diffmj {

struct FieldPoint {
  const StepInput& in;
  CVec qacc;                              // nv: a
  int nefc = 0;                           // constraint rows
  bool evaluated = false;                 // the workspace's mjData holds the forward evaluation
  CVec act_from = {}, act_dot_from = {};  // na: of the next activations; empty: those of in
};

// a, act_dot = F(x, u): adds to bar what the state and the inputs receive of a_bar, which is used
// up, and of the multipliers. Evaluates what it reads, unless that is there.
void field_pullback(const StepModel& impl, const FieldPoint& at, Matrix& a_bar,
                    const Multipliers& multipliers, const VectorFieldBar& bar,
                    Workspace& workspace);

// What it does on the gradient paths that have one (setup/differentiation.cc): by the pullbacks of
// the stages, and by the oracle.
void analytic_point_pullback(const StepModel& impl, const FieldPoint& at, Matrix& a_bar,
                             const Multipliers& multipliers, const VectorFieldBar& bar,
                             Workspace& workspace);
void oracle_point_pullback(const StepModel& impl, const FieldPoint& at, Matrix& a_bar,
                           const Multipliers& multipliers, const VectorFieldBar& bar,
                           Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_FIELD_PULLBACK_H_
