// Contact geometry by central differences of MuJoCo's own collider: for the pairs that have no
// closed form here, and for cases of a collider that none of the closed forms is of.
//
// Distance, place, normal and tangent depend on the relative pose alone and move with both geoms
// when those move together: six central differences, moving the second geom, give both wrenches.
// They are taken with the collider's tolerances at machine precision, and with steps that stay
// inside one of its cases.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_DIFFERENCES_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_DIFFERENCES_H_

#include "stages/position/collision/pair.h"
#include "stages/stage_model.h"
#include "stages/workspace.h"

namespace diffmj {

// Contacts first to first + n - 1 of the workspace's data, all of one pair of geoms. Adds to out;
// to its sizes only if they are wanted: two or more calls of the collider per entry.
void differences_pullback(const StageModel& impl, int first, int n, const ContactBar* bar,
                          bool want_size, Workspace& workspace, PairBar& out);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_DIFFERENCES_H_
