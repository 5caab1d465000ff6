// Planner: controls that make a cost small, by gradients, by sampling, by both, or by iLQR.
//
//   Planner planner(model, Cost(model, {{.of = Distance{ball, goal}}}), {.horizon = 256});
//   Plan plan = planner.plan({.qpos = qpos, .qvel = qvel});
//
// run_mpc(), mpc.h, plans again and again while the plan is executed. docs/planning.md says which
// planner to choose.
#ifndef DIFFMJ_PLAN_H_
#define DIFFMJ_PLAN_H_

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "diffmj/cost.h"
#include "diffmj/model.h"
#include "diffmj/rollout.h"

namespace diffmj {

enum class PlanMethod {
  kGradient,  // Adam on the decision variables, the best iterate kept; several starts at once
  kSampling,  // predictive sampling: the best of many disturbed plans, again and again
  kHybrid,    // samples around the warm start; the best few are refined by Adam
  // Iterative LQR: steps linearized, the cost's Hessian by Gauss-Newton, controls within their
  // bounds, and a line search. Of controls alone, and of terms: it has no own costs.
  kIlqr,
};
const char* plan_method_name(PlanMethod method);  // "gradient", "sampling", "hybrid", "ilqr"
PlanMethod plan_method_from_name(const std::string& name);

// Between the knots of a spline.
enum class Interpolation {
  kZero,    // a knot is held until the next
  kLinear,  // straight
  kCubic,   // Hermite, slopes from the neighbours; it may overshoot, and is clipped to the bounds
};
const char* interpolation_name(Interpolation interpolation);  // "zero", "linear", "cubic"
Interpolation interpolation_from_name(const std::string& name);

// Power of the noise falls with frequency f: white not at all, pink as 1/f, brown as 1/f².
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
};
// Writes the values of several decision variables, one each, for rollouts from this start.
using PlanEvaluate =
    std::function<void(const RolloutInput& start, std::span<const std::vector<double>> variables,
                       bool gradient, std::span<PlanValue> out)>;

struct PlanOptions {
  PlanMethod method = PlanMethod::kGradient;
  int horizon = 100;    // steps of the planning model
  double timestep = 0;  // [s] of the planning model; 0: as the model has it

  // Decision variables. Rates and noise are in units of their scale.
  bool controls = true;   // ctrl; scale: half of ctrlrange, without one 1
  bool forces = false;    // qfrc_applied
  bool velocity = false;  // qvel of the start
  double force_scale = 1, force_limit = std::numeric_limits<double>::infinity();  // [N or Nm]
  double velocity_scale = 1;                                                      // [m/s or rad/s]
  int knots = 0;  // of a spline over the horizon; 0: one value per step
  Interpolation interpolation = Interpolation::kLinear;

  // Effort: iterations of Adam or iLQR; of sampling, rounds of samples; of hybrid, iterations in
  // each of its rounds.
  int iterations = 32;
  int rounds = 1;
  // Time budget [s]: no iteration is begun that would end after it, if it takes as long as the one
  // before. The first always runs, of iLQR after the start's rollout. 0: none. Results then depend
  // on the machine.
  double seconds = 0;

  // Adam.
  double rate = 0.05;
  double beta1 = 0.9, beta2 = 0.99;
  // Of kGradient: the moments of the first start are kept from plan to plan, and shifted with it,
  // so that few iterations a plan descend as many would.
  bool keep_moments = false;
  // A gradient longer than this times the median of those before it, in the same plan, is
  // shortened to that. 0: never.
  double clip = 3;
  // Of kGradient: the warm start, and others around it. Of kIlqr: these, of which it goes on with
  // the best.
  int starts = 1;
  // Each start has this times the rate of the one before. With sigma = 0 they differ in that alone:
  // large steps that find the way and small ones that arrive, on two cores in the time of one.
  double rate_factor = 1;

  // iLQR: what is added to the Hessian in the controls at first, as a share of its mean diagonal.
  // It rises where a step is not taken, and falls where one is.
  double regularization = 1e-4;

  // Sampling.
  int samples = 64;  // in each round
  Noise noise = Noise::kPink;
  double sigma = 0.3;  // standard deviation of the noise, over the horizon
  int elites = 1;      // whose mean the next round starts from
  int refined = 3;     // of kHybrid: how many samples are refined, beside the warm start

