#include "stages/analytic.h"

#include <algorithm>

#include "mj/call.h"
#include "mj/collider.h"
#include "mj/names.h"
#include "stages/acceleration/actuation.h"
#include "stages/acceleration/constraint_diagonal.h"
#include "stages/acceleration/constraint_parameters.h"
#include "stages/acceleration/constraint_projection.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/inverse_dynamics.h"
#include "stages/acceleration/noslip.h"
#include "stages/acceleration/tendon_armature.h"
#include "stages/position/collision.h"
#include "stages/position/constraint_jacobian.h"
#include "stages/position/constraint_onset.h"
#include "stages/position/constraint_rows.h"
#include "stages/position/tendon.h"
#include "stages/position/transmission.h"
#include "stages/sensors/sensors.h"
#include "stages/velocity/fluid.h"
#include "stages/velocity/passive.h"

namespace diffmj {
namespace {

bool has_fluid(const mjModel* m) {
  return passive_enabled(m) && (m->opt.density > 0 || m->opt.viscosity > 0);
}

// has a body that a fluid meets as a box, whose size follows from mass and inertia?
bool has_fluid_box(const mjModel* m) {
  if (!has_fluid(m)) return false;
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    if (!fluid_uses_ellipsoid(m, body)) return true;
  }
  return false;
}

// Which fields have no pullback here; those that are not listed have none.
bool is_for_oracle(const mjModel* m, Parameter p) {
  switch (p) {
    case Parameter::kBodyIpos:
    case Parameter::kBodyIquat:
    case Parameter::kBodyPos:
    case Parameter::kBodyQuat:
    case Parameter::kJntPos:
    case Parameter::kJntAxis:
    case Parameter::kJntStiffness:
    case Parameter::kQposSpring:
    case Parameter::kDofDamping:
    case Parameter::kDofArmature:
    case Parameter::kSitePos:
    case Parameter::kActuatorGear:
    case Parameter::kGravity:
    case Parameter::kGeomFriction:
    case Parameter::kGeomSolref:
    case Parameter::kGeomSolimp:
    case Parameter::kGeomMargin:
    case Parameter::kPairFriction:
    case Parameter::kPairSolref:
    case Parameter::kPairSolimp:
    case Parameter::kPairMargin:
    case Parameter::kJntRange:
    case Parameter::kJntSolref:
    case Parameter::kJntSolimp:
    case Parameter::kDofFrictionloss:
    case Parameter::kEqData:
    case Parameter::kEqSolref:
    case Parameter::kEqSolimp:
    case Parameter::kBodyInvweight0:
    case Parameter::kDofInvweight0:
    case Parameter::kTendonStiffness:
    case Parameter::kTendonDamping:
    case Parameter::kTendonLengthspring:
    case Parameter::kTendonRange:
    case Parameter::kActuatorLengthrange:
    case Parameter::kActuatorAcc0:
      return false;
    case Parameter::kBodyMass:
    case Parameter::kBodyInertia:
      return has_fluid_box(m);
    case Parameter::kActuatorGainprm:
    case Parameter::kActuatorBiasprm:
    case Parameter::kActuatorDynprm:
      return has_controllers(m);
    case Parameter::kGeomSize:
    case Parameter::kGeomPos:
    case Parameter::kGeomQuat:
      return has_fluid(m);
    default:
      return true;
  }
}

// forces at bodies' centres of mass
void xfrc_pullback(const mjModel* m, const mjData* d, Sweep& s) {
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    const mjtNum* xfrc = d->xfrc_applied + 6 * static_cast<ptrdiff_t>(body);
    if (m->body_weldid[body] == 0 || mju_isZero(xfrc, 6)) continue;
    point_force_pullback(body, from_origin(m, d, body, d->xipos + 3 * body), Vector3(xfrc + 3),
                         Vector3(xfrc), 1, s.L, s.W_inertial);
  }
}

