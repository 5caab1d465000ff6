#include "stages/field_matrix.h"

#include <algorithm>

#include "stages/acceleration/actuation.h"
#include "stages/acceleration/constraint_diagonal.h"
#include "stages/acceleration/inverse_dynamics.h"
#include "stages/acceleration/noslip.h"
#include "stages/velocity/passive.h"

namespace diffmj {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// x ×* f as a matrix that multiplies x
Matrix6 cross_force_of(const Vector6& f) {
  Matrix6 out;
  for (int k = 0; k < 6; k++) out.col(k) = cross_force(Vector6(Vector6::Unit(k)), f);
  return out;
}
// V × as a matrix
Matrix6 cross_matrix(const Vector6& V) {
  const auto hat = [](const Vector3& x) {
    Eigen::Matrix3d out;
    out.col(0) = Vector3(0, x[2], -x[1]);
    out.col(1) = Vector3(-x[2], 0, x[0]);
    out.col(2) = Vector3(x[1], -x[0], 0);
    return out;
  };
  Matrix6 out;
  out.topLeftCorner<3, 3>() = hat(V.head<3>());
  out.bottomRightCorner<3, 3>() = out.topLeftCorner<3, 3>();
  out.bottomLeftCorner<3, 3>() = hat(V.tail<3>());
  out.topRightCorner<3, 3>().setZero();
  return out;
}

bool on_scalar_joint(const mjModel* m, int actuator) {
  const int type = m->actuator_trntype[actuator];
  if (type != mjTRN_JOINT && type != mjTRN_JOINTINPARENT) return false;
  const int joint = m->jnt_type[m->actuator_trnid[2 * actuator]];
  return joint == mjJNT_HINGE || joint == mjJNT_SLIDE;
}

// Numbers that a field has for each actuator with one output, 0 if it is not of actuators.
int parameters_per_actuator(const mjModel* m, Parameter p) {
  if (m->nout != m->nactuator) return 0;
  switch (p) {
    case Parameter::kActuatorGainprm:
      return mjNGAIN;
    case Parameter::kActuatorBiasprm:
      return mjNBIAS;
    case Parameter::kActuatorDynprm:
      return mjNDYN;
    case Parameter::kActuatorLengthrange:
      return 2;
    case Parameter::kActuatorAcc0:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

std::string FieldMatrix::obstacle(const StageModel& impl, const ParameterColumns& columns) {
  const mjModel* m = impl.mj();
  const bool implicit = impl.advance == Advance::kImplicit;
  for (const ParameterField* field : columns.fields()) {
    if (implicit || parameters_per_actuator(m, field->id) == 0) return field->name;
  }
  if (!impl.differentiation.of_stages) return "the gradient path";
  if (has_noslip(m)) return "a no-slip pass";
  if (diagonal_is_exact(m)) return "diagexact";
  if (passive_enabled(m) && (m->opt.density > 0 || m->opt.viscosity > 0)) return "a fluid";
  if (has_controllers(m)) return "controllers";
  bool clamps = false;
  for (int joint = 0; joint < static_cast<int>(m->njnt); joint++) {
    clamps = clamps || m->jnt_actfrclimited[joint];
    if (m->jnt_type[joint] == mjJNT_BALL && m->jnt_limited[joint]) return "limits of ball joints";
    if (m->flg_gravcomp && m->jnt_actgravcomp[joint]) return "gravity compensation by actuators";
  }
  for (int i = 0; i < static_cast<int>(m->neq); i++) {
    if (m->eq_type[i] == mjEQ_TENDON && m->eq_obj2id[i] >= 0) return "equalities of two tendons";
    if (m->eq_type[i] != mjEQ_JOINT && m->eq_type[i] != mjEQ_TENDON &&
        equality_rows(m->eq_type[i]) == 0) {
      return "equalities of flexes";
    }
  }
  bool spatial_slope = false;  // a velocity's coefficient in D along a J that varies
  for (int i = 0; i < static_cast<int>(m->ntendon); i++) {
    if (tendon_armature(m, i) != 0) return "armature of tendons";
    spatial_slope = spatial_slope || (!tendon_is_fixed(m, i) && Damping::of_tendon(m, i).any());
    if (implicit && Damping::of_tendon(m, i).any() && Damping::of_tendon(m, i).curvature(1) != 0) {
      return "polynomial damping of tendons in an implicit integrator";
    }
  }
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    const bool tendon = m->actuator_trntype[i] == mjTRN_TENDON;
    if (!on_scalar_joint(m, i) && !tendon) return "transmissions beside scalar joints and tendons";
    if (!tendon) continue;
    if (clamps) return "tendon actuators beside joints with actuatorfrcrange";
    if (implicit && m->actuator_gaintype[i] != mjGAIN_FIXED) {
      return "gains of tendon actuators in an implicit integrator";
    }
    spatial_slope = spatial_slope || (!tendon_is_fixed(m, m->actuator_trnid[2 * i]) &&
                                      m->actuator_biastype[i] == mjBIAS_AFFINE &&
                                      m->actuator_biasprm[mjNBIAS * i + 2] != 0);
  }
  if (implicit && spatial_slope) return "spatial tendons in an implicit integrator";
  return "";
}

void FieldMatrix::compute(const StageModel& impl, const AnalyticProblem& problem,
                          const ParameterColumns& columns, Workspace& workspace) {
  impl_ = &impl;
  m_ = impl.mj();
  d_ = workspace.data.get();
  problem_ = &problem;
  columns_ = &columns;
  workspace_ = &workspace;
  nv_ = impl.nv;
  na_ = impl.na;
  const auto nbody = at(impl.nbody), nv = at(nv_);
  dofs_.resize(nv);
  bodies_.resize(nbody);
  external_.assign(nbody, Vector6::Zero());
  external_K_.assign(nbody, Matrix6::Zero());
  ones_.assign(nv, 1.0);
  zeros_.assign(nv, 0.0);
  tendons_.assign(at(static_cast<int>(m_->ntendon)), Tendon());
  G.setZero(nv_, 2 * nv_ + na_ + impl.nu + columns.size());

  motions(problem.in.qvel, problem.qacc, problem.qacc, effective_gravity(m_));
  passive();
  actuation();
  if (problem.constrained && d_->nefc > 0) constraints();
  tendons();
  inverse_dynamics(1, true, G);
  if (problem.has_metric) metric();
}

// motions of the frames before every dof; free joints are translations, then a rotation
void FieldMatrix::motions(CVec qvel, CVec qacc, CVec row_qacc, const Vector3& gravity) {
  std::vector<Vector6>& A_body = workspace_->sweep.A;
  bodies_[0].V.setZero();
  bodies_[0].Q.setZero();
  A_body[0] = spatial(Vector3::Zero(), -gravity);
  for (int body = 1; body < impl_->nbody; body++) {
    Body& b = bodies_[at(body)];
    const Body& parent = bodies_[at(m_->body_parentid[body])];
    Vector6 V = parent.V, Q = parent.Q, A = A_body[at(m_->body_parentid[body])];
    for (int j = m_->body_jntadr[body]; j < m_->body_jntadr[body] + m_->body_jntnum[body]; j++) {
      const int first = m_->jnt_dofadr[j], type = m_->jnt_type[j];
      const int end = first + dof_count(type);
      for (int begin = first; begin < end; begin += type == mjJNT_FREE ? 3 : end - first) {
        const int stop = type == mjJNT_FREE ? begin + 3 : end;
        const Vector6 V0 = V, A0 = A, Q0 = Q;
        for (int k = begin; k < stop; k++) {
          Dof& dof = dofs_[at(k)];
          dof.S = axis(d_, k);
          dof.joint_begin = begin;
          V += dof.S * qvel[at(k)];
          A += dof.S * qacc[at(k)];
          Q += dof.S * row_qacc[at(k)];
        }
        for (int k = begin; k < stop; k++) {
          Dof& dof = dofs_[at(k)];
          dof.V = V0;
          dof.A = A0;
          dof.Q = Q0;
          dof.u = cross_motion(V0, dof.S);
          dof.w = cross_motion(A0, dof.S) - cross_motion(dof.u, V0);
          const Vector6 turning = cross_motion(V, dof.S);
          dof.u_v = turning + dof.u;
          if (carried(m_, j, k)) A += turning * qvel[at(k)];
        }
      }
    }
    b.V = V;
    b.Q = Q;
    A_body[at(body)] = A;
  }
}

// F and T, fixed in the world, act at a point that the body carries
void FieldMatrix::add_force_at(int body, const Vector3& point, const Vector3& F, const Vector3& T) {
  external_[at(body)] += wrench_at(point, T, F);
  // the point moves with S: δp = v + ω × p,  δ(p × F) = δp × F
  for (int k = 0; k < 6; k++) {
    const Vector6 S = Vector6::Unit(k);
    external_K_[at(body)].col(k).head<3>() += velocity_at(S, point).cross(F);
  }
}

// -∂/∂(q, v) of inverse dynamics by the motions in dofs_ and bodies_, times scale; with forces also
// of the external wrenches, which g has with a minus sign
void FieldMatrix::inverse_dynamics(double scale, bool forces, Matrix& to) {
  for (int body = 1; body < impl_->nbody; body++) {
    Body& b = bodies_[at(body)];
    const auto k = at(body);
    b.I.setZero();
    b.B.setZero();
    b.F.setZero();
    b.K.setZero();
    if (m_->body_weldid[body] == 0) continue;
    const SpatialInertia inertia(d_->cinert + 10 * static_cast<ptrdiff_t>(body));
    b.I = inertia.matrix();
    const Vector6 h = inertia * b.V;
    const Matrix6 C = cross_matrix(b.V);
    const Matrix6 IC = b.I * C;
    b.B = cross_force_of(h) - IC - IC.transpose();
    b.F = inertia * workspace_->sweep.A[k] + cross_force(b.V, h);
    if (!forces) continue;
    b.F -= external_[k];
    b.K = cross_force_of(external_[k]) - external_K_[k];
  }
  for (int body = impl_->nbody - 1; body > 0; body--) {
    const int parent = m_->body_parentid[body];
    if (parent == 0) continue;
    Body &b = bodies_[at(body)], &p = bodies_[at(parent)];
    p.I += b.I;
    p.B += b.B;
    p.F += b.F;
    p.K += b.K;
  }
  for (int k = 0; k < nv_; k++) {
    const Dof& dof = dofs_[at(k)];
    const Body& b = bodies_[at(m_->dof_bodyid[k])];
    const Vector6 IS = scale * (b.I * dof.S), BS = scale * (b.B.transpose() * dof.S),
                  KS = scale * (b.K.transpose() * dof.S);
    const Vector6 turned = scale * (b.I * dof.w + b.B * dof.u + b.K * dof.S),
                  carried_along = turned + scale * cross_force(dof.S, b.F),
                  by_velocity = scale * (b.B * dof.S + b.I * dof.u_v);
    for (int i = k; i >= 0; i = m_->dof_parentid[i]) {
      const Dof& other = dofs_[at(i)];
      // row k, column i: all of row k's bodies turn with q_i
      to(k, i) -= IS.dot(other.w) + BS.dot(other.u) + KS.dot(other.S);
      to(k, nv_ + i) -= BS.dot(other.S) + IS.dot(other.u_v);
      if (i == k) continue;
      // row i, column k: the axis of i stays, unless it is of the same joint
      to(i, k) -= other.S.dot(i >= dof.joint_begin ? turned : carried_along);
      to(i, nv_ + k) -= other.S.dot(by_velocity);
    }
  }
}

void FieldMatrix::passive() {
  if (!passive_enabled(m_)) return;
  // joints apart: one λ for all their first dofs, one for the second, ...
  std::vector<double>& lambda = v_bar_;
  for (int color = 0; color < 6; color++) {
    bool any = false;
    lambda.assign(at(nv_), 0.0);
    for (int j = 0; j < static_cast<int>(m_->njnt); j++) {
      if (dof_count(m_->jnt_type[j]) <= color) continue;
      lambda[at(m_->jnt_dofadr[j] + color)] = 1;
      any = true;
    }
    if (!any) break;
    q_bar_.assign(at(nv_), 0.0);
    spring_pullback(m_, d_, lambda, q_bar_, {});
    for (int j = 0; j < static_cast<int>(m_->njnt); j++) {
      const int begin = m_->jnt_dofadr[j], n = dof_count(m_->jnt_type[j]);
      if (n <= color) continue;
      for (int k = begin; k < begin + n; k++) G(begin + color, k) += q_bar_[at(k)];
    }
  }
  v_bar_.assign(at(nv_), 0.0);
  damper_pullback(m_, ones_, problem_->in.qvel, 0, {}, {}, v_bar_, {});
  for (int k = 0; k < nv_; k++) G(k, nv_ + k) += v_bar_[at(k)];
  for (int i = 0; i < static_cast<int>(m_->ntendon); i++) {
    const TendonForce force = tendon_passive_force(m_, d_, i);
    tendons_[at(i)].T += force.force;
    tendons_[at(i)].by_length += force.by_length;
    tendons_[at(i)].by_velocity += force.by_velocity;
  }
  if (m_->flg_gravcomp && !(m_->opt.disableflags & mjDSBL_GRAVITY)) {
    for (int body = 1; body < impl_->nbody; body++) {
      if (m_->body_gravcomp[body] == 0 || m_->body_weldid[body] == 0) continue;
      const Vector3 F = -m_->body_mass[body] * m_->body_gravcomp[body] * Vector3(m_->opt.gravity);
      add_force_at(body, from_origin(m_, d_, body, d_->xipos + 3 * body), F, Vector3::Zero());
    }
  }
}

// one pullback of all actuators, each with its gear for a cotangent of its force: they have their
// own controls and activations, and a joint or tendon that adds them up
void FieldMatrix::actuation() {
  for (int body = 1; body < impl_->nbody; body++) {
    const mjtNum* xfrc = d_->xfrc_applied + 6 * static_cast<ptrdiff_t>(body);
    if (m_->body_weldid[body] == 0 || mju_isZero(xfrc, 6)) continue;
    add_force_at(body, from_origin(m_, d_, body, d_->xipos + 3 * body), Vector3(xfrc),
                 Vector3(xfrc + 3));
  }
  if (m_->nactuator == 0 || (m_->opt.disableflags & mjDSBL_ACTUATION)) return;
  std::vector<double>& masked = workspace_->lambda_gravcomp;
  clamp_lambda(m_, d_, ones_, masked);
  out_bar_.assign(at(static_cast<int>(m_->nout)), 0.0);
  for (int i = 0; i < static_cast<int>(m_->nactuator); i++) {
    const int out = m_->actuator_outadr[i];
    double& bar = out_bar_[at(out)];
    bar = m_->actuator_gear[6 * out];
    if (on_scalar_joint(m_, i)) {
      bar *= masked[at(m_->jnt_dofadr[m_->actuator_trnid[2 * i]])];
    }
  }
  for (auto* x : {&q_bar_, &v_bar_}) x->assign(at(nv_), 0.0);
  act_bar_.assign(at(na_), 0.0);
  ctrl_bar_.assign(at(impl_->nu), 0.0);
  params_bar_.assign(at(columns_->size()), 0.0);
  std::fill(workspace_->tendon.bars.begin(), workspace_->tendon.bars.end(), TendonBar());
  actuation_pullback(*impl_,
                     {.in = &problem_->in,
                      .lambda = zeros_,
                      .act_dot_bar = {},
                      .act_next_bar = {},
                      .act_from = {},
                      .act_dot_from = {},
                      .mu = {},
                      .b = {},
                      .force_bar = out_bar_},
                     {.qpos = q_bar_, .qvel = v_bar_, .act = act_bar_, .ctrl = ctrl_bar_},
                     workspace_->sweep, columns_->bar(params_bar_.data()), *workspace_);
  for (int k = 0; k < nv_; k++) {
    G(k, k) += q_bar_[at(k)];
    G(k, nv_ + k) += v_bar_[at(k)];
  }
  for (int i = 0; i < static_cast<int>(m_->ntendon); i++) {
    const TendonBar& bar = workspace_->tendon.bars[at(i)];
    tendons_[at(i)].T += bar.rate[TendonBar::kLambda];
    tendons_[at(i)].by_length += bar.length;
    tendons_[at(i)].by_velocity += bar.rate[TendonBar::kV];
  }
  for (int i = 0; i < static_cast<int>(m_->nactuator); i++) {
    const int nact = m_->actuator_actnum[i], nctrl = m_->actuator_ctrlnum[i];
    const auto add = [&](int dof, double scale) {
      for (int k = 0; k < nact; k++) {
        const int act = m_->actuator_actadr[i] + k;
        G(dof, 2 * nv_ + act) += scale * act_bar_[at(act)];
      }
      for (int k = 0; k < nctrl; k++) {
        const int ctrl = m_->actuator_ctrladr[i] + k;
        G(dof, 2 * nv_ + na_ + ctrl) += scale * ctrl_bar_[at(ctrl)];
      }
      for (const ParameterField* field : columns_->fields()) {
        const int width = parameters_per_actuator(m_, field->id);
        const int first = columns_->first(field->id) + width * i;
        for (int k = first; k < first + width; k++) {
          G(dof, 2 * nv_ + na_ + impl_->nu + k) += scale * params_bar_[at(k)];
        }
      }
    };
    const int id = m_->actuator_trnid[2 * i];
    if (on_scalar_joint(m_, i)) {
      add(m_->jnt_dofadr[id], 1);
      continue;
    }
    // λ as forces through actuators meet it
    const int begin = m_->ten_J_rowadr[id];
    for (int k = begin; k < begin + m_->ten_J_rownnz[id]; k++) {
      add(m_->ten_J_colind[k], d_->ten_J[k]);
    }
  }
}

// what acts along tendons, with tension T and rows of J:  δ(Jᵀ T) = Jᵀ δT + T ∂J
void FieldMatrix::tendons() {
  const CVec a = problem_->qacc, v = problem_->in.qvel;
  workspace_->sweep.clear();
  for (int i = 0; i < static_cast<int>(m_->ntendon); i++) {
    const Tendon& t = tendons_[at(i)];
    if (t.T == 0 && t.by_length == 0 && t.by_velocity == 0 && t.row_a == 0) continue;
    const int begin = m_->ten_J_rowadr[i], n = m_->ten_J_rownnz[i];
    const int* dof = m_->ten_J_colind + begin;
    const Eigen::Map<const Eigen::VectorXd> J(d_->ten_J + begin, n);
    const bool curved = !tendon_is_fixed(m_, i);
    if (curved) tendon_hessian_.compute(m_, d_, i, workspace_->sweep, hessian_);
    for (int c = 0; c < n; c++) {
      double by_q = t.by_length * J[c];
      for (int r = 0; r < n && curved; r++) {
        by_q += (t.by_velocity * v[at(dof[r])] + t.row_a * a[at(dof[r])]) * hessian_(r, c);
      }
      for (int r = 0; r < n; r++) {
        G(dof[r], dof[c]) += J[r] * by_q + (curved ? t.T * hessian_(r, c) : 0);
        G(dof[r], nv_ + dof[c]) += J[r] * t.by_velocity * J[c];
      }
    }
  }
}

// N: the mass matrix times a - b, and the integrator's damping, times b
void FieldMatrix::metric() {
  const CVec b = problem_->b, v = problem_->in.qvel;
  const double h = m_->opt.timestep;
  N.setZero(G.rows(), G.cols());
  if (problem_->constrained) {
    // ∂(M x)/∂q: inverse dynamics at rest, without gravity
    std::vector<double>& x = q_bar_;
    x.assign(at(nv_), 0.0);
    const CVec a = problem_->qacc_step.empty() ? problem_->qacc : problem_->qacc_step;
    eigen(Vec(x)) = eigen(a) - eigen(b);
    motions(zeros_, x, zeros_, Vector3::Zero());
    // g has M a with a plus sign, and inverse_dynamics gives its negative
    inverse_dynamics(-1, false, N);
    N.middleCols(nv_, nv_).setZero();
  }
  if (passive_enabled(m_)) {
    v_bar_.assign(at(nv_), 0.0);
    damper_pullback(m_, zeros_, v, h, ones_, b, v_bar_, {});
    for (int k = 0; k < nv_; k++) N(k, nv_ + k) += v_bar_[at(k)];
  }
  if (impl_->advance != Advance::kImplicit) return;

  if (m_->nactuator > 0 && !(m_->opt.disableflags & mjDSBL_ACTUATION)) {
    for (auto* x : {&q_bar_, &v_bar_}) x->assign(at(nv_), 0.0);
    act_bar_.assign(at(na_), 0.0);
    ctrl_bar_.assign(at(impl_->nu), 0.0);
    actuation_pullback(*impl_,
                       {.in = &problem_->in,
                        .lambda = zeros_,
                        .act_dot_bar = {},
                        .act_next_bar = {},
                        .act_from = {},
                        .act_dot_from = {},
                        .h = h,
                        .mu = ones_,
                        .b = b},
                       {.qpos = q_bar_, .qvel = v_bar_, .act = act_bar_, .ctrl = ctrl_bar_},
                       workspace_->sweep, {}, *workspace_);
    for (int k = 0; k < nv_; k++) {
      N(k, k) += q_bar_[at(k)];
      N(k, nv_ + k) += v_bar_[at(k)];
    }
    for (int i = 0; i < static_cast<int>(m_->nactuator); i++) {
      if (!on_scalar_joint(m_, i)) continue;
      const int dof = m_->jnt_dofadr[m_->actuator_trnid[2 * i]];
      for (int k = 0; k < m_->actuator_actnum[i]; k++) {
        const int act = m_->actuator_actadr[i] + k;
        N(dof, 2 * nv_ + act) += act_bar_[at(act)];
      }
      for (int k = 0; k < m_->actuator_ctrlnum[i]; k++) {
        const int ctrl = m_->actuator_ctrladr[i] + k;
        N(dof, 2 * nv_ + na_ + ctrl) += ctrl_bar_[at(ctrl)];
      }
    }
  }

  // -h (∂c/∂v) b = -h/2 (c(v + b) - c(v - b)), of implicitfast for lone free bodies alone
  std::vector<double>& moved = workspace_->metric.v_plus_b;
  for (const double side : {1.0, -1.0}) {
    bool any = false;
    for (int k = 0; k < nv_; k++) {
      const bool counts =
          m_->opt.integrator == mjINT_IMPLICIT || is_lone_free_body(m_, m_->dof_bodyid[k]);
      moved[at(k)] = counts ? v[at(k)] + side * b[at(k)] : 0;
      any = any || counts;
    }
    if (!any) return;
    motions(moved, zeros_, zeros_, Vector3::Zero());
    inverse_dynamics(side * h / 2, false, N);
  }
}

}  // namespace diffmj
