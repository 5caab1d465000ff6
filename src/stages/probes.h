// Where differences are taken: sizes of inputs, and which way to step away from a bound.
#ifndef DIFFMJ_STAGES_PROBES_H_
#define DIFFMJ_STAGES_PROBES_H_

#include "mj/view.h"
#include "stages/stage_model.h"

namespace diffmj {

// gradient: at the bound of a clamp the derivative is that of the inside, so that an optimiser can
// leave the bound. How far to move the centre of a difference of step h so that both of its samples
// are inside: 0, h or -h. Control number j at u; muscles clamp theirs to [0, 1] by themselves.
double control_shift(const StageModel& impl, int j, double u, double h);
// Activation number j at w, clamped to its actrange; muscles take the bounds [0, 1] for their time
// constants.
double activation_shift(const StageModel& impl, int j, double w, double h);

// max(1, |q|) of the coordinate that dof j moves, 1 for rotations of ball and free joints.
double position_size(const StageModel& impl, int j, CVec qpos);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_PROBES_H_
