// Planner: finds controls with a small cost, by gradients, by sampling, by both, or by iLQR.
//
//   Planner planner(model, Cost(model, {{.of = Distance{ball, goal}}}), {.horizon = 256});
//   Plan plan = planner.plan({.qpos = qpos, .qvel = qvel});
//
// run_mpc() (mpc.h) plans repeatedly while earlier plans are executed. docs/planning.md says which
// planner to choose.
#ifndef DIFFMJ_PLAN_H_
#define DIFFMJ_PLAN_H_

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diffmj/cfd.h"
#include "diffmj/cost.h"
#include "diffmj/model.h"
#include "diffmj/rollout.h"

namespace diffmj {

enum class PlanMethod {
  kGradient,  // Adam on the decision variables, from several starts at once; keeps the best iterate
  kSampling,  // predictive sampling: each round keeps the best of many perturbed plans
  kHybrid,    // samples around the warm start; the best few are refined by Adam
  // Iterative LQR with linearized steps, Gauss-Newton Hessians of the cost, bounds on controls and
  // a line search. It decides controls only, and does not support OwnCost.
  kIlqr,
};
const char* plan_method_name(PlanMethod method);  // "gradient", "sampling", "hybrid", "ilqr"
PlanMethod plan_method_from_name(const std::string& name);

// How a spline interpolates between its knots.
enum class Interpolation {
  kZero,    // holds each knot until the next
  kLinear,  // linear
  kCubic,   // cubic Hermite, slopes from the neighbours; overshoot is clipped to the bounds
};
const char* interpolation_name(Interpolation interpolation);  // "zero", "linear", "cubic"
Interpolation interpolation_from_name(const std::string& name);

// The power spectrum of the noise: constant (white), 1/f (pink) or 1/f² (brown).
enum class Noise { kWhite, kPink, kBrown };
const char* noise_name(Noise noise);  // "white", "pink", "brown"
Noise noise_from_name(const std::string& name);

// The cost of decision variables.
struct PlanValue {
  bool ok = false;  // the rollout came to its end, and cost (and gradient) are finite
  double cost = 0;
  std::vector<double> terms;     // their shares of it
  std::vector<double> gradient;  // in the decision variables, if requested; else what was there
  std::string message;           // if not ok
  CfdCounts cfd = {};            // of a gradient with contacts from distance
};
// Writes the values of several decision variables, one each, for rollouts from this start.
using PlanEvaluate =
    std::function<void(const RolloutInput& start, std::span<const std::vector<double>> variables,
                       bool gradient, std::span<PlanValue> out)>;

struct PlanOptions {
  PlanMethod method = PlanMethod::kGradient;
  int horizon = 100;                    // steps of the planning model
  std::optional<double> timestep = {};  // [s] of the planning model; none: the model's own

  // Decision variables. Learning rates and noise are in units of their scales.
  bool controls = true;   // ctrl; its scale is half of ctrlrange, or 1 without a range
  bool forces = false;    // qfrc_applied
  bool velocity = false;  // the initial qvel
  double force_scale = 1, force_limit = std::numeric_limits<double>::infinity();  // [N or Nm]
  double velocity_scale = 1;                                                      // [m/s or rad/s]
  std::optional<int> knots = {};  // of a spline over the horizon; none: one value per step
  Interpolation interpolation = Interpolation::kLinear;

  // Iterations of Adam or iLQR; for kSampling, rounds of samples; for kHybrid, iterations of Adam
  // in each round.
  int iterations = 32;
  int rounds = 1;
  // [s] Time budget. An iteration is not started if, taking as long as the one before, it would
  // exceed the budget. The first iteration always runs. With a budget, results depend on the
  // machine. None: no budget.
  std::optional<double> seconds = {};
  // The first plan has no earlier plan to start from. It gets this factor times the iterations (for
  // kHybrid, rounds) and the time budget. In real time this suits a system that stays where it is
  // without control.
  double first_effort = 1;

  // Adam.
  double rate = 0.05;
  double beta1 = 0.9, beta2 = 0.99;
  // kGradient: keep the moments of the first start from plan to plan, shifted in time with the
  // plan, so that a few iterations per plan make as much progress as many.
  bool keep_moments = false;
  // A gradient is shortened if it is longer than this factor times the median length of the earlier
  // gradients of the plan. 0: never.
  double clip = 3;
  // Number of starting points: the warm start and random ones around it. kGradient refines all of
  // them; kIlqr continues with the best.
  int starts = 1;
  // Ratio of the learning rates of consecutive starts. With sigma = 0 the starts differ only in
  // their rate, so that large and small steps are tried in parallel.
  double rate_factor = 1;

  // iLQR: initial regularization of the Hessian in the controls, relative to its mean diagonal. It
  // increases after a rejected step and decreases after an accepted one.
  double regularization = 1e-4;

