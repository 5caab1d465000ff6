// MuJoCo's own stages before the constraint solver, and its integrator's answer to a force: what
// the oracle differences, and what other pullbacks read where they need a stage whole.
#ifndef DIFFMJ_STAGES_EVALUATE_STAGES_H_
#define DIFFMJ_STAGES_EVALUATE_STAGES_H_

#include <Eigen/Core>

#include "mj/view.h"
#include "stages/stage_model.h"
#include "stages/step_input.h"
#include "stages/workspace.h"

namespace diffmj {

enum class FirstStage { kPosition, kVelocity, kActuation };  // the first that an input moves

// Those of the input in d, from the first one on. Inside mj_call.
void run_stages(const mjModel* m, double onset, mjData* d, FirstStage from);

// Runs the position, velocity and actuation stages at the input and leaves them in the workspace's
// mjData.
void evaluate_stages(const StageModel& impl, const StepInput& in, Workspace& workspace);

// The integrator's answer to a force: b with v' = v + h b, and the next activations; the state in
// the workspace's mjData, whose stages must have been evaluated, is left as it was.
void advance_with_force(const StageModel& impl, const mjModel* m, CVec F, Eigen::VectorXd& b,
                        Eigen::VectorXd& act_next, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_EVALUATE_STAGES_H_
