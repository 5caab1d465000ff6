// What the files of sensors_pullback() share.
#ifndef DIFFMJ_STAGES_SENSORS_SENSORS_INTERNAL_H_
#define DIFFMJ_STAGES_SENSORS_SENSORS_INTERNAL_H_

#include "stages/position/kinematics.h"
#include "stages/sensors/sensors.h"

namespace diffmj {

struct SensorScratch;

// One call of sensors_pullback().
struct SensorContext {
  const StageModel& impl;
  const mjModel* m;
  mjData* d;
  const SensorProblem& problem;
  const SensorsBar& bar;
  Workspace& workspace;
  Sweep& sweep;
  SensorScratch& scratch;

  int nefc() const { return problem.constrained ? d->nefc : 0; }
  int ncon() const { return problem.constrained ? d->ncon : 0; }
};

inline Vector3 vector3(CVec x) { return Vector3(x[0], x[1], x[2]); }

// The frame of an object: where it is, and how its body carries it.
struct SensorFrame {
  SensorFrame(const mjModel* m, const mjData* d, int objtype, int id);

  int objtype, id, body;
  Vector3 pos;    // in the world
  Vector3 point;  // relative to the origin of its tree
  Eigen::Matrix3d mat;
  bool moves;  // there is a dof that carries it
};

// Adds a torque, and a force at the frame's origin, to the frame's pose.
void frame_wrench(const SensorContext& c, const SensorFrame& frame, const Vector3& torque,
                  const Vector3& force);
// Cotangents of its angular velocity and of the velocity of its origin, in world axes.
void frame_velocity_pullback(const SensorContext& c, const SensorFrame& frame, const Vector3& w_bar,
                             const Vector3& v_bar);

// By kind of sensor; sensordata_bar has the numbers of this sensor.
void frame_sensor_pullback(const SensorContext& c, int sensor, CVec sensordata_bar);
void force_sensor_pullback(const SensorContext& c, int sensor, CVec sensordata_bar);
void touch_sensor_pullback(const SensorContext& c, int sensor, CVec sensordata_bar);
void scalar_sensor_pullback(const SensorContext& c, int sensor, CVec sensordata_bar);
void whole_sensor_pullback(const SensorContext& c, int sensor, CVec sensordata_bar);
void distance_sensor_pullback(const SensorContext& c, int sensor, CVec sensordata_bar);

// What several sensors leave for one pullback at the end.
void scalar_sensors_finish(const SensorContext& c);
void force_sensors_finish(const SensorContext& c);
void whole_sensors_finish(const SensorContext& c);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_SENSORS_SENSORS_INTERNAL_H_
