// What the oracle takes differences of: the outputs of the stages at one input.
#ifndef DIFFMJ_STAGES_ORACLE_OUTPUTS_H_
#define DIFFMJ_STAGES_ORACLE_OUTPUTS_H_

#include <Eigen/Core>

#include "stages/evaluate_stages.h"
#include "stages/oracle.h"

namespace diffmj {

// Outputs at the input now in the workspace's mjData. gradient: rows keep the zone they have at the
// base, and rows that appear carry no force, so that the derivative is that of the side the forward
// pass is on, however near the next zone or contact is. Returns false if a row of the base has
// vanished.
bool oracle_evaluate(const StageModel& impl, const mjModel* m, const OracleProblem& problem,
                     FirstStage from, ProbeOutputs& out, Workspace& workspace);

// Sensors at a, with constraint forces f; d must hold the stages.
void oracle_sensors(const StageModel& impl, const mjModel* m, CVec qacc, CVec f, mjData* d,
                    Eigen::VectorXd& out);

// The multipliers' weighted sum of out - base, one number per cotangent.
void oracle_contract(const Multipliers& w, CVec sensor_bar, const ProbeOutputs& out,
                     const ProbeOutputs& base, Eigen::Ref<Eigen::VectorXd> sum);

// A row of weights times (plus - minus); 0 without weights.
double dot_of_difference(const Matrix* weights, Eigen::Index row, const Eigen::VectorXd& plus,
                         const Eigen::VectorXd& minus);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ORACLE_OUTPUTS_H_
