#include "stages/field_matrix.h"

#include <algorithm>

#include "stages/acceleration/actuation.h"
#include "stages/acceleration/constraint_diagonal.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/inverse_dynamics.h"
#include "stages/acceleration/noslip.h"
#include "stages/position/collision.h"
#include "stages/position/constraint_rows.h"
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

// Rows of a connect or weld, which have an impedance in common; 0 of others.
int equality_rows(int type) { return type == mjEQ_CONNECT ? 3 : type == mjEQ_WELD ? 6 : 0; }

// Rows from i on that belong together.
int rows_together(const mjModel* m, const mjData* d, int i) {
  const bool equality = d->efc_type[i] == mjCNSTR_EQUALITY;
  const int n = equality ? equality_rows(m->eq_type[d->efc_id[i]]) : 0;
  return n > 0 ? n : constraint_rows_at(d, i);
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
  if (impl.path != GradientPath::kAnalytic) return "the gradient path";
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
  std::fill(workspace_->tendons.begin(), workspace_->tendons.end(), TendonBar());
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
    const TendonBar& bar = workspace_->tendons[at(i)];
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

void FieldMatrix::constraints() {
  // cotangents of the rows for a unit one of J λ; rows of an elliptic contact belong together, and
  // those of a connect or weld
  int ncolor = 1;
  for (int i = 0, n = 1; i < d_->nefc; i += n) {
    n = rows_together(m_, d_, i);
    ncolor = std::max(ncolor, n);
  }
  for (int color = 0; color < ncolor; color++) {
    unit_rows_.assign(at(d_->nefc), 0.0);
    for (int i = 0, n = 1; i < d_->nefc; i += n) {
      n = rows_together(m_, d_, i);
      if (color < n) unit_rows_[at(i + color)] = 1;
    }
    constraint_force_pullback(m_, d_, zeros_, unit_rows_, {}, *workspace_);
    rows_[at(color)] = workspace_->rows_bar;
  }
  single_dof_rows();
  equalities();
  contacts();
}

void FieldMatrix::equalities() {
  for (int i = 0, n = 1; i < d_->nefc && d_->efc_type[i] == mjCNSTR_EQUALITY; i += n) {
    n = rows_together(m_, d_, i);
    if (n > 1) equality(i, n);
  }
}

// A connect or weld: its pullback is linear in the motions and twists of two bodies. Run once for
// every row, and once for every number of the motions by λ, it gives all there is to know.
void FieldMatrix::equality(int i, int nrow) {
  const int id = d_->efc_id[i];
  const bool sites = m_->eq_objtype[id] == mjOBJ_SITE;
  const int object[2] = {m_->eq_obj1id[id], m_->eq_obj2id[id]};
  const int body[2] = {sites ? m_->site_bodyid[object[0]] : object[0],
                       sites ? m_->site_bodyid[object[1]] : object[1]};
  Sweep& s = workspace_->sweep;
  s.clear();
  for (int b : body) {
    s.V.X[at(b)] = bodies_[at(b)].V;
    s.Q.X[at(b)] = bodies_[at(b)].Q;
    for (Vector6* x : {&s.L.X[at(b)], &s.L.X_bar[at(b)], &s.Q.X_bar[at(b)]}) x->setZero();
  }
  const auto clear = [&] {
    for (int b : body) {
      for (Vector6* x : {&s.W[at(b)], &s.A_bar[at(b)], &s.V.X_bar[at(b)], &s.Q.X_bar[at(b)],
                         &s.L.X_bar[at(b)]}) {
        x->setZero();
      }
    }
  };

  find_chain(body[0], body[1]);
  const auto n = static_cast<Eigen::Index>(chain_.size());
  Eigen::Map<Matrix> left = left_.shaped(n, nrow + 12), right = right_.shaped(nrow + 12, n),
                     velocity = velocity_.shaped(nrow, n);
  for (auto* x : {&left, &right, &velocity}) x->setZero();
  const auto for_each_side = [&](auto&& fn) {
    for (Eigen::Index c = 0; c < n; c++) {
      for (int side = 0; side < 2; side++) {
        if (!(side_[at(static_cast<int>(c))] & (1 << side))) continue;
        // one body twice, or the world: its functionals are counted once
        if (side == 1 && body[0] == body[1]) continue;
        fn(c, side, dofs_[at(chain_[at(static_cast<int>(c))])]);
      }
    }
  };
  Workspace::RowsBar& bar = workspace_->rows_bar;
  for (int k = 0; k < nrow; k++) {
    bar = rows_[at(k)];
    for (int row = i; row < i + nrow; row++) bar.J_lambda[at(row)] = row == i + k ? 1 : 0;
    equality_rows_pullback(*impl_, i, *workspace_);
    for_each_side([&](Eigen::Index c, int side, const Dof& dof) {
      const auto b = at(body[side]);
      const Vector6 &V = s.V.X[b], &V_bar = s.V.X_bar[b], &A_bar = s.A_bar[b];
      left(c, k) += s.L.X_bar[b].dot(dof.S);
      right(k, c) += s.W[b].dot(dof.S) + V_bar.dot(cross_motion(dof.S, V) + dof.u) +
                     s.Q.X_bar[b].dot(cross_motion(dof.S, s.Q.X[b] - dof.Q)) +
                     A_bar.dot(cross_motion(dof.S, s.A[b]) + dof.w + cross_motion(dof.u, V));
      velocity(k, c) += V_bar.dot(dof.S) + A_bar.dot(cross_motion(dof.S, V) + dof.u_v);
    });
    clear();
  }

  // f δ(J λ): wrenches fixed in the world, and how they change with the twists
  for (auto* x : {&bar.J_a, &bar.J_v, &bar.pos, &bar.aref}) std::fill(x->begin(), x->end(), 0.0);
  bar.J_lambda = rows_[0].J_lambda;
  equality_rows_pullback(*impl_, i, *workspace_);
  external_[at(body[0])] += s.L.X_bar[at(body[0])];
  if (body[1] != body[0]) external_[at(body[1])] += s.L.X_bar[at(body[1])];
  clear();
  for (int m = 0; m < 12; m++) {
    const int side = m / 6;
    if (side == 1 && body[0] == body[1]) break;
    s.L.X[at(body[side])][m % 6] = 1;
    equality_rows_pullback(*impl_, i, *workspace_);
    s.L.X[at(body[side])][m % 6] = 0;
    for_each_side([&](Eigen::Index c, int other, const Dof& dof) {
      if (other == side) left(c, nrow + m) += dof.S[m % 6];
      right(nrow + m, c) += s.W[at(body[other])].dot(dof.S);
    });
    clear();
  }
  add_blocks(left, right, velocity);
}

// dofs that carry either body, the last first
void FieldMatrix::find_chain(int body0, int body1) {
  chain_.clear();
  side_.clear();
  for (int j0 = last_dof(m_, body0), j1 = last_dof(m_, body1); j0 >= 0 || j1 >= 0;) {
    const int j = std::max(j0, j1);
    chain_.push_back(j);
    side_.push_back((j0 == j ? 1 : 0) | (j1 == j ? 2 : 0));
    if (j0 == j) j0 = m_->dof_parentid[j];
    if (j1 == j) j1 = m_->dof_parentid[j];
  }
}

// left right to q, and the first columns of left times velocity to v, over the dofs of the chain
void FieldMatrix::add_blocks(const Eigen::Map<Matrix>& left, const Eigen::Map<Matrix>& right,
                             const Eigen::Map<Matrix>& velocity) {
  const auto n = static_cast<Eigen::Index>(chain_.size());
  Eigen::Map<Matrix> block = block_.shaped(n, n);
  const auto add = [&](int offset) {
    for (Eigen::Index r = 0; r < n; r++) {
      double* row = G.row(chain_[at(static_cast<int>(r))]).data() + offset;
      for (Eigen::Index c = 0; c < n; c++) row[chain_[at(static_cast<int>(c))]] += block(r, c);
    }
  };
  // without the scratch that Eigen's product of large matrices allocates
  block.noalias() = left.lazyProduct(right);
  add(0);
  block.noalias() = left.leftCols(velocity.rows()).lazyProduct(velocity);
  add(nv_);
}

void FieldMatrix::single_dof_rows() {
  const Workspace::RowsBar& bar = rows_[0];
  const CVec a = problem_->qacc, v = problem_->in.qvel;
  const auto tendon = [&](int i, int id) {
    Tendon& t = tendons_[at(id)];
    // the sign of the row's J appears twice, but once in its force
    double sign = 1;
    if (d_->efc_type[i] == mjCNSTR_LIMIT_TENDON) {
      const bool second =
          i > 0 && d_->efc_type[i - 1] == mjCNSTR_LIMIT_TENDON && d_->efc_id[i - 1] == id;
      if (second || d_->efc_pos[i] != d_->ten_length[id] - m_->tendon_range[2 * id]) sign = -1;
    }
    t.T += sign * bar.J_lambda[at(i)];
    t.row_a += bar.J_a[at(i)];
    t.by_velocity += bar.J_v[at(i)];
    t.by_length += bar.pos[at(i)];
  };
  for (int i = 0; i < d_->nefc; i++) {
    const auto row = at(i);
    const int id = d_->efc_id[i];
    switch (d_->efc_type[i]) {
      case mjCNSTR_FRICTION_DOF:
        G(id, nv_ + id) += bar.J_v[row];
        break;
      case mjCNSTR_LIMIT_JOINT: {
        const int dof = m_->jnt_dofadr[id];
        G(dof, dof) += bar.pos[row];
        G(dof, nv_ + dof) += bar.J_v[row];
        break;
      }
      case mjCNSTR_FRICTION_TENDON:
      case mjCNSTR_LIMIT_TENDON:
        tendon(i, id);
        break;
      case mjCNSTR_EQUALITY: {
        if (equality_rows(m_->eq_type[id]) > 0) break;
        if (m_->eq_type[id] == mjEQ_TENDON) {
          tendon(i, m_->eq_obj1id[id]);
          break;
        }
        // r = x_1 - p(x_2):  J = (1, -p'),  which turns with x_2
        const int j1 = m_->eq_obj1id[id], j2 = m_->eq_obj2id[id];
        const int dof[2] = {m_->jnt_dofadr[j1], j2 < 0 ? -1 : m_->jnt_dofadr[j2]};
        double J[2] = {1, 0}, curve = 0;
        if (j2 >= 0) {
          const int q = m_->jnt_qposadr[j2];
          const mjtNum* c = m_->eq_data + mjNEQDATA * id;
          const double x = d_->qpos[q] - m_->qpos0[q];
          J[1] = -(c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4])));
          curve = -(2 * c[2] + x * (6 * c[3] + x * 12 * c[4]));
          const double rate = curve * (bar.J_a[row] * a[at(dof[1])] + bar.J_v[row] * v[at(dof[1])]);
          for (int n = 0; n < 2; n++) G(dof[n], dof[1]) += J[n] * rate;
          G(dof[1], dof[1]) += bar.J_lambda[row] * curve;
        }
        for (int n = 0; n < 2; n++) {
          for (int k = 0; k < 2; k++) {
            if (dof[n] < 0 || dof[k] < 0) continue;
            G(dof[n], dof[k]) += J[n] * bar.pos[row] * J[k];
            G(dof[n], nv_ + dof[k]) += J[n] * bar.J_v[row] * J[k];
          }
        }
        break;
      }
      default:
        return;  // contacts come last
    }
  }
}

