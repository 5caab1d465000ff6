// sensordata(): what the sensors of the model measure along a trajectory.
#ifndef DIFFMJ_SENSORS_H_
#define DIFFMJ_SENSORS_H_

#include <string>
#include <vector>

#include "diffmj/model.h"
#include "diffmj/rollout.h"

namespace diffmj {

// Sensor values at every state of the trajectory, as MuJoCo computes them there:
// (nstep + 1) x nsensordata. Row i uses the controls and forces of step i, which begins there; the
// last row uses those of the last step. If the rollout recorded the sensors
// (RolloutOptions::sensors), these values are returned; otherwise every state is evaluated again,
// with the same result.
//
// Sensors of accelerations and forces are those of mj_forward at the state, whatever the
// integrator: with RK4 at its first Runge-Kutta stage, with adaptive steps at the start of an
// interval.
//
// Throws InputError if the trajectory belongs to another model, UnsupportedError if a sensor has a
// delay or an interval, or is a callback or a plugin; it names the sensor.
[[nodiscard]] std::vector<double> sensordata(const Model& model, const Trajectory& trajectory);

// Where a sensor's numbers are in a row of sensordata.
struct SensorRange {
  int id = 0, adr = 0, dim = 0;
};
// An InputError lists the valid names.
[[nodiscard]] SensorRange sensor_range(const Model& model, const std::string& name);

}  // namespace diffmj

#endif  // DIFFMJ_SENSORS_H_
