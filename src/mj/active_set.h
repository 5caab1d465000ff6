// Which constraints carry force, and on which piece of their cost and of their impedance: where
// that changes, forces or their derivatives bend.
#ifndef DIFFMJ_MJ_ACTIVE_SET_H_
#define DIFFMJ_MJ_ACTIVE_SET_H_

#include <mujoco/mujoco.h>

#include <cstddef>

namespace diffmj {

// A number that is the same for the same set, whatever the order of its rows; 0 for none. d must
// hold the solution of the constraint solver.
size_t active_set(const mjModel* m, const mjData* d);

}  // namespace diffmj

#endif  // DIFFMJ_MJ_ACTIVE_SET_H_