// λ as gravity compensation meets it: through actuators, and their clamps, on some joints
Motion& gravcomp_motion(const mjModel* m, const mjData* d, CVec lambda, Workspace& workspace) {
  Sweep& s = workspace.sweep;
  if (!m->flg_gravcomp) return s.L;
  const bool actuation = m->nactuator > 0 && !(m->opt.disableflags & mjDSBL_ACTUATION);
  if (!actuation) {
    std::fill(workspace.lambda_gravcomp.begin(), workspace.lambda_gravcomp.end(), 0.0);
  } else if (!clamp_lambda(m, d, lambda, workspace.lambda_gravcomp)) {
    return s.L;
  }
  for (size_t k = 0; k < lambda.size(); k++) {
    if (!m->jnt_actgravcomp[m->dof_jntid[k]]) workspace.lambda_gravcomp[k] = lambda[k];
  }
  s.use(m, d, workspace.lambda_gravcomp, s.G);
  return s.G;
}

// -h μᵀ (∂c/∂v) b of implicitfast, which has it for lone free bodies
void free_bias_metric_pullback(const mjModel* m, const mjData* d, CVec qvel, CVec mu, CVec b,
                               Vec qpos_bar, Vec qvel_bar) {
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    if (!is_lone_free_body(m, body)) continue;
    const auto dof = static_cast<size_t>(m->body_dofadr[body]);
    FreeBodyBias(m, d, body)
        .form_pullback(Vector3(&qvel[dof + 3]), Vector6(&mu[dof]), Vector3(&b[dof + 3]),
                       -m->opt.timestep, &qpos_bar[dof], &qvel_bar[dof]);
  }
}

// -h μᵀ (∂c/∂v) b by sweeps, which know all parameters: c is quadratic in v, so that (∂c/∂v) b =
// ½ (c(v + b) - c(v - b)) exactly.
void bias_metric_pullback(const StageModel& impl, CVec qvel, CVec mu, CVec b, Vec qpos_bar,
                          Vec qvel_bar, const ParameterBar& params, Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  Sweep& s = workspace.sweep;
  bool any = false;
  for (size_t k = 0; k < qvel.size(); k++) {
    const bool counts =
        m->opt.integrator == mjINT_IMPLICIT || is_lone_free_body(m, m->dof_bodyid[k]);
    workspace.metric.v_plus_b[k] = counts ? qvel[k] + b[k] : 0;
    workspace.metric.v_minus_b[k] = counts ? qvel[k] - b[k] : 0;
    any = any || counts;
  }
  if (!any) return;
  // no acceleration, no gravity: neither has a cotangent here
  ParameterBar inertial = params;
  inertial.field[static_cast<size_t>(Parameter::kGravity)] = {};
  inertial.field[static_cast<size_t>(Parameter::kDofArmature)] = {};
  const double h = m->opt.timestep;
  for (const double side : {1.0, -1.0}) {
    body_accelerations(m, d, side > 0 ? workspace.metric.v_plus_b : workspace.metric.v_minus_b,
                       workspace.zero, Vector3::Zero(), s);
    s.clear();
    s.use(m, d, mu, s.L);
    inverse_dynamics_pullback(m, d, -side * h / 2, s, inertial);
    kinematics_pullback(m, d, s, qpos_bar, qvel_bar, inertial);
  }
}

// What reads A = J M⁻¹ Jᵀ: R with diagexact, the no-slip pass, whose forces act on their own, too
void projections_pullback(const StageModel& impl, CVec mu, Vec qpos_bar, const ParameterBar& params,
                          Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  Projection& p = workspace.projection;
  workspace.constraint.contacts.clear();
  if (!has_noslip(m)) {
    if (!diagonal_is_exact(m)) return;
    // the metric of Euler with damping may have left its own factor
    mj_call("mj_factorM", [&] { mj_factorM(m, d); });
    projection_solve(m, d, workspace);
    projection_read_diagonal(m, d, workspace);
  }
  if (diagonal_is_exact(m)) constraint_diagonal_pullback(d, workspace);
  projection_pullback(m, d, workspace);
  mass_matrix_pullback(m, d, p.M_bar, workspace.sweep, params);
  if (m->ntendon > 0) {
    tendon_mass_matrix_pullback(m, d, p.M_bar, qpos_bar, workspace.tendon.y, workspace.sweep,
                                params);
  }
  if (const Vec bar = params[Parameter::kActuatorGear]; !bar.empty()) {
    const auto nv = static_cast<size_t>(impl.nv);
    for (size_t k = 0; k < nv; k++) workspace.metric.armature_bar[k] = p.M_bar[k * (nv + 1)];
    armature_gear_pullback(m, workspace.metric.armature_bar, bar);
  }
  if (has_noslip(m)) {
    noslip_jacobian_pullback(d, mu, workspace);
    noslip_parameters_pullback(m, d, params, workspace);
  }
  constraint_jacobian_pullback(m, d, qpos_bar, params, workspace);
}

