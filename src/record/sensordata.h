// Sensor values at the states of a trajectory.
#ifndef DIFFMJ_RECORD_SENSORDATA_H_
#define DIFFMJ_RECORD_SENSORDATA_H_

#include <string>

#include "diffmj/rollout.h"
#include "setup/workspace_lease.h"
#include "stages/step_input.h"

namespace diffmj {

// Throws UnsupportedError that names a sensor whose value is unavailable.
void require_sensor_values(const std::string& who, const Model& model);

// What mj_forward at state i has: the inputs of the step that begins there, of the last state those
// of the last step.
StepInput state_input(const Trajectory& trajectory, int i);

// mj_forward and the sensors; they are in the workspace's mjData. Throws MujocoError, after which
// that data is as new.
void evaluate_sensors_at(const Model& model, const StepInput& in, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_SENSORDATA_H_
