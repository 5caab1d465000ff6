// Scratch of sensors_pullback(), sized once.
#ifndef DIFFMJ_STAGES_SENSORS_SCRATCH_H_
#define DIFFMJ_STAGES_SENSORS_SCRATCH_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "base/spatial.h"

namespace diffmj {

struct SensorScratch {
  explicit SensorScratch(const mjModel* m);
  void clear();

  // which parts have anything to finish
  bool has_tendons = false, has_actuation = false, has_rows = false, has_bodies = false,
       has_contacts = false, has_com = false;
  bool has_row_force = false, has_internal = false;  // of what is computed once
  double kinetic = 0;                                // cotangent of the kinetic energy

  std::vector<double> actuator_length, actuator_velocity, actuator_force;  // nout
  std::vector<double> qfrc_actuator;                                       // nv
  std::vector<double> gravcomp;                                            // nv
  // Virtual motions of bodies, whose power with the forces that act between bodies is the weighted
  // sum of force and torque sensors.
  std::vector<Vector6> motion;      // nbody
  std::vector<Vector3> com;         // nbody: of subtree_com
  std::vector<double> subtree_com;  // 3 nbody: the same as numbers
  std::vector<double> row_force;    // nefc: f
  std::vector<Vector6> internal;    // nbody: forces between bodies and their parents
  std::vector<double> qacc, force;  // nv, nefc: cotangents on their way into the dynamics
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_SENSORS_SCRATCH_H_
