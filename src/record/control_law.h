// Controls that depend on the state.
#ifndef DIFFMJ_RECORD_CONTROL_LAW_H_
#define DIFFMJ_RECORD_CONTROL_LAW_H_

#include <functional>

#include "mj/view.h"

namespace diffmj {

// The state before a step, or before an interval of adaptive steps.
struct LawInput {
  int step;
  CVec qpos, qvel, act;
};
// Writes ctrl (nu) of that step.
using ControlLaw = std::function<void(const LawInput& in, Vec ctrl)>;
// Of rollout number i of a batch, called from any thread.
using BatchControlLaw = std::function<void(int i, const LawInput& in, Vec ctrl)>;

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_CONTROL_LAW_H_
