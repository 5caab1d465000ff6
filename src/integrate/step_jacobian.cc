#include "integrate/step_jacobian.h"

#include <algorithm>
#include <utility>

#include "base/rotation.h"
#include "integrate/metric.h"
#include "mj/collider.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/analytic.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

// rows of act' from row `from` of the pullback that has a cotangent of 1 for each of them
void read_activation_rows(const StepModel& impl, const ParameterColumns& columns, int from,
                          StepJacobian& out) {
  const int dynprm = columns.first(Parameter::kActuatorDynprm);
  for_each_activation(impl.mj(), [&](int actuator, int act, int control) {
    const int row = 2 * impl.nv + act;
    out.A(row, row) = out.bar.x(from, row);
    if (control >= 0) out.B(row, control) = out.bar.ctrl(from, control);
    if (dynprm < 0) return;
    const int begin = dynprm + mjNDYN * actuator;
    out.P.row(row).segment<mjNDYN>(begin) = out.row_P.row(from).segment<mjNDYN>(begin);
  });
}

// rows of q' = q ⊕ h v' from those of v', which are in place
void position_rows(const StepModel& impl, CVec qvel_next, StepJacobian& out) {
  const mjModel* m = impl.mj();
  const int nv = impl.nv;
  const double h = m->opt.timestep;
  const auto take = [&](int row, int from, double scale) {
    const Eigen::Index v = nv + from;
    for (Matrix* x : {&out.A, &out.B, &out.P, &out.Q}) x->row(row) += scale * x->row(v);
  };
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    const int type = m->jnt_type[j], dof = m->jnt_dofadr[j];
    const int nadd = type == mjJNT_FREE ? 3 : type == mjJNT_BALL ? 0 : 1;
    for (int k = dof; k < dof + nadd; k++) {
      out.A(k, k) += 1;
      take(k, k, h);
    }
    if (type != mjJNT_FREE && type != mjJNT_BALL) continue;
    // one rotation: 3 x 3 blocks, a row at a time
    const int begin = dof + nadd;
    const Vector3 turn = h * Vector3(&qvel_next[static_cast<size_t>(begin)]);
    for (int k = 0; k < 3; k++) {
      const Vector3 unit = Vector3::Unit(k), q_bar = rotate(turn, unit),
                    u_bar = right_jacobian_transposed(turn, unit);
      for (int n = 0; n < 3; n++) {
        out.A(begin + k, begin + n) += q_bar[n];
        take(begin + k, begin + n, h * u_bar[n]);
      }
    }
  }
}

// rows of v' = v + h b by the field's matrices: ∂b = Mhat⁻¹ (M H⁻¹ G + N), or Mhat⁻¹ (G + N)
// where no constraint acts (docs/derivations/steps.md, eq. 17)
void velocity_rows(const StepModel& impl, const StepInput& in, CVec qacc,
                   const ParameterColumns& columns, const StepJacobianOptions& options,
                   StepJacobian& out, Workspace& workspace) {
  const mjModel* m = impl.mj();
  const int nv = impl.nv, na = impl.na, nu = impl.nu;
  const double h = m->opt.timestep;
  const bool implicit = impl.advance != Advance::kExplicit;
  const ColliderScope scope(impl.backward_collider());
  const BackwardField field = backward_field_evaluate(impl, in, qacc, in.nefc != 0, workspace);
  const bool constrained = field.constrained;
  std::vector<double>& b = workspace.metric.b;
  for (size_t k = 0; k < b.size() && implicit; k++) b[k] = (in.qvel_next[k] - in.qvel[k]) / h;
  out.field.compute(impl,
                    {.in = in,
                     .qacc = constrained || !implicit ? field.qacc : CVec(b),
                     .b = b,
                     .act_from = {},
                     .act_dot_from = {},
                     .constrained = constrained,
                     .qacc_step = qacc,
                     .has_metric = implicit},
                    columns, workspace);

  Matrix& X = out.X;
  const int width = 2 * nv + na + nu + columns.size();
  X.resize(nv, width + (options.applied ? nv : 0));
  X.leftCols(width) = out.field.G;
  if (options.applied) X.rightCols(nv).setIdentity();
  if (constrained) newton_solve_columns(workspace, X);
  if (constrained && implicit) {
    mass_multiply_columns(m, workspace.data.get(), X, out.MX);
    X.swap(out.MX);
  }
  if (implicit) X.leftCols(width) += out.field.N;
  if (implicit || !constrained) metric_solve_columns(impl, X, workspace);

  out.A.middleRows(nv, nv) = h * X.leftCols(2 * nv + na);
  for (int k = nv; k < 2 * nv; k++) out.A(k, k) += 1;
  out.B.middleRows(nv, nv) = h * X.middleCols(2 * nv + na, nu);
  out.P.middleRows(nv, nv) = h * X.middleCols(2 * nv + na + nu, columns.size());
  if (options.applied) out.Q.middleRows(nv, nv) = h * X.rightCols(nv);
}