void FieldMatrix::contacts() {
  ContactJacobian geometry;
  for (int first = 0, n = 0; first < d_->ncon; first += n) {
    const mjContact& lead = d_->contact[first];
    n = 1;
    while (first + n < d_->ncon && n < mjMAXCONPAIR &&
           d_->contact[first + n].geom[0] == lead.geom[0] &&
           d_->contact[first + n].geom[1] == lead.geom[1]) {
      n++;
    }
    for (int k = 0; k < n; k++) {
      const mjContact& one = d_->contact[first + k];
      if (one.efc_address < 0) continue;
      // without force there is nothing to differentiate
      bool any = false;
      const int i = one.efc_address;
      const int nrow = d_->efc_type[i] == mjCNSTR_CONTACT_PYRAMIDAL  ? 2 * (one.dim - 1)
                       : d_->efc_type[i] == mjCNSTR_CONTACT_ELLIPTIC ? one.dim
                                                                     : 1;
      for (int row = i; row < i + nrow; row++) {
        const bool elliptic = d_->efc_type[i] == mjCNSTR_CONTACT_ELLIPTIC;
        any = any || workspace_->zone[at(elliptic ? i : row)] != Zone::kSatisfied;
      }
      if (!any) continue;
      collision_jacobian(*impl_, first, n, k, *workspace_, geometry);
      contact(one, geometry);
    }
  }
}

