// A fit on its way: what its methods share.
#ifndef DIFFMJ_IDENTIFY_FIT_RUN_H_
#define DIFFMJ_IDENTIFY_FIT_RUN_H_

#include <chrono>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "diffmj/fit.h"

namespace diffmj {

// Where a fit is: enough to go on from.
struct FitState {
  int iteration = 0;                                      // the next one
  std::vector<double> z;                                  // free variables (FitVariables)
  std::vector<double> m, v;                               // Adam's means of g and g²
  std::vector<double> moves;                              // of starting states: FitResult::moves
  std::vector<double> theta;                              // the best until then
  double loss = std::numeric_limits<double>::infinity();  // there
  std::vector<FitStep> history;
};

// A checkpoint is a text. problem tells whether it is of the same fit. Both throw InputError that
// names the file.
void write_checkpoint(const std::string& path, const std::string& problem, const FitState& state);
FitState read_checkpoint(const std::string& path, const std::string& problem);

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
  // Writes the checkpoint, if there is one.
  void save();

 private:
  const Objective& objective_;
  const FitOptions& options_;
  FitVariables variables_;
  FitState state_;
  FitResult result_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double seconds_before_ = 0;  // of the fit that this one goes on from
  std::string problem_;        // what a checkpoint must be of
  std::chrono::steady_clock::time_point saved_{};
};

void adam(FitRun& run);
void levenberg_marquardt(FitRun& run);

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_FIT_RUN_H_
