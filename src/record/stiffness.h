// Steps of a rollout kept within the method's limit of stability, and what is said where that
// limit, not the tolerance, decided on them.
#ifndef DIFFMJ_RECORD_STIFFNESS_H_
#define DIFFMJ_RECORD_STIFFNESS_H_

#include <string>
#include <vector>

#include "diffmj/rollout.h"
#include "integrate/stability.h"
#include "record/stiffness_cause.h"
#include "setup/workspace_lease.h"

namespace diffmj {

class Stiffness {
 public:
  Stiffness(const Model& model, Workspace& workspace);

  // Whether look() should come before a step of this size [s].
  bool due(double h, const StepStart& start) const { return stability_.due(h, start); }
  // Estimates the limit at the start of a step, whose rates are known.
  void look(double h, const StepStart& start, const IntervalInput& in);
  // [s] The step to make from there, in interval i, instead of one of size h.
  double limited(int i, double h, const StepStart& start, const IntervalInput& in);
  // [s] Of the last look; far from it, something below it.
  double limit() const { return stability_.limit(); }
  // A step of size h was made.
  void follow(double h);

  // For the message of a rollout that ran out of steps: empty, or what limited them.
  std::string hint() const;
  // What there is to say about the rollout: nothing, or one warning. Uses the workspace's mjData.
  // constant: steps were of one size, whatever the limit.
  void warn(double duration, bool constant, std::vector<Warning>& warnings);

 private:
  void remember(int i, const StepStart& start, const IntervalInput& in);

  const Model& model_;
  const ModelImpl& impl_;
  Workspace& workspace_;
  Stability stability_;
  StiffMode mode_;  // the first state after a look at which the limit counted; the last of them
  bool remembers_ = false;     // mode_ is of the last look
  bool limits_ = false;        // the next step
  int first_ = -1;             // interval of the first such step
  long made_ = 0, count_ = 0;  // steps, and those that the limit cut
  double time_ = 0;            // [s] in such steps
  double growth_ = 0;  // ln of what steps added to perturbations beyond what the motion does
};

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_STIFFNESS_H_
