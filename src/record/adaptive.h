// Rollouts by explicit Runge-Kutta methods.
#ifndef DIFFMJ_RECORD_ADAPTIVE_H_
#define DIFFMJ_RECORD_ADAPTIVE_H_

#include <string>

#include "base/parallel.h"
#include "diffmj/rollout.h"
#include "record/control_law.h"
#include "record/integrator_steps.h"

namespace diffmj {

// Throws InputError if the steps cannot be those of a rollout of this model.
void require_steps_of(const std::string& who, const Model& model, int nstep,
                      const Trajectory* steps_of);

// nstep intervals; with the steps of another trajectory if there is one. keep_all: every step is
// kept, whatever the model's options say. law: as of rollout_batch_into(), of held controls.
Trajectory adaptive_rollout(const Model& model, const RolloutInput& input, int nstep,
                            const Trajectory* steps_of, bool keep_all, StopSignal& stop,
                            const ControlLaw& law = {});

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_ADAPTIVE_H_
