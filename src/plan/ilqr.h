// Iterative LQR with bounds on controls.
//
// An iteration linearizes the steps of the plan (linearize.h), expands the cost (gauss_newton.h),
// solves the quadratic program that this gives (riccati.h), and rolls out its feedback with several
// lengths α of its step at once. The best of them is taken if it lowers the cost.
#ifndef DIFFMJ_PLAN_ILQR_H_
#define DIFFMJ_PLAN_ILQR_H_

#include <functional>
#include <vector>

#include "base/parallel.h"
#include "plan/objective.h"
#include "plan/riccati.h"

namespace diffmj {

class Ilqr {
 public:
  // The objective must outlive it. Throws InputError or UnsupportedError on what iLQR does not do.
  Ilqr(PlanObjective& objective, const PlanOptions& options);
  // Whether the hybrid planner may use it: the constructor accepts this problem, and linearizing a
  // step costs a few steps, which with adaptive steps it does not.
  static bool is_available(const PlanObjective& objective, const PlanOptions& options);

  // What the planner does at iterations.
  struct Hooks {
    // Its rollouts: values, and the decision variables of number i.
    std::function<void(const std::vector<PlanObjective::Value>& values,
                       const PlanObjective::Fill& z)>
        record;
    std::function<bool()> time_is_up;
    const std::function<bool()>& interrupted;
  };
  // From the best of these starts. Throws Interrupted.
  void run(const std::vector<std::vector<double>>& starts, int iterations, const Hooks& hooks);

  // Of the iteration that led to the best plan, horizon x nu x (2 nv + na); empty: none did, or
  // there are knots.
  const std::vector<double>& gains() const { return gains_; }

 private:
  // An outcome of an iteration.
  enum class Step { kTaken, kRefused, kConverged };

  bool start(const std::vector<std::vector<double>>& starts, const Hooks& hooks);
  void expand(const Hooks& hooks);
  Step iterate(const Hooks& hooks);
  bool search(int begin, int end, const Hooks& hooks);
  void raise();
  void lower();
  void keep_gains();

  PlanObjective& objective_;
  PlanOptions options_;
  bool per_step_;
  Riccati riccati_;
  PlanObjective::Rolled nominal_;
  double cost_ = 0;
  bool expanded_ = false;  // the nominal plan
  double mu_ = 0, factor_ = 1;
  std::vector<double> A_, B_;
  std::vector<CostExpansion> expansions_;
  std::vector<std::vector<double>> dx_;             // of every rollout of a search
  std::vector<PlanObjective::Value> values_, all_;  // of a batch, and of an iteration
  std::vector<std::vector<double>> tried_;          // decision variables of all_
  double alpha_ = 0;                                // that was taken
  std::vector<double> gains_;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_ILQR_H_
