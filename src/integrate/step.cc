#include "integrate/step.h"

#include <algorithm>
#include <utility>

#include "integrate/manifold.h"
#include "integrate/metric.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/noslip.h"
#include "stages/evaluate_stages.h"
#include "stages/input_differences.h"
#include "stages/sensors/sensors.h"
#include "stages/surrogate_field.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

// mu = Mhat⁻ᵀ b_bar from what the integrator answers to forces: b is linear in F
void metric_pullback(const StepModel& impl, const Matrix& b_bar, Matrix& mu, Workspace& workspace) {
  Eigen::VectorXd &b = workspace.probes.probe.b, &act_next = workspace.probes.probe.act_next;
  mu.resize(b_bar.rows(), impl.nv);

  if (impl.advance != Advance::kImplicit && b_bar.rows() < impl.nv) {
    for (Eigen::Index i = 0; i < b_bar.rows(); i++) {
      const CVec force(b_bar.row(i).data(), static_cast<size_t>(impl.nv));
      advance_with_force(impl, impl.mj(), force, b, act_next, workspace);
      mu.row(i) = b.transpose();
    }
    return;
  }

  const Vec force = workspace.probes.direction;
  for (int i = 0; i < impl.nv; i++) {
    std::fill(force.begin(), force.end(), 0.0);
    force[static_cast<size_t>(i)] = 1;
    advance_with_force(impl, impl.mj(), force, b, act_next, workspace);
    workspace.step.response.row(i) = b.transpose();
  }
  mu.noalias() = b_bar * workspace.step.response.transpose();
}

// Mhat differs from M, or would as soon as the damping that a gradient is asked for is not 0.
// gradient: at 0 damping the side above is taken, on which Euler is implicit
bool has_metric(const StepModel& impl, const StepBar& bar) {
  return impl.advance != Advance::kExplicit ||
         (impl.euler_damps && bar.wants(Parameter::kDofDamping));
}

// q' = q ⊕ h v',  v' = v + h b: what b receives, one row per cotangent
void position_pullback(const StepModel& impl, CVec increment, StepBar& bar, Matrix& b_bar) {
  const mjModel* m = impl.mj();
  const int nv = impl.nv;
  const double h = m->opt.timestep;
  b_bar.setZero(bar.next.rows(), nv);
  for (Eigen::Index i = 0; i < bar.next.rows(); i++) {
    integrate_pos_pullback(m, increment, row_part(bar.next, i, 0, nv), row_part(bar.x, i, 0, nv),
                           row_part(b_bar, i, 0, nv));
  }
  b_bar = h * b_bar + bar.next.middleCols(nv, nv);  // of v'
  bar.x.middleCols(nv, nv) += b_bar;
  b_bar *= h;  // of b
}

// The sensors at the start of a step: adds to bar what they receive directly, leaves the cotangent
// of a in the workspace's scratch, and returns that of the constraint forces, efc_force included.
CVec step_sensors_pullback(const StepModel& impl, const SensorProblem& problem,
                           const SensorNeeds& needs, StepBar& bar, Workspace& workspace) {
  const int nv = impl.nv;
  SensorScratch& scratch = workspace.sensors;
  std::fill(scratch.qacc.begin(), scratch.qacc.end(), 0.0);
  scratch.force.assign(problem.constrained ? static_cast<size_t>(workspace.data->nefc) : size_t{0},
                       0.0);
  sensors_pullback(
      impl, problem, bar.sensordata, needs,
      {.qpos = row_part(bar.x, 0, 0, nv),
       .qvel = row_part(bar.x, 0, nv, nv),
       .act = row_part(bar.x, 0, 2 * nv, impl.na),
       .ctrl = row_part(bar.ctrl, 0, 0, impl.nu),
       .xfrc_applied = row_part(bar.xfrc_applied, 0, 0, static_cast<int>(bar.xfrc_applied.cols())),
       .qacc = scratch.qacc,
       .force = scratch.force,
       .params = analytic_parameters(impl.mj(), bar.params, bar.sensordata)},
      workspace);
  if (!needs.force || scratch.force.empty()) return bar.efc_force;
  if (!bar.efc_force.empty()) eigen(Vec(scratch.force)) += eigen(bar.efc_force);
  return scratch.force;
}

// H λ = M μ, or b_bar where there is no metric, with what cotangents of forces and sensors add to
// that of a
void solve_step_lambda(const StepModel& impl, bool implicit, bool noslip, bool sensors,
                       CVec force_bar, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  const int nv = impl.nv;
  Matrix &a_bar = workspace.step.a_bar, &mu = workspace.step.mu;
  a_bar = workspace.step.b_bar;
  for (Eigen::Index i = 0; i < a_bar.rows() && implicit; i++) {
    mj_call("mj_mulM", [&] {
      mj_mulM(m, d, row_part(a_bar, i, 0, nv).data(), row_part(mu, i, 0, nv).data());
    });
  }
  for (Eigen::Index i = 0; i < a_bar.rows() && noslip; i++) {
    noslip_pullback(impl, row_part(mu, i, 0, nv), force_bar, row_part(a_bar, i, 0, nv), workspace);
  }
  if (sensors) eigen(row_part(a_bar, 0, 0, nv)) += eigen(CVec(workspace.sensors.qacc));
  if (!force_bar.empty() && !noslip) {
    constraint_force_to_acceleration(m, d, force_bar, row_part(a_bar, 0, 0, nv), workspace);
  }
  solve_lambda(impl, a_bar, workspace.step.lambda, workspace);
}

}  // namespace

