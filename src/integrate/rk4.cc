// The adjoint of MuJoCo's RK4 (mj_RungeKutta), docs/derivations/steps.md:
//
//   stage i:  u_i = h Σ_j A_ij k_j,   q_i = q ⊕ u_i,   v_i = v + h Σ_j A_ij a_j,   act_i likewise
//             a_i, act_dot_i = F(x_i),   k_i = dexpinv(u_i) v_i   (k_i = v_i before MuJoCo 4.0)
//   result:   q' = q ⊕ h Σ b_i k_i,   v' = v + h Σ b_i a_i,   act' = next(act, Σ b_i act_dot_i)
#include <utility>

#include "integrate/manifold.h"
#include "integrate/metric.h"
#include "integrate/step.h"
#include "mj/call.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

constexpr int kStages = 4;
constexpr double kA[kStages][kStages] = {
    {0, 0, 0, 0}, {0.5, 0, 0, 0}, {0, 0.5, 0, 0}, {0, 0, 1, 0}};
constexpr double kB[kStages] = {1. / 6, 1. / 3, 1. / 3, 1. / 6};
constexpr double kC[kStages] = {0, 0.5, 0.5, 1};

// y += s x
void add_scaled(Vec y, double s, CVec x) {
  if (s != 0) eigen(y) += s * eigen(x);
}

StepInput stage_input(const StepInput& in, const Workspace::Stage& stage, double time) {
  StepInput at = in;
  at.time = time;
  at.qpos = stage.qpos;
  at.qvel = stage.qvel;
  at.act = stage.act;
  return at;
}

// runs the four stages again, from the warm start they had: mj_step keeps only the last of them.
// Each leaves its stages in an mjData of its own.
void run_stages(const ModelImpl& impl, const StepInput& in, Workspace& workspace) {
  const mjModel* m = impl.mj();
  const double h = m->opt.timestep;
  for (int i = 0; i < kStages; i++) {
    Workspace::Stage& stage = workspace.stages[i];
    if (!stage.data) stage.data = make_data(impl);
    mjData* d = stage.data.get();
    mju_copy(d->mocap_pos, workspace.data->mocap_pos, 3 * impl.nmocap);
    mju_copy(d->mocap_quat, workspace.data->mocap_quat, 4 * impl.nmocap);
    std::copy_n(workspace.data->eq_active, m->neq, d->eq_active);
    std::fill(stage.u.begin(), stage.u.end(), 0.0);
    std::copy(in.qpos.begin(), in.qpos.end(), stage.qpos.begin());
    std::copy(in.qvel.begin(), in.qvel.end(), stage.qvel.begin());
    std::copy(in.act.begin(), in.act.end(), stage.act.begin());
    for (int j = 0; j < i; j++) {
      const Workspace::Stage& before = workspace.stages[j];
      add_scaled(stage.u, h * kA[i][j], before.k);
      add_scaled(stage.qvel, h * kA[i][j], before.qacc);
      add_scaled(stage.act, h * kA[i][j], before.act_dot);
    }
    const StepInput at = stage_input(in, stage, in.time + kC[i] * h);
    try {
      mj_call("mj_forward", [&] {
        mj_integratePos(m, stage.qpos.data(), stage.u.data(), 1);
        write_input(m, d, at);
        mj_forward(m, d);
      });
    } catch (const MujocoError&) {
      mj_resetData(m, d);  // MuJoCo left in the middle of something
      throw;
    }
    std::copy(d->qacc, d->qacc + impl.nv, stage.qacc.begin());
    std::copy(d->act_dot, d->act_dot + impl.na, stage.act_dot.begin());
    stage.nefc = d->nefc;
    rk_velocity(m, stage.u, stage.qvel, stage.k);
  }
}

}  // namespace

