// The adjoint of MuJoCo's RK4 (mj_RungeKutta), docs/derivations/steps.md:
//
//   stage i:  u_i = h Σ_j A_ij k_j,   q_i = q ⊕ u_i,   v_i = v + h Σ_j A_ij a_j,   act_i likewise
//             a_i, act_dot_i = F(x_i),   k_i = dexpinv(u_i) v_i   (k_i = v_i before MuJoCo 4.0)
//   result:   q' = q ⊕ h Σ b_i k_i,   v' = v + h Σ b_i a_i,   act' = next(act, Σ b_i act_dot_i)
#include <limits>
#include <utility>

#include "integrate/field_pullback.h"
#include "integrate/manifold.h"
#include "integrate/rk4_recorder.h"
#include "integrate/stages_pullback.h"
#include "integrate/step.h"
#include "integrate/tableau.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "stages/acceleration/actuation.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/evaluate_stages.h"
#include "stages/surrogate_field.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

constexpr size_t kStages = kRk4.nstage;

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

// u_i, and the state x_i of stage i
void begin_stage(const StepModel& impl, const StepInput& in, size_t i, Workspace& workspace) {
  const mjModel* m = impl.mj();
  const double h = m->opt.timestep;
  Workspace::Stage& stage = workspace.stages[i];
  std::fill(stage.u.begin(), stage.u.end(), 0.0);
  std::copy(in.qpos.begin(), in.qpos.end(), stage.qpos.begin());
  std::copy(in.qvel.begin(), in.qvel.end(), stage.qvel.begin());
  std::copy(in.act.begin(), in.act.end(), stage.act.begin());
  for (size_t j = 0; j < i; j++) {
    const Workspace::Stage& before = workspace.stages[j];
    add_scaled(stage.u, h * kRk4.A[i][j], before.k);
    add_scaled(stage.qvel, h * kRk4.A[i][j], before.qacc);
    add_scaled(stage.act, h * kRk4.A[i][j], before.act_dot);
  }
  mj_call("mj_integratePos", [&] { mj_integratePos(m, stage.qpos.data(), stage.u.data(), 1); });
}

// k_i
void end_stage(const mjModel* m, Workspace::Stage& stage) {
  if (kRk4CorrectsRotations) {
    stage_velocity(m, stage.u, stage.qvel, stage.k);
  } else {
    stage.k = stage.qvel;
  }
}

// What the evaluations of the step found: as recorded, or by the same step again.
StepStages recorded_stages(const StepModel& impl, const StepInput& in, Workspace& workspace) {
  if (in.rk4.records) return in.rk4;
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  try {
    Rk4Recorder recorder(m, 1, std::numeric_limits<size_t>::max(), workspace.rk4_records);
    recorder.begin();
    mj_call("mj_step", [&] {
      write_input(m, d, in);
      mj_step(CollidingModel(m), d);
    });
    recorder.end(d);
  } catch (const MujocoError&) {
    reset_keeping_mocap(impl, workspace);
    throw;
  }
  if (workspace.rk4_records.empty()) {
    throw Error(
        "RK4: the stages of a step could not be observed, because MuJoCo's control "
        "callback was set or removed meanwhile; leave it alone while diffmj computes");
  }
  return {&workspace.rk4_records, 0};
}

// The states, rates and slopes of the stages.
void restore_stages(const StepModel& impl, const StepInput& in, const StepStages& recorded,
                    Workspace& workspace) {
  for (size_t i = 0; i < kStages; i++) {
    Workspace::Stage& stage = workspace.stages[i];
    begin_stage(impl, in, i, workspace);
    const auto copy = [](CVec from, std::vector<double>& to) {
      std::copy(from.begin(), from.end(), to.begin());
    };
    copy(recorded.row(recorded.records->qacc, i), stage.qacc);
    copy(recorded.row(recorded.records->act_dot, i), stage.act_dot);
    stage.nefc = recorded.row(recorded.records->nefc, i)[0];
    end_stage(impl.mj(), stage);
  }
}

}  // namespace