// One cotangent, through all stages.
class CotangentSweep {
 public:
  CotangentSweep(const StageModel& impl, const AnalyticProblem& problem, const Multipliers& w,
                 Eigen::Index row, Matrix& x_bar, Matrix& ctrl_bar, const ParameterBar& params,
                 Workspace& workspace)
      : impl_(impl),
        m_(impl.mj()),
        d_(workspace.data.get()),
        problem_(problem),
        w_(w),
        row_(row),
        x_bar_(x_bar),
        ctrl_bar_(ctrl_bar),
        params_(params),
        workspace_(workspace),
        s_(workspace.sweep),
        metric_(w.mu != nullptr),
        same_(w.mu == w.lambda),
        implicit_(metric_ && impl.advance == Advance::kImplicit),
        a_(metric_ && same_ ? problem.b : problem.qacc),
        lambda_(row_part(*w.lambda, row, 0, impl.nv)),
        mu_(metric_ ? row_part(*w.mu, row, 0, impl.nv) : CVec()),
        qpos_bar_(row_part(x_bar, row, 0, impl.nv)),
        qvel_bar_(row_part(x_bar, row, impl.nv, impl.nv)) {}

  void run() {
    inertia();
    armature_of_gears();
    passive();
    xfrc_pullback(m_, d_, s_);
    actuation();
    if (problem_.constrained && d_->nefc > 0) constraints();
    if (m_->ntendon > 0) {
      tendon_pullback(m_, d_, workspace_.tendon.bars,
                      {&s_.L, &s_.V, &s_.Q, same_ ? &s_.L : &s_.U, &s_.B, &s_.C}, qpos_bar_,
                      qvel_bar_, s_, params_);
    }
    if (problem_.poses) poses_pullback(m_, d_, *problem_.poses, s_, params_);
    kinematics_pullback(m_, d_, s_, qpos_bar_, qvel_bar_, params_);
    if (!implicit_) return;
    if (m_->opt.integrator == mjINT_IMPLICITFAST && !params_.any()) {
      free_bias_metric_pullback(m_, d_, problem_.in.qvel, mu_, problem_.b, qpos_bar_, qvel_bar_);
    } else {
      bias_metric_pullback(impl_, problem_.in.qvel, mu_, problem_.b, qpos_bar_, qvel_bar_, params_,
                           workspace_);
    }
  }

 private:
  // λᵀ (M a + c), μᵀ M (a - b)
  void inertia() {
    if (row_ == 0 || implicit_) {
      body_accelerations(m_, d_, problem_.in.qvel, a_, effective_gravity(m_), s_);
    }
    s_.clear();
    std::fill(workspace_.tendon.bars.begin(), workspace_.tendon.bars.end(), TendonBar());
    s_.use(m_, d_, lambda_, s_.L);
    inverse_dynamics_pullback(m_, d_, -1, s_, params_);
    if (m_->ntendon > 0) {
      tendon_armature_pullback(m_, d_, -1, workspace_.tendon.fits, workspace_.tendon.bars,
                               qpos_bar_, workspace_.tendon.y, s_, params_);
    }
    if (!metric_ || same_) return;
    const CVec step = problem_.qacc_step.empty() ? problem_.qacc : problem_.qacc_step;
    eigen(Vec(workspace_.metric.difference_ab)) = eigen(step) - eigen(problem_.b);
    s_.use(m_, d_, mu_, s_.U);
    s_.use(m_, d_, workspace_.metric.difference_ab, s_.C);
    mass_form_pullback(m_, d_, 1, s_.U, s_.C, s_, params_);
    if (m_->ntendon > 0) {
      tendon_mass_form_pullback(m_, d_, 1, mu_, workspace_.metric.difference_ab,
                                workspace_.tendon.fits, workspace_.tendon.bars, qpos_bar_,
                                workspace_.tendon.y, s_, params_);
    }
  }

