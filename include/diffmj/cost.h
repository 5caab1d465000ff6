// Cost: the function that a plan minimises, a sum of terms on states, poses, sensors and controls.
//
//   cost = Σ_terms  weight · mean over steps of norm(r)  +  terminal · norm(r at the end)
//
// The mean is over the states after each step, or, for terms on controls, over the steps. Weights
// therefore mean the same for every horizon and timestep.
#ifndef DIFFMJ_COST_H_
#define DIFFMJ_COST_H_

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "diffmj/gradient.h"
#include "diffmj/model.h"
#include "diffmj/rollout.h"

namespace diffmj {

// Norms of a residual r; s is CostTerm::scale. All except kL2 behave like |r|² near 0.
enum class Norm {
  kSquared,  // |r|²
  kL2,       // √(|r|² + s²) - s: a length, smooth within s of 0
  kHuber,    // |r|² up to |r| = s, then linear: 2 s |r| - s²
  kCosh,     // 2 s² Σ (cosh(r_i / s) - 1): steep beyond s
};
const char* norm_name(Norm norm);  // "squared", "l2", "huber", "cosh"
// An InputError lists the valid names.
Norm norm_from_name(const std::string& name);

// Numbers over time, for targets that move: rows at increasing times [s], linear between them,
// constant before the first and after the last. The time is that of the state, which goes on from
// plan to plan.
struct Reference {
  std::vector<double> time = {};    // empty: there is none
  std::vector<double> values = {};  // a row for each time
};

// Something with a position and an orientation.
struct Frame {
  enum class Kind {
    kFixed,  // does not move: pos and quat are in the world
    kSite,
    kBody,
    kGeom,
    kSubtree,  // centre of mass of a body and its subtree; it has no orientation
  };
  Kind kind = Kind::kFixed;
  std::string name = {};
  // kFixed: the position in the world. Others: a point in the element's own frame.
  std::array<double, 3> pos = {0, 0, 0};
  std::array<double, 4> quat = {1, 0, 0, 0};  // kFixed: the orientation
  Reference pos_over_time = {};               // instead of pos, 3 numbers in a row
  Reference quat_over_time = {};              // instead of quat, 4 numbers in a row
};

// from - to [m] in world axes, each axis multiplied by its factor.
struct Distance {
  Frame from, to;
  std::array<double, 3> axes = {1, 1, 1};
};
// The rotation from one frame to the other, axis times angle [rad], in the frame of `to`. Its
// length is at most π, where it has a kink.
struct Orientation {
  Frame from, to;
};
// Joint positions relative to their targets, in the tangent space: 1 number for a hinge or slide, 3
// for a ball, 6 for a free joint.
struct JointPosition {
  std::vector<std::string> joints = {};  // empty: all
  std::vector<double> target = {};       // qpos of these joints; empty: qpos0
  Reference reference = {};              // instead of target
};
struct JointVelocity {
  std::vector<std::string> joints = {};  // empty: all
  std::vector<double> target = {};       // qvel of these joints; empty: 0
  Reference reference = {};              // instead of target
};
// Linear or angular velocity of a site or body in world axes. Frame::pos must be 0.
struct FrameVelocity {
  Frame frame;
  bool angular = false;
  std::array<double, 3> target = {0, 0, 0};  // [m/s or rad/s]
  Reference reference = {};                  // instead of target
};
// ctrl relative to its target.
struct ControlEffort {
  std::vector<std::string> actuators = {};  // empty: all
  std::vector<double> target = {};          // empty: 0
  Reference reference = {};                 // instead of target
};
// Change of ctrl from step to step, divided by the timestep [1/s].
struct ControlRate {
  std::vector<std::string> actuators = {};  // empty: all
};
// qfrc_applied, if it is a decision variable.
struct ForceEffort {};
// A sensor value relative to its target. For contact forces use touch and force sensors: their
// derivative is that of the forces of the existing contacts.
struct SensorValue {
  std::string sensor;
  std::vector<double> target = {};  // empty: 0
  Reference reference = {};         // instead of target
};

using CostQuantity =
    std::variant<Distance, Orientation, JointPosition, JointVelocity, FrameVelocity, ControlEffort,
                 ControlRate, ForceEffort, SensorValue>;

struct CostTerm {
  CostQuantity of;
  Norm norm = Norm::kSquared;
  double scale = 0.1;     // in units of the residual; not used by kSquared
  double weight = 1;      // weight of the mean over the steps
  double terminal = 0;    // weight of the last state; must be 0 for controls and forces
  std::string name = {};  // for reports; empty: generated from the quantity
};

// Cotangents of a cost. Those of quantities that the cost does not read are empty.
struct CostBars {
  std::vector<double> qpos;          // (nstep + 1) x nq, ambient: for own costs
  std::vector<double> qpos_tangent;  // (nstep + 1) x nv
  std::vector<double> qvel, act;     // (nstep + 1) x {nv, na}
  std::vector<double> sensordata;    // (nstep + 1) x nsensordata
  std::vector<double> ctrl;          // nstep x nu
  std::vector<double> qfrc_applied;  // nstep x nv
  Poses poses;                       // (nstep + 1) x ..., by the names of observables.h