namespace {

// (s_a, s_v, s_r) and f of a contact, in its space, from the rows that are its edges or axes.
struct ContactLaw {
  static constexpr int kMost = 6;
  using Small = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, kMost, kMost>;
  using SmallVector = Eigen::Matrix<double, Eigen::Dynamic, 1, 0, kMost, 1>;

  ContactLaw(const mjData* d, const mjContact& contact, std::span<const Workspace::RowsBar> rows)
      : s_a(Small::Zero(contact.dim, contact.dim)),
        s_v(Small::Zero(contact.dim, contact.dim)),
        s_r(SmallVector::Zero(contact.dim)),
        f(SmallVector::Zero(contact.dim)) {
    if (d->efc_type[contact.efc_address] == mjCNSTR_CONTACT_PYRAMIDAL) {
      read_edges(contact, rows[0]);
    } else {
      read_axes(contact, rows);
    }
  }

  // normal ± friction_k tangent_k
  void read_edges(const mjContact& contact, const Workspace::RowsBar& bar) {
    for (int k = 1; k < contact.dim; k++) {
      for (int side = 0; side < 2; side++) {
        const auto row = at(contact.efc_address + 2 * (k - 1) + side);
        const double slope = (side == 0 ? 1 : -1) * contact.friction[k - 1];
        const int index[2] = {0, k};
        const double weight[2] = {1, slope};
        for (int p = 0; p < 2; p++) {
          f[index[p]] += weight[p] * bar.J_lambda[row];
          s_r[index[p]] += weight[p] * bar.pos[row];
          for (int q = 0; q < 2; q++) {
            s_a(index[p], index[q]) += weight[p] * weight[q] * bar.J_a[row];
            s_v(index[p], index[q]) += weight[p] * weight[q] * bar.J_v[row];
          }
        }
      }
    }
  }