  unsigned seed = 0;
  int nthread = 0;  // 0: as many as there are cores. Results do not depend on it.
  // Evaluates the rollouts of an iteration elsewhere, for example on other machines, each of which
  // has a planner with the same model, cost and options and calls Planner::evaluate(). It is called
  // on the thread that plans. What it throws ends the plan, but Interrupted ends it with the best
  // until then. Empty: on nthread threads here. kIlqr has none.
  PlanEvaluate evaluate = {};
};

struct PlanIteration {
  int iteration = 0;
  double cost = 0;       // the smallest until then
  double latest = 0;     // the smallest of this iteration; NaN: all of its rollouts diverged
  double seconds = 0;    // since planning began
  int nrollout = 0;      // of this iteration
  int ndiverged = 0;     // of them
  bool sampled = false;  // without gradients
};

struct Plan {
  std::vector<double> ctrl;          // horizon x nu
  std::vector<double> qfrc_applied;  // horizon x nv; empty: no decision variable
  std::vector<double> qvel;          // nv, of the start; empty: no decision variable
  std::vector<double> variables;     // as the planner has them: knots
  // Of kIlqr without knots, if an iteration lowered the cost: K of u = ctrl + K (x - x_plan), by
  // which controls follow a state beside the plan's. horizon x nu x (2 nv + na); else empty.
  std::vector<double> gains;
  double cost = 0;
  std::vector<double> terms;  // their shares of it
  std::vector<PlanIteration> history;
  long nrollout = 0;
  long ndiverged = 0;   // rollouts that diverged, or whose cost or gradient is not finite: left out
  std::string message;  // why the first of them did
  bool interrupted = false;  // the best until then
  double seconds = 0;
};

struct PlanRun {
  std::function<bool()> interrupted = {};                   // as RolloutOptions::interrupted
  std::function<void(const PlanIteration&)> progress = {};  // after every iteration
};

// What Adam knows of the gradients before: their mean, and that of their squares.
struct AdamMoments {
  std::vector<double> first, second;  // as many as decision variables
  int count = 0;                      // gradients in them; 0: none, and both are empty
};

// What a planner keeps from plan to plan.
struct PlannerMemory {
  long count = 0;            // plans made: each has its own noise
  std::vector<double> last;  // decision variables of the last plan; empty: none yet
  std::vector<std::vector<double>> population;  // of kHybrid
  AdamMoments moments;                          // with keep_moments
  std::string problem;                          // fingerprint of options, model and cost
};

// Keeps the last plan, from which the next one starts. Not for several threads at once.
class Planner {
 public:
  // Throws InputError on an option that makes no sense.
  Planner(const Model& model, Cost cost, PlanOptions options = {});
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  const Model& model() const;  // with the planning timestep
  const Cost& cost() const;
  const PlanOptions& options() const;

  // From this state. ctrl, if given, is the start of the search, horizon x nu or nu to hold;
  // otherwise it is the last plan, at first 0 or the control next to it in ctrlrange. qfrc_applied
  // likewise where forces are decided; where not, and xfrc_applied always, they act throughout.
  //
  // Throws RolloutError if every rollout diverged, and Interrupted if not even one iteration was
  // done; what rollout() throws on a wrong input.
  Plan plan(const RolloutInput& start, const PlanRun& run = {});

  // Values of decision variables (Plan::variables) from this state, on nthread threads here. They
  // do not depend on which of them are evaluated together, if the cost has no own part. Plans that
  // follow are not changed by it. Throws InputError on a wrong size, and Interrupted.
  void evaluate(const RolloutInput& start, std::span<const std::vector<double>> variables,
                bool gradient, std::span<PlanValue> out,
                const std::function<bool()>& interrupted = {});

  // Moves the last plan, and what is kept beside it, by this time: its first part is over. The last
  // control is held.
  void shift(double seconds);
  // Forgets the last plan, and begins again with the first seed.
  void reset();

  // What the next plan depends on, beside the state it starts from. A planner with the same
  // options, model and cost that gets it goes on with the same bits; another throws InputError.
  PlannerMemory memory() const;
  void restore(const PlannerMemory& memory);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_H_