bool step_takes_sensors(const StepModel& impl, CVec sensordata_bar) {
  if (!impl.differentiation.of_stages || impl.tableau || impl.mj()->opt.integrator == mjINT_RK4) {
    return false;
  }
  // there a of the backward pass is not that of the sensors
  const bool other_field = impl.has_surrogate_field() || has_noslip(impl.mj());
  const SensorNeeds needs(impl.mj(), sensordata_bar);
  return !needs.oracle && !(other_field && needs.acceleration);
}

bool step_takes_poses(const StepModel& impl) {
  return impl.differentiation.of_stages && !impl.tableau &&
         impl.mj()->opt.integrator != mjINT_RK4 && !impl.has_surrogate_field();
}

void StepBar::resize(const StepModel& impl, int ncotangent, bool xfrc) {
  next.setZero(ncotangent, 2 * impl.nv + impl.na);
  x.setZero(ncotangent, 2 * impl.nv + impl.na);
  ctrl.setZero(ncotangent, impl.nu);
  ctrl_end.setZero(ncotangent, impl.nu);
  qfrc_applied.setZero(ncotangent, impl.nv);
  xfrc_applied.setZero(ncotangent, xfrc ? 6 * impl.nbody : 0);
}

void step_pullback(const StepModel& impl, const StepInput& in, CVec qacc, StepBar& bar,
                   Workspace& workspace) {
  impl.differentiation.step_pullback(impl, in, qacc, bar, workspace);
}

void cfd_step(const StepModel& impl, const StepInput& in, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  if (m->opt.integrator == mjINT_RK4) {
    cfd_rk4_step(impl, in, workspace);
    return;
  }
  surrogate_field(impl, in, in.qacc_warmstart, workspace);
  mj_call("mj_Euler", [&] {
    if (impl.advance == Advance::kImplicit) {
      mj_implicit(m, d);
    } else {
      mj_Euler(m, d);
    }
  });
}

// Where no constraint acts H is M, so that λ = H⁻¹ M μ = μ: one factorisation, one sweep. gradient:
// with contacts from distance, or of smooth colliders in the backward pass, a is that of F, and its
// derivative that of F̃ (derivations/cfd.md, eq. 6 to 8)
void analytic_step_pullback(const StepModel& impl, const StepInput& in, CVec qacc, StepBar& bar,
                            Workspace& workspace) {
  const mjModel* m = impl.mj();
  const int nv = impl.nv;
  const double h = m->opt.timestep;
  const bool implicit = has_metric(impl, bar);
  const SensorNeeds needs(m, bar.sensordata);
  // cotangents of a itself make λ another than μ
  const bool wanted = in.nefc != 0 || (implicit && needs.acceleration);
  const ColliderScope scope(impl.backward_collider());
  const BackwardField field = backward_field_evaluate(impl, in, qacc, wanted, workspace);
  const bool constrained = field.constrained;
  // the main solver's solution is the root, and μ is needed for what comes after it
  const bool noslip = constrained && has_noslip(m);
  const CVec field_qacc = noslip ? CVec(workspace.noslip.qacc) : field.qacc;

  std::vector<double>&b = workspace.metric.b, &increment = workspace.probes.direction;
  for (size_t k = 0; k < b.size(); k++) {
    b[k] = implicit ? (in.qvel_next[k] - in.qvel[k]) / h : qacc[k];
    increment[k] = h * in.qvel_next[k];
  }
  Matrix &b_bar = workspace.step.b_bar, &mu = workspace.step.mu, &lambda = workspace.step.lambda;
  position_pullback(impl, increment, bar, b_bar);
  CVec force_bar = bar.efc_force;
  if (needs.any) {
    force_bar = step_sensors_pullback(impl, {.in = in, .qacc = qacc, .constrained = constrained},
                                      needs, bar, workspace);
    if (!constrained) eigen(row_part(b_bar, 0, 0, nv)) += eigen(CVec(workspace.sensors.qacc));
  }

  // Mhatᵀ μ = b_bar,  H λ = M μ
  if (implicit || noslip || !constrained) {
    metric_factorize(impl, workspace);
    mu.resize(b_bar.rows(), nv);
    for (Eigen::Index i = 0; i < mu.rows(); i++) {
      metric_solve_transposed(impl, row_part(std::as_const(b_bar), i, 0, nv),
                              row_part(mu, i, 0, nv), workspace);
    }
  }
  if (constrained) solve_step_lambda(impl, implicit, noslip, needs.any, force_bar, workspace);

  Multipliers multipliers;
  if (implicit || noslip) multipliers.mu = &mu;
  if (implicit) multipliers.b_bar = &b_bar;
  if (impl.na > 0) {
    workspace.step.act_next_bar = bar.next.rightCols(impl.na);
    multipliers.act_next_bar = &workspace.step.act_next_bar;
  }
  analytic_field_pullback(
      impl,
      {.in = in,
       .qacc = field_qacc,
       .b = b,
       .act_from = {},
       .act_dot_from = {},
       .constrained = constrained,
       .qacc_step = noslip ? CVec() : qacc,
       .force_bar = force_bar,
       .has_metric = implicit,
       .sensor_bar = bar.sensordata,
       .poses = bar.poses},
      constrained ? lambda : mu, multipliers,
      {bar.x, bar.ctrl, bar.qfrc_applied, bar.xfrc_applied, bar.params, bar.row_params}, workspace);
}

