// rollout_pullback(): cotangents of a trajectory's states to cotangents of its inputs.
#ifndef DIFFMJ_GRADIENT_H_
#define DIFFMJ_GRADIENT_H_

#include <map>
#include <span>
#include <string>
#include <vector>

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
  // along rotations counts.
  std::span<const double> xmat = {};       // (nstep + 1) x 9 nbody
  std::span<const double> site_xmat = {};  // (nstep + 1) x 9 nsite
  std::span<const double> geom_xmat = {};  // (nstep + 1) x 9 ngeom
  // Of velocities.
  std::span<const double> body_linvel = {}, body_angvel = {};  // (nstep + 1) x 3 nbody
  std::span<const double> site_linvel = {}, site_angvel = {};  // (nstep + 1) x 3 nsite
  // Of the sensors at each state (sensordata(), sensors.h), in MuJoCo's layout. Of quaternions and
  // unit vectors all numbers count, as if they were free. Sensors that have no derivative must have
  // zeros: UnsupportedError names them.
  std::span<const double> sensordata = {};  // (nstep + 1) x nsensordata
  // Every span above has one row, which belongs to the last state.
  bool final_row = false;
  // Of the constraint forces of each step (constraint_forces(), rollout.h): nstep entries, also
  // with final_row, each with a number per row of that step or empty.
  std::span<const std::vector<double>> efc_force = {};
  // Fields of mjModel whose gradient is wanted too (parameter_names()).
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
  // Of the fields of mjModel that were asked for, in their own layout. Each field alone is moved; M
  // (and so dof_M0) and the masses of subtrees follow, other numbers that the compiler derives
  // (body_invweight0,
  // ...) do not. Rows that are unit vectors (quaternions, jnt_axis) have the gradient of the
  // function that normalises them. Gains of controllers (PID, dcmotor) and friction loss that are 0
  // are features that are off: 0.
  std::map<std::string, std::vector<double>> params;
  std::string message;  // of a batch: why every entry is NaN; empty if none is
  // Of explicit Runge-Kutta methods: steps that were made again between checkpoints; of continuous
  // adjoints, their own steps and evaluations.
  long nrecomputed = 0, naccepted = 0, nrejected = 0, nevaluation = 0;
  // Of contacts from distance: states they were looked for at, and those of them with more than
  // Cfd::max_contacts, where only the nearest were kept.
  long cfd_evaluations = 0, cfd_capped = 0;
};

// The exact derivative of the discrete steps that were taken (discrete adjoint), their sizes held
// fixed, with the constraint solver differentiated implicitly; or what AdaptiveOptions::adjoint
// asks for instead. Throws InputError if the trajectory failed,
// belongs to another model, or a cotangent has the wrong size or is not finite; RolloutError if the
// gradient itself is not finite.
[[nodiscard]] Gradient rollout_pullback(const Model& model, const Trajectory& trajectory,
                                        const Cotangents& cotangents,
                                        const RolloutOptions& options = {});

// One pullback per trajectory, on a pool of threads. Every entry of a gradient is NaN if its
// trajectory failed or the gradient is not finite.
[[nodiscard]] std::vector<Gradient> rollout_pullback_batch(const Model& model,
                                                           std::span<const Trajectory> trajectories,
                                                           std::span<const Cotangents> cotangents,
                                                           const RolloutOptions& options = {});

// The same with a model of its own for every trajectory.
[[nodiscard]] std::vector<Gradient> rollout_pullback_batch(std::span<const Model> models,
                                                           std::span<const Trajectory> trajectories,
                                                           std::span<const Cotangents> cotangents,
                                                           const RolloutOptions& options = {});

}  // namespace diffmj

#endif  // DIFFMJ_GRADIENT_H_
