// Planner: options, dispatch to the methods (plan/search.h, plan/hybrid.h), memory.
#include <mujoco/mujoco.h>

#include <chrono>
#include <cmath>

#include "base/fingerprint.h"
#include "diffmj/error.h"
#include "plan/hybrid.h"
#include "plan/search.h"

namespace diffmj {
namespace {

using Numbers = std::vector<double>;

void require(bool good, const std::string& what) {
  if (!good) throw InputError("Planner: " + what);
}
void require_positive(const char* name, double x, bool zero = false) {
  require(std::isfinite(x) && (x > 0 || (zero && x == 0)),
          std::string(name) + " is " + std::to_string(x) + ", expected a finite number " +
              (zero ? "≥ 0" : "> 0"));
}
void require_least(const char* name, int x, int least) {
  require(x >= least, std::string(name) + " is " + std::to_string(x) + ", expected at least " +
                          std::to_string(least));
}

void require_options(const Model& model, const PlanOptions& o) {
  require_least("horizon", o.horizon, 1);
  require_least("iterations", o.iterations, 0);
  require_least("rounds", o.rounds, 1);
  require_least("samples", o.samples, 1);
  require_least("elites", o.elites, 1);
  require_least("starts", o.starts, 1);
  require_least("refined", o.refined, 0);
  require_least("knots", o.knots.value_or(1), 1);
  require_least("nthread", o.nthread.value_or(1), 1);
  require(o.knots.value_or(1) <= o.horizon,
          "knots is " + std::to_string(o.knots.value_or(1)) +
              ", expected at most one per step, horizon = " + std::to_string(o.horizon));
  require(o.elites <= o.samples, "elites is " + std::to_string(o.elites) +
                                     ", expected at most samples = " + std::to_string(o.samples));
  require_positive("rate", o.rate);
  require_positive("rate_factor", o.rate_factor);
  require_positive("regularization", o.regularization, true);
  require_positive("sigma", o.sigma, true);
  require_positive("clip", o.clip, true);
  require_positive("seconds", o.seconds.value_or(1));
  require_positive("first_effort", o.first_effort);
  require_positive("timestep", o.timestep.value_or(1));
  require_positive("force_scale", o.force_scale);
  require_positive("velocity_scale", o.velocity_scale);
  require(o.force_limit > 0,
          "force_limit is " + std::to_string(o.force_limit) + ", expected a number > 0");
  require(o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1,
          "beta1 and beta2 are " + std::to_string(o.beta1) + " and " + std::to_string(o.beta2) +
              ", expected numbers ≥ 0 and < 1");
  require(o.controls || o.forces || o.velocity,
          "there are no decision variables; decide controls, forces or velocity");
  require(!o.controls || model.nu() > 0 || o.forces || o.velocity,
          "the model has no controls; decide forces or velocity");
  require(!o.evaluate || o.method != PlanMethod::kIlqr,
          "evaluate is unavailable with method ilqr, whose line search follows the state; use "
          "gradient, sampling or hybrid");
  require(!o.timestep || !model.is_adaptive(),
          std::string("timestep is unavailable with integrator ") +
              integrator_name(model.integrator()) +
              "; set the interval of the model (AdaptiveOptions::interval)");
}

// All that changes a plan, but for the number of threads.
std::string fingerprint_of(const PlanSearch& search) {
  Fingerprint out;
  const PlanOptions& o = search.options;
  const PlanObjective& objective = search.objective;
  for (const double x : {static_cast<double>(o.method),
                         static_cast<double>(o.horizon),
                         static_cast<double>(o.forces),
                         static_cast<double>(o.velocity),
                         static_cast<double>(o.knots.value_or(0)),
                         static_cast<double>(o.interpolation),
                         static_cast<double>(o.iterations),
                         static_cast<double>(o.rounds),
                         o.seconds.value_or(0),
                         o.first_effort,
                         o.rate,
                         o.beta1,
                         o.beta2,
                         o.clip,
                         static_cast<double>(o.keep_moments),
                         o.rate_factor,
                         static_cast<double>(o.starts),
                         static_cast<double>(o.samples),
                         static_cast<double>(o.noise),
                         o.sigma,
                         static_cast<double>(o.elites),
                         static_cast<double>(o.refined),
                         o.force_scale,
                         o.force_limit,
                         o.velocity_scale,
                         o.regularization,
                         static_cast<double>(o.seed),
                         objective.model().interval()}) {
    out.add(x);
  }
  const mjModel* m = objective.model().mj();
  out.add({m->qpos0, static_cast<size_t>(m->nq)});
  out.add({m->body_mass, static_cast<size_t>(m->nbody)});
  out.add({m->geom_size, static_cast<size_t>(3 * m->ngeom)});
  out.add(objective.variables().scale());
  for (const std::string& name : objective.cost().names()) out.add(name);
  return out.digits();
}

}  // namespace

struct Planner::State : PlanSearch {
  using PlanSearch::PlanSearch;
};

Planner::Planner(const Model& model, Cost cost, PlanOptions options) {
  require_options(model, options);
  if (model.nu() == 0) options.controls = false;
  state_ = std::make_unique<State>(model, std::move(cost), options);
}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;

const Model& Planner::model() const { return state_->objective.model(); }
const Cost& Planner::cost() const { return state_->objective.cost(); }
const PlanOptions& Planner::options() const { return state_->options; }

Plan Planner::plan(const RolloutInput& start, const PlanRun& run) {
  State& s = *state_;
  s.run = &run;
  s.stop.emplace(run.interrupted);
  s.begin = std::chrono::steady_clock::now();
  s.plan = {};
  s.best.clear();
  s.objective.set_start(start);
  Numbers nominal = s.last;
  if (nominal.empty()) {
    nominal = s.variables().zero();
    s.variables().set_velocity(start.qvel, nominal);
  }
  s.variables().set_ctrl(start.ctrl, nominal);
  s.variables().set_forces(start.qfrc_applied, nominal);
  try {
    switch (s.options.method) {
      case PlanMethod::kGradient:
        s.by_gradient(nominal);
        break;
      case PlanMethod::kSampling:
        s.by_sampling(nominal);
        break;
      case PlanMethod::kHybrid:
        HybridSearch(s).run(nominal);
        break;
      case PlanMethod::kIlqr:
        s.by_ilqr(nominal);
        break;
    }
  } catch (const Interrupted&) {
    if (s.best.empty()) throw;
    s.plan.interrupted = true;
  }
  if (s.best.empty()) {
    throw RolloutError("plan: all " + std::to_string(s.plan.nrollout) +
                       " rollouts diverged; the first: " + s.plan.message);
  }
  s.count++;
  s.last = s.best;
  PlanInputs inputs;
  s.variables().inputs(s.best, inputs);
  Plan out = std::move(s.plan);
  out.ctrl = std::move(inputs.ctrl);
  out.qfrc_applied = std::move(inputs.qfrc_applied);
  out.qvel = std::move(inputs.qvel);
  out.variables = s.best;
  if (s.options.method == PlanMethod::kIlqr) out.gains = s.ilqr->gains();
  out.seconds = s.seconds();
  return out;
}

double Planner::next_effort() const { return state_->effort(); }

void Planner::evaluate(const RolloutInput& start, std::span<const std::vector<double>> variables,
                       bool gradient, std::span<PlanValue> out,
                       const std::function<bool()>& interrupted) {
  State& s = *state_;
  require(out.size() == variables.size(), "evaluate has " + std::to_string(variables.size()) +
                                              " decision variables, but " +
                                              std::to_string(out.size()) + " values");
  const size_t size = s.variables().size();
  for (const Numbers& z : variables) {
    require(z.size() == size, "decision variables have " + std::to_string(z.size()) +
                                  " numbers, expected " + std::to_string(size));
  }
  s.objective.set_start(start);
  s.objective.evaluate_here(
      static_cast<int>(out.size()),
      [&](int i, Numbers& z) { z = variables[static_cast<size_t>(i)]; }, gradient, out,
      interrupted);
}

void Planner::shift(double seconds) {
  State& s = *state_;
  const double steps = seconds / s.objective.model().interval();
  if (!s.last.empty()) s.variables().shift(steps, s.last);
  for (Numbers& z : s.population) s.variables().shift(steps, z);
  if (s.moments.count > 0) {
    s.variables().shift_moments(steps, s.moments.first);
    s.variables().shift_moments(steps, s.moments.second);
  }
}

void Planner::reset() {
  state_->last.clear();
  state_->population.clear();
  state_->moments = {};
  state_->count = 0;
}

PlannerMemory Planner::memory() const {
  return {state_->count, state_->last, state_->population, state_->moments,
          fingerprint_of(*state_)};
}

void Planner::restore(const PlannerMemory& memory) {
  require(memory.problem == fingerprint_of(*state_),
          "the memory to restore belongs to another problem: options, model or cost differ");
  state_->count = memory.count;
  state_->last = memory.last;
  state_->population = memory.population;
  state_->moments = memory.moments;
}

}  // namespace diffmj