  void armature_of_gears() {
    const Vec bar = params_[Parameter::kActuatorGear];
    if (bar.empty()) return;
    for (size_t k = 0; k < lambda_.size(); k++) {
      workspace_.metric.armature_bar[k] = -lambda_[k] * a_[k];
      if (metric_ && !same_)
        workspace_.metric.armature_bar[k] += mu_[k] * workspace_.metric.difference_ab[k];
    }
    armature_gear_pullback(m_, workspace_.metric.armature_bar, bar);
  }

  // passive forces and the metric's part of them
  void passive() {
    const double h = m_->opt.timestep;
    if (passive_enabled(m_)) {
      spring_pullback(m_, d_, lambda_, qpos_bar_, params_);
      damper_pullback(m_, lambda_, problem_.in.qvel, h, problem_.has_metric ? mu_ : CVec(),
                      problem_.b, qvel_bar_, params_);
      if (m_->ntendon > 0) {
        tendon_passive_pullback(m_, d_, lambda_, problem_.in.qvel, h, implicit_ ? mu_ : CVec(),
                                problem_.b, workspace_.tendon.fits, workspace_.tendon.bars,
                                qpos_bar_, workspace_.tendon.y, s_, params_);
      }
      gravcomp_pullback(m_, d_, gravcomp_motion(m_, d_, lambda_, workspace_), s_, params_);
    }
    if (implicit_ && (has_fluid(m_) || m_->ntendon > 0)) s_.use(m_, d_, problem_.b, s_.B);
    if (!has_fluid(m_)) return;
    fluid_pullback(m_, d_, s_.L, s_);
    if (implicit_) fluid_metric_pullback(m_, d_, h, same_ ? s_.L : s_.U, s_.B, s_);
  }

  void actuation() {
    const int na = impl_.na;
    const auto part = [&](const Matrix* bar) { return bar ? row_part(*bar, row_, 0, na) : CVec(); };
    const ActuationIn in{.in = &problem_.in,
                         .lambda = lambda_,
                         .act_dot_bar = part(w_.act_dot_bar),
                         .act_next_bar = part(w_.act_next_bar),
                         .act_from = problem_.act_from,
                         .act_dot_from = problem_.act_dot_from,
                         .h = m_->opt.timestep,
                         .mu = implicit_ ? mu_ : CVec(),
                         .b = problem_.b};
    actuation_pullback(impl_, in,
                       {.qpos = qpos_bar_,
                        .qvel = qvel_bar_,
                        .act = row_part(x_bar_, row_, 2 * impl_.nv, na),
                        .ctrl = row_part(ctrl_bar_, row_, 0, impl_.nu)},
                       s_, params_, workspace_);
  }

  // (J λ)ᵀ f
  void constraints() {
    s_.use(m_, d_, problem_.qacc, s_.Q);
    const bool noslip = has_noslip(m_);
    if (noslip && x_bar_.rows() > 1) {
      // what is there is of the last row
      std::fill(workspace_.noslip.a_bar.begin(), workspace_.noslip.a_bar.end(), 0.0);
      noslip_pullback(impl_, mu_, problem_.force_bar, workspace_.noslip.a_bar, workspace_);
    }
    const CVec force_bar = noslip ? CVec(workspace_.noslip.main_force_bar) : problem_.force_bar;
    constraint_force_pullback(m_, d_, lambda_, force_bar,
                              noslip ? CVec(workspace_.noslip.y_bar) : CVec(), workspace_);
    constraint_parameters_pullback(m_, d_, force_bar, params_, workspace_);
    projections_pullback(impl_, mu_, qpos_bar_, params_, workspace_);
    constraint_rows_pullback(impl_, qpos_bar_, qvel_bar_, params_, workspace_);
  }

  const StageModel& impl_;
  const mjModel* m_;
  mjData* d_;
  const AnalyticProblem& problem_;
  const Multipliers& w_;
  const Eigen::Index row_;
  Matrix &x_bar_, &ctrl_bar_;
  const ParameterBar& params_;
  Workspace& workspace_;
  Sweep& s_;
  // there is a μ; it is λ; the metric is one of the implicit integrators
  const bool metric_, same_, implicit_;
  const CVec a_, lambda_, mu_;  // nv
  const Vec qpos_bar_, qvel_bar_;
};

}  // namespace

