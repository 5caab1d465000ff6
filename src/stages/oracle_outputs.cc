#include "stages/oracle_outputs.h"

#include <algorithm>

#include "mj/call.h"
#include "mj/collider.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/sensors/sensors.h"

namespace diffmj {
namespace {

// J and M as full matrices, y, friction loss and friction of contacts: what a no-slip pass reads
void read_noslip(const mjModel* m, const mjData* d, CVec y, NoslipInputs& out) {
  const auto nv = static_cast<int>(m->nv);
  out.J.setZero(d->nefc, nv);
  for (int i = 0; i < d->nefc; i++) {
    if (!mj_isSparse(m)) {
      out.J.row(i) = Eigen::Map<const Eigen::RowVectorXd>(d->efc_J + i * nv, nv);
      continue;
    }
    for (int k = d->efc_J_rowadr[i]; k < d->efc_J_rowadr[i] + d->efc_J_rownnz[i]; k++) {
      out.J(i, d->efc_J_colind[k]) = d->efc_J[k];
    }
  }
  out.M.resize(nv, nv);
  read_mass_matrix(m, d, out.M);
  out.y.assign(y.begin(), y.end());
  out.frictionloss.assign(d->efc_frictionloss, d->efc_frictionloss + d->nefc);
  out.friction.resize(static_cast<size_t>(d->ncon));
  for (int c = 0; c < d->ncon; c++) {
    std::copy_n(d->contact[c].friction, 5, out.friction[static_cast<size_t>(c)].begin());
  }
}

// what its cotangents make of the way from the base to d; rows that appear have none
double noslip_change(const mjData* d, const NoslipInputs& now, const Workspace& workspace) {
  const Noslip& pass = workspace.noslip;
  const NoslipInputs& base = workspace.probes.noslip_base;
  const auto nv = now.M.rows();
  const Eigen::Map<const Matrix> M_bar(workspace.projection.M_bar.data(), nv, nv);
  const Eigen::Map<const Matrix> J_bar(workspace.projection.J_bar.data(), base.J.rows(), nv);
  double sum = M_bar.cwiseProduct(now.M - base.M).sum();
  for (int i = 0; i < d->nefc; i++) {
    const int at = workspace.probes.rows.base_row(i);
    if (at < 0) continue;
    const auto row = static_cast<size_t>(i), of = static_cast<size_t>(at);
    sum += J_bar.row(at).dot(now.J.row(i) - base.J.row(at)) +
           pass.y_bar[of] * (now.y[row] - base.y[of]) +
           pass.frictionloss_bar[of] * (now.frictionloss[row] - base.frictionloss[of]);
    // of a pyramid J has all of the friction
    const int contact = d->efc_id[i];
    if (d->efc_type[i] != mjCNSTR_CONTACT_ELLIPTIC || d->contact[contact].efc_address != i)
      continue;
    const auto c = static_cast<size_t>(contact),
               b = static_cast<size_t>(workspace.probes.rows.base_id(at));
    for (size_t k = 0; k < 5; k++) {
      sum += pass.friction_bar[b][k] * (now.friction[c][k] - base.friction[b][k]);
    }
  }
  return sum;
}

}  // namespace

void oracle_sensors(const StageModel& impl, const mjModel* m, CVec qacc, CVec f, mjData* d,
                    Eigen::VectorXd& out) {
  mjModel precise = *m;  // of the pointers
  precise.opt.ccd_tolerance = impl.tight()->opt.ccd_tolerance;
  precise.opt.ccd_iterations = impl.tight()->opt.ccd_iterations;
  const ColliderScope scope(nullptr);
  mj_call("mj_sensorAcc", [&] {
    std::copy(qacc.begin(), qacc.end(), d->qacc);
    std::copy(f.begin(), f.end(), d->efc_force);
    evaluate_sensors(&precise, d);
  });
  out = ConstVectorMap(d->sensordata, m->nsensordata);
}

bool oracle_evaluate(const StageModel& impl, const mjModel* m, const OracleProblem& problem,
                     FirstStage from, ProbeOutputs& out, Workspace& workspace) {
  mjData* d = workspace.data.get();
  mj_call("mj_fwdPosition", [&] { run_stages(m, impl.options.adaptive.onset, d, from); });

  workspace.probes.y.resize(static_cast<size_t>(d->nefc));
  workspace.probes.f.resize(static_cast<size_t>(d->nefc));
  const Vec y = workspace.probes.y, f = workspace.probes.f;
  mj_call("mj_mulJacVec", [&] {
    mj_mulM(m, d, out.Ma.data(), problem.qacc.data());
    if (d->nefc == 0) return;
    mj_mulJacVec(m, d, y.data(), problem.qacc.data());
    mju_subFrom(y.data(), d->efc_aref, d->nefc);
  });
  const bool all_rows = workspace.probes.rows.match(d);
  out.force = 0;
  if (problem.noslip && &out == &workspace.probes.base) {
    read_noslip(m, d, y, workspace.probes.noslip_base);
  } else if (problem.noslip) {
    read_noslip(m, d, y, workspace.probes.noslip_probe);
    out.force = noslip_change(d, workspace.probes.noslip_probe, workspace);
  }
  for (int i = 0; i < d->nefc; i += constraint_rows_at(d, i)) {
    const int base = workspace.probes.rows.base_row(i);
    const Zone zone =
        base >= 0 ? workspace.newton.zone[static_cast<size_t>(base)] : Zone::kSatisfied;
    constraint_force(d, zone, y, i, f);
    for (int k = 0; k < constraint_rows_at(d, i) && base >= 0 && !problem.force_bar.empty(); k++) {
      out.force += problem.force_bar[static_cast<size_t>(base + k)] * f[static_cast<size_t>(i + k)];
    }
  }
  mj_call("mj_mulJacTVec", [&] {
    mju_zero(d->qfrc_constraint, impl.nv);
    if (d->nefc > 0) mj_mulJacTVec(m, d, d->qfrc_constraint, f.data());
  });
  if (!problem.sensor_bar.empty()) {
    oracle_sensors(impl, m, problem.qacc, f, d, out.sensordata);
  }
  for (int i = 0; i < impl.nv; i++) {
    out.g[i] = out.Ma[i] - d->qfrc_smooth[i] - d->qfrc_constraint[i];
  }
  if (!problem.mass_vector.empty()) {
    mj_call("mj_mulM", [&] { mj_mulM(m, d, out.Ma.data(), problem.mass_vector.data()); });
  }
  std::copy(d->act_dot, d->act_dot + impl.na, out.act_dot.data());
  if (!problem.F.empty() || problem.act_next) {
    if (!problem.act_from.empty()) {
      std::copy(problem.act_from.begin(), problem.act_from.end(), d->act);
      std::copy(problem.act_dot_from.begin(), problem.act_dot_from.end(), d->act_dot);
    }
    advance_with_force(impl, m, problem.F, out.b, out.act_next, workspace);
  }
  return all_rows;
}

double dot_of_difference(const Matrix* weights, Eigen::Index row, const Eigen::VectorXd& plus,
                         const Eigen::VectorXd& minus) {
  return weights ? weights->row(row).dot((plus - minus).transpose()) : 0.0;
}

void oracle_contract(const Multipliers& w, CVec sensor_bar, const ProbeOutputs& out,
                     const ProbeOutputs& base, Eigen::Ref<Eigen::VectorXd> sum) {
  const double sensors =
      sensor_bar.empty() ? 0 : eigen(sensor_bar).dot(out.sensordata - base.sensordata);
  for (Eigen::Index row = 0; row < sum.size(); row++) {
    sum[row] = out.force - base.force + sensors - dot_of_difference(w.lambda, row, out.g, base.g) +
               dot_of_difference(w.mu, row, out.Ma, base.Ma) +
               dot_of_difference(w.b_bar, row, out.b, base.b) +
               dot_of_difference(w.act_dot_bar, row, out.act_dot, base.act_dot) +
               dot_of_difference(w.act_next_bar, row, out.act_next, base.act_next);
  }
}

}  // namespace diffmj
