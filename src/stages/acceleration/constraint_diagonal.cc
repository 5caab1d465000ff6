#include "stages/acceleration/constraint_diagonal.h"

#include <algorithm>

#include "mj/call.h"
#include "stages/acceleration/constraint_parameters.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/inverse_dynamics.h"
#include "stages/acceleration/tendon_armature.h"
#include "stages/position/constraint_rows.h"
#include "stages/position/tendon.h"
#include "stages/velocity/passive.h"

namespace diffmj {
namespace {

// rows from i on that have the A of row i
int rows_of_diagonal(const mjData* d, int i) {
  const int type = d->efc_type[i];
  if (type == mjCNSTR_CONTACT_PYRAMIDAL) return 2 * (d->contact[d->efc_id[i]].dim - 1);
  return constraint_rows_at(d, i);
}

}  // namespace

void constraint_diagonal_pullback(const ModelImpl& impl, Vec qpos_bar, Vec qvel_bar,
                                  const ParameterBar& params, Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  const auto nefc = static_cast<size_t>(d->nefc);
  Workspace::RowsBar& bar = workspace.rows_bar;
  Sweep& s = workspace.sweep;

  // (log A)_bar, before the rows' cotangents are those of J z
  std::vector<double>& log_A_bar = workspace.log_A_bar;
  log_A_bar.assign(nefc, 0.0);
  for (int i = 0, n = 1; i < d->nefc; i += n) {
    n = rows_of_diagonal(d, i);
    for (int k = i; k < i + n; k++) {
      const auto row = static_cast<size_t>(k);
      if (!force_scales(d, i, k, workspace)) continue;
      log_A_bar[static_cast<size_t>(i)] -= bar.J_lambda[row] * workspace.J_lambda[row];
    }
  }
  for (auto* x : {&bar.J_lambda, &bar.J_a, &bar.J_v, &bar.aref, &bar.pos}) x->assign(nefc, 0.0);

  // the metric of Euler with damping may have left its own factor
  mj_call("mj_factorM", [&] { mj_factorM(m, workspace.data.get()); });
  const Vec z = workspace.diagonal_z, J_z = workspace.J_lambda;
  for (int i = 0; i < d->nefc; i++) {
    const auto row = static_cast<size_t>(i);
    if (log_A_bar[row] == 0) continue;
    // z = M⁻¹ J_iᵀ
    std::fill(J_z.begin(), J_z.end(), 0.0);
    J_z[row] = 1;
    mj_call("mj_solveM", [&] {
      mj_mulJacTVec(m, d, workspace.H_lambda.data(), J_z.data());
      mj_solveM(m, workspace.data.get(), z.data(), workspace.H_lambda.data(), 1);
      mj_mulJacVec(m, d, J_z.data(), z.data());
    });
    const double A_bar = log_A_bar[row] / J_z[row];

    s.clear();
    std::fill(workspace.tendons.begin(), workspace.tendons.end(), TendonBar());
    s.use(m, d, z, s.L);
    bar.J_lambda[row] = 2 * A_bar;
    constraint_rows_pullback(impl, qpos_bar, qvel_bar, params, workspace);
    bar.J_lambda[row] = 0;
    mass_form_pullback(m, d, -A_bar, s.L, s.L, s, params);
    if (m->ntendon > 0) {
      tendon_mass_form_pullback(m, d, -A_bar, z, z, workspace.tendon_fits, workspace.tendons,
                                qpos_bar, workspace.tendon_y, s, params);
      tendon_pullback(m, d, workspace.tendons, {&s.L, &s.V, &s.Q, &s.L, &s.B, &s.L}, qpos_bar,
                      qvel_bar, s, params);
    }
    if (const Vec gear_bar = params[Parameter::kActuatorGear]; !gear_bar.empty()) {
      for (size_t k = 0; k < z.size(); k++) workspace.armature_bar[k] = -A_bar * z[k] * z[k];
      armature_gear_pullback(m, workspace.armature_bar, gear_bar);
    }
    kinematics_pullback(m, d, s, qpos_bar, qvel_bar, params);

    // J = normal + μ₁ tangent₁; the next row has the other sign
    if (d->efc_type[i] == mjCNSTR_CONTACT_PYRAMIDAL) {
      const mjContact& contact = d->contact[d->efc_id[i]];
      const double tangent_z = (J_z[row] - J_z[row + 1]) / (2 * contact.friction[0]);
      contact_friction_pullback(m, contact, 0, 2 * A_bar * tangent_z, params, workspace);
    }
  }
}

}  // namespace diffmj
