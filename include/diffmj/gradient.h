// rollout_pullback(): cotangents of a trajectory's states to cotangents of its inputs.
#ifndef DIFFMJ_GRADIENT_H_
#define DIFFMJ_GRADIENT_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "diffmj/cfd.h"
#include "diffmj/model.h"
#include "diffmj/rollout.h"

namespace diffmj {

// d(loss)/d(state) and d(loss)/d(pose) on every row of the trajectory, or on the last one
// (final_row); an empty span is zero.
struct Cotangents {
  std::span<const double> qpos = {};  // (nstep + 1) x nq, ambient
  std::span<const double> qpos_tangent =
      {};                             // (nstep + 1) x nv; may be given beside qpos: they add
  std::span<const double> qvel = {};  // (nstep + 1) x nv
  std::span<const double> act = {};   // (nstep + 1) x na
  // Of the poses at each state (poses(), rollout.h), in world coordinates.
  std::span<const double> xpos = {};         // (nstep + 1) x 3 nbody
  std::span<const double> xquat = {};        // (nstep + 1) x 4 nbody
  std::span<const double> site_xpos = {};    // (nstep + 1) x 3 nsite
  std::span<const double> subtree_com = {};  // (nstep + 1) x 3 nbody
  std::span<const double> geom_xpos = {};    // (nstep + 1) x 3 ngeom
  // Of rotation matrices, ambient: the 9 derivatives as if the 9 numbers were free. Only the part
  // along rotations has an effect.
  std::span<const double> xmat = {};       // (nstep + 1) x 9 nbody
  std::span<const double> site_xmat = {};  // (nstep + 1) x 9 nsite
  std::span<const double> geom_xmat = {};  // (nstep + 1) x 9 ngeom
  // Of velocities.
  std::span<const double> body_linvel = {}, body_angvel = {};  // (nstep + 1) x 3 nbody
  std::span<const double> site_linvel = {}, site_angvel = {};  // (nstep + 1) x 3 nsite
  // Of the sensors at each state (sensordata(), sensors.h), in MuJoCo's layout. Quaternions and
  // unit vectors are treated as free numbers. Sensors without a derivative must have zeros;
  // otherwise an UnsupportedError names them.
  std::span<const double> sensordata = {};  // (nstep + 1) x nsensordata
  // Every span above has one row, which belongs to the last state.
  bool final_row = false;
  // Of the constraint forces of each step (constraint_forces(), rollout.h): nstep entries, also
  // with final_row, each with a number per row of that step or empty.
  std::span<const std::vector<double>> efc_force = {};
  // Fields of mjModel whose gradient is computed too (parameter_names()).
  std::vector<std::string> params = {};
};

// d(loss)/d(input) of the rollout.
struct Gradient {
  std::vector<double> qpos;          // nq, ambient
  std::vector<double> qpos_tangent;  // nv
  std::vector<double> qvel;          // nv
  std::vector<double> act;           // na
  std::vector<double> ctrl;          // nstep x nu
  std::vector<double> qfrc_applied;  // nstep x nv
  std::vector<double> xfrc_applied;  // nstep x 6 nbody, if the rollout was given xfrc_applied
  // Of the requested fields of mjModel, in their own layout. Each field is changed alone. M (and so
  // dof_M0) and the masses of subtrees follow; other numbers that the compiler derives
  // (body_invweight0, ...) do not. Rows that are unit vectors (quaternions, jnt_axis) have the
  // gradient of the function that normalises them first. Gains of controllers (PID, dcmotor) and
  // friction loss that are 0 mean that the feature is off; their gradient is 0.
  std::map<std::string, std::vector<double>> params;
  std::string message;  // of a batch: why every entry is NaN; empty if none is
  // With explicit Runge-Kutta methods: the number of recomputed steps between checkpoints; with
  // continuous adjoints, their own steps and evaluations.
  long nrecomputed = 0, naccepted = 0, nrejected = 0, nevaluation = 0;
  CfdCounts cfd = {};  // with contacts from distance
};

// The exact derivative of the discrete steps that were taken (discrete adjoint), with their sizes
// held fixed and the constraint solver differentiated implicitly; or another adjoint
// (AdaptiveOptions::adjoint). Throws InputError if the trajectory failed or belongs to another
// model, or if a cotangent has the wrong size or is not finite; RolloutError if the gradient itself
// is not finite.
[[nodiscard]] Gradient rollout_pullback(const Model& model, const Trajectory& trajectory,
                                        const Cotangents& cotangents,
                                        const RolloutOptions& options = {});

// One pullback per trajectory, on a pool of threads. Every entry of a gradient is NaN if its
// trajectory failed or the gradient is not finite.
[[nodiscard]] std::vector<Gradient> rollout_pullback_batch(const Model& model,
                                                           std::span<const Trajectory> trajectories,
                                                           std::span<const Cotangents> cotangents,
                                                           const RolloutOptions& options = {});

// The same with a separate model for every trajectory.
[[nodiscard]] std::vector<Gradient> rollout_pullback_batch(std::span<const Model> models,
                                                           std::span<const Trajectory> trajectories,
                                                           std::span<const Cotangents> cotangents,
                                                           const RolloutOptions& options = {});

}  // namespace diffmj

#endif  // DIFFMJ_GRADIENT_H_
