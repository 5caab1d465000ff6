// What the pullbacks of the dynamics are contracted with, on every gradient path.
#ifndef DIFFMJ_STAGES_MULTIPLIERS_H_
#define DIFFMJ_STAGES_MULTIPLIERS_H_

#include "mj/view.h"

namespace diffmj {

// One row per cotangent; a null pointer is zero.
struct Multipliers {
  const Matrix* lambda = nullptr;        // of -g,       nv
  const Matrix* mu = nullptr;            // of M a,      nv
  const Matrix* b_bar = nullptr;         // of b,        nv
  const Matrix* act_dot_bar = nullptr;   // of act_dot,  na
  const Matrix* act_next_bar = nullptr;  // of act_next, na
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_MULTIPLIERS_H_
