// Where the derivative may jump: how far a rollout stays from a change of its active set.
#ifndef DIFFMJ_CHECK_KINKS_H_
#define DIFFMJ_CHECK_KINKS_H_

#include "diffmj/check.h"
#include "mj/view.h"
#include "model/workspace.h"

namespace diffmj {

// A kink with a number that compares lengths, angles and forces: below 1 it is close.
struct RankedKink {
  Kink kink;
  double rank = 0;
};

// The nearest change of a constraint's activity or zone at the state in the workspace's mjData,
// whose stages must have been evaluated; y is J qacc - aref (workspace.y). Constraints that are not
// rows yet are seen for joint limits, not for contacts beyond their margin.
void nearest_kink(const Model& model, int step, const Workspace& workspace, RankedKink& nearest);

}  // namespace diffmj

#endif  // DIFFMJ_CHECK_KINKS_H_
