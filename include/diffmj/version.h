// Versions: of this library, and of the MuJoCo it was compiled for.
#ifndef DIFFMJ_VERSION_H_
#define DIFFMJ_VERSION_H_

#include <string>

#define DIFFMJ_VERSION "0.1.0"

namespace diffmj {

// "4.0.0": the MuJoCo headers this library was compiled with.
std::string mujoco_version_compiled();

// "4.0.0": the MuJoCo library loaded in this process.
std::string mujoco_version_loaded();

// Throws Error naming both versions if they differ. Struct layouts change between releases, so a
// Model refuses to be made against another version.
void require_mujoco_version();

}  // namespace diffmj

#endif  // DIFFMJ_VERSION_H_
