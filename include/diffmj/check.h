// check_gradient(): is the gradient of this model, at this state, right?
#ifndef DIFFMJ_CHECK_H_
#define DIFFMJ_CHECK_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "diffmj/model.h"
#include "diffmj/rollout.h"

namespace diffmj {

struct CheckOptions {
  // Length of the rollout that is checked. None: as many steps as the inputs have rows, or 10 if
  // they have one row that is held, or none.
  std::optional<int> nstep = {};
  int directions = 8;       // random directions in (qpos, qvel, act, every ctrl)
  unsigned seed = 1;        // of directions and cotangents
  double tolerance = 1e-5;  // relative to max(|adjoint|, |differences|, |gradient|/√n)
  // Polled between directions; true stops with Interrupted.
  std::function<bool()> interrupted = {};
  // Called with the share of the work that is done, from 0 to 1.
  std::function<void(double)> progress = {};
};

// One random direction: the adjoint's number, differences of the steps, their error bar.
//
// The adjoint is the derivative on the side that the rollout is on: for the constraints that act,
// the zones they are in and the clamps that are active. Differences count only if their samples are
// on that side, too.
struct CheckDirection {
  double adjoint = 0;
  double differences = 0;
  double error_bar = 0;  // estimated by Ridders' method
  double error = 0;      // |adjoint - differences| / scale; step by step: the largest
  // agrees: to the tolerance; where MuJoCo finds contacts by iteration, to the accuracy of the
  // differences. inconclusive: the error bar is too large. at a kink: in every direction that was
  // tried, all useful differences leave the side that the rollout is on.
  enum class Verdict { kAgrees, kDiffers, kInconclusive, kAtKink } verdict = Verdict::kAgrees;
  // central: differences of the whole rollout, from both sides. one-sided: from the side that the
  // rollout is on. stepwise: the whole rollout is at a kink on both sides, so every step was
  // compared by itself, in a direction of its own that leads away from the kinks there; the numbers
  // are sums.
  enum class Method { kCentral, kOneSided, kStepwise } method = Method::kCentral;
  int step = -1;          // stepwise, or at a kink: the step with the largest error
  std::string kink = {};  // at a kink: what switches there
};

// "agrees", "differs", "inconclusive", "at a kink"
const char* verdict_name(CheckDirection::Verdict verdict);
const char* method_name(CheckDirection::Method method);  // "central", "one-sided", "stepwise"

// A point of the rollout that is near a change of the active set.
struct Kink {
  std::string what;     // "contact of geom 'ball' and geom 'floor' opens", ...
  int step = -1;        // or interval, of explicit Runge-Kutta methods; -1: there is none
  double distance = 0;  // in the units below
  // "m", "rad", "of length" (a fixed tendon's), "of control", "of activation" or "share of the
  // constraint's force range"
  std::string unit;
};

// How near one constraint comes to a change over the rollout. All contact points of two geoms
// together are one constraint.
struct ConstraintKinks {
  std::string constraint;  // "contact of geom 'ball' and geom 'floor'", "limit of joint 'elbow'"
  // The smallest distance of its force to the next zone, in which it vanishes, sticks or slides.
  // None if the constraint never acts.
  Kink zone;
  // The smallest distance of its violation to the value at which it appears or vanishes. None for
  // friction loss.
  Kink activation;
};

struct CheckReport {
  bool passed = false;  // every direction agrees
  int nstep = 0;        // length of the rollout that was checked
  // Why it did not pass, in one line: what differs and what causes it, or what prevents differences
  // from converging. Empty if it passed.
  std::string reason;
  std::vector<CheckDirection> directions;
  // Max over steps of |M a - τ - Jᵀf| / (1 + |M a|) with the model's own solver settings: how far
  // from the optimum, which is differentiated, the solver stopped.
  double solver_residual = 0;
  double adjoint_residual = 0;  // max over steps of |H λ - a_bar| / |a_bar|
  Kink nearest_kink;            // of constraints, controls and activations
  // For every constraint that acts during the rollout, every limit, and every contact within margin
  // and gap; nearest first. Equalities have no kinks.
  std::vector<ConstraintKinks> kinks;
  GradientPath path = GradientPath::kAnalytic;
  std::string path_reason;
  // On the path "analytic": the largest difference from the oracle's gradient of this rollout,
  // relative to the largest entry. -1 on another path.
  double oracle_difference = -1;
  // Where MuJoCo finds contacts by iteration (ellipsoids, cylinders, meshes): how far its own
  // ccd_tolerance moves the gradient, relative to the largest entry. The check uses contacts at
  // machine precision. -1 if there are no such contacts.
  double collider_difference = -1;
  // Number of steps of the rollout that end at events, and the norm of their jump terms relative to
  // the norm of the gradient. -1 if there are no such steps.
  int nevent = 0;
  double jump_share = -1;
  std::vector<std::string> features;  // what the model uses, by name
  std::vector<std::string> advice;    // what would make its gradients better
  std::vector<Warning> warnings;
};

// Rolls out on the tightened model and compares the adjoint with differences of mj_step in random
// directions. With an explicit Runge-Kutta method it compares the discrete adjoint, whatever
// adjoint the model uses, with differences of its steps, whose sizes stay those of the unperturbed
// rollout. Throws InputError if the rollout itself fails.
[[nodiscard]] CheckReport check_gradient(const Model& model, const RolloutInput& input,
                                         const CheckOptions& options = {});

}  // namespace diffmj

#endif  // DIFFMJ_CHECK_H_
