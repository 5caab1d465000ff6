#include "adjoint/jump.h"

#include <algorithm>
#include <span>
#include <string>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/constraint_type.h"
#include "stages/acceleration/constraint_parameters.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/position/constraint_rows.h"
#include "stages/position/tendon.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

// weight · φ of the rows, of one cotangent, by the pullbacks of the stages
void violation_pullback(const ModelImpl& impl, std::span<const EventConstraint> constraints,
                        double weight, Vec qpos_bar, const ParameterBar& params,
                        Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  RowsBar& bar = workspace.constraint.rows;
  const auto nefc = static_cast<size_t>(d->nefc);
  for (auto* x :
       {&bar.J_lambda, &bar.J_a, &bar.J_v, &bar.aref, &bar.pos, &workspace.constraint.J_lambda}) {
    x->assign(nefc, 0.0);
  }
  // every row of a contact has its distance for a violation
  for (const EventConstraint& c : constraints) bar.pos[static_cast<size_t>(c.row)] += weight;

  // nothing moves: poses alone
  Sweep& s = workspace.sweep;
  body_accelerations(m, d, workspace.zero, workspace.zero, Vector3::Zero(), s);
  s.clear();
  s.use(m, d, workspace.zero, s.L);
  s.use(m, d, workspace.zero, s.Q);
  std::fill(workspace.tendon.bars.begin(), workspace.tendon.bars.end(), TendonBar());
  const Vec qvel_bar = workspace.newton.H_lambda;
  constraint_parameters_pullback(m, d, {}, params, workspace);
  constraint_rows_pullback(impl, qpos_bar, qvel_bar, params, workspace);
  if (m->ntendon > 0) {
    tendon_pullback(m, d, workspace.tendon.bars, {&s.L, &s.V, &s.Q, &s.L, &s.B, &s.C}, qpos_bar,
                    qvel_bar, s, params);
  }
  kinematics_pullback(m, d, s, qpos_bar, qvel_bar, params);
}

// the same of positions alone, by MuJoCo's J: what the oracle's models have
void violation_pullback_by_rows(const ModelImpl& impl, std::span<const EventConstraint> constraints,
                                double weight, Vec qpos_bar, Workspace& workspace) {
  const mjData* d = workspace.data.get();
  std::vector<double>& y = workspace.constraint.J_lambda;
  y.assign(static_cast<size_t>(d->nefc), 0.0);
  for (const EventConstraint& c : constraints) {
    const bool edges = c.type == mjCNSTR_CONTACT_PYRAMIDAL && c.nrow > 1;
    for (int k = 0; k < (edges ? 2 : 1); k++) {
      y[static_cast<size_t>(c.row + k)] += weight / (edges ? 2 : 1);
    }
  }
  mj_call("mj_mulJacTVec",
          [&] { mj_mulJacTVec(impl.mj(), d, workspace.newton.H_lambda.data(), y.data()); });
  eigen(qpos_bar) += eigen(CVec(workspace.newton.H_lambda));
}

// The position stage is a function of the state, bit for bit, so that the rows are the same.
void require_same_rows(const EventRecord& record, const mjData* d) {
  const Event& event = record.event;
  for (const EventConstraint& c : record.constraints) {
    if (c.row + c.nrow <= d->nefc && d->efc_type[c.row] == c.type && d->efc_id[c.row] == c.id) {
      continue;
    }
    throw Error("at the event '" + event.what + "' at " + std::to_string(event.time) +
                " s MuJoCo lists other constraints than in the rollout; was the model changed "
                "since?");
  }
}

}  // namespace

void jump_pullback(const ModelImpl& impl, const EventRecord& record, Matrix& x_bar,
                   const ParameterBar& params, Workspace& workspace) {
  const Event& event = record.event;
  const std::span<const EventConstraint> constraints = record.constraints;
  // gradient: forces from distance do not jump where a contact begins
  const bool contacts = std::any_of(constraints.begin(), constraints.end(),
                                    [](const auto& c) { return is_contact(c.type); });
  if (impl.cfd && contacts) return;
  // gradient: from rest on the margin there is no term; from one side the motion has a derivative
  if (event.at_rest) return;

  const bool analytic = impl.differentiation.of_stages;
  if (!analytic && params.any()) {
    throw UnsupportedError("gradients in parameters through an event (" + event.what +
                           ") need the analytic path, which this model cannot take: " +
                           impl.path_reason + "; use events = false");
  }

  // the rows as the rollout had them
  const StepInput in{.time = event.time,
                     .qpos = record.qpos,
                     .qvel = record.qvel,
                     .act = record.act,
                     .qacc_warmstart = {},
                     .ctrl = {},
                     .qfrc_applied = {},
                     .xfrc_applied = {}};
  vector_field_evaluate(impl, in, record.qacc_after, true, workspace);
  require_same_rows(record, workspace.data.get());

  const int nv = impl.nv;
  for (Eigen::Index c = 0; c < x_bar.rows(); c++) {
    double change = 0;
    for (int k = 0; k < nv; k++) {
      const auto i = static_cast<size_t>(k);
      change += (record.qacc_after[i] - record.qacc_before[i]) * x_bar(c, nv + k);
    }
    const double weight = change / event.rate / static_cast<double>(constraints.size());
    if (analytic) {
      violation_pullback(impl, constraints, weight, row_part(x_bar, c, 0, nv), params, workspace);
    } else {
      violation_pullback_by_rows(impl, constraints, weight, row_part(x_bar, c, 0, nv), workspace);
    }
  }
}

}  // namespace diffmj
