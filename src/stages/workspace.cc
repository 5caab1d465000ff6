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

NewtonScratch::NewtonScratch(size_t nv)
    : H(static_cast<Eigen::Index>(nv), static_cast<Eigen::Index>(nv)),
      row_column(6 * nv),
      row_value(6 * nv),
      H_lambda(nv) {
  factor_row.reserve(nv + 1);
  factor_column.reserve(nv * (nv + 1) / 2);
}

ActuationScratch::ActuationScratch(const mjModel* m) {
  const auto nv = static_cast<size_t>(m->nv);
  y.resize(3 * nv);
  for (auto* x : {&lambda, &moment}) x->resize(nv);
  for (auto* x : {&act, &act_dot, &act_dot_bar}) x->resize(static_cast<size_t>(m->na));
  for (auto* x : {&force, &force_bar, &length_bar, &velocity_bar}) {
    x->resize(static_cast<size_t>(m->nout));
  }
  for (auto* x : {&step, &center, &psi}) x->resize(static_cast<size_t>(m->nactuator));
}

ProbeScratch::ProbeScratch(const CompiledModel& m) {
  for (ProbeOutputs* out : {&base, &probe}) {
    for (auto* x : {&out->g, &out->Ma, &out->b}) x->setZero(m.nv);
    for (auto* x : {&out->act_dot, &out->act_next}) x->setZero(m.na);
  }
  saved_qpos.resize(static_cast<size_t>(m.nq));
  for (auto* x : {&direction, &saved_qvel}) x->resize(static_cast<size_t>(m.nv));
  for (auto* x : {&saved_act, &saved_act_dot}) x->resize(static_cast<size_t>(m.na));
}

StepDifferenceScratch::StepDifferenceScratch(const CompiledModel& m)
    : next_qpos(static_cast<size_t>(m.nq)) {
  for (auto* x : {&tangent_center, &tangent_plus, &tangent_minus}) {
    x->resize(static_cast<size_t>(2 * m.nv + m.na));
  }
}

Workspace::Workspace(const CompiledModel& model, size_t nplace)
    : data(make_data(model)),
      newton(static_cast<size_t>(model.nv)),
      sweep(model.mj()),
      sensors(model.mj()),
      actuation(model.mj()),
      tendon{.bars = std::vector<TendonBar>(static_cast<size_t>(model.mj()->ntendon)),
             .fits = TendonFits(model.mj()),
             .y = {}},
      probes(model),
      differences(model) {
  const auto nv = static_cast<size_t>(model.nv), na = static_cast<size_t>(model.na);
  for (auto* x :
       {&tendon.y, &noslip.a_bar, &lambda_gravcomp, &zero, &step.F, &metric.b,
        &metric.difference_ab, &metric.v_plus_b, &metric.v_minus_b, &metric.armature_bar}) {
    x->resize(nv);
  }
  step.response.resize(model.nv, model.nv);
  step.body_jacobian.resize(6 * nv);
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
