// a, act_dot = F(x, u): the vector field, and its pullback through the constraint solver.
#ifndef DIFFMJ_STAGES_VECTOR_FIELD_H_
#define DIFFMJ_STAGES_VECTOR_FIELD_H_

#include <span>

#include "stages/analytic.h"
#include "stages/oracle.h"

namespace diffmj {

struct VectorFieldBar {
  Matrix& x;                 // 2 nv + na
  Matrix& ctrl;              // nu
  Matrix& qfrc_applied;      // nv
  Matrix& xfrc_applied;      // 6 nbody, or no columns
  ParameterBar params = {};  // of one cotangent
  // Of the analytic path, instead of params: one for each cotangent, none of the oracle's fields.
  std::span<const ParameterBar> row_params = {};
};

// Seconds in each stage of MuJoCo's forward dynamics, and how often it was evaluated.
struct EvaluationTimes {
  double position = 0, velocity = 0, actuation = 0, acceleration = 0, constraint = 0;
  long count = 0, solver_niter = 0;  // evaluations; iterations, over all islands
};

// mj_forward at the input, solver and all; the result is in the workspace's mjData. Throws
// MujocoError, after which that data is as new.
void vector_field(const StageModel& impl, const StepInput& in, Workspace& workspace,
                  EvaluationTimes& times);

// Evaluates what the pullback reads at the input: the smooth stages, where no constraint acts, or
// all of them and the Newton matrix.
void vector_field_evaluate(const StageModel& impl, const StepInput& in, CVec qacc, bool constrained,
                           Workspace& workspace);

// The same of the field whose derivative the backward pass takes: that of the rollout, whose
// solution is qacc, or another one (stages/surrogate_field.h), which is solved here. The collider
// must be backward_collider().
struct BackwardField {
  CVec qacc;         // nv: its solution
  bool constrained;  // constraints act, and the Newton matrix is factorised
};
BackwardField backward_field_evaluate(const StageModel& impl, const StepInput& in, CVec qacc,
                                      bool constrained, Workspace& workspace);

// The Newton matrix at the solution qacc; with a no-slip pass at the main solver's, which is found
// again (stages/acceleration/noslip.h). The workspace's mjData must hold all stages before the
// solver.
void solution_factorize(const StageModel& impl, CVec qacc, Workspace& workspace);

// Solves H λ = a_bar for every row of a_bar and adds what each input receives, by the oracle.
// multipliers.lambda is set here, the others are handed on.
void oracle_field_pullback(const StageModel& impl, const OracleProblem& problem,
                           const Matrix& a_bar, Multipliers multipliers, const VectorFieldBar& bar,
                           Workspace& workspace);

// The same by the analytic stages, λ given: of H λ = a_bar, or λ = μ where no constraint acts
// (docs/derivations/steps.md, eq. 10).
void analytic_field_pullback(const StageModel& impl, const AnalyticProblem& problem,
                             const Matrix& lambda, Multipliers multipliers,
                             const VectorFieldBar& bar, Workspace& workspace);

// H λ = a_bar, every row.
void solve_lambda(const StageModel& impl, const Matrix& a_bar, Matrix& lambda,
                  Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_VECTOR_FIELD_H_
