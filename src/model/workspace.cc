#include "model/workspace.h"

#include <algorithm>

#include "integrate/tableau.h"
#include "mj/call.h"

namespace diffmj {

MjDataPtr make_data(const ModelImpl& impl) {
  mjData* made = nullptr;
  mj_call("mj_makeData", [&] { made = mj_makeData(impl.mj()); });
  if (!made) throw MemoryError("mj_makeData: MuJoCo could not allocate the data of this model");
  return MjDataPtr(made);
}

void reset_keeping_mocap(const ModelImpl& impl, Workspace& workspace) {
  mjData* d = workspace.data.get();
  const std::vector<double> pos(d->mocap_pos, d->mocap_pos + 3 * impl.nmocap),
      quat(d->mocap_quat, d->mocap_quat + 4 * impl.nmocap);
  mj_resetData(impl.mj(), d);
  std::copy(pos.begin(), pos.end(), d->mocap_pos);
  std::copy(quat.begin(), quat.end(), d->mocap_quat);
}

Workspace::Workspace(const ModelImpl& impl)
    : sweep(impl.mj()), sensors(impl.mj()), tendon_fits(impl.mj()) {
  data = make_data(impl);
  const auto nq = static_cast<size_t>(impl.nq), nv = static_cast<size_t>(impl.nv),
             na = static_cast<size_t>(impl.na);
  H.resize(impl.nv, impl.nv);
  response.resize(impl.nv, impl.nv);
  row_column.resize(6 * nv);
  factor_row.reserve(nv + 1);
  factor_column.reserve(nv * (nv + 1) / 2);
  row_value.resize(6 * nv);
  for (auto* x : {&H_lambda, &direction, &saved_qvel, &F}) {
    x->resize(nv);
  }
  for (Outputs* out : {&base, &probe}) {
    for (auto* x : {&out->g, &out->Ma, &out->b}) x->setZero(impl.nv);
    for (auto* x : {&out->act_dot, &out->act_next}) x->setZero(impl.na);
  }
  for (auto* x : {&saved_qpos, &next_qpos}) x->resize(nq);
  for (auto* x : {&saved_act, &saved_act_dot}) x->resize(na);
  for (auto* x : {&tangent_center, &tangent_plus, &tangent_minus}) x->resize(2 * nv + na);
  body_jacobian.resize(6 * nv);
  const auto nout = static_cast<size_t>(impl.mj()->nout),
             nactuator = static_cast<size_t>(impl.mj()->nactuator);
  for (auto* x : {&lambda_actuation, &lambda_gravcomp, &actuation_moment, &b, &difference_ab,
                  &v_plus_b, &v_minus_b, &zero, &armature_bar, &tendon_y, &noslip_a_bar}) {
    x->resize(nv);
  }
  tendons.resize(static_cast<size_t>(impl.mj()->ntendon));
  actuation_y.resize(3 * nv);
  for (auto* x : {&actuation_act_dot_bar, &actuation_act, &actuation_act_dot}) x->resize(na);
  for (auto* x :
       {&actuation_force, &actuation_force_bar, &actuation_length_bar, &actuation_velocity_bar}) {
    x->resize(nout);
  }
  for (auto* x : {&actuation_step, &actuation_center, &actuation_psi}) x->resize(nactuator);
  stages.resize(impl.tableau ? impl.tableau->nk + 1 : kRk4.nstage);
  for (Stage& stage : stages) stage.resize(impl);
  between.resize(impl);
  for (auto* x : {&error, &x0_size, &x1_size}) x->resize(std::max(nv, na));
}

void Workspace::Stage::resize(const ModelImpl& impl) {
  const auto nv = static_cast<size_t>(impl.nv), na = static_cast<size_t>(impl.na);
  qpos.resize(static_cast<size_t>(impl.nq));
  for (auto* x : {&qvel, &qacc, &u, &k}) x->resize(nv);
  for (auto* x : {&act, &act_dot}) x->resize(na);
  ctrl.resize(static_cast<size_t>(impl.nu));
}

std::unique_ptr<Workspace> ModelImpl::take_workspace() const {
  std::unique_ptr<Workspace> workspace;
  {
    const std::lock_guard lock(pool_->mutex);
    if (!pool_->idle.empty()) {
      workspace = std::move(pool_->idle.back());
      pool_->idle.pop_back();
    }
  }
  if (!workspace) workspace = std::make_unique<Workspace>(*this);
  if (workspace->model_id != id) {
    // copies of another variant's numbers
    workspace->probe_model.reset();
    workspace->collision_model.reset();
    workspace->model_id = id;
  }
  return workspace;
}

void ModelImpl::give_back(std::unique_ptr<Workspace> workspace) const {
  const std::lock_guard lock(pool_->mutex);
  pool_->idle.push_back(std::move(workspace));
}

WorkspaceLease::WorkspaceLease(const ModelImpl& impl)
    : impl_(impl), workspace_(impl.take_workspace()), collider_(impl.collider()) {}

WorkspaceLease::~WorkspaceLease() { impl_.give_back(std::move(workspace_)); }

}  // namespace diffmj
