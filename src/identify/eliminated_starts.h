// Starting states of segments, eliminated from a least-squares problem.
#ifndef DIFFMJ_IDENTIFY_ELIMINATED_STARTS_H_
#define DIFFMJ_IDENTIFY_ELIMINATED_STARTS_H_

#include <span>
#include <vector>

#include "diffmj/fit.h"

namespace diffmj {

class EliminatedStarts {
 public:
  // Without moves nothing is estimated, and predict() gives nothing.
  EliminatedStarts() = default;
  explicit EliminatedStarts(std::vector<double> moves) : moves_(std::move(moves)) {}

  // The best moves of starting states at θ, by the residuals as they were linearised last.
  std::vector<double> predict(std::span<const double> theta) const;
  // Takes residuals linearised at θ and moves, and projects their derivatives in θ: what remains of
  // them if the starting states follow.
  void linearize(std::span<const double> theta, std::vector<double> moves, Objective::Residuals& r);

  // Directions of starting states that the residuals of linearize() depend on.
  int rank() const { return rank_; }

 private:
  std::vector<double> moves_;         // nsegment x ntangent
  std::vector<double> theta_;         // where it was linearised; empty: not yet
  std::vector<double> step_, slope_;  // nsegment x ntangent, and nsegment x ntangent x p
  int rank_ = 0;
};

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_ELIMINATED_STARTS_H_
