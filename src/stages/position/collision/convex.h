// Contacts that MuJoCo's iterating colliders find (ellipsoids, cylinders, meshes, height fields):
// nearest points of two features, as collision/nearest.h has them, or what is left of features that
// clip each other, as collision/clipped.h has it. The collider is run once more, at machine
// precision: its own tolerance would show in the curvature.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_CONVEX_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_CONVEX_H_

#include <span>

#include "stages/position/collision/pair.h"
#include "stages/stage_model.h"
#include "stages/workspace.h"

namespace diffmj {

// Contacts first to first + n - 1 of the workspace's data, all of one pair of geoms; bar has n of
// them for each of out. False if they are not known to be as above; out is of no use then.
bool convex_pullback(const StageModel& impl, int first, int n, const ContactBar* bar,
                     Workspace& workspace, std::span<PairBar> out);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_CONVEX_H_
