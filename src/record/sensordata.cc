// sensordata(): sensor values at the states of a trajectory.
#include "record/sensordata.h"

#include <algorithm>

#include "base/names.h"
#include "base/suggestion.h"
#include "diffmj/error.h"
#include "diffmj/sensors.h"
#include "mj/call.h"
#include "mj/callbacks.h"
#include "mj/collider.h"
#include "record/input.h"
#include "record/tape.h"
#include "record/trajectory.h"
#include "setup/workspace_lease.h"
#include "stages/position/constraint_onset.h"
#include "stages/sensors/sensors.h"

namespace diffmj {

void require_sensor_values(const std::string& who, const Model& model) {
  for (int i = 0; i < static_cast<int>(model.mj()->nsensor); i++) {
    const std::string why = sensor_value_obstacle(model.impl(), i);
    if (why.empty()) continue;
    throw UnsupportedError(who + ": " + sensor_name(model.mj(), i) + " is unavailable: " + why);
  }
}

StepInput state_input(const Trajectory& t, int i) {
  // the last state has no step of its own
  const int step = std::min(i, t.nstep - 1);
  const bool any = step >= 0;
  StepInput in{.time = t.time[static_cast<size_t>(i)],
               .qpos = row(t.qpos, i, t.nq),
               .qvel = row(t.qvel, i, t.nv),
               .act = row(t.act, i, t.na),
               .qacc_warmstart = {},
               .ctrl = any ? input_row(t.ctrl, step, t.nu) : CVec(),
               .qfrc_applied = any ? input_row(t.qfrc_applied, step, t.nv) : CVec(),
               .xfrc_applied = any ? input_row(t.xfrc_applied, step, 6 * t.nbody) : CVec()};
  if (i < t.nstep) {
    in.qacc_warmstart = row(t.tape->qacc_warmstart, i, t.nv);
  } else {
    in.qacc_warmstart = t.next_warmstart;
  }
  return in;
}

void evaluate_sensors_at(const Model& model, const StepInput& in, Workspace& workspace) {
  const mjModel* m = model.mj();
  mjData* d = workspace.data.get();
  try {
    mj_call("mj_forward", [&] {
      write_input(m, d, in);
      forward_with_onset(CollidingModel(m), d, model.options().adaptive.onset);
    });
    // MuJoCo's own colliders, whatever the model's contacts have
    const ColliderScope scope(nullptr);
    mj_call("mj_sensorAcc", [&] { evaluate_sensors(m, d); });
  } catch (const MujocoError&) {
    reset_keeping_mocap(model.impl(), workspace);
    throw;
  }
}

std::vector<double> sensordata(const Model& model, const Trajectory& t) {
  if (!is_made_with(model, t)) {
    throw InputError("sensordata: the trajectory was made with another model");
  }
  require_no_callbacks("sensordata");
  require_sensor_values("sensordata", model);
  const auto width = static_cast<size_t>(model.mj()->nsensordata);
  if (width == 0 || !t.sensordata.empty()) return t.sensordata;
  WorkspaceLease workspace(model.impl());
  reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
  std::vector<double> out;
  out.reserve(static_cast<size_t>(t.nstep + 1) * width);
  for (int i = 0; i <= t.nstep; i++) {
    evaluate_sensors_at(model, state_input(t, i), *workspace);
    const mjtNum* values = workspace->data->sensordata;
    out.insert(out.end(), values, values + width);
  }
  return out;
}

SensorRange sensor_range(const Model& model, const std::string& name) {
  const mjModel* m = model.mj();
  const int id = mj_name2id(m, mjOBJ_SENSOR, name.c_str());
  if (id >= 0) return {id, m->sensor_adr[id], m->sensor_dim[id]};
  std::vector<std::string> names;
  for (int i = 0; i < static_cast<int>(m->nsensor); i++) {
    const char* other = mj_id2name(m, mjOBJ_SENSOR, i);
    if (other && *other) names.emplace_back(other);
  }
  throw InputError("the model has no sensor '" + name + "'; it has " +
                   (names.empty() ? "no named sensors" : joined(names)) +
                   did_you_mean(name, names));
}

}  // namespace diffmj
