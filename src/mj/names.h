// Elements of a model by name.
//
//   element_name(m, mjOBJ_GEOM, 3)   // "geom 'floor'", or "geom 3" if it has no name
#ifndef DIFFMJ_MJ_NAMES_H_
#define DIFFMJ_MJ_NAMES_H_

#include <mujoco/mujoco.h>

#include <string>

namespace diffmj {

// type is mjtObj.
std::string element_name(const mjModel* m, int type, int id);

}  // namespace diffmj

#endif  // DIFFMJ_MJ_NAMES_H_
