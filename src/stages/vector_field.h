// a, act_dot = F(x, u): the vector field, and its pullback through the constraint solver.
#ifndef DIFFMJ_STAGES_VECTOR_FIELD_H_
#define DIFFMJ_STAGES_VECTOR_FIELD_H_

#include "stages/oracle.h"

namespace diffmj {

struct VectorFieldBar {
  Matrix& x;             // 2 nv + na
  Matrix& ctrl;          // nu
  Matrix& qfrc_applied;  // nv
  Matrix& xfrc_applied;  // 6 nbody, or no columns
};

// Solves H λ = a_bar for every row of a_bar and adds what each input receives. The stages must have
// been evaluated at problem.in and H factorised there (newton_factorize); multipliers.lambda is
// set here, the others are handed on to the oracle.
void vector_field_pullback(const ModelImpl& impl, const OracleProblem& problem, const Matrix& a_bar,
                           OracleMultipliers multipliers, const VectorFieldBar& bar,
                           Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_VECTOR_FIELD_H_
