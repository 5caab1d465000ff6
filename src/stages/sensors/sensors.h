// What a robot measures; MuJoCo: mj_sensorPos, mj_sensorVel, mj_sensorAcc.
//
// A sensor is a function s(q, v, act, ctrl; a, f) of the state, of the acceleration a = qacc and of
// the constraint forces f there. Its pullback is in two parts:
//
//   direct:  what q, v, act, ctrl and parameters receive with a and f held fixed        (here)
//   through the dynamics:  a_bar = ∂s/∂a, f_bar = ∂s/∂f, which enter the implicit adjoint of the
//   constraint solver like those of any other function of them  (stages/vector_field.h)
//
//   sensors/frames.cc     poses, velocities and accelerations of frames; IMUs
//   sensors/forces.cc     force, torque and touch
//   sensors/scalars.cc    joints, tendons, actuators and limits
//   sensors/whole.cc      subtrees and energies
//   sensors/distances.cc  distances of geoms
//
// docs/derivations/sensors.md
#ifndef DIFFMJ_STAGES_SENSORS_SENSORS_H_
#define DIFFMJ_STAGES_SENSORS_SENSORS_H_

#include <string>

#include "stages/stage_model.h"
#include "stages/step_input.h"
#include "stages/workspace.h"

namespace diffmj {

// "sensor 'imu'", or "sensor 3" if it has no name.
std::string sensor_name(const mjModel* m, int sensor);

// Why a cotangent of this sensor is refused; empty if it has a derivative.
std::string sensor_obstacle(const StageModel& impl, int sensor);
// Why not even its value is available; empty if it is.
std::string sensor_value_obstacle(const StageModel& impl, int sensor);

// Which parts of the dynamics the sensors with a cotangent that is not zero read.
struct SensorNeeds {
  SensorNeeds(const mjModel* m, CVec sensordata_bar);
  bool any = false;
  bool stages = false;        // anything but numbers of the state (joint_sensors_pullback)
  bool rows = false;          // rows of constraints
  bool acceleration = false;  // a or f: the solver
  bool force = false;         // f
  bool oracle = false;        // one has no analytic pullback in this model
  bool camera = false;        // a pose of a camera
};

// The cotangents of sensors that have an analytic pullback in this model, and of those that are the
// oracle's.
void split_sensors(const mjModel* m, CVec sensordata_bar, Vec analytic, Vec oracle);

// Cotangents of values beyond a sensor's cutoff become zero. value: what the sensors measured.
void mask_cutoff(const mjModel* m, CVec sensordata, Vec sensordata_bar);

// Sensor values at the state, acceleration and forces in d, into d->sensordata. Inside mj_call. d
// must hold all stages of mj_forward.
void evaluate_sensors(const mjModel* m, mjData* d);

struct SensorProblem {
  const StepInput& in;
  CVec qacc;                 // nv: a
  bool constrained = false;  // the rows of constraints in d are valid
};
struct SensorsBar {
  Vec qpos, qvel, act, ctrl;  // nv, nv, na, nu: added to
  Vec xfrc_applied;           // 6 nbody; empty: not wanted
  Vec qacc;                   // nv: added to
  Vec force;                  // nefc: added to
  const ParameterBar& params;
};
// d must hold what evaluate_analytic() leaves; no sensor may have an obstacle. needs: those of
// sensordata_bar.
void sensors_pullback(const StageModel& impl, const SensorProblem& problem, CVec sensordata_bar,
                      const SensorNeeds& needs, const SensorsBar& bar, Workspace& workspace);

// Positions and velocities of hinges and slides, which no stage is needed for; others are left out.
void joint_sensors_pullback(const mjModel* m, CVec sensordata_bar, Vec qpos_bar, Vec qvel_bar);

// Parameters that sensors_pullback leaves to the oracle, given which sensors have a cotangent.
bool sensor_parameter_is_for_oracle(const mjModel* m, CVec sensordata_bar, Parameter parameter);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_SENSORS_SENSORS_H_