// rows of act', all of them one pullback
void activation_rows(const StepModel& impl, const StepInput& in, const ParameterColumns& columns,
                     StepJacobian& out, Workspace& workspace) {
  if (impl.na == 0) return;
  const int na = impl.na;
  StepBar& bar = out.bar;
  bar.resize(impl, 1, false);
  out.row_P.setZero(1, columns.size());
  bar.next.rightCols(na).setOnes();
  activation_pullback(impl, in, {}, row_part(std::as_const(bar.next), 0, 2 * impl.nv, na), bar.x,
                      bar.ctrl, columns.bar(out.row_P.data()), workspace);
  read_activation_rows(impl, columns, 0, out);
}

// one pullback per row of x', parameters one row after the other
void full_jacobian(const StepModel& impl, const StepInput& in, CVec qacc,
                   const ParameterColumns& columns, StepJacobian& out, Workspace& workspace) {
  const int n = 2 * impl.nv + impl.na;
  const auto pullback = [&](int first, int count, const ParameterBar& params) {
    StepBar bar;
    bar.resize(impl, count, false);
    for (int i = 0; i < count; i++) bar.next(i, first + i) = 1;
    bar.params = params;
    step_pullback(impl, in, qacc, bar, workspace);
    out.A.middleRows(first, count) = bar.x;
    out.B.middleRows(first, count) = bar.ctrl;
    out.B_end.middleRows(first, count) = bar.ctrl_end;
    out.Q.middleRows(first, count) = bar.qfrc_applied;
  };
  if (columns.size() == 0) {
    pullback(0, n, {});
    return;
  }
  for (int i = 0; i < n; i++) pullback(i, 1, columns.bar(out.P.row(i).data()));
}

}  // namespace

void StepJacobian::resize(const StepModel& impl, const ParameterColumns& columns) {
  const int n = 2 * impl.nv + impl.na;
  A.setZero(n, n);
  B.setZero(n, impl.nu);
  B_end.setZero(n, impl.nu);
  P.setZero(n, columns.size());
  Q.setZero(n, impl.nv);
}

void step_jacobian(const StepModel& impl, const StepInput& in, CVec qacc,
                   const ParameterColumns& columns, const StepJacobianOptions& options,
                   StepJacobian& out, Workspace& workspace) {
  const mjModel* m = impl.mj();
  const int nv = impl.nv, na = impl.na;
  out.resize(impl, columns);
  const bool one_evaluation = impl.differentiation.of_stages && m->opt.integrator != mjINT_RK4 &&
                              for_each_activation(m, [](int, int, int) {}) &&
                              !oracle_parameters(m, columns.bar(out.P.data())).any();
  const bool rk4_matrices = m->opt.integrator == mjINT_RK4 && !impl.has_surrogate_field() &&
                            columns.size() == 0 && !options.by_rows &&
                            for_each_activation(m, [](int, int, int) {}) &&
                            FieldMatrix::obstacle(impl).empty();
  if (rk4_matrices) {
    rk4_jacobian(impl, in, options, out, workspace);
    return;
  }
  if (!one_evaluation) {
    full_jacobian(impl, in, qacc, columns, out, workspace);
    return;
  }

  if (!options.by_rows && FieldMatrix::obstacle(impl, columns).empty()) {
    velocity_rows(impl, in, qacc, columns, options, out, workspace);
    position_rows(impl, in.qvel_next, out);
    activation_rows(impl, in, columns, out, workspace);
    return;
  }

  // rows of v', and one for all of act'
  StepBar& bar = out.bar;
  const int nrow = nv + (na > 0 ? 1 : 0);
  bar.resize(impl, nrow, false);
  bar.next.block(0, nv, nv, nv).setIdentity();
  if (na > 0) bar.next.row(nv).rightCols(na).setOnes();
  std::vector<ParameterBar>& row_params = out.row_params;
  Matrix& P = out.row_P;
  P.setZero(nrow, columns.size());
  row_params.clear();
  for (Eigen::Index i = 0; i < nrow && columns.size() > 0; i++) {
    row_params.push_back(columns.bar(P.row(i).data()));
  }
  bar.row_params = row_params;
  step_pullback(impl, in, qacc, bar, workspace);

  out.A.middleRows(nv, nv) = bar.x.topRows(nv);
  out.B.middleRows(nv, nv) = bar.ctrl.topRows(nv);
  out.P.middleRows(nv, nv) = P.topRows(nv);
  out.Q.middleRows(nv, nv) = bar.qfrc_applied.topRows(nv);
  position_rows(impl, in.qvel_next, out);
  if (na > 0) read_activation_rows(impl, columns, nv, out);
}

void activation_pullback(const StepModel& impl, const StepInput& in, CVec act_dot_bar,
                         CVec act_next_bar, Matrix& x, Matrix& ctrl, const ParameterBar& params,
                         Workspace& workspace) {
  const int nv = impl.nv;
  std::fill(workspace.tendon.bars.begin(), workspace.tendon.bars.end(), TendonBar());
  actuation_pullback(impl,
                     {.in = &in,
                      .lambda = workspace.zero,
                      .act_dot_bar = act_dot_bar,
                      .act_next_bar = act_next_bar,
                      .act_from = {},
                      .act_dot_from = {},
                      .mu = {},
                      .b = {}},
                     {.qpos = row_part(x, 0, 0, nv),
                      .qvel = row_part(x, 0, nv, nv),
                      .act = row_part(x, 0, 2 * nv, impl.na),
                      .ctrl = row_part(ctrl, 0, 0, impl.nu)},
                     workspace.sweep, params, workspace);
}

}  // namespace diffmj
