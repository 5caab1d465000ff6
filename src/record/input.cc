#include "record/input.h"

#include <algorithm>
#include <cmath>

#include "base/require.h"
#include "mj/call.h"
#include "mj/view.h"

namespace diffmj {
namespace {

std::string shape(const char* width_name, int width, int nstep) {
  return std::to_string(nstep) + " x " + std::to_string(width) + " (nstep x " + width_name +
         ") or " + std::to_string(width) + " to hold one row";
}

void require_quaternions(const std::string& who, const Model& model, CVec qpos) {
  const mjModel* m = model.mj();
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    if (m->jnt_type[j] != mjJNT_FREE && m->jnt_type[j] != mjJNT_BALL) continue;
    const int at = m->jnt_qposadr[j] + (m->jnt_type[j] == mjJNT_FREE ? 3 : 0);
    if (mju_norm(&qpos[static_cast<size_t>(at)], 4) < mjMINVAL) {
      throw InputError(who + ": qpos[" + std::to_string(at) + ":" + std::to_string(at + 4) +
                       "], the quaternion of " + model.element_name(mjOBJ_JOINT, j) +
                       ", is zero; give a rotation, for instance 1 0 0 0");
    }
  }
}

}  // namespace

void require_input(const std::string& who, const Model& model, const RolloutInput& input,
                   int nstep) {
  if (nstep < 0) throw InputError(who + ": nstep is " + std::to_string(nstep) + ", expected >= 0");
  const auto check = [&](const char* name, CVec x, const char* width_name, int width, bool rows) {
    if (x.empty()) return;
    const size_t w = static_cast<size_t>(width), most = rows ? w * static_cast<size_t>(nstep) : w;
    if (x.size() != w && x.size() != most) {
      require_size(
          who, name, x.size(), w, most,
          rows ? shape(width_name, width, nstep) : std::to_string(width) + " (" + width_name + ")");
    }
    require_finite(who, name, x, w);
  };
  const auto single = [&](const char* name, CVec x, const char* size_name, int size) {
    check(name, x, size_name, size, false);
  };
  const auto rows = [&](const char* name, CVec x, const char* width_name, int width) {
    check(name, x, width_name, width, true);
  };
  single("qpos", input.qpos, "nq", model.nq());
  single("qvel", input.qvel, "nv", model.nv());
  single("act", input.act, "na", model.na());
  rows("ctrl", input.ctrl, "nu", model.nu());
  rows("qfrc_applied", input.qfrc_applied, "nv", model.nv());
  rows("xfrc_applied", input.xfrc_applied, "6 nbody", 6 * model.nbody());
  single("mocap_pos", input.mocap_pos, "3 nmocap", 3 * model.nmocap());
  single("mocap_quat", input.mocap_quat, "4 nmocap", 4 * model.nmocap());
  single("qacc_warmstart", input.qacc_warmstart, "nv", model.nv());
  if (!std::isfinite(input.time)) throw InputError(who + ": time is not finite");
  if (!input.qpos.empty()) require_quaternions(who, model, input.qpos);
}

void prepare_data(const Model& model, CVec mocap_pos, CVec mocap_quat, Workspace& workspace) {
  mjData* d = workspace.data.get();
  // a stack that is not empty was left by an error
  if (model.nmocap() > 0 || d->pstack != 0) {
    reset_data(model, mocap_pos, mocap_quat, workspace);
    return;
  }
  const mjModel* m = model.mj();
  std::copy_n(m->eq_active0, m->neq, d->eq_active);
}

void reset_data(const Model& model, CVec mocap_pos, CVec mocap_quat, Workspace& workspace) {
  mjData* d = workspace.data.get();
  mj_call("mj_resetData", [&] { mj_resetData(model.mj(), d); });
  std::copy(mocap_pos.begin(), mocap_pos.end(), d->mocap_pos);
  std::copy(mocap_quat.begin(), mocap_quat.end(), d->mocap_quat);
}

}  // namespace diffmj
