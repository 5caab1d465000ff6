// Derivatives of a step of MuJoCo's RK4 (integrate/rk4.cc) as matrices, docs/derivations/steps.md,
// eq. 18. Columns are those of z = (q, v, act, ctrl) and, if wanted, qfrc_applied:
//
//   ∂u_i = h Σ_j A_ij ∂k_j,   ∂q_i = Ad ∂q + Jr(u_i) ∂u_i,   ∂v_i = ∂v + h Σ_j A_ij ∂a_j
//   H ∂a_i = G_x ∂x_i + G_ctrl ∂ctrl + ∂qfrc_applied,   ∂k_i = dexpinv_u ∂u_i + dexpinv_v ∂v_i
#include <algorithm>
#include <utility>

#include "base/rotation.h"
#include "integrate/metric.h"
#include "integrate/step_jacobian.h"
#include "integrate/tableau.h"
#include "mj/collider.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

Vector3 vector3(CVec x, int at) { return Vector3(&x[static_cast<size_t>(at)]); }

// Calls fn(first dof) for every rotation.
template <class Fn>
void for_each_rotation(const mjModel* m, Fn&& fn) {
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    if (m->jnt_type[j] == mjJNT_FREE) fn(m->jnt_dofadr[j] + 3);
    if (m->jnt_type[j] == mjJNT_BALL) fn(m->jnt_dofadr[j]);
  }
}

// rows of q ⊕ u, the first nv of to, from those of u
void position_tangents(const mjModel* m, CVec u, const Matrix& u_dot, Matrix& to) {
  const auto nv = static_cast<int>(m->nv);
  to.topRows(nv) = u_dot;
  for (int k = 0; k < nv; k++) to(k, k) += 1;
  for_each_rotation(m, [&](int dof) {
    const Vector3 turn = vector3(u, dof);
    for (int k = 0; k < 3; k++) {
      const Vector3 unit = Vector3::Unit(k), q_bar = rotate(turn, unit),
                    u_bar = right_jacobian_transposed(turn, unit);
      to.row(dof + k).setZero();
      for (int n = 0; n < 3; n++) {
        to.row(dof + k) += u_bar[n] * u_dot.row(dof + n);
        to(dof + k, dof + n) += q_bar[n];
      }
    }
  });
}

// rows of k = dexpinv(u) v
void slope_tangents(const mjModel* m, const Workspace::Stage& stage, const Matrix& u_dot,
                    const Matrix& x_dot, Matrix& to) {
  const auto nv = static_cast<int>(m->nv);
  to = x_dot.middleRows(nv, nv);
  if (!kRk4CorrectsRotations) return;
  for_each_rotation(m, [&](int dof) {
    for (int k = 0; k < 3; k++) {
      Vector3 u_bar = Vector3::Zero(), v_bar = Vector3::Zero();
      dexpinv_pullback(vector3(stage.u, dof), vector3(stage.qvel, dof), Vector3::Unit(k), u_bar,
                       v_bar);
      to.row(dof + k).setZero();
      for (int n = 0; n < 3; n++) {
        to.row(dof + k) += u_bar[n] * u_dot.row(dof + n) + v_bar[n] * x_dot.row(nv + dof + n);
      }
    }
  });
}

// rows of a = F(x, u), by the field's matrices at the stage whose mjData the workspace has
void acceleration_tangents(const StepModel& impl, const StepInput& at,
                           const Workspace::Stage& stage, const Matrix& x_dot, bool applied,
                           FieldMatrix& field, Matrix& to, Workspace& workspace) {
  const int n = 2 * impl.nv + impl.na;
  const bool constrained = stage.nefc > 0;
  if (constrained) solution_factorize(impl, stage.qacc, workspace);
  const ParameterColumns none;
  field.compute(impl,
                {.in = at,
                 .qacc = stage.qacc,
                 .b = {},
                 .act_from = {},
                 .act_dot_from = {},
                 .constrained = constrained,
                 .has_metric = false},
                none, workspace);
  to.resize(impl.nv, x_dot.cols());
  to.noalias() = field.G.leftCols(n) * x_dot;
  to.middleCols(n, impl.nu) += field.G.rightCols(impl.nu);
  for (int k = 0; k < impl.nv && applied; k++) to(k, n + impl.nu + k) += 1;
  if (constrained) {
    newton_solve_columns(workspace, to);
  } else {
    metric_solve_columns(impl, to, workspace);
  }
}

