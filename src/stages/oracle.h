// The numeric oracle: pullbacks of the dynamics by central differences of inverse dynamics.
//
// With a = qacc held fixed, MuJoCo's own stages give at any input z = (q, v, act, ctrl)
//
//   g(z)        = M a - qfrc_smooth - Jᵀ f(J a - aref)     0 at the solution
//   M(q) a
//   b(z)        = v' of the integrator for the fixed force F = M a, as (v' - v)/h
//   act_dot(z), act_next(z)
//
// and their differences along every tangent direction are contracted with the multipliers of one or
// more cotangents. It supports whatever MuJoCo does. What it shares
// with the analytic pullbacks is listed in docs/pipeline.md.
#ifndef DIFFMJ_STAGES_ORACLE_H_
#define DIFFMJ_STAGES_ORACLE_H_

#include <Eigen/Core>

#include "mj/view.h"
#include "stages/multipliers.h"
#include "stages/stage_model.h"
#include "stages/step_input.h"
#include "stages/workspace.h"

namespace diffmj {

struct OracleProblem {
  StepInput in;
  CVec qacc;  // nv: a
  CVec F;     // nv: M a; empty: b is not needed
  // act_next is that of act_from + act_dot_from instead of what z gives: the last stage of RK4
  CVec act_from, act_dot_from;  // na
  bool act_next = false;        // act_next is needed
  CVec force_bar = {};          // nefc: cotangent of the constraint forces; empty: 0
  CVec mass_vector = {};        // nv: mu is of M times this; empty: of M a
  // With what a no-slip pass has as cotangents of y, J, M, friction and friction loss: those in
  // workspace.noslip and workspace.projection. qacc is that of the main solver.
  bool noslip = false;
  CVec sensor_bar = {};  // nsensordata: cotangent of the sensors at a; empty: 0
};

// Adds to x_bar (2 nv + na) and ctrl_bar (nu), one row per cotangent. The stages must have been
// evaluated at problem.in and the zones decided (newton_factorize); the stages are not afterwards.
void oracle_pullback(const StageModel& impl, const OracleProblem& problem,
                     const Multipliers& multipliers, Matrix& x_bar, Matrix& ctrl_bar,
                     Workspace& workspace);

// The same for parameters, of one cotangent: differences in every entry of the fields in params.
void oracle_parameters_pullback(const StageModel& impl, const OracleProblem& problem,
                                const Multipliers& multipliers, const ParameterBar& params,
                                Workspace& workspace);

// What a receives of problem.sensor_bar: adds to a_bar (nv). The stages must have been evaluated at
// problem.in and the zones decided.
void oracle_sensors_to_acceleration(const StageModel& impl, const OracleProblem& problem, Vec a_bar,
                                    Workspace& workspace);

// The other way round, for estimates (integrate/stability.h): what a = qacc and act_dot change by
// along a tangent of the state, by one difference of g on a side on which no row vanishes,
//   a_dot = -H⁻¹ (∂g/∂x) x_dot
// oracle_linearize() first: the stages must have been evaluated at problem.in and the zones
// decided; neither are they afterwards, nor can oracle_pullback() follow.
void oracle_linearize(const StageModel& impl, const OracleProblem& problem, Workspace& workspace);
// x_dot: 2 nv + na; sets a_dot (nv) and act_dot_dot (na).
void oracle_pushforward(const StageModel& impl, const OracleProblem& problem, CVec x_dot, Vec a_dot,
                        Vec act_dot_dot, Workspace& workspace);

// act_next as a function of act and act_dot alone (exact filters, clamping, wrapping): adds to
// act_bar and act_dot_bar. d must hold the stages.
void next_activation_pullback(const StageModel& impl, CVec act, CVec act_dot,
                              const Matrix& act_next_bar, Eigen::Ref<Matrix> act_bar,
                              Matrix& act_dot_bar, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ORACLE_H_
