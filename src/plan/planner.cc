// Planner: gradient, sampling, hybrid and iLQR (plan/ilqr.h).
#include <mujoco/mujoco.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "base/fingerprint.h"
#include "base/parallel.h"
#include "diffmj/error.h"
#include "plan/adam.h"
#include "plan/ilqr.h"
#include "plan/noise.h"
#include "plan/objective.h"

namespace diffmj {
namespace {

using Numbers = std::vector<double>;

// Of the hybrid planner: sizes of samples, each half of the one before; the share of its cost that
// a run must lose in a round, or it is stale; and the rounds after which a stale one ends.
constexpr int kSizes = 3;
constexpr double kFall = 0.003;
constexpr int kPatience = 2;
// Iterations of iLQR in a round of the hybrid planner.
constexpr int kPolish = 3;
// Rollouts that linearizing a plan and the backward pass of iLQR are worth.
constexpr double kLinearized = 10;

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

// n times a factor, at least 1 unless n is 0
int scaled(int n, double by) {
  return n == 0 ? 0 : std::max(1, static_cast<int>(std::lround(n * by)));
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

}  // namespace

struct Planner::State {
  State(const Model& model, Cost cost, const PlanOptions& o)
      : options(o), objective(with_timestep(model, o.timestep), std::move(cost), o) {
    if (o.method == PlanMethod::kIlqr || (o.method == PlanMethod::kHybrid && o.rounds > 1 &&
                                          Ilqr::is_available(objective, options))) {
      ilqr.emplace(objective, options);
    }
  }

  PlanOptions options;
  PlanObjective objective;
  long count = 0;  // plans made: each has its own noise
  Numbers last;    // decision variables of the last plan; empty: none yet
  std::vector<Numbers> population;
  AdamMoments moments;  // with keep_moments
  std::optional<Ilqr> ilqr;

  // of the plan that is being made
  const PlanRun* run = nullptr;
  std::optional<StopSignal> stop;
  std::chrono::steady_clock::time_point begin;
  double last_seconds = 0;  // of the iteration before
  Plan plan;
  Numbers best;
  std::vector<PlanObjective::Value> values;

  const PlanVariables& variables() const { return objective.variables(); }
  // of the plan that is being made, or of the next one
  double effort() const { return last.empty() ? options.first_effort : 1; }
  int with_effort(int n) const { return scaled(n, effort()); }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  bool time_is_up() const {
    return options.seconds && !plan.history.empty() &&
           seconds() + last_seconds > effort() * *options.seconds;
  }
  void evaluate(int n, const PlanObjective::Fill& fill, bool gradient, bool keep = false);
  void record(const std::vector<PlanObjective::Value>& values, const PlanObjective::Fill& fill,
              double start, bool sampled, bool linearized = false);
  void add_capped(const PlanObjective::Value& value) {
    plan.cfd_evaluations += value.cfd_evaluations;
    plan.cfd_capped += value.cfd_capped;
  }
  Numbers sample(const Numbers& center, double sigma, int round, int number) const;
  void refine(const std::vector<AdamRun*>& runs, int iterations, bool goes_on = false);
  void by_gradient(const Numbers& nominal);
  void by_sampling(Numbers nominal);
  void by_both(const Numbers& nominal);
  struct Hybrid;
  void hybrid_samples(Hybrid& h, const Numbers& nominal, int round);
  void hybrid_gradients(Hybrid& h, int round);
  void hybrid_ilqr(Hybrid& h);
  void by_ilqr(const Numbers& nominal);
  void run_ilqr(const std::vector<Numbers>& starts, int iterations);
  std::string fingerprint() const;
};

// All that changes a plan, but for the number of threads.
std::string Planner::State::fingerprint() const {
  Fingerprint out;
  const PlanOptions& o = options;
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
                         static_cast<double>(o.seed),
                         objective.model().interval()}) {
    out.add(x);
  }
  if (o.method == PlanMethod::kIlqr) out.add(o.regularization);
  const mjModel* m = objective.model().mj();
  out.add({m->qpos0, static_cast<size_t>(m->nq)});
  out.add({m->body_mass, static_cast<size_t>(m->nbody)});
  out.add({m->geom_size, static_cast<size_t>(3 * m->ngeom)});
  out.add(variables().scale());
  for (const std::string& name : objective.cost().names()) out.add(name);
  return out.digits();
}