// rows of act_dot, each of its own activation and control
void activation_tangents(const StepModel& impl, const StepInput& at, const Matrix& x_dot,
                         StepJacobian& out, Matrix& to, Workspace& workspace) {
  const int nv = impl.nv, na = impl.na;
  to.setZero(na, x_dot.cols());
  if (na == 0) return;
  StepBar& bar = out.bar;
  bar.resize(impl, 1, false);
  activation_pullback(impl, at, row_part(std::as_const(out.ones), 0, 0, na), {}, bar.x, bar.ctrl,
                      {}, workspace);
  for_each_activation(impl.mj(), [&](int, int act, int control) {
    to.row(act) = bar.x(0, 2 * nv + act) * x_dot.row(2 * nv + act);
    if (control >= 0) to(act, 2 * nv + na + control) += bar.ctrl(0, control);
  });
}

// rows of act' = next(act, Σ b_i act_dot_i), the last of next
void next_activation_tangents(const StepModel& impl, const StepInput& in, StepJacobian& out,
                              Workspace& workspace) {
  const int nv = impl.nv, na = impl.na;
  if (na == 0) return;
  std::vector<double>& act_dot = workspace.probes.saved_act_dot;
  std::fill(act_dot.begin(), act_dot.end(), 0.0);
  for (size_t i = 0; i < kRk4.nstage; i++) {
    eigen(Vec(act_dot)) += kRk4.b[i] * eigen(CVec(workspace.stages[i].act_dot));
  }
  out.next_act.setZero(1, na);
  out.next_act_dot.setZero(1, na);
  next_activation_pullback(impl.mj(), in.act, act_dot, out.ones, out.next_act, out.next_act_dot);
  for (int k = 0; k < na; k++) {
    const int row = 2 * nv + k;
    out.next(row, row) += out.next_act(0, k);
    for (size_t i = 0; i < kRk4.nstage; i++) {
      out.next.row(row) += out.next_act_dot(0, k) * kRk4.b[i] * out.stages[i].act_dot.row(k);
    }
  }
}

}  // namespace

void rk4_jacobian(const StepModel& impl, const StepInput& in, const StepJacobianOptions& options,
                  StepJacobian& out, Workspace& workspace) {
  const mjModel* m = impl.mj();
  const int nv = impl.nv, na = impl.na, nu = impl.nu, n = 2 * nv + na;
  const double h = m->opt.timestep;
  const int width = n + nu + (options.applied ? nv : 0);
  const ColliderScope scope(impl.backward_collider());
  out.ones.setOnes(1, na);
  rk4_stages(impl, in, workspace);
  for (size_t i = 0; i < kRk4.nstage; i++) {
    Workspace::Stage& stage = workspace.stages[i];
    StepJacobian::Rk4Stage& dot = out.stages[i];
    out.u.setZero(nv, width);
    dot.x.setZero(n, width);
    for (int k = nv; k < n; k++) dot.x(k, k) = 1;
    for (size_t j = 0; j < i; j++) {
      const double weight = h * kRk4.A[i][j];
      if (weight == 0) continue;
      out.u += weight * out.stages[j].k;
      dot.x.middleRows(nv, nv) += weight * out.stages[j].a;
      dot.x.bottomRows(na) += weight * out.stages[j].act_dot;
    }
    position_tangents(m, stage.u, out.u, dot.x);
    slope_tangents(m, stage, out.u, dot.x, dot.k);
    const StepInput at = rk4_stage_input(impl, in, i, workspace);
    std::swap(workspace.data, stage.data);
    acceleration_tangents(impl, at, stage, dot.x, options.applied, out.field, dot.a, workspace);
    activation_tangents(impl, at, dot.x, out, dot.act_dot, workspace);
    std::swap(workspace.data, stage.data);
  }

  // q' = q ⊕ h Σ b_i k_i,  v' = v + h Σ b_i a_i
  Vec u = workspace.step.F;
  std::fill(u.begin(), u.end(), 0.0);
  out.u.setZero(nv, width);
  out.next.setZero(n, width);
  for (int k = nv; k < 2 * nv; k++) out.next(k, k) = 1;
  for (size_t i = 0; i < kRk4.nstage; i++) {
    eigen(u) += h * kRk4.b[i] * eigen(CVec(workspace.stages[i].k));
    out.u += h * kRk4.b[i] * out.stages[i].k;
    out.next.middleRows(nv, nv) += h * kRk4.b[i] * out.stages[i].a;
  }
  position_tangents(m, u, out.u, out.next);
  next_activation_tangents(impl, in, out, workspace);
  out.A = out.next.leftCols(n);
  out.B = out.next.middleCols(n, nu);
  if (options.applied) out.Q = out.next.rightCols(nv);
}

}  // namespace diffmj
