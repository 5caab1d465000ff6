#include "plan/hybrid.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diffmj {
namespace {

using Numbers = std::vector<double>;

// Sizes of samples, each half of the one before.
constexpr int kSizes = 3;
// The share of its cost that a run must lose in a round, or it is stale; and the rounds after which
// a stale one ends.
constexpr double kFall = 0.003;
constexpr int kPatience = 2;
// Iterations of iLQR in a round.
constexpr int kPolish = 3;
// Rollouts that linearizing a plan and the backward pass of iLQR are worth.
constexpr double kLinearized = 10;

}  // namespace

void HybridSearch::run(const Numbers& nominal) {
  PlanSearch& s = search_;
  for (int round = 0; round < s.with_effort(s.options.rounds) && !s.time_is_up(); round++) {
    sample(nominal, round);
    descend(round);
    if (round > 0) polish();
  }
  // the best is the plan itself; without time for any, those there were stay
  if (runs_.empty() || !runs_[0].adam.has_best()) return;
  s.population.clear();
  for (size_t k = 1; k < runs_.size(); k++) {
    if (runs_[k].adam.has_best()) s.population.push_back(runs_[k].adam.best());
  }
}

// Samples around the best plan, of several sizes after the first round: large ones leave the
// valley, small ones descend in it. A run that is neither the best nor getting better ends, and the
// best sample takes its place.
void HybridSearch::sample(const Numbers& nominal, int round) {
  PlanSearch& s = search_;
  const PlanOptions& o = s.options;
  nsample_ = scaled(o.samples, balance_);
  std::vector<Numbers> kept = {s.best.empty() ? nominal : s.best};
  if (round == 0) kept.insert(kept.end(), s.population.begin(), s.population.end());
  const int nkept = static_cast<int>(kept.size());
  const auto fill = [&](int i, Numbers& z) {
    const double sigma = round == 0 ? o.sigma : std::ldexp(o.sigma, -(i % kSizes));
    z = i < nkept ? kept[static_cast<size_t>(i)] : s.sample(kept[0], sigma, round, i);
  };
  // runs begin with the rollouts of the first samples
  const int n = nkept + nsample_;
  const bool keep = round == 0 && n <= PlanObjective::kMost && o.iterations > 0 &&
                    !s.objective.cost().has_own() && !o.evaluate;
  s.evaluate(n, fill, false, keep);
  before_ = s.values[0].ok ? s.values[0].cost : std::numeric_limits<double>::infinity();
  sampled_ = s.plan.cost;

  std::vector<int> begun;  // numbers of the samples that runs begin with
  const auto begin_run = [&](int i) {
    Numbers z;
    fill(i, z);
    runs_.push_back({AdamRun(std::move(z), o)});
    begun.push_back(i);
  };
  if (round == 0 && s.values[0].ok) begin_run(0);
  std::erase_if(runs_, [&](const Run& x) {
    return x.stale >= kPatience && x.adam.cost() > runs_[0].adam.cost();
  });
  for (const int i : by_cost(s.values, 1)) {
    if (static_cast<int>(runs_.size()) > o.refined) break;
    if (s.values[static_cast<size_t>(i)].ok) begin_run(i);
  }
  begun_ = keep && !s.time_is_up();
  if (begun_) step_from_kept(begun);
}

// The first iteration of runs, all of which began with these samples.
void HybridSearch::step_from_kept(const std::vector<int>& samples) {
  PlanSearch& s = search_;
  s.objective.differentiate_kept(samples, s.values, s.run->interrupted);
  for (size_t k = 0; k < samples.size(); k++) {
    const PlanObjective::Value& x = s.values[static_cast<size_t>(samples[k])];
    s.plan.cfd += x.cfd;
    runs_[k].adam.step(x.ok, x.cost, x.gradient, s.variables());
  }
}

// Adam on all runs. A run whose best hardly fell goes back to it and makes half the steps.
void HybridSearch::descend(int round) {
  PlanSearch& s = search_;
  const int iterations = scaled(s.options.iterations, std::max(1.0, 1 / balance_));
  const long done = s.plan.nrollout;
  std::vector<AdamRun*> all;
  std::vector<double> costs;
  for (Run& x : runs_) {
    all.push_back(&x.adam);
    costs.push_back(x.adam.cost());
  }
  s.refine(all, begun_ ? iterations - 1 : iterations, true);
  bool stuck = true;  // no run gets better
  for (size_t k = 0; k < runs_.size(); k++) {
    Run& x = runs_[k];
    const bool fell = !(costs[k] - x.adam.cost() < kFall * std::abs(costs[k]));
    x.stale = fell ? 0 : x.stale + 1;
    stuck = stuck && !fell;
    if (!fell) x.adam.restart(s.variables());
  }
  std::stable_sort(runs_.begin(), runs_.end(),
                   [](const Run& a, const Run& b) { return a.adam.cost() < b.adam.cost(); });
  // the first samples say little: they begin where nothing was found yet
  if (round == 0) return;
  // a gradient costs about as much as a rollout
  const double by_samples = (before_ - sampled_) / nsample_,
               by_gradients = (sampled_ - s.plan.cost) /
                              std::max(1.0, 2 * static_cast<double>(s.plan.nrollout - done));
  gain_ = std::max(by_samples, by_gradients);
  balance_ = stuck || by_samples > by_gradients ? std::min(balance_ * 2, 4.0)
                                                : std::max(balance_ / 2, 0.25);
}

// A few iterations of iLQR from the best plan, where it is available. As long as they lower the
// cost by more per rollout than samples and gradients did, every round has them; otherwise they
// pause for 1, 2, 4, ... rounds. Adam's runs continue from where they are: they leave valleys in
// which iLQR ends.
void HybridSearch::polish() {
  PlanSearch& s = search_;
  if (!s.ilqr || s.best.empty() || balance_ > 0.25 || s.time_is_up()) return;
  if (skipped_ < pause_) {
    skipped_++;
    return;
  }
  skipped_ = 0;
  const double cost = s.plan.cost;
  const long nrollout = s.plan.nrollout;
  const size_t nhistory = s.plan.history.size();
  s.run_ilqr({s.best}, kPolish);
  const auto spent = static_cast<double>(s.plan.nrollout - nrollout) +
                     kLinearized * static_cast<double>(s.plan.history.size() - nhistory);
  pause_ = s.plan.cost < (1 - kFall) * cost && (cost - s.plan.cost) / spent >= gain_
               ? 0
               : std::max(1, 2 * pause_);
}

}  // namespace diffmj
