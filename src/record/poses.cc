// poses(): poses and velocities of bodies, sites and geoms at the states of a trajectory.
#include <algorithm>

#include "diffmj/error.h"
#include "diffmj/observables.h"
#include "diffmj/rollout.h"
#include "mj/call.h"
#include "record/input.h"
#include "record/trajectory.h"

namespace diffmj {
namespace {

// What MuJoCo must compute before it can be read.
enum class Stage { kKinematics, kCom, kVelocity };

struct Source {
  Stage stage;
  mjtNum* mjData::*field;  // where it is; null: mj_objectVelocity
  int object;              // mjtObj of a velocity
  int half;                // 0: angular, 1: linear
};

Source source(const Observable& x) {
  const auto pose = [](mjtNum* mjData::*field) {
    return Source{Stage::kKinematics, field, mjOBJ_UNKNOWN, 0};
  };
  if (x.values == &Poses::xpos) return pose(&mjData::xpos);
  if (x.values == &Poses::xquat) return pose(&mjData::xquat);
  if (x.values == &Poses::xmat) return pose(&mjData::xmat);
  if (x.values == &Poses::site_xpos) return pose(&mjData::site_xpos);
  if (x.values == &Poses::site_xmat) return pose(&mjData::site_xmat);
  if (x.values == &Poses::geom_xpos) return pose(&mjData::geom_xpos);
  if (x.values == &Poses::geom_xmat) return pose(&mjData::geom_xmat);
  if (x.values == &Poses::subtree_com) {
    return {Stage::kCom, &mjData::subtree_com, mjOBJ_UNKNOWN, 0};
  }
  const bool linear = x.values == &Poses::body_linvel || x.values == &Poses::site_linvel;
  return {Stage::kVelocity, nullptr, x.element == mjOBJ_BODY ? mjOBJ_XBODY : mjOBJ_SITE, linear};
}

}  // namespace

Poses poses(const Model& model, const Trajectory& t, const std::vector<std::string>& names) {
  if (t.model_id != model.impl().id) {
    throw InputError("poses: the trajectory was made with another model");
  }
  struct Asked {
    Source from;
    std::vector<double>* to;
    int count;     // elements
    size_t width;  // numbers per state
  };
  Poses out;
  std::vector<Asked> asked;
  Stage last = Stage::kKinematics;
  for (const std::string& name : names) {
    const Observable& x = observable(name);
    const auto width = static_cast<size_t>(x.size(model));
    asked.push_back({source(x), &(out.*x.values), x.count(model), width});
    asked.back().to->resize(static_cast<size_t>(t.nstep + 1) * width);
    last = std::max(last, asked.back().from.stage);
  }

  const mjModel* m = model.mj();
  WorkspaceLease workspace(model.impl());
  mjData* d = workspace->data.get();
  reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
  for (int i = 0; i <= t.nstep && !asked.empty(); i++) {
    mj_call("mj_kinematics", [&] {
      mju_copy(d->qpos, row(t.qpos, i, t.nq).data(), t.nq);
      mju_copy(d->qvel, row(t.qvel, i, t.nv).data(), t.nv);
      mj_kinematics(m, d);
      if (last >= Stage::kCom) mj_comPos(m, d);
      if (last >= Stage::kVelocity) mj_comVel(m, d);
    });
    for (const Asked& x : asked) {
      double* to = x.to->data() + static_cast<size_t>(i) * x.width;
      if (x.from.field) {
        std::copy_n(d->*x.from.field, x.width, to);
        continue;
      }
      for (int k = 0; k < x.count; k++, to += 3) {
        mjtNum velocity[6];  // angular, linear
        mj_objectVelocity(m, d, x.from.object, k, velocity, 0);
        std::copy_n(velocity + 3 * x.from.half, 3, to);
      }
    }
  }
  return out;
}

}  // namespace diffmj
