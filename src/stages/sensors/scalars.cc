// Joints, tendons, actuators, and the rows of limits.
#include <algorithm>

#include "stages/acceleration/actuation_internal.h"
#include "stages/position/constraint_rows.h"
#include "stages/position/tendon.h"
#include "stages/position/transmission.h"
#include "stages/sensors/scratch.h"
#include "stages/sensors/sensors_internal.h"
#include "stages/velocity/passive.h"

namespace diffmj {
namespace {

// the first row of a limit; -1: it is not active
int limit_row(const SensorContext& c, int type, int id) {
  if (c.nefc() == 0) return -1;
  for (int i = c.d->ne + c.d->nf; i < c.nefc(); i++) {
    if (c.d->efc_type[i] == type && c.d->efc_id[i] == id) return i;
  }
  return -1;
}

void limit_pullback(const SensorContext& c, int type, int id, int sensor_type, double bar) {
  const int row = limit_row(c, type, id);
  if (row < 0) return;
  const auto i = static_cast<size_t>(row);
  switch (sensor_type) {
    case mjSENS_JOINTLIMITPOS:
    case mjSENS_TENDONLIMITPOS:
      c.workspace.constraint.rows.pos[i] += bar;
      c.scratch.has_rows = true;
      break;
    case mjSENS_JOINTLIMITVEL:
    case mjSENS_TENDONLIMITVEL:
      c.workspace.constraint.rows.J_v[i] += bar;
      c.scratch.has_rows = true;
      break;
    default:
      c.bar.force[i] += bar;
  }
}

// what lengths and velocities of actuators receive
void transmissions_pullback(const SensorContext& c) {
  const mjModel* m = c.m;
  const auto nv = static_cast<size_t>(c.impl.nv);
  const SensorScratch& scratch = c.scratch;
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    const auto out = static_cast<size_t>(m->actuator_outadr[i]),
               n = static_cast<size_t>(m->actuator_outnum[i]);
    const CVec length(&scratch.actuator_length[out], n),
        velocity(&scratch.actuator_velocity[out], n);
    if (eigen(length).isZero(0) && eigen(velocity).isZero(0)) continue;
    const Vec y = c.workspace.actuation.y;
    for (size_t k = 0; k < n; k++) {
      eigen(y.subspan(k * nv, nv)) = velocity[k] * eigen(c.problem.in.qvel);
      velocity_pullback(c.d, static_cast<int>(out + k), velocity[k], c.bar.qvel);
    }
    transmission_pullback(m, c.d, i, length, y, c.bar.qpos, c.sweep, c.bar.params);
  }
}

}  // namespace

