// poses(): poses and velocities of bodies, sites and geoms at the states of a trajectory.
#include <algorithm>

#include "diffmj/error.h"
#include "diffmj/observables.h"
#include "diffmj/rollout.h"
#include "mj/call.h"
#include "record/input.h"
#include "record/pose_reader.h"
#include "record/tape.h"
#include "record/trajectory.h"
#include "setup/workspace_lease.h"

namespace diffmj {

PoseReader::Asked PoseReader::source(const Observable& x) {
  Asked out{Stage::kKinematics, nullptr, mjOBJ_UNKNOWN, 0, nullptr, 0, 0};
  const auto pose = [&](mjtNum* mjData::*field) {
    out.field = field;
    return out;
  };
  if (x.values == &Poses::xpos) return pose(&mjData::xpos);
  if (x.values == &Poses::xquat) return pose(&mjData::xquat);
  if (x.values == &Poses::xmat) return pose(&mjData::xmat);
  if (x.values == &Poses::site_xpos) return pose(&mjData::site_xpos);
  if (x.values == &Poses::site_xmat) return pose(&mjData::site_xmat);
  if (x.values == &Poses::geom_xpos) return pose(&mjData::geom_xpos);
  if (x.values == &Poses::geom_xmat) return pose(&mjData::geom_xmat);
  if (x.values == &Poses::subtree_com) {
    out.stage = Stage::kCom;
    return pose(&mjData::subtree_com);
  }
  out.stage = Stage::kVelocity;
  out.object = x.element == mjOBJ_BODY ? mjOBJ_XBODY : mjOBJ_SITE;
  out.half = x.values == &Poses::body_linvel || x.values == &Poses::site_linvel;
  return out;
}

PoseReader::PoseReader(const Model& model, const std::vector<std::string>& names, int nstep,
                       Poses& out)
    : m_(model.mj()) {
  for (const std::string& name : names) {
    const Observable& x = observable(name);
    Asked asked = source(x);
    asked.to = &(out.*x.values);
    asked.count = x.count(model);
    asked.width = static_cast<size_t>(x.size(model));
    asked.to->resize(static_cast<size_t>(nstep + 1) * asked.width);
    last_ = std::max(last_, asked.stage);
    asked_.push_back(asked);
  }
}

void PoseReader::evaluate(mjData* d) const {
  mj_call("mj_kinematics", [&] {
    mj_kinematics(m_, d);
    if (last_ >= Stage::kCom) mj_comPos(m_, d);
    if (last_ >= Stage::kVelocity) mj_comVel(m_, d);
  });
}

void PoseReader::read(const mjData* d, int i) const {
  for (const Asked& x : asked_) {
    double* to = x.to->data() + static_cast<size_t>(i) * x.width;
    if (x.field) {
      std::copy_n(d->*x.field, x.width, to);
      continue;
    }
    for (int k = 0; k < x.count; k++, to += 3) {
      mjtNum velocity[6];  // angular, linear
      mj_objectVelocity(m_, d, x.object, k, velocity, 0);
      std::copy_n(velocity + 3 * x.half, 3, to);
    }
  }
}

bool steps_leave_poses(const Model& model) {
  const int integrator = model.mj()->opt.integrator;
  return !model.is_adaptive() && (integrator == mjINT_EULER || integrator == mjINT_IMPLICIT ||
                                  integrator == mjINT_IMPLICITFAST);
}

Poses poses(const Model& model, const Trajectory& t, const std::vector<std::string>& names) {
  if (!is_made_with(model, t)) {
    throw InputError("poses: the trajectory was made with another model");
  }
  Poses out;
  const PoseReader reader(model, names, t.nstep, out);
  WorkspaceLease workspace(model.impl());
  mjData* d = workspace->data.get();
  reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
  for (int i = 0; i <= t.nstep && !reader.empty(); i++) {
    mju_copy(d->qpos, row(t.qpos, i, t.nq).data(), t.nq);
    mju_copy(d->qvel, row(t.qvel, i, t.nv).data(), t.nv);
    reader.evaluate(d);
    reader.read(d, i);
  }
  return out;
}

}  // namespace diffmj