  void read_axes(const mjContact& contact, std::span<const Workspace::RowsBar> rows) {
    const int i = contact.efc_address;
    for (int k = 0; k < contact.dim; k++) {
      const Workspace::RowsBar& bar = rows[at(k)];
      f[k] = rows[0].J_lambda[at(i + k)];
      s_r[k] = bar.pos[at(i)];
      for (int l = 0; l < contact.dim; l++) {
        s_a(k, l) = bar.J_a[at(i + l)];
        s_v(k, l) = bar.J_v[at(i + l)];
      }
    }
  }

  Small s_a, s_v;
  SmallVector s_r, f;
};

}  // namespace

// In the contact's space j_k = frame_k · (relative velocity), k < dim, the force f and, with
// (s_a, s_v, s_r) of rows_, docs/derivations/field_matrix.md, eq. 8:
//   Σ_k (j_k λ) [Σ_l s_a_kl δ(j_l a) + s_v_kl δ(j_l v) + s_r_k δdist] + Σ_k f_k δ(j_k λ)
void FieldMatrix::contact(const mjContact& contact, const ContactJacobian& geometry) {
  const int dim = contact.dim;
  const ContactLaw law(d_, contact, rows_);

  const int body[2] = {m_->geom_bodyid[contact.geom[0]], m_->geom_bodyid[contact.geom[1]]};
  const Vector3 point[2] = {from_origin(m_, d_, body[0], contact.pos),
                            from_origin(m_, d_, body[1], contact.pos)};
  const Rotation frame(contact.frame);
  const auto in_contact = [&](const Vector3& u, const Vector3& w) {
    ContactLaw::SmallVector out(dim);
    for (int k = 0; k < dim; k++) out[k] = frame.row(k % 3).dot(k < 3 ? u : w);
    return out;
  };
  Vector3 F = Vector3::Zero(), T = Vector3::Zero();
  for (int k = 0; k < dim; k++) (k < 3 ? F : T) += law.f[k] * frame.row(k % 3).transpose();
  for (int side = 0; side < 2; side++) {
    external_[at(body[side])] += (side == 0 ? -1 : 1) * wrench_at(point[side], T, F);
  }

  // relative motions by a and v
  const Body &b0 = bodies_[at(body[0])], &b1 = bodies_[at(body[1])];
  const Vector3 u_a = velocity_at(b1.Q, point[1]) - velocity_at(b0.Q, point[0]),
                w_a = b1.Q.head<3>() - b0.Q.head<3>(),
                u_v = velocity_at(b1.V, point[1]) - velocity_at(b0.V, point[0]),
                w_v = b1.V.head<3>() - b0.V.head<3>();

  find_chain(body[0], body[1]);
  const auto n = static_cast<Eigen::Index>(chain_.size());
  Eigen::Map<Matrix> left = left_.shaped(n, dim + 6), right = right_.shaped(dim + 6, n),
                     velocity = velocity_.shaped(dim, n);
  for (Eigen::Index c = 0; c < n; c++) {
    const Dof& dof = dofs_[at(chain_[at(static_cast<int>(c))])];
    const int sides = side_[at(static_cast<int>(c))];
    Vector3 u = Vector3::Zero(), w = u, du_a = u, dw_a = u, du_v = u, dw_v = u;
    Eigen::Matrix<double, 7, 1> moved = Eigen::Matrix<double, 7, 1>::Zero();
    for (int side = 0; side < 2; side++) {
      if (!(sides & (1 << side))) continue;
      const double sign = side == 0 ? -1 : 1;
      const Vector3& p = point[side];
      moved.noalias() += geometry.middleCols<6>(6 * side) * dof.S;
      u += sign * velocity_at(dof.S, p);
      w += sign * dof.S.head<3>();
      // all axes behind the dof turn with it: δX = S × (X - X of the frame before)
      const Body& b = side == 0 ? b0 : b1;
      const Vector6 dQ = cross_motion(dof.S, b.Q - dof.Q), dV = cross_motion(dof.S, b.V - dof.V);
      du_a += sign * velocity_at(dQ, p);
      dw_a += sign * dQ.head<3>();
      du_v += sign * velocity_at(dV, p);
      dw_v += sign * dV.head<3>();
    }
    const Vector3 dpos = moved.segment<3>(1), turn = moved.tail<3>();
    const ContactLaw::SmallVector d_a = in_contact(du_a + w_a.cross(dpos) + u_a.cross(turn),
                                                   dw_a + w_a.cross(turn)),
                                  d_v = in_contact(du_v + w_v.cross(dpos) + u_v.cross(turn),
                                                   dw_v + w_v.cross(turn)),
                                  j = in_contact(u, w);
    left.row(c).head(dim) = j.transpose();
    left.row(c).segment<3>(dim) = F.cross(w).transpose();
    left.row(c).tail<3>() = (F.cross(u) + T.cross(w)).transpose();
    right.col(c).head(dim) = law.s_a * d_a + law.s_v * d_v + moved[0] * law.s_r;
    right.col(c).tail<6>() = moved.tail<6>();
    velocity.col(c) = law.s_v * j;
  }
  add_blocks(left, right, velocity);
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
  std::vector<double>& moved = workspace_->v_plus_b;
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