  // Sampling.
  int samples = 64;  // in each round
  Noise noise = Noise::kPink;
  double sigma = 0.3;  // standard deviation of the noise
  int elites = 1;      // number of best samples whose mean the next round starts from
  int refined = 3;     // kHybrid: number of samples that are refined, in addition to the warm start

  unsigned seed = 0;
  std::optional<int> nthread = {};  // none: one per core. Results do not depend on it.
  // Evaluates the rollouts of an iteration elsewhere, for example on other machines, each of which
  // has a planner with the same model, cost and options and calls Planner::evaluate(). It is called
  // on the thread that plans. If it throws Interrupted, the plan ends
  // with the best so far; other exceptions are passed on. Empty: on nthread threads here. Not for
  // kIlqr; the iterations of iLQR in kHybrid run here.
  PlanEvaluate evaluate = {};
};

struct PlanIteration {
  int iteration = 0;
  double cost = 0;          // the smallest so far
  double latest = 0;        // the smallest of this iteration; NaN: all of its rollouts diverged
  double seconds = 0;       // since planning began
  int nrollout = 0;         // rollouts of this iteration
  int ndiverged = 0;        // how many of them diverged
  bool sampled = false;     // the iteration used samples only, no gradients
  bool linearized = false;  // an iteration of iLQR, with A and B of every step
};

struct Plan {
  std::vector<double> ctrl;          // horizon x nu
  std::vector<double> qfrc_applied;  // horizon x nv; empty: not a decision variable
  std::vector<double> qvel;          // nv, initial velocity; empty: not a decision variable
  std::vector<double> variables;     // the decision variables themselves (knots)
  // Feedback gains K of u = ctrl + K (x - x_plan), horizon x nu x (2 nv + na), with x - x_plan in
  // the tangent space. Only from kIlqr without knots, if an iteration lowered the cost; else empty.
  std::vector<double> gains;
  double cost = 0;
  std::vector<double> terms;  // the contribution of each term of the cost
  std::vector<PlanIteration> history;
  long nrollout = 0;
  long ndiverged = 0;   // ignored rollouts: they diverged, or the cost or gradient is not finite
  std::string message;  // why the first of them was ignored
  CfdCounts cfd = {};   // of all gradients
  bool interrupted = false;  // planning was interrupted; the plan is the best one so far
  double seconds = 0;
};

struct PlanRun {
  std::function<bool()> interrupted = {};                   // as RolloutOptions::interrupted
  std::function<void(const PlanIteration&)> progress = {};  // after every iteration
};

// Adam's moments: running means of the gradients and of their squares.
struct AdamMoments {
  std::vector<double> first, second;  // one number per decision variable
  int count = 0;                      // number of gradients; if 0, both are empty
};

// What a planner keeps from plan to plan.
struct PlannerMemory {
  long count = 0;            // number of plans so far; it seeds the noise
  std::vector<double> last;  // decision variables of the last plan; empty: none yet
  std::vector<std::vector<double>> population;  // of kHybrid
  AdamMoments moments;                          // with keep_moments
  std::string problem;                          // fingerprint of options, model and cost
};

// Keeps the last plan as the warm start of the next one. Not thread-safe.
class Planner {
 public:
  // Throws InputError if an option is out of range.
  Planner(const Model& model, Cost cost, PlanOptions options = {});
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  const Model& model() const;  // with the planning timestep
  const Cost& cost() const;
  const PlanOptions& options() const;

  // Plans from this state. The search starts from ctrl if it is given, horizon x nu, or nu to hold;
  // otherwise from the last plan, or, for the first plan, from the control nearest to 0 within
  // ctrlrange. If forces are a decision variable, the same holds for qfrc_applied; otherwise
  // qfrc_applied acts during the whole plan. xfrc_applied always does.
  //
  // Throws RolloutError if every rollout diverged, Interrupted if it was interrupted before the
  // first iteration was complete, and what rollout() throws if an input is wrong.
  Plan plan(const RolloutInput& start, const PlanRun& run = {});

  // Values of decision variables (Plan::variables) from this state, on nthread threads here. They
  // do not depend on which of them are evaluated together, if the cost has no own part. Plans that
  // follow are not changed by it. Throws InputError on a wrong size, and Interrupted.
  void evaluate(const RolloutInput& start, std::span<const std::vector<double>> variables,
                bool gradient, std::span<PlanValue> out,
                const std::function<bool()>& interrupted = {});

  // The effort of the next plan relative to a usual one: PlanOptions::first_effort, or 1.
  double next_effort() const;
  // Shifts the last plan, and everything that is kept with it, forward by this time. The last
  // control is held.
  void shift(double seconds);
  // Forgets the last plan and restarts the sequence of random numbers.
  void reset();

  // Everything that the next plan depends on, apart from its initial state. A planner with the same
  // options, model and cost that restores it continues with the same bits; another planner throws
  // InputError.
  PlannerMemory memory() const;
  void restore(const PlannerMemory& memory);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_H_
