// Rollouts by MuJoCo's own steps: nstep calls of mj_step, recorded.
#ifndef DIFFMJ_RECORD_MUJOCO_ROLLOUT_H_
#define DIFFMJ_RECORD_MUJOCO_ROLLOUT_H_

#include <cstddef>

#include "base/parallel.h"
#include "diffmj/rollout.h"
#include "record/control_law.h"
#include "record/pose_reader.h"

namespace diffmj {

// What of the stages is kept for the backward pass.
struct KeptStages {
  bool any = false;  // a backward pass may follow
  bool tendons = false;
  size_t contacts = 0;  // bytes
  bool rk4 = false;     // its four evaluations, tendons included
};

// sensors: mj_step computes them. poses: where those of the states go; null: nowhere. t is empty
// but for its memory, which the result takes. law: as of rollout_batch_into().
Trajectory mujoco_rollout(const Model& model, const RolloutInput& input, int nstep,
                          const KeptStages& kept, bool sensors, const PoseReader* poses,
                          Trajectory t, const ControlLaw& law, StopSignal& stop);

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_MUJOCO_ROLLOUT_H_