StepInput rk4_stage_input(const StepModel& impl, const StepInput& in, size_t i,
                          const Workspace& workspace) {
  return stage_input(in, workspace.stages[i], in.time + kRk4.c[i] * impl.mj()->opt.timestep);
}

void rk4_stages(const StepModel& impl, const StepInput& in, Workspace& workspace) {
  const mjModel* m = impl.mj();
  for (size_t i = 0; i < kStages; i++) {
    Workspace::Stage& stage = workspace.stages[i];
    const bool cfd = cfd_forward(impl);
    if (!stage.data && !cfd) stage.data = make_data(impl);
    mjData* d = cfd ? workspace.data.get() : stage.data.get();
    if (!cfd) {
      mju_copy(d->mocap_pos, workspace.data->mocap_pos, 3 * impl.nmocap);
      mju_copy(d->mocap_quat, workspace.data->mocap_quat, 4 * impl.nmocap);
      std::copy_n(workspace.data->eq_active, m->neq, d->eq_active);
    }
    begin_stage(impl, in, i, workspace);
    const StepInput at = rk4_stage_input(impl, in, i, workspace);
    try {
      if (cfd) {
        surrogate_field(impl, at, i == 0 ? in.qacc_warmstart : workspace.stages[i - 1].qacc,
                        workspace);
      } else {
        mj_call("mj_forwardSkip", [&] {
          write_input(m, d, at);
          mj_forwardSkip(CollidingModel(m), d, mjSTAGE_NONE, 1);  // without sensors
        });
      }
    } catch (const MujocoError&) {
      mj_resetData(m, d);  // MuJoCo left in the middle of something
      throw;
    }
    std::copy(d->qacc, d->qacc + impl.nv, stage.qacc.begin());
    std::copy(d->act_dot, d->act_dot + impl.na, stage.act_dot.begin());
    stage.nefc = d->nefc;
    end_stage(m, stage);
  }
}

void cfd_rk4_step(const StepModel& impl, const StepInput& in, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  const double h = m->opt.timestep;
  rk4_stages(impl, in, workspace);
  Vec U = workspace.step.F, act_dot = workspace.probes.saved_act_dot;
  std::vector<double>& qvel = workspace.probes.direction;
  std::fill(U.begin(), U.end(), 0.0);
  std::fill(act_dot.begin(), act_dot.end(), 0.0);
  qvel.assign(in.qvel.begin(), in.qvel.end());
  for (size_t i = 0; i < kStages; i++) {
    const Workspace::Stage& stage = workspace.stages[i];
    add_scaled(U, h * kRk4.b[i], stage.k);
    add_scaled(qvel, h * kRk4.b[i], stage.qacc);
    add_scaled(act_dot, kRk4.b[i], stage.act_dot);
  }
  Eigen::VectorXd& act_next = workspace.probes.probe.act_next;
  if (impl.na > 0) {
    evaluate_stages(impl, stage_input(in, workspace.stages[kRk4ActivationStage], in.time),
                    workspace);
    std::copy(in.act.begin(), in.act.end(), d->act);
    std::copy(act_dot.begin(), act_dot.end(), d->act_dot);
    advance_with_force(impl, m, {}, workspace.probes.probe.b, act_next, workspace);
  }
  write_input(m, d, in);
  mj_call("mj_integratePos", [&] { mj_integratePos(m, d->qpos, U.data(), 1); });
  std::copy(qvel.begin(), qvel.end(), d->qvel);
  std::copy_n(act_next.data(), impl.na, d->act);
  const std::vector<double>& qacc = workspace.stages[kStages - 1].qacc;
  std::copy(qacc.begin(), qacc.end(), d->qacc);
  std::copy(qacc.begin(), qacc.end(), d->qacc_warmstart);
  d->time = in.time + h;
}

