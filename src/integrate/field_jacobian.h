// The derivative of the vector field as matrices,
//
//   a, act_dot = F(x, u):   ∂a/∂(x, u) = H⁻¹ G,   ∂act_dot/∂(x, u)
//
// from the field's matrices (stages/field_matrix.h) and one factorisation; where the model has
// something without a matrix form, from one pullback per row.
#ifndef DIFFMJ_INTEGRATE_FIELD_JACOBIAN_H_
#define DIFFMJ_INTEGRATE_FIELD_JACOBIAN_H_

#include "integrate/step_model.h"
#include "stages/field_matrix.h"
#include "stages/vector_field.h"

namespace diffmj {

class FieldJacobian {
 public:
  explicit FieldJacobian(const StepModel& impl);

  // At a state with nefc constraint rows, where qacc is a. backward: of the field that adjoints
  // take the derivative of. Evaluates what it reads; uses the workspace's mjData.
  void compute(const StepInput& in, CVec qacc, int nefc, bool backward, Workspace& workspace);

  Matrix a;        // nv x (2 nv + na + nu)
  Matrix act_dot;  // na x (2 nv + na + nu)
  // An activation depends on itself and on its control alone.
  bool diagonal() const { return diagonal_; }

 private:
  void by_matrices(const StepInput& in, CVec qacc, int nefc, bool surrogate, Workspace& workspace);
  void by_rows(const StepInput& in, CVec qacc, int nefc, Workspace& workspace);
  void activation_rows(const StepInput& in, Workspace& workspace);

  const StepModel& impl_;
  const bool diagonal_, has_matrices_;
  FieldMatrix field_;
  Matrix ones_, x_bar_, ctrl_bar_;                                // 1 x ...
  Matrix rows_x_, rows_ctrl_, rows_qfrc_, rows_xfrc_;             // (nv + na) x ...
  Matrix a_bar_, act_dot_bar_;
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_FIELD_JACOBIAN_H_
