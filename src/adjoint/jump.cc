#include "adjoint/jump.h"

#include <algorithm>
#include <cmath>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "mj/row_mask.h"
#include "record/adaptive.h"
#include "stages/acceleration/constraint_parameters.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/position/constraint_rows.h"
#include "stages/position/tendon.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

// weight · φ of the rows, of one cotangent, by the pullbacks of the stages
void violation_pullback(const ModelImpl& impl, const std::vector<RowMask::Row>& rows, double weight,
                        Vec qpos_bar, const ParameterBar& params, Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  Workspace::RowsBar& bar = workspace.rows_bar;
  const auto nefc = static_cast<size_t>(d->nefc);
  for (auto* x : {&bar.J_lambda, &bar.J_a, &bar.J_v, &bar.aref, &bar.pos, &workspace.J_lambda}) {
    x->assign(nefc, 0.0);
  }
  // every row of a contact has its distance for a violation
  for (const RowMask::Row& row : rows) bar.pos[static_cast<size_t>(row.first)] += weight;

  // nothing moves: poses alone
  Sweep& s = workspace.sweep;
  body_accelerations(m, d, workspace.zero, workspace.zero, Vector3::Zero(), s);
  s.clear();
  s.use(m, d, workspace.zero, s.L);
  s.use(m, d, workspace.zero, s.Q);
  std::fill(workspace.tendons.begin(), workspace.tendons.end(), TendonBar());
  const Vec qvel_bar = workspace.H_lambda;
  constraint_parameters_pullback(m, d, {}, params, workspace);
  constraint_rows_pullback(impl, qpos_bar, qvel_bar, params, workspace);
  if (m->ntendon > 0) {
    tendon_pullback(m, d, workspace.tendons, {&s.L, &s.V, &s.Q, &s.L, &s.B, &s.C}, qpos_bar,
                    qvel_bar, s, params);
  }
  kinematics_pullback(m, d, s, qpos_bar, qvel_bar, params);
}

// the same of positions alone, by MuJoCo's J: what the oracle's models have
void violation_pullback_by_rows(const ModelImpl& impl, const std::vector<RowMask::Row>& rows,
                                double weight, Vec qpos_bar, Workspace& workspace) {
  const mjData* d = workspace.data.get();
  std::vector<double>& y = workspace.J_lambda;
  y.assign(static_cast<size_t>(d->nefc), 0.0);
  for (const RowMask::Row& row : rows) {
    const bool edges = row.type == mjCNSTR_CONTACT_PYRAMIDAL && row.n > 1;
    for (int k = 0; k < (edges ? 2 : 1); k++) {
      y[static_cast<size_t>(row.first + k)] += weight / (edges ? 2 : 1);
    }
  }
  mj_call("mj_mulJacTVec",
          [&] { mj_mulJacTVec(impl.mj(), d, workspace.H_lambda.data(), y.data()); });
  eigen(qpos_bar) += eigen(CVec(workspace.H_lambda));
}

}  // namespace

void jump_pullback(const ModelImpl& impl, const SolverEvent& event, Matrix& x_bar,
                   const ParameterBar& params, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  const bool analytic = impl.path == GradientPath::kAnalytic;
  if (!analytic && params.any()) {
    throw UnsupportedError("gradients in parameters through an event (" + event.what +
                           ") need the analytic path, which this model cannot take: " +
                           impl.path_reason + "; use events = false");
  }

  // what is active at the event and was not where its step began, or what is let go there
  RowMask mask(m, impl.collider());
  if (!event.release) {
    mj_call("mj_fwdPosition", [&] {
      std::copy(event.start_qpos.begin(), event.start_qpos.end(), d->qpos);
      mj_fwdPosition(CollidingModel(m), d);
    });
    mask.set_base(d, event.start_time);
  }
  const StepInput in{.time = event.time,
                     .qpos = event.qpos,
                     .qvel = event.qvel,
                     .act = event.act,
                     .qacc_warmstart = {},
                     .ctrl = {},
                     .qfrc_applied = {},
                     .xfrc_applied = {}};
  vector_field_evaluate(impl, in, event.qacc_after, true, workspace);
  const std::vector<RowMask::Row>& rows =
      event.release ? mask.set_base_without_leaving(d, event.time) : mask.find(d);
  if (rows.empty()) throw Error("the event '" + event.what + "' is not found again");
  // gradient: forces from distance do not jump where a contact begins
  if (impl.cfd && std::any_of(rows.begin(), rows.end(), [](const RowMask::Row& row) {
        return row.type >= mjCNSTR_CONTACT_FRICTIONLESS;
      })) {
    return;
  }

  const int nv = impl.nv;
  const double rate = std::copysign(std::max(std::abs(event.rate), kSmallestRate), event.rate);
  for (Eigen::Index c = 0; c < x_bar.rows(); c++) {
    double change = 0;
    for (int k = 0; k < nv; k++) {
      const auto i = static_cast<size_t>(k);
      change += (event.qacc_after[i] - event.qacc_before[i]) * x_bar(c, nv + k);
    }
    const double weight = change / rate / static_cast<double>(rows.size());
    if (analytic) {
      violation_pullback(impl, rows, weight, row_part(x_bar, c, 0, nv), params, workspace);
    } else {
      violation_pullback_by_rows(impl, rows, weight, row_part(x_bar, c, 0, nv), workspace);
    }
  }
}

}  // namespace diffmj