// One iteration.
void Planner::State::evaluate(int n, const PlanObjective::Fill& fill, bool gradient, bool keep) {
  const double start = seconds();
  // short rollouts on threads are over before they poll
  if (stop->poll()) throw Interrupted("plan: interrupted");
  if (keep) {
    objective.evaluate_kept(n, fill, values, run->interrupted);
  } else {
    objective.evaluate(n, fill, gradient, values, run->interrupted);
  }
  record(values, fill, start, !gradient);
}

// An iteration that began at start: the best of all kept, what diverged counted.
void Planner::State::record(const std::vector<PlanObjective::Value>& found,
                            const PlanObjective::Fill& fill, double start, bool sampled,
                            bool linearized) {
  const auto n = static_cast<int>(found.size());
  PlanIteration record{.iteration = static_cast<int>(plan.history.size()),
                       .latest = std::numeric_limits<double>::quiet_NaN(),
                       .nrollout = n,
                       .sampled = sampled,
                       .linearized = linearized};
  for (int i = 0; i < n; i++) {
    const PlanObjective::Value& value = found[static_cast<size_t>(i)];
    add_capped(value);
    if (!value.ok) {
      if (plan.message.empty()) plan.message = value.message;
      record.ndiverged++;
      continue;
    }
    if (!(value.cost >= record.latest)) record.latest = value.cost;
    if (!best.empty() && value.cost >= plan.cost) continue;
    plan.cost = value.cost;
    plan.terms = value.terms;
    fill(i, best);
  }
  plan.nrollout += n;
  plan.ndiverged += record.ndiverged;
  record.cost = best.empty() ? record.latest : plan.cost;
  record.seconds = seconds();
  last_seconds = record.seconds - start;
  plan.history.push_back(record);
  if (run->progress) run->progress(record);
}

Numbers Planner::State::sample(const Numbers& center, double sigma, int round, int number) const {
  Numbers z = center;
  RandomNormal random({options.seed, static_cast<std::uint64_t>(count),
                       static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(number)});
  variables().add_noise(random, sigma, z);
  return z;
}

// Goes on with Adam from several starts at once. goes_on: they are refined again later. The step
// from the last iterate, which has no gradient, is then along that of the one before: one for a
// rollout.
void Planner::State::refine(const std::vector<AdamRun*>& runs, int iterations, bool goes_on) {
  const Numbers none;
  for (int i = 0; i <= iterations && !time_is_up(); i++) {
    std::vector<AdamRun*> live;
    for (AdamRun* x : runs) {
      if (x->alive()) live.push_back(x);
    }
    if (live.empty()) break;
    // the last iterate needs no gradient
    const bool gradient = i < iterations;
    evaluate(
        static_cast<int>(live.size()),
        [&](int k, Numbers& z) { z = live[static_cast<size_t>(k)]->z(); }, gradient);
    for (size_t k = 0; k < live.size(); k++) {
      // values keep their gradients until others are found
      live[k]->step(values[k].ok, values[k].cost, gradient || goes_on ? values[k].gradient : none,
                    variables());
    }
  }
}

void Planner::State::by_gradient(const Numbers& nominal) {
  std::vector<AdamRun> runs = {AdamRun(nominal, options, moments)};
  for (int i = 1; i < options.starts; i++) {
    runs.emplace_back(sample(nominal, options.sigma, 0, i), options, AdamMoments(),
                      std::pow(options.rate_factor, i));
  }
  std::vector<AdamRun*> all;
  for (AdamRun& x : runs) all.push_back(&x);
  refine(all, with_effort(options.iterations));
  if (options.keep_moments) moments = runs[0].moments();
}

void Planner::State::by_sampling(Numbers nominal) {
  const int rounds = std::max(with_effort(options.iterations), 1);
  for (int round = 0; round < rounds && !time_is_up(); round++) {
    // the nominal plan itself is the first, where its cost is not known
    const bool known = round > 0 && options.elites == 1;
    evaluate(
        options.samples,
        [&](int i, Numbers& z) {
          z = i == 0 && !known ? nominal : sample(nominal, options.sigma, round, i);
        },
        false);
    if (options.elites == 1) {
      if (!best.empty()) nominal = best;
      continue;
    }
    // mean of the elites
    std::vector<int> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      const auto &x = values[static_cast<size_t>(a)], &y = values[static_cast<size_t>(b)];
      return x.ok && (!y.ok || x.cost < y.cost);
    });
    Numbers mean(nominal.size(), 0.0), z;
    double n = 0;
    for (int k = 0;
         k < options.elites && values[static_cast<size_t>(order[static_cast<size_t>(k)])].ok; k++) {
      const int i = order[static_cast<size_t>(k)];
      z = i == 0 ? nominal : sample(nominal, options.sigma, round, i);
      for (size_t j = 0; j < z.size(); j++) mean[j] += z[j];
      n++;
    }
    if (n == 0) continue;
    for (double& x : mean) x /= n;
    nominal = mean;
  }
}

