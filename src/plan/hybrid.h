// The hybrid planner.
//
// Samples around the best plan, and Adam from the warm start and the best few of them. Later rounds
// continue these runs, each with its momentum. They have more of whatever lowered the cost more per
// rollout, samples or gradients, and more samples where neither did. From the second round on, iLQR
// refines the best plan, as long as that lowers the cost.
#ifndef DIFFMJ_PLAN_HYBRID_H_
#define DIFFMJ_PLAN_HYBRID_H_

#include <vector>

#include "plan/search.h"

namespace diffmj {

class HybridSearch {
 public:
  explicit HybridSearch(PlanSearch& search) : search_(search) {}

  void run(const std::vector<double>& nominal);

 private:
  struct Run {
    AdamRun adam;
    int stale = 0;  // rounds in which its best hardly fell
  };

  void sample(const std::vector<double>& nominal, int round);
  void step_from_kept(const std::vector<int>& samples);
  void descend(int round);
  void polish();

  PlanSearch& search_;
  std::vector<Run> runs_;  // the best first
  double balance_ = 1;     // factor of the number of samples; below 1 of iterations, inverted
  double before_ = 0;      // cost before the samples of this round
  double sampled_ = 0;     // and after them
  int nsample_ = 0;
  bool begun_ = false;           // the runs have had the first iteration of this round
  double gain_ = 0;              // per rollout, of samples or gradients, whichever had more
  int pause_ = 0, skipped_ = 0;  // rounds without iLQR: to be made, and made
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_HYBRID_H_