void oracle_step_pullback(const StepModel& impl, const StepInput& in, CVec qacc, StepBar& bar,
                          Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  const int nv = impl.nv;
  const double h = m->opt.timestep;
  const Eigen::Index ncotangent = bar.next.rows();
  const bool implicit = has_metric(impl, bar);

  vector_field_evaluate(impl, in, qacc, true, workspace);

  // b and v', again
  Vec F = workspace.step.F;
  mj_call("mj_mulM", [&] { mj_mulM(m, d, F.data(), qacc.data()); });
  Eigen::VectorXd& b = workspace.probes.base.b;
  if (implicit) {
    advance_with_force(impl, m, F, b, workspace.probes.base.act_next, workspace);
  } else {
    b = eigen(qacc);
  }
  std::vector<double>& increment = workspace.probes.direction;  // h v'
  for (int i = 0; i < nv; i++) {
    const auto k = static_cast<size_t>(i);
    increment[k] = h * (in.qvel[k] + h * b[i]);
  }

  Matrix &b_bar = workspace.step.b_bar, &a_bar = workspace.step.a_bar;
  position_pullback(impl, increment, bar, b_bar);

  // Mhat b = M a
  OracleProblem problem{.in = in, .qacc = qacc, .F = {}, .act_from = {}, .act_dot_from = {}};
  Multipliers multipliers;
  if (implicit) {
    metric_pullback(impl, b_bar, workspace.step.mu, workspace);
    a_bar.resize(ncotangent, nv);
    for (Eigen::Index i = 0; i < ncotangent; i++) {
      mj_call("mj_mulM", [&] {
        mj_mulM(m, d, row_part(a_bar, i, 0, nv).data(),
                row_part(workspace.step.mu, i, 0, nv).data());
      });
    }
    problem.F = F;
    multipliers.mu = &workspace.step.mu;
    multipliers.b_bar = &b_bar;
  } else {
    a_bar = b_bar;
  }

  // act' = next(act, act_dot)
  if (impl.na > 0) {
    workspace.step.act_next_bar = bar.next.rightCols(impl.na);
    multipliers.act_next_bar = &workspace.step.act_next_bar;
    problem.act_next = true;
  }

  if (!bar.efc_force.empty()) {
    problem.force_bar = bar.efc_force;
    if (!has_noslip(m)) {
      constraint_force_to_acceleration(m, d, bar.efc_force, row_part(a_bar, 0, 0, nv), workspace);
    }
  }
  oracle_field_pullback(impl, problem, a_bar, multipliers,
                        {bar.x, bar.ctrl, bar.qfrc_applied, bar.xfrc_applied, bar.params},
                        workspace);
}

void differences_step_pullback(const StepModel& impl, const StepInput& in, CVec, StepBar& bar,
                               Workspace& workspace) {
  const mjModel* m = impl.tight();
  mjData* d = workspace.data.get();
  const int nv = impl.nv, na = impl.na;
  std::vector<double>& base = workspace.differences.next_qpos;
  // the state after the step, as a tangent from its position without perturbation
  const auto step = [&](auto&& move, Vec tangent) {
    mj_call("mj_step", [&] {
      write_input(m, d, in);
      move();
      mj_step(CollidingModel(m), d);
      mj_differentiatePos(m, tangent.data(), 1, base.data(), d->qpos);
    });
    std::copy(d->qvel, d->qvel + nv, tangent.begin() + nv);
    std::copy(d->act, d->act + na, tangent.begin() + 2 * nv);
    return d->nefc;
  };
  mj_call("mj_step", [&] {
    write_input(m, d, in);
    mj_step(CollidingModel(m), d);
  });
  std::copy(d->qpos, d->qpos + impl.nq, base.begin());
  input_differences_pullback(
      impl, in, bar.next, {bar.x, bar.ctrl, bar.qfrc_applied, bar.xfrc_applied},
      {workspace.differences.tangent_center, workspace.differences.tangent_plus,
       workspace.differences.tangent_minus, workspace.differences.difference},
      step, workspace);
}

}  // namespace diffmj