// Samples around the best plan, and Adam from the warm start and the best few of them. Later rounds
// continue these runs, each with its momentum. They have more of whatever lowered the cost more per
// rollout, samples or gradients, and more samples where neither did. From the second round on, iLQR
// refines the best plan, as long as that lowers the cost.
struct Planner::State::Hybrid {
  struct Run {
    AdamRun adam;
    int stale = 0;  // rounds in which its best hardly fell
  };
  std::vector<Run> runs;  // the best first
  double balance = 1;     // factor of the number of samples; below 1 of iterations, inverted
  bool stuck = true;      // no run gets better
  double sampled = 0;     // cost after the samples of this round
  double before = 0;      // and before them
  int nsample = 0;
  bool begun = false;          // runs have had their first iteration
  double gain = 0;             // per rollout, of samples or gradients, whichever had more
  int pause = 0, skipped = 0;  // rounds without iLQR: to be made, and made
};

void Planner::State::by_both(const Numbers& nominal) {
  Hybrid h;
  for (int round = 0; round < with_effort(options.rounds) && !time_is_up(); round++) {
    hybrid_samples(h, nominal, round);
    hybrid_gradients(h, round);
    if (round > 0) hybrid_ilqr(h);
  }
  // the best is the plan itself; without time for any, those there were stay
  if (h.runs.empty() || !h.runs[0].adam.has_best()) return;
  population.clear();
  for (size_t k = 1; k < h.runs.size(); k++) {
    if (h.runs[k].adam.has_best()) population.push_back(h.runs[k].adam.best());
  }
}

// Samples around the best plan, of several sizes after the first round: large ones leave the
// valley, small ones descend in it. A run that is neither the best nor getting better ends, and the
// best sample takes its place.
void Planner::State::hybrid_samples(Hybrid& h, const Numbers& nominal, int round) {
  h.nsample = scaled(options.samples, h.balance);
  std::vector<Numbers> kept = {best.empty() ? nominal : best};
  if (round == 0) kept.insert(kept.end(), population.begin(), population.end());
  const int nkept = static_cast<int>(kept.size());
  const auto fill = [&](int i, Numbers& z) {
    const double sigma = round == 0 ? options.sigma : std::ldexp(options.sigma, -(i % kSizes));
    z = i < nkept ? kept[static_cast<size_t>(i)] : sample(kept[0], sigma, round, i);
  };
  // runs begin with the rollouts of the first samples
  const int n = nkept + h.nsample;
  const bool keep = round == 0 && n <= PlanObjective::kMost && options.iterations > 0 &&
                    !objective.cost().has_own() && !options.evaluate;
  evaluate(n, fill, false, keep);
  h.before = values[0].ok ? values[0].cost : std::numeric_limits<double>::infinity();
  h.sampled = plan.cost;
  std::vector<int> begun;  // numbers of the samples that runs begin with
  const auto begin_run = [&](int i, Numbers z) {
    h.runs.push_back({AdamRun(std::move(z), options)});
    begun.push_back(i);
  };
  if (round == 0 && values[0].ok) begin_run(0, nominal);
  std::erase_if(h.runs, [&](const Hybrid::Run& x) {
    return x.stale >= kPatience && x.adam.cost() > h.runs[0].adam.cost();
  });
  std::vector<int> order(values.size() - 1);
  std::iota(order.begin(), order.end(), 1);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto &x = values[static_cast<size_t>(a)], &y = values[static_cast<size_t>(b)];
    return x.ok && (!y.ok || x.cost < y.cost);
  });
  for (const int i : order) {
    if (static_cast<int>(h.runs.size()) > options.refined) break;
    if (!values[static_cast<size_t>(i)].ok) continue;
    Numbers z;
    fill(i, z);
    begin_run(i, std::move(z));
  }
  h.begun = keep && !time_is_up();
  if (!h.begun) return;
  objective.differentiate_kept(begun, values, run->interrupted);
  for (size_t k = 0; k < begun.size(); k++) {
    const PlanObjective::Value& x = values[static_cast<size_t>(begun[k])];
    add_capped(x);
    h.runs[k].adam.step(x.ok, x.cost, x.gradient, variables());
  }
}

