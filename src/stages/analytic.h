// The analytic pullback of the smooth dynamics: what the oracle computes by differences, by one
// reverse sweep over the stages.
//
//   d/dz [ -λᵀ (M a + c - τ) + μᵀ (M a - Mhat b) + act_dot_bar · act_dot + act_next_bar · act_next
//   ]
//
// with a, b, λ and μ held fixed; Mhat is the integrator's matrix (docs/derivations/steps.md, eq.
// 4). Where no constraint acts λ is μ, and the first two terms are -λᵀ (M b + c - τ) + λᵀ (M -
// Mhat) b.
#ifndef DIFFMJ_STAGES_ANALYTIC_H_
#define DIFFMJ_STAGES_ANALYTIC_H_

#include <span>
#include <string>

#include "stages/multipliers.h"
#include "stages/stage_model.h"
#include "stages/step_input.h"
#include "stages/workspace.h"

namespace diffmj {

// Names what of the model has no analytic pullback; empty if everything has one.
std::string analytic_obstacle(const mjModel* m);

// Poses, tendons (those that were kept, if any) and the mass matrix of a state. Inside mj_call.
void evaluate_poses(const mjModel* m, const StepInput& in, mjData* d);

// Runs those stages of MuJoCo that the pullback reads, and leaves them in the workspace's mjData.
// Where no constraint acts (constrained is false) contacts are not even looked for.
void evaluate_analytic(const StageModel& impl, const StepInput& in, bool constrained,
                       Workspace& workspace);

struct AnalyticProblem {
  StepInput in;
  CVec qacc;                    // nv: a
  CVec b;                       // nv, with multipliers.mu
  CVec act_from, act_dot_from;  // na: as of OracleProblem
  // As of evaluate_analytic; if so the zones are decided (newton_factorize).
  bool constrained = false;
  // nv: a of the metric's terms, where that of the field is another one (contacts from distance);
  // empty: qacc
  CVec qacc_step = {};
  CVec force_bar = {};  // nefc: cotangent of the constraint forces, of one cotangent; empty: 0
  // Mhat differs from M; where it does not, multipliers.mu is of a no-slip pass.
  bool has_metric = true;
  // nsensordata: cotangent of the sensors, for the parameters that sensors_pullback leaves to the
  // oracle; empty: 0
  CVec sensor_bar = {};
  const PoseBar* poses = nullptr;  // of poses and velocities, of one cotangent; null: 0
};

// Adds to x_bar (2 nv + na) and ctrl_bar (nu), one row per cotangent, and to params, one per
// cotangent or one for all of them. multipliers.b_bar is not read; multipliers.mu may be
// multipliers.lambda.
void analytic_pullback(const StageModel& impl, const AnalyticProblem& problem,
                       const Multipliers& multipliers, Matrix& x_bar, Matrix& ctrl_bar,
                       std::span<const ParameterBar> params, Workspace& workspace);

// The fields in params that analytic_pullback, or sensors_pullback of sensor_bar, does not serve
// for this model: they are the oracle's.
ParameterBar oracle_parameters(const mjModel* m, const ParameterBar& params, CVec sensor_bar = {});
// The others.
ParameterBar analytic_parameters(const mjModel* m, const ParameterBar& params, CVec sensor_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ANALYTIC_H_