  // The cotangents of states, poses and sensors, for rollout_pullback(). Add those of ctrl and
  // qfrc_applied to its result.
  Cotangents view() const;
};

// A cost that the user defines on whole trajectories. It adds to values, one per trajectory, and,
// if bars is not empty, to bars, one per trajectory. It is called on the thread that requested the
// cost, for many trajectories at once.
struct OwnCost {
  struct Batch {
    const Model& model;
    std::span<const Trajectory* const> trajectories;
    std::span<const Poses* const> poses;
    std::span<double* const> values;
    std::span<CostBars* const> bars;  // empty: not requested
  };
  std::function<void(const Batch&)> function;
  // What the cost reads, and may have cotangents of, in addition to states and controls.
  std::vector<std::string> observables = {};
  bool sensors = false;
  std::string name = "own";
};

// A copy is cheap. The cost works for the model it was made for and for variants of it.
class Cost {
 public:
  // Throws InputError that names the term and what is wrong with it, and UnsupportedError if a
  // sensor has no derivative, unless gradient is false.
  Cost(const Model& model, std::vector<CostTerm> terms, std::vector<OwnCost> own = {},
       bool gradient = true);

  int nterm() const;  // own costs included
  bool has_own() const;
  std::vector<std::string> names() const;
  // What a rollout must record for this cost: RolloutOptions::observables and sensors.
  const std::vector<std::string>& observables() const;
  bool sensors() const;

  // Result for one trajectory. Its memory is reused by later calls.
  struct Evaluation {
    double total = 0;
    std::vector<double> terms;  // nterm: the contribution of each term
    CostBars bars;              // if a gradient was requested
    std::vector<double> r, r_bar;
  };
  // Values, and cotangents if requested. Trajectories that failed get NaN. poses: those of the
  // rollouts (RolloutOptions::poses), one per trajectory, or empty if the cost needs none. Own
  // costs run on the calling thread, everything else on nthread threads.
  void evaluate(const Model& model, std::span<const Trajectory> trajectories,
                std::span<const Poses> poses, bool gradient, std::span<Evaluation> out,
                std::optional<int> nthread = {}) const;
  // The same for one trajectory, whose poses are computed here.
  [[nodiscard]] Evaluation evaluate(const Model& model, const Trajectory& trajectory,
                                    bool gradient = false) const;

  struct Bound;  // the terms, with names resolved to indices: plan/bound.h
  const Bound& bound() const { return *bound_; }

 private:
  std::shared_ptr<const Bound> bound_;
};

}  // namespace diffmj

#endif  // DIFFMJ_COST_H_
