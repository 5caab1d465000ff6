// The search for one plan: rollouts, the best of them, and what all methods of planning share.
#ifndef DIFFMJ_PLAN_SEARCH_H_
#define DIFFMJ_PLAN_SEARCH_H_

#include <chrono>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "plan/adam.h"
#include "plan/ilqr.h"
#include "plan/objective.h"

namespace diffmj {

// n times a factor, at least 1 unless n is 0
int scaled(int n, double by);
// Numbers of the values from first on, the lowest cost first and those that diverged last.
std::vector<int> by_cost(const std::vector<PlanObjective::Value>& values, int first = 0);

struct PlanSearch {
  using Numbers = std::vector<double>;

  PlanSearch(const Model& model, Cost cost, const PlanOptions& o);

  PlanOptions options;
  PlanObjective objective;
  std::optional<Ilqr> ilqr;  // where the method uses it

  // kept from plan to plan
  long count = 0;  // plans made: each has its own noise
  Numbers last;    // decision variables of the last plan; empty: none yet
  std::vector<Numbers> population;
  AdamMoments moments;  // with keep_moments

  // of the plan that is being made
  const PlanRun* run = nullptr;
  std::optional<StopSignal> stop;
  std::chrono::steady_clock::time_point begin;
  double last_seconds = 0;  // of the iteration before
  Plan plan;
  Numbers best;
  std::vector<PlanObjective::Value> values;  // of the iteration before

  const PlanVariables& variables() const { return objective.variables(); }
  // of the plan that is being made, or of the next one
  double effort() const { return last.empty() ? options.first_effort : 1; }
  int with_effort(int n) const { return scaled(n, effort()); }
  double seconds() const;
  bool time_is_up() const;

  // One iteration. keep: its rollouts, for PlanObjective::differentiate_kept. Throws Interrupted.
  void evaluate(int n, const PlanObjective::Fill& fill, bool gradient, bool keep = false);
  Numbers sample(const Numbers& center, double sigma, int round, int number) const;
  // Goes on with Adam from several starts at once. goes_on: they are refined again later. The step
  // from the last iterate, which has no gradient, is then along that of the one before: one for a
  // rollout.
  void refine(const std::vector<AdamRun*>& runs, int iterations, bool goes_on = false);
  void run_ilqr(const std::vector<Numbers>& starts, int iterations);

  // The methods. The hybrid one: plan/hybrid.h.
  void by_gradient(const Numbers& nominal);
  void by_sampling(Numbers nominal);
  void by_ilqr(const Numbers& nominal);

 private:
  // An iteration that began at start: the best of all kept, what diverged counted.
  void record(const std::vector<PlanObjective::Value>& found, const PlanObjective::Fill& fill,
              double start, bool sampled, bool linearized = false);
  void poll();  // throws Interrupted
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_SEARCH_H_
