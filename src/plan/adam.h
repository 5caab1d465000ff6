// Adam on the decision variables of one start, with clipped gradients.
#ifndef DIFFMJ_PLAN_ADAM_H_
#define DIFFMJ_PLAN_ADAM_H_

#include <limits>
#include <vector>

#include "diffmj/plan.h"
#include "plan/variables.h"

namespace diffmj {

class AdamRun {
 public:
  // moments: those it goes on with; empty ones: none
  AdamRun(std::vector<double> start, const PlanOptions& options, const AdamMoments& moments = {},
          double rate_factor = 1);

  const std::vector<double>& z() const { return z_; }  // where to evaluate next
  bool alive() const { return alive_; }
  bool has_best() const { return !best_.empty(); }
  const std::vector<double>& best() const { return best_; }
  double cost() const { return cost_; }
  const AdamMoments& moments() const { return moments_; }

  // What was found at z; gradient is empty if it was not asked for. Where the rollout diverged, or
  // three iterates in a row were worse than the first, the run goes back to its best iterate and
  // makes half the steps; without one it ends.
  void step(bool ok, double cost, const std::vector<double>& gradient,
            const PlanVariables& variables);
  // Goes back to the best iterate and makes half the steps; without a gradient there, nothing.
  void restart(const PlanVariables& variables);

 private:
  void descend(const std::vector<double>& g, const PlanVariables& variables);
  double clipped(double norm);
  void forget();  // the moments

  const PlanOptions* options_;
  std::vector<double> z_, best_, best_gradient_, norms_;
  AdamMoments moments_;
  double cost_ = std::numeric_limits<double>::infinity();
  double first_ = std::numeric_limits<double>::quiet_NaN();  // cost where it began, or went back to
  double rate_;
  int worse_ = 0;  // iterates in a row worse than that
  bool alive_ = true;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_ADAM_H_
