#include "stages/workspace.h"

#include <algorithm>

namespace diffmj {

void reset_keeping_mocap(const CompiledModel& model, Workspace& workspace) {
  mjData* d = workspace.data.get();
  const std::vector<double> pos(d->mocap_pos, d->mocap_pos + 3 * model.nmocap),
      quat(d->mocap_quat, d->mocap_quat + 4 * model.nmocap);
  mj_resetData(model.mj(), d);
  std::copy(pos.begin(), pos.end(), d->mocap_pos);
  std::copy(quat.begin(), quat.end(), d->mocap_quat);
}

Workspace::Workspace(const CompiledModel& model, size_t nplace)
    : sweep(model.mj()), sensors(model.mj()), tendon_fits(model.mj()) {
  data = make_data(model);
  const auto nq = static_cast<size_t>(model.nq), nv = static_cast<size_t>(model.nv),
             na = static_cast<size_t>(model.na);
  H.resize(model.nv, model.nv);
  response.resize(model.nv, model.nv);
  row_column.resize(6 * nv);
  factor_row.reserve(nv + 1);
  factor_column.reserve(nv * (nv + 1) / 2);
  row_value.resize(6 * nv);
  for (auto* x : {&H_lambda, &direction, &saved_qvel, &F}) {
    x->resize(nv);
  }
  for (Outputs* out : {&base, &probe}) {
    for (auto* x : {&out->g, &out->Ma, &out->b}) x->setZero(model.nv);
    for (auto* x : {&out->act_dot, &out->act_next}) x->setZero(model.na);
  }
  for (auto* x : {&saved_qpos, &next_qpos}) x->resize(nq);
  for (auto* x : {&saved_act, &saved_act_dot}) x->resize(na);
  for (auto* x : {&tangent_center, &tangent_plus, &tangent_minus}) x->resize(2 * nv + na);
  body_jacobian.resize(6 * nv);
  const auto nout = static_cast<size_t>(model.mj()->nout),
             nactuator = static_cast<size_t>(model.mj()->nactuator);
  for (auto* x : {&lambda_actuation, &lambda_gravcomp, &actuation_moment, &b, &difference_ab,
                  &v_plus_b, &v_minus_b, &zero, &armature_bar, &tendon_y, &noslip_a_bar}) {
    x->resize(nv);
  }
  tendons.resize(static_cast<size_t>(model.mj()->ntendon));
  actuation_y.resize(3 * nv);
  for (auto* x : {&actuation_act_dot_bar, &actuation_act, &actuation_act_dot}) x->resize(na);
  for (auto* x :
       {&actuation_force, &actuation_force_bar, &actuation_length_bar, &actuation_velocity_bar}) {
    x->resize(nout);
  }
  for (auto* x : {&actuation_step, &actuation_center, &actuation_psi}) x->resize(nactuator);
  stages.resize(nplace);
  for (Stage& stage : stages) stage.resize(model);
  between.resize(model);
  for (auto* x : {&error, &x0_size, &x1_size}) x->resize(std::max(nv, na));
}

void Workspace::Stage::resize(const CompiledModel& model) {
  const auto nv = static_cast<size_t>(model.nv), na = static_cast<size_t>(model.na);
  qpos.resize(static_cast<size_t>(model.nq));
  for (auto* x : {&qvel, &qacc, &u, &k, &dq, &dv}) x->resize(nv);
  for (auto* x : {&act, &act_dot, &dw}) x->resize(na);
  ctrl.resize(static_cast<size_t>(model.nu));
}

}  // namespace diffmj
