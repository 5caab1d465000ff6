// Owning pointers to MuJoCo's objects.
#ifndef DIFFMJ_MJ_HANDLE_H_
#define DIFFMJ_MJ_HANDLE_H_

#include <mujoco/mujoco.h>

#include <memory>

namespace diffmj {

struct MjDelete {
  void operator()(mjModel* model) const { mj_deleteModel(model); }
  void operator()(mjData* data) const { mj_deleteData(data); }
  void operator()(mjSpec* spec) const { mj_deleteSpec(spec); }
};

using MjModelPtr = std::unique_ptr<mjModel, MjDelete>;
using MjDataPtr = std::unique_ptr<mjData, MjDelete>;
using MjSpecPtr = std::unique_ptr<mjSpec, MjDelete>;

}  // namespace diffmj

#endif  // DIFFMJ_MJ_HANDLE_H_