void rk4_step_pullback(const StepModel& impl, const StepInput& in, CVec, StepBar& bar,
                       Workspace& workspace) {
  const mjModel* m = impl.mj();
  const int na = impl.na;
  const double h = m->opt.timestep;
  const Eigen::Index ncotangent = bar.next.rows();
  StepStages recorded;
  if (rk4_is_recordable(impl)) {
    recorded = recorded_stages(impl, in, workspace);
    restore_stages(impl, in, recorded, workspace);
  } else {
    rk4_stages(impl, in, workspace);
  }
  step_end_pullback(impl, kRk4, h, bar, workspace);

  // act' = next(act, Σ b_i act_dot_i), with the actuator velocities of one of the stages
  std::vector<double>& act_dot = workspace.probes.saved_act_dot;
  Matrix& act_dot_bar = workspace.step.act_dot_bar;
  act_dot_bar.setZero(ncotangent, na);
  if (na > 0) {
    std::fill(act_dot.begin(), act_dot.end(), 0.0);
    for (size_t i = 0; i < kStages; i++)
      add_scaled(act_dot, kRk4.b[i], workspace.stages[i].act_dot);
    workspace.step.act_next_bar = bar.next.rightCols(na);
    if (impl.differentiation.of_stages && !has_controllers(m)) {
      next_activation_pullback(m, in.act, act_dot, workspace.step.act_next_bar, bar.x.rightCols(na),
                               act_dot_bar);
    } else {
      evaluate_stages(impl, stage_input(in, workspace.stages[kRk4ActivationStage], in.time),
                      workspace);
      next_activation_pullback(impl, in.act, act_dot, workspace.step.act_next_bar,
                               bar.x.rightCols(na), act_dot_bar, workspace);
    }
  }
  for (size_t i = 0; i < kStages; i++) {
    workspace.stages[i].act_dot_bar = kRk4.b[i] * act_dot_bar;
  }

  const auto field = [&](size_t i, Workspace::Stage& stage) {
    const bool activation_stage = na > 0 && i == kRk4ActivationStage;
    Multipliers multipliers;
    if (na > 0) multipliers.act_dot_bar = &stage.act_dot_bar;
    if (activation_stage) multipliers.act_next_bar = &workspace.step.act_next_bar;
    const bool evaluated = !recorded.records && !impl.has_surrogate_field();
    if (evaluated) std::swap(workspace.data, stage.data);
    StepInput at = rk4_stage_input(impl, in, i, workspace);
    at.nefc = stage.nefc;
    if (recorded.records) {
      at.tendon_numbers = recorded.row(recorded.records->tendon_numbers, i);
      at.tendon_objects = recorded.row(recorded.records->tendon_objects, i);
      at.knows_contacts = true;
      at.contacts = recorded.contacts(i);
    }
    field_pullback(impl,
                   {.in = at,
                    .qacc = stage.qacc,
                    .nefc = stage.nefc,
                    .evaluated = !recorded.records,
                    .act_from = activation_stage ? in.act : CVec(),
                    .act_dot_from = activation_stage ? CVec(act_dot) : CVec()},
                   stage.a_bar, multipliers,
                   {stage.x_bar, bar.ctrl, bar.qfrc_applied, bar.xfrc_applied, bar.params},
                   workspace);
    if (evaluated) std::swap(workspace.data, stage.data);
  };
  // act_i is a sum over the stages before
  const auto activations = [&](size_t i, Workspace::Stage& stage) {
    bar.x.rightCols(na) += stage.x_bar.rightCols(na);
    for (size_t j = 0; j < i; j++) {
      if (kRk4.A[i][j] == 0) continue;
      workspace.stages[j].act_dot_bar += h * kRk4.A[i][j] * stage.x_bar.rightCols(na);
    }
  };
  stages_pullback(impl, kRk4, h, kRk4CorrectsRotations, bar, workspace, field, activations);
}

}  // namespace diffmj
