// poses(): body, site and centre-of-mass positions at the states of a trajectory.
#include "diffmj/error.h"
#include "diffmj/rollout.h"
#include "mj/call.h"
#include "record/input.h"
#include "record/trajectory.h"

namespace diffmj {

Poses poses(const Model& model, const Trajectory& t) {
  if (t.model_id != model.impl().id) {
    throw InputError("poses: the trajectory was made with another model");
  }
  const mjModel* m = model.mj();
  WorkspaceLease workspace(model.impl());
  mjData* d = workspace->data.get();
  reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
  const auto rows = static_cast<size_t>(t.nstep + 1), nbody = static_cast<size_t>(t.nbody);
  Poses out;
  const auto add = [](std::vector<double>& to, const mjtNum* from, size_t n) {
    to.insert(to.end(), from, from + n);
  };
  out.xpos.reserve(rows * 3 * nbody);
  out.xquat.reserve(rows * 4 * nbody);
  out.site_xpos.reserve(rows * 3 * static_cast<size_t>(m->nsite));
  out.subtree_com.reserve(rows * 3 * nbody);
  for (int i = 0; i <= t.nstep; i++) {
    mj_call("mj_kinematics", [&] {
      mju_copy(d->qpos, row(t.qpos, i, t.nq).data(), t.nq);
      mj_kinematics(m, d);
      mj_comPos(m, d);
    });
    add(out.xpos, d->xpos, 3 * nbody);
    add(out.xquat, d->xquat, 4 * nbody);
    add(out.site_xpos, d->site_xpos, 3 * static_cast<size_t>(m->nsite));
    add(out.subtree_com, d->subtree_com, 3 * nbody);
  }
  return out;
}

}  // namespace diffmj
