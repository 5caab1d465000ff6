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
  AdamRun(std::vector<double> start, const PlanOptions& options);

  const std::vector<double>& z() const { return z_; }  // where to evaluate next
  bool alive() const { return alive_; }
  bool has_best() const { return !best_.empty(); }
  const std::vector<double>& best() const { return best_; }
  double cost() const { return cost_; }

  // What was found at z; gradient is empty if it was not asked for. Where the rollout diverged, or
  // three iterates in a row were worse than the first, the run goes back to its best iterate and
  // makes half the steps; without one it ends.
  void step(bool ok, double cost, const std::vector<double>& gradient,
            const PlanVariables& variables);

 private:
  double clipped(double norm);

  const PlanOptions* options_;
  std::vector<double> z_, best_, best_gradient_, m_, v_, norms_;
  double cost_ = std::numeric_limits<double>::infinity();
  double first_ = std::numeric_limits<double>::quiet_NaN();  // cost where it began, or went back to
  double rate_;
  int worse_ = 0;  // iterates in a row worse than that
  int count_ = 0;  // steps in m and v
  bool alive_ = true;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_ADAM_H_