std::string analytic_obstacle(const mjModel* m) {
  if (m->nflex > 0) return element_name(m, mjOBJ_FLEX, 0);
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    const std::string what = actuation_obstacle(m, i);
    if (!what.empty()) return element_name(m, mjOBJ_ACTUATOR, i) + ": " + what;
  }
  return constraint_obstacle(m);
}

void evaluate_poses(const mjModel* m, const StepInput& in, mjData* d) {
  write_input(m, d, in);
  mj_kinematics(m, d);
  mj_comPos(m, d);
  if (in.tendon_numbers.empty()) {
    mj_tendon(m, d);
  } else {
    restore_tendons(m, in.tendon_numbers, in.tendon_objects, d);
  }
  mj_makeM(m, d);
}

void evaluate_analytic(const StageModel& impl, const StepInput& in, bool constrained,
                       Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  workspace.constraint.violation.clear();
  workspace.constraint.onset = impl.options.adaptive.onset;
  mj_call("the stages of a step", [&] {
    evaluate_poses(m, in, d);
    if (constrained) {
      if (in.knows_contacts) {
        restore_contacts(m, in.contacts, d);
      } else {
        mj_collision(CollidingModel(m), d);
      }
      mj_makeConstraint(m, d);
      if (diagonal_is_exact(m) || has_noslip(m)) {
        mj_factorM(m, d);
        if (has_noslip(m)) mj_island(m, d);
        mj_projectConstraint(m, d);
      }
      apply_constraint_onset(m, d, impl.options.adaptive.onset);
    }
    if (m->nactuator > 0) mj_transmission(m, d);
    if (constrained && has_noslip(m)) {
      // all that the solver reads: it runs again
      mj_fwdVelocity(m, d);
      if (in.suppression) in.suppression->suppress(d, true);
      mj_fwdActuation(m, d);
      mj_fwdAcceleration(m, d);
      return;
    }

    for (int i = 0; i < static_cast<int>(m->ntendon); i++) {
      d->ten_velocity[i] = tendon_rate(m, d, i, in.qvel);
    }
    for (int i = 0; i < static_cast<int>(m->nout); i++) {
      d->actuator_velocity[i] = moment_dot(d, i, in.qvel);
    }
    // references of constraints and the derivatives of implicit integrators read velocities of
    // bodies
    if (constrained || impl.advance == Advance::kImplicit) mj_comVel(m, d);
    if (constrained) {
      mj_referenceConstraint(m, d);
      if (in.suppression) in.suppression->suppress(d, true);
    }
    if (m->nactuator == 0) return;
    // gravity compensation through actuators counts towards their clamps
    if (m->flg_gravcomp) mj_passive(m, d);
    mj_fwdActuation(m, d);
  });
}

void analytic_pullback(const StageModel& impl, const AnalyticProblem& problem, const Multipliers& w,
                       Matrix& x_bar, Matrix& ctrl_bar, std::span<const ParameterBar> params_of,
                       Workspace& workspace) {
  for (Eigen::Index row = 0; row < x_bar.rows(); row++) {
    const ParameterBar& params = params_of[params_of.size() == 1 ? 0 : static_cast<size_t>(row)];
    CotangentSweep(impl, problem, w, row, x_bar, ctrl_bar, params, workspace).run();
  }
}

ParameterBar oracle_parameters(const mjModel* m, const ParameterBar& params, CVec sensor_bar) {
  ParameterBar rest;
  for (const ParameterField& field : parameter_fields()) {
    const auto i = static_cast<size_t>(field.id);
    if (!params.wants(field.id)) continue;
    if (is_for_oracle(m, field.id) ||
        (!sensor_bar.empty() && sensor_parameter_is_for_oracle(m, sensor_bar, field.id))) {
      rest.field[i] = params.field[i];
    }
  }
  return rest;
}

ParameterBar analytic_parameters(const mjModel* m, const ParameterBar& params, CVec sensor_bar) {
  const ParameterBar rest = oracle_parameters(m, params, sensor_bar);
  ParameterBar out = params;
  for (size_t i = 0; i < out.field.size(); i++) {
    if (!rest.field[i].empty()) out.field[i] = {};
  }
  return out;
}

}  // namespace diffmj
