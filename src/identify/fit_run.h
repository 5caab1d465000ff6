// A fit on its way: what its methods share.
#ifndef DIFFMJ_IDENTIFY_FIT_RUN_H_
#define DIFFMJ_IDENTIFY_FIT_RUN_H_

#include <chrono>
#include <span>

#include "diffmj/fit.h"

namespace diffmj {

class FitRun {
 public:
  FitRun(const Objective& objective, std::span<const double> start, const FitOptions& options);

  const Objective& objective() const { return objective_; }
  const FitOptions& options() const { return options_; }
  const FitVariables& variables() const { return variables_; }
  RolloutOptions rollout() const;
  FitState& state() { return state_; }
  FitResult& result() { return result_; }

  // Adds an iteration to the history and tells the caller of it; best: it is what the fit would
  // return now. Returns whether the fit may go on.
  bool record(FitStep step, bool best);

 private:
  const Objective& objective_;
  const FitOptions& options_;
  FitVariables variables_;
  FitState state_;
  FitResult result_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double seconds_before_ = 0;  // of the fit that this one goes on from
};

void adam(FitRun& run);
void levenberg_marquardt(FitRun& run);

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_FIT_RUN_H_
