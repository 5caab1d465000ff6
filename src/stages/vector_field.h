// a, act_dot = F(x, u): the vector field, and its pullback through the constraint solver.
#ifndef DIFFMJ_STAGES_VECTOR_FIELD_H_
#define DIFFMJ_STAGES_VECTOR_FIELD_H_

#include "stages/analytic.h"
#include "stages/oracle.h"

namespace diffmj {

struct VectorFieldBar {
  Matrix& x;             // 2 nv + na
  Matrix& ctrl;          // nu
  Matrix& qfrc_applied;  // nv
  Matrix& xfrc_applied;  // 6 nbody, or no columns
  ParameterBar params = {};
};

// Whether the analytic pullback serves an evaluation with this many rows of constraints; the oracle
// does otherwise.
bool is_analytic(const ModelImpl& impl, int nefc);

// Evaluates what the pullback reads at the input: the smooth stages, or all of them and the Newton
// matrix.
void vector_field_evaluate(const ModelImpl& impl, const StepInput& in, CVec qacc, bool analytic,
                           Workspace& workspace);

// Solves H λ = a_bar for every row of a_bar and adds what each input receives. multipliers.lambda
// is set here, the others are handed on.
void vector_field_pullback(const ModelImpl& impl, const OracleProblem& problem, const Matrix& a_bar,
                           OracleMultipliers multipliers, const VectorFieldBar& bar,
                           Workspace& workspace);

// The same of a step on which no constraint acts, given λ = μ (docs/derivations/steps.md, eq. 10).
void free_field_pullback(const ModelImpl& impl, const AnalyticProblem& problem,
                         const Matrix& lambda, OracleMultipliers multipliers,
                         const VectorFieldBar& bar, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_VECTOR_FIELD_H_
