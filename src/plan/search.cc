#include "plan/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "diffmj/error.h"
#include "plan/noise.h"

namespace diffmj {

int scaled(int n, double by) {
  return n == 0 ? 0 : std::max(1, static_cast<int>(std::lround(n * by)));
}

std::vector<int> by_cost(const std::vector<PlanObjective::Value>& values, int first) {
  std::vector<int> order(values.size() - static_cast<size_t>(first));
  std::iota(order.begin(), order.end(), first);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto &x = values[static_cast<size_t>(a)], &y = values[static_cast<size_t>(b)];
    return x.ok && (!y.ok || x.cost < y.cost);
  });
  return order;
}

PlanSearch::PlanSearch(const Model& model, Cost cost, const PlanOptions& o)
    : options(o), objective(with_timestep(model, o.timestep), std::move(cost), o) {
  if (o.method == PlanMethod::kIlqr ||
      (o.method == PlanMethod::kHybrid && o.rounds > 1 && Ilqr::is_available(objective, options))) {
    ilqr.emplace(objective, options);
  }
}

double PlanSearch::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool PlanSearch::time_is_up() const {
  return options.seconds && !plan.history.empty() &&
         seconds() + last_seconds > effort() * *options.seconds;
}

void PlanSearch::poll() {
  if (stop->poll()) throw Interrupted("plan: interrupted");
}

void PlanSearch::evaluate(int n, const PlanObjective::Fill& fill, bool gradient, bool keep) {
  const double start = seconds();
  // short rollouts on threads are over before they poll
  poll();
  if (keep) {
    objective.evaluate_kept(n, fill, values, run->interrupted);
  } else {
    objective.evaluate(n, fill, gradient, values, run->interrupted);
  }
  record(values, fill, start, !gradient);
}

void PlanSearch::record(const std::vector<PlanObjective::Value>& found,
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
    plan.cfd += value.cfd;
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

PlanSearch::Numbers PlanSearch::sample(const Numbers& center, double sigma, int round,
                                       int number) const {
  Numbers z = center;
  RandomNormal random({options.seed, static_cast<std::uint64_t>(count),
                       static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(number)});
  variables().add_noise(random, sigma, z);
  return z;
}

void PlanSearch::refine(const std::vector<AdamRun*>& runs, int iterations, bool goes_on) {
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

void PlanSearch::by_gradient(const Numbers& nominal) {
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

void PlanSearch::by_sampling(Numbers nominal) {
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
    const std::vector<int> order = by_cost(values);
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

void PlanSearch::by_ilqr(const Numbers& nominal) {
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

void PlanSearch::run_ilqr(const std::vector<Numbers>& starts, int iterations) {
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

}  // namespace diffmj