// Adam on all runs. A run whose best hardly fell goes back to it and makes half the steps.
void Planner::State::hybrid_gradients(Hybrid& h, int round) {
  const int iterations = scaled(options.iterations, std::max(1.0, 1 / h.balance));
  const long done = plan.nrollout;
  std::vector<AdamRun*> all;
  std::vector<double> costs;
  for (Hybrid::Run& x : h.runs) {
    all.push_back(&x.adam);
    costs.push_back(x.adam.cost());
  }
  refine(all, h.begun ? iterations - 1 : iterations, true);
  h.begun = false;
  for (size_t k = 0; k < h.runs.size(); k++) {
    Hybrid::Run& x = h.runs[k];
    const bool fell = !(costs[k] - x.adam.cost() < kFall * std::abs(costs[k]));
    x.stale = fell ? 0 : x.stale + 1;
    if (!fell) x.adam.restart(variables());
  }
  std::stable_sort(h.runs.begin(), h.runs.end(), [](const Hybrid::Run& a, const Hybrid::Run& b) {
    return a.adam.cost() < b.adam.cost();
  });
  h.stuck =
      std::all_of(h.runs.begin(), h.runs.end(), [](const Hybrid::Run& x) { return x.stale > 0; });
  // the first samples say little: they begin where nothing was found yet
  if (round == 0) return;
  // a gradient costs about as much as a rollout
  const double by_samples = (h.before - h.sampled) / h.nsample,
               by_gradients = (h.sampled - plan.cost) /
                              std::max(1.0, 2 * static_cast<double>(plan.nrollout - done));
  h.gain = std::max(by_samples, by_gradients);
  h.balance = h.stuck || by_samples > by_gradients ? std::min(h.balance * 2, 4.0)
                                                   : std::max(h.balance / 2, 0.25);
}

// A few iterations of iLQR from the best plan, where it is available. As long as they lower the
// cost by more per rollout than samples and gradients did, every round has them; otherwise they
// pause for 1, 2, 4, ... rounds. Adam's runs continue from where they are: they leave valleys in
// which iLQR ends.
void Planner::State::hybrid_ilqr(Hybrid& h) {
  if (!ilqr || best.empty() || h.balance > 0.25 || time_is_up()) return;
  if (h.skipped < h.pause) {
    h.skipped++;
    return;
  }
  h.skipped = 0;
  const double cost = plan.cost;
  const long nrollout = plan.nrollout;
  const size_t nhistory = plan.history.size();
  run_ilqr({best}, kPolish);
  const auto spent = static_cast<double>(plan.nrollout - nrollout) +
                     kLinearized * static_cast<double>(plan.history.size() - nhistory);
  h.pause = plan.cost < (1 - kFall) * cost && (cost - plan.cost) / spent >= h.gain
                ? 0
                : std::max(1, 2 * h.pause);
}

void Planner::State::by_ilqr(const Numbers& nominal) {
  std::vector<Numbers> starts = {nominal};
  for (int i = 1; i < options.starts; i++) {
    starts.push_back(sample(nominal, options.sigma, 0, i));
  }
  // the last control of a plan may be a kick, which is no good where it is held: an end without it
  // is another start
  if (Numbers released = nominal; !last.empty() && variables().release_end(released)) {
    starts.push_back(std::move(released));
  }
  run_ilqr(starts, with_effort(options.iterations));
}

void Planner::State::run_ilqr(const std::vector<Numbers>& starts, int iterations) {
  const auto poll = [&] {
    if (stop->poll()) throw Interrupted("plan: interrupted");
  };
  poll();
  double start = seconds();
  const size_t first = plan.history.size();
  ilqr->run(starts, iterations,
            {.record =
                 [&](const std::vector<PlanObjective::Value>& found, const PlanObjective::Fill& z) {
                   // the rollouts of the starts come first
                   const bool linearized = plan.history.size() > first;
                   record(found, z, start, false, linearized);
                   start = seconds();
                 },
             .time_is_up =
                 [&] {
                   poll();
                   // the rollout of the start says nothing about an iteration
                   return plan.history.size() > first + 1 && time_is_up();
                 },
             .interrupted = run->interrupted});
}

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
        s.by_both(nominal);
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
  return {state_->count, state_->last, state_->population, state_->moments, state_->fingerprint()};
}

void Planner::restore(const PlannerMemory& memory) {
  require(memory.problem == state_->fingerprint(),
          "the memory to restore belongs to another problem: options, model or cost differ");
  state_->count = memory.count;
  state_->last = memory.last;
  state_->population = memory.population;
  state_->moments = memory.moments;
}

}  // namespace diffmj
