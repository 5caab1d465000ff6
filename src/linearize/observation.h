// What a loss reads of one state, pulled back to that state alone: the rows of C of an observation.
#ifndef DIFFMJ_LINEARIZE_OBSERVATION_H_
#define DIFFMJ_LINEARIZE_OBSERVATION_H_

#include "diffmj/gradient.h"
#include "integrate/step.h"
#include "setup/workspace_lease.h"

namespace diffmj {

// Of one trajectory; model and trajectory must outlive it.
class ObservationPullback {
 public:
  ObservationPullback(const Model& model, const Trajectory& trajectory);

  // Adds to x_bar (2 nv + na) what state i receives of the cotangents of row i, without the steps
  // before it. Of the gradient, params has what parameters receive directly, and is empty if the
  // row has no cotangent of poses or sensors.
  Gradient run(const Cotangents& cotangents, int i, Vec x_bar);

 private:
  const Model& model_;
  const Trajectory& trajectory_;
  WorkspaceLease workspace_;
  StepBar bar_;
};

}  // namespace diffmj

#endif  // DIFFMJ_LINEARIZE_OBSERVATION_H_