void scalar_sensor_pullback(const SensorContext& c, int sensor, CVec s_bar) {
  const mjModel* m = c.m;
  const int type = m->sensor_type[sensor], id = m->sensor_objid[sensor];
  const auto add = [&](std::vector<double>& to, int begin) {
    for (size_t k = 0; k < s_bar.size(); k++) to[static_cast<size_t>(begin) + k] += s_bar[k];
  };
  switch (type) {
    case mjSENS_JOINTPOS:
      c.bar.qpos[static_cast<size_t>(m->jnt_dofadr[id])] += s_bar[0];
      break;
    case mjSENS_JOINTVEL:
      c.bar.qvel[static_cast<size_t>(m->jnt_dofadr[id])] += s_bar[0];
      break;
    case mjSENS_BALLANGVEL:
      for (size_t k = 0; k < 3; k++) {
        c.bar.qvel[static_cast<size_t>(m->jnt_dofadr[id]) + k] += s_bar[k];
      }
      break;
    case mjSENS_BALLQUAT: {
      // δq = ½ q (0, δ)
      mjtNum q[4], change[4];
      mju_copy4(q, c.d->qpos + m->jnt_qposadr[id]);
      mju_normalize4(q);
      for (int k = 0; k < 3; k++) {
        const mjtNum unit[4] = {0, k == 0 ? 0.5 : 0.0, k == 1 ? 0.5 : 0.0, k == 2 ? 0.5 : 0.0};
        mju_mulQuat(change, q, unit);
        c.bar.qpos[static_cast<size_t>(m->jnt_dofadr[id] + k)] +=
            s_bar[0] * change[0] + s_bar[1] * change[1] + s_bar[2] * change[2] +
            s_bar[3] * change[3];
      }
      break;
    }
    case mjSENS_TENDONPOS:
      c.workspace.tendon.bars[static_cast<size_t>(id)].length += s_bar[0];
      c.scratch.has_tendons = true;
      break;
    case mjSENS_TENDONVEL:
      c.workspace.tendon.bars[static_cast<size_t>(id)].rate[TendonBar::kV] += s_bar[0];
      c.scratch.has_tendons = true;
      break;
    case mjSENS_ACTUATORPOS:
      add(c.scratch.actuator_length, m->actuator_outadr[id]);
      c.scratch.has_actuation = true;
      break;
    case mjSENS_ACTUATORVEL:
      add(c.scratch.actuator_velocity, m->actuator_outadr[id]);
      c.scratch.has_actuation = true;
      break;
    case mjSENS_ACTUATORFRC:
      add(c.scratch.actuator_force, m->actuator_outadr[id]);
      c.scratch.has_actuation = true;
      break;
    case mjSENS_TENDONACTFRC:
      for (int j = 0; j < static_cast<int>(m->nactuator); j++) {
        if (m->actuator_trntype[j] != mjTRN_TENDON || m->actuator_trnid[2 * j] != id) continue;
        c.scratch.actuator_force[static_cast<size_t>(m->actuator_outadr[j])] += s_bar[0];
      }
      c.scratch.has_actuation = true;
      break;
    case mjSENS_JOINTACTFRC:
      c.scratch.qfrc_actuator[static_cast<size_t>(m->jnt_dofadr[id])] += s_bar[0];
      c.scratch.has_actuation = true;
      break;
    case mjSENS_JOINTLIMITPOS:
    case mjSENS_JOINTLIMITVEL:
    case mjSENS_JOINTLIMITFRC:
      limit_pullback(c, mjCNSTR_LIMIT_JOINT, id, type, s_bar[0]);
      break;
    default:
      limit_pullback(c, mjCNSTR_LIMIT_TENDON, id, type, s_bar[0]);
  }
}

void scalar_sensors_finish(const SensorContext& c) {
  const mjModel* m = c.m;
  Sweep& s = c.sweep;
  SensorScratch& scratch = c.scratch;
  const bool rows = c.nefc() > 0 && (scratch.has_rows || scratch.has_contacts);
  // actuators and rows may act on tendons
  scratch.has_tendons = scratch.has_tendons || scratch.has_actuation || rows;
  if (scratch.has_actuation) {
    s.use(m, c.d, scratch.qfrc_actuator, s.B);
    transmissions_pullback(c);
    const ActuationIn in{.in = &c.problem.in,
                         .lambda = scratch.qfrc_actuator,
                         .act_dot_bar = {},
                         .act_next_bar = {},
                         .act_from = {},
                         .act_dot_from = {},
                         .mu = {},
                         .b = {},
                         .force_bar = scratch.actuator_force};
    actuation_pullback(
        c.impl, in, {.qpos = c.bar.qpos, .qvel = c.bar.qvel, .act = c.bar.act, .ctrl = c.bar.ctrl},
        s, c.bar.params, c.workspace);
    // gravity compensation through actuators
    if (m->flg_gravcomp && passive_enabled(m)) {
      clamp_lambda(m, c.d, scratch.qfrc_actuator, scratch.gravcomp);
      for (size_t k = 0; k < scratch.gravcomp.size(); k++) {
        if (!m->jnt_actgravcomp[m->dof_jntid[k]]) scratch.gravcomp[k] = 0;
      }
      s.use(m, c.d, scratch.gravcomp, s.G);
      gravcomp_pullback(m, c.d, s.G, s, c.bar.params);
    }
  }
  if (rows) constraint_rows_pullback(c.impl, c.bar.qpos, c.bar.qvel, c.bar.params, c.workspace);
}

}  // namespace diffmj
