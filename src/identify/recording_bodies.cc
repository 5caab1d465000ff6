// with_bodies(): poses of bodies from recorded positions.
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>

#include "diffmj/error.h"
#include "diffmj/recording.h"
#include "identify/quantities.h"
#include "mj/call.h"
#include "record/input.h"
#include "setup/model_impl.h"
#include "setup/workspace_lease.h"

namespace diffmj {

Recording with_bodies(const Model& model, Recording recording,
                      std::span<const std::string> bodies) {
  const std::string who = "with_bodies: " + recording_name(recording);
  recording = validate(model, std::move(recording));
  if (recording.qpos.empty()) throw InputError(who + ": qpos is not recorded");
  for (const std::string& name : bodies) {
    // refuses an unknown name
    (void)layout(who, model, {QuantityKind::kBodyPos, name});
    for (auto* map : {&recording.body_pos, &recording.body_quat}) {
      const size_t width = map == &recording.body_pos ? 3 : 4;
      map->try_emplace(name, recording.time.size() * width, kMissing);
    }
  }
  WorkspaceLease workspace(model.impl());
  reset_data(model, {}, {}, *workspace);
  const mjModel* m = model.mj();
  mjData* d = workspace->data.get();
  for (int i = 0; i < recording.nrow(); i++) {
    const auto qpos = row_of(recording.qpos, i, model.nq());
    if (std::any_of(qpos.begin(), qpos.end(), [](double x) { return std::isnan(x); })) continue;
    std::copy(qpos.begin(), qpos.end(), d->qpos);
    mj_call("mj_kinematics", [&] { mj_kinematics(m, d); });
    for (const std::string& name : bodies) {
      const int body = mj_name2id(m, mjOBJ_BODY, name.c_str());
      const auto fill = [&](std::vector<double>& rows, const mjtNum* from, int width) {
        const auto to = row_of(rows, i, width);
        if (std::isnan(to[0])) std::copy_n(from + width * body, width, to.begin());
      };
      fill(recording.body_pos[name], d->xpos, 3);
      fill(recording.body_quat[name], d->xquat, 4);
    }
  }
  return recording;
}

}  // namespace diffmj