void rk4_step_pullback(const ModelImpl& impl, const StepInput& in, StepBar& bar,
                       Workspace& workspace) {
  const mjModel* m = impl.mj();
  const int nv = impl.nv, na = impl.na;
  const double h = m->opt.timestep;
  const Eigen::Index ncotangent = bar.next.rows();
  run_stages(impl, in, workspace);

  for (Workspace::Stage& stage : workspace.stages) {
    stage.u_bar.setZero(ncotangent, nv);
    stage.x_bar.setZero(ncotangent, 2 * nv + na);
  }

  // q' = q ⊕ U,  U = h Σ b_i k_i
  Vec U = workspace.F;
  std::fill(U.begin(), U.end(), 0.0);
  for (int i = 0; i < kStages; i++) add_scaled(U, h * kB[i], workspace.stages[i].k);
  Matrix& U_bar = workspace.b_bar;
  U_bar.setZero(ncotangent, nv);
  for (Eigen::Index c = 0; c < ncotangent; c++) {
    integrate_pos_pullback(m, U, row_part(bar.next, c, 0, nv), row_part(bar.x, c, 0, nv),
                           row_part(U_bar, c, 0, nv));
  }

  // v' = v + h Σ b_i a_i
  bar.x.middleCols(nv, nv) += bar.next.middleCols(nv, nv);

  // act' = next(act, Σ b_i act_dot_i), with the actuator velocities of one of the stages
  std::vector<double>& act_dot = workspace.saved_act_dot;
  Matrix& act_dot_bar = workspace.act_dot_bar;
  act_dot_bar.setZero(ncotangent, na);
  if (na > 0) {
    std::fill(act_dot.begin(), act_dot.end(), 0.0);
    for (int i = 0; i < kStages; i++) add_scaled(act_dot, kB[i], workspace.stages[i].act_dot);
    workspace.act_next_bar = bar.next.rightCols(na);
    evaluate_stages(impl, stage_input(in, workspace.stages[kRk4ActivationStage], in.time),
                    workspace);
    next_activation_pullback(impl, in.act, act_dot, workspace.act_next_bar, bar.x.rightCols(na),
                             act_dot_bar, workspace);
  }
  for (int i = 0; i < kStages; i++) {
    Workspace::Stage& stage = workspace.stages[i];
    stage.k_bar = h * kB[i] * U_bar;
    stage.a_bar = h * kB[i] * bar.next.middleCols(nv, nv);
    stage.act_dot_bar = kB[i] * act_dot_bar;
  }

  // stages, last first
  for (int i = kStages - 1; i >= 0; i--) {
    Workspace::Stage& stage = workspace.stages[i];
    const StepInput at = stage_input(in, stage, in.time + kC[i] * h);
    const bool analytic = impl.path == GradientPath::kAnalytic,
               constrained = !analytic || stage.nefc > 0;
    std::swap(workspace.data, stage.data);
    if (constrained) newton_factorize(m, workspace.data.get(), stage.qacc, workspace);

    // a_i, act_dot_i = F(x_i)
    const bool activation_stage = na > 0 && i == kRk4ActivationStage;
    OracleMultipliers multipliers;
    if (na > 0) multipliers.act_dot_bar = &stage.act_dot_bar;
    if (activation_stage) multipliers.act_next_bar = &workspace.act_next_bar;
    const CVec act_from = activation_stage ? in.act : CVec(),
               act_dot_from = activation_stage ? CVec(act_dot) : CVec();
    const VectorFieldBar to{stage.x_bar, bar.ctrl, bar.qfrc_applied, bar.xfrc_applied, bar.params};
    if (analytic) {
      Matrix& lambda = workspace.lambda;
      if (constrained) {
        solve_lambda(impl, stage.a_bar, lambda, workspace);
      } else {
        // H is M, and so is Mhat
        lambda.resize(ncotangent, nv);
        for (Eigen::Index c = 0; c < ncotangent; c++) {
          metric_solve_transposed(impl, row_part(std::as_const(stage.a_bar), c, 0, nv),
                                  row_part(lambda, c, 0, nv), workspace);
        }
      }
      analytic_field_pullback(impl,
                              {.in = at,
                               .qacc = stage.qacc,
                               .b = {},
                               .act_from = act_from,
                               .act_dot_from = act_dot_from,
                               .constrained = constrained},
                              lambda, multipliers, to, workspace);
    } else {
      vector_field_pullback(impl,
                            {.in = at,
                             .qacc = stage.qacc,
                             .F = {},
                             .act_from = act_from,
                             .act_dot_from = act_dot_from,
                             .act_next = activation_stage},
                            stage.a_bar, multipliers, to, workspace);
    }

    std::swap(workspace.data, stage.data);

    for (Eigen::Index c = 0; c < ncotangent; c++) {
      // k_i = dexpinv(u_i) v_i
      rk_velocity_pullback(m, stage.u, stage.qvel, row_part(stage.k_bar, c, 0, nv),
                           row_part(stage.u_bar, c, 0, nv), row_part(stage.x_bar, c, nv, nv));
      // q_i = q ⊕ u_i
      integrate_pos_pullback(m, stage.u, row_part(stage.x_bar, c, 0, nv), row_part(bar.x, c, 0, nv),
                             row_part(stage.u_bar, c, 0, nv));
    }
    // u_i, v_i and act_i are sums over the stages before
    bar.x.rightCols(nv + na) += stage.x_bar.rightCols(nv + na);
    for (int j = 0; j < i; j++) {
      if (kA[i][j] == 0) continue;
      Workspace::Stage& before = workspace.stages[j];
      before.k_bar += h * kA[i][j] * stage.u_bar;
      before.a_bar += h * kA[i][j] * stage.x_bar.middleCols(nv, nv);
      before.act_dot_bar += h * kA[i][j] * stage.x_bar.rightCols(na);
    }
  }
}

}  // namespace diffmj
