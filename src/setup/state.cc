// States: where they come from, ⊕ and ⊖.
#include "diffmj/state.h"

#include <mujoco/mujoco.h>

#include "diffmj/error.h"
#include "integrate/manifold.h"
#include "mj/call.h"

namespace diffmj {

State default_state(const Model& model) {
  const mjModel* m = model.mj();
  State x;
  x.qpos.assign(m->qpos0, m->qpos0 + model.nq());
  x.qvel.assign(static_cast<size_t>(model.nv()), 0);
  x.act.assign(static_cast<size_t>(model.na()), 0);
  return x;
}

Keyframe load_keyframe(const Model& model, int key) {
  const mjModel* m = model.mj();
  if (key < 0 || key >= static_cast<int>(m->nkey)) {
    throw InputError("keyframe " + std::to_string(key) + " is not in the model; it has " +
                     std::to_string(m->nkey));
  }
  const auto row = [key](const mjtNum* rows, int width) {
    const mjtNum* begin = rows + static_cast<ptrdiff_t>(key) * width;
    return std::vector<double>(begin, begin + width);
  };
  return {.state = {.time = m->key_time[key],
                    .qpos = row(m->key_qpos, model.nq()),
                    .qvel = row(m->key_qvel, model.nv()),
                    .act = row(m->key_act, model.na())},
          .ctrl = row(m->key_ctrl, model.nu()),
          .mocap_pos = row(m->key_mpos, 3 * model.nmocap()),
          .mocap_quat = row(m->key_mquat, 4 * model.nmocap())};
}

State plus(const Model& model, const State& x, std::span<const double> dx) {
  const auto nv = static_cast<size_t>(model.nv());
  if (dx.size() != static_cast<size_t>(model.ntangent())) {
    throw InputError("plus: dx has " + std::to_string(dx.size()) +
                     " numbers, expected 2 nv + na = " + std::to_string(model.ntangent()));
  }
  State y = x;
  mj_call("mj_integratePos", [&] { mj_integratePos(model.mj(), y.qpos.data(), dx.data(), 1); });
  for (size_t i = 0; i < nv; i++) y.qvel[i] += dx[nv + i];
  for (size_t i = 0; i < y.act.size(); i++) y.act[i] += dx[2 * nv + i];
  return y;
}

void minus(const Model& model, const State& y, const State& x, std::span<double> dx) {
  const auto nv = static_cast<size_t>(model.nv());
  mj_call("mj_differentiatePos",
          [&] { mj_differentiatePos(model.mj(), dx.data(), 1, x.qpos.data(), y.qpos.data()); });
  for (size_t i = 0; i < nv; i++) dx[nv + i] = y.qvel[i] - x.qvel[i];
  for (size_t i = 0; i < y.act.size(); i++) dx[2 * nv + i] = y.act[i] - x.act[i];
}

void qpos_cotangent_to_tangent(const Model& model, std::span<const double> qpos,
                               std::span<const double> qpos_bar, std::span<double> tangent_bar) {
  cotangent_to_tangent(model.mj(), qpos, qpos_bar, tangent_bar);
}

void qpos_cotangent_to_ambient(const Model& model, std::span<const double> qpos,
                               std::span<const double> tangent_bar, std::span<double> qpos_bar) {
  cotangent_to_ambient(model.mj(), qpos, tangent_bar, qpos_bar);
}

}  // namespace diffmj
