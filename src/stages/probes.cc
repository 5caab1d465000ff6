#include "stages/probes.h"

#include <algorithm>
#include <cmath>

namespace diffmj {
namespace {

double inside(double x, double low, double high, double h) {
  if (x >= low && x < low + h) return h;
  if (x <= high && x > high - h) return -h;
  return 0;
}

}  // namespace

double control_shift(const StageModel& impl, int j, double u, double h) {
  const mjModel* m = impl.mj();
  if (m->actuator_ctrllimited[j] && !(m->opt.disableflags & mjDSBL_CLAMPCTRL)) {
    return inside(u, m->actuator_ctrlrange[2 * j], m->actuator_ctrlrange[2 * j + 1], h);
  }
  const int actuator = impl.ctrl_actuator[static_cast<size_t>(j)];
  return m->actuator_dyntype[actuator] == mjDYN_MUSCLE ? inside(u, 0, 1, h) : 0;
}

double activation_shift(const StageModel& impl, int j, double w, double h) {
  const mjModel* m = impl.mj();
  const int actuator = impl.act_actuator[static_cast<size_t>(j)];
  if (!m->actuator_actlimited[actuator]) {
    return m->actuator_dyntype[actuator] == mjDYN_MUSCLE ? inside(w, 0, 1, h) : 0;
  }
  return inside(w, m->actuator_actrange[2 * actuator], m->actuator_actrange[2 * actuator + 1], h);
}

double position_size(const StageModel& impl, int j, CVec qpos) {
  const mjModel* m = impl.mj();
  const int joint = m->dof_jntid[j], offset = j - m->jnt_dofadr[joint];
  const int type = m->jnt_type[joint];
  if (type == mjJNT_BALL || (type == mjJNT_FREE && offset >= 3)) return 1;
  return std::max(1.0, std::abs(qpos[static_cast<size_t>(m->jnt_qposadr[joint] + offset)]));
}

}  // namespace diffmj
