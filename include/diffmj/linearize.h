// linearize() and rollout_pushforward(): derivatives of steps as matrices, and of rollouts along
// tangents of their inputs. Use rollout_pullback() (gradient.h) for many inputs and one loss. Use
// these for few inputs and many outputs, and for methods that need A and B themselves: LQR, iLQR,
// Kalman filters, Gauss-Newton.
#ifndef DIFFMJ_LINEARIZE_H_
#define DIFFMJ_LINEARIZE_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "diffmj/model.h"
#include "diffmj/rollout.h"

namespace diffmj {

// Derivatives of one step as mjd_transitionFD gives them, in the tangent space:
//   x' = f(x, u):   A = ∂x'/∂x,  B = ∂x'/∂u
// and, if requested, of the sensors at its start:
//   y = s(x, u):    C = ∂y/∂x,   D = ∂y/∂u
struct Linearization {
  std::vector<double> A;  // (2 nv + na) x (2 nv + na), row-major
  std::vector<double> B;  // (2 nv + na) x nu, row-major
  std::vector<double> C;  // nsensordata x (2 nv + na), row-major; empty: not requested
  std::vector<double> D;  // nsensordata x nu, row-major
};
// Throws InputError if an input is wrong or the step fails, UnsupportedError if sensors are
// requested and one has no derivative.
[[nodiscard]] Linearization linearize(const Model& model, const RolloutInput& input,
                                      bool sensors = false);

// One linearization per input, on a pool of threads. An error names the input.
[[nodiscard]] std::vector<Linearization> linearize_batch(const Model& model,
                                                         std::span<const RolloutInput> inputs,
                                                         bool sensors = false,
                                                         const RolloutOptions& options = {});

// A and B of every step of a trajectory, one after the other.
struct TrajectoryLinearization {
  std::vector<double> A;  // nstep x (2 nv + na) x (2 nv + na)
  std::vector<double> B;  // nstep x (2 nv + na) x nu: by the controls of the step's own row
  // Where controls are linear between rows (AdaptiveOptions), by those of the next row; else empty.
  std::vector<double> B_end;
};
// Contacts and tendon paths that the trajectory kept are not recomputed. Steps of MuJoCo's
// integrators run on a pool of threads. Throws InputError if the trajectory failed or belongs to
// another model.
[[nodiscard]] TrajectoryLinearization linearize(const Model& model, const Trajectory& trajectory,
                                                const RolloutOptions& options = {});

// Tangents of the initial state, the inputs and the parameters of a rollout: count directions, one
// row each. An empty span is 0.
struct Tangents {
  int count = 0;
  std::span<const double> qpos_tangent = {};  // count x nv
  std::span<const double> qvel = {};          // count x nv
  std::span<const double> act = {};           // count x na
  std::span<const double> ctrl = {};          // count x nstep x nu
  std::span<const double> qfrc_applied = {};  // count x nstep x nv
  // Of fields of mjModel (parameter_names()), in the layout of each: count x its size.
  std::map<std::string, std::span<const double>> params = {};
};

// The tangents of a rollout's states.
struct TrajectoryTangents {
  std::vector<double> qpos_tangent;  // count x (nstep + 1) x nv
  std::vector<double> qvel;          // count x (nstep + 1) x nv
  std::vector<double> act;           // count x (nstep + 1) x na
};

// Pushes tangents through a rollout, all of them at once: the derivatives of its states along them,
// as exact as rollout_pullback(). The cost is that of linearize(), whatever the count. Throws
// InputError as linearize() does, or if a tangent has the wrong size or is not finite;
// UnsupportedError for tangents of parameters with adaptive steps; RolloutError if a tangent
// overflows.
[[nodiscard]] TrajectoryTangents rollout_pushforward(const Model& model,
                                                     const Trajectory& trajectory,
                                                     const Tangents& tangents,
                                                     const RolloutOptions& options = {});

}  // namespace diffmj

#endif  // DIFFMJ_LINEARIZE_H_
