#include "stages/position/kinematics.h"

#include <algorithm>

#include "base/rotation.h"

namespace diffmj {
namespace {

using Quaternion = Eigen::Quaterniond;

Quaternion quaternion(const mjtNum* q) { return Quaternion(q[0], q[1], q[2], q[3]).normalized(); }

Eigen::Map<Vector3> row3(Vec x, int i) {
  return Eigen::Map<Vector3>(x.data() + 3 * static_cast<ptrdiff_t>(i));
}

// cotangents of body_ipos and body_iquat: W moves the inertial frame in its body
void inertial_parameters(const mjModel* m, const mjData* d, int body, const Vector6& W,
                         const ParameterBar& params) {
  if (const Vec bar = params[Parameter::kBodyIpos]; !bar.empty()) {
    row3(bar, body) += Rotation(d->xmat + 9 * body).transpose() * W.tail<3>();
  }
  if (const Vec bar = params[Parameter::kBodyIquat]; !bar.empty()) {
    const Vector3 com = from_origin(m, d, body, d->xipos + 3 * body);
    quaternion_cotangent_to_ambient(
        m->body_iquat + 4 * body, Rotation(d->ximat + 9 * body).transpose() * torque_about(W, com),
        &bar[4 * static_cast<size_t>(body)]);
  }
}

// cotangents of body_pos and body_quat: W moves everything behind the body's frame
void body_parameters(const mjModel* m, const mjData* d, int body, const Vector6& W,
                     const ParameterBar& params) {
  if (!params.wants(Parameter::kBodyPos) && !params.wants(Parameter::kBodyQuat)) return;
  const int joint = m->body_jntadr[body], parent = m->body_parentid[body];
  // poses that qpos or a mocap body gives
  if (m->body_mocapid[body] >= 0 || (joint >= 0 && m->jnt_type[joint] == mjJNT_FREE)) return;
  const Rotation R(d->xmat + 9 * parent);
  const Vector3 pos(m->body_pos + 3 * body);
  if (const Vec bar = params[Parameter::kBodyPos]; !bar.empty()) {
    row3(bar, body) += R.transpose() * W.tail<3>();
  }
  if (const Vec bar = params[Parameter::kBodyQuat]; !bar.empty()) {
    const Vector3 at = from_origin(m, d, body, d->xpos + 3 * parent) + R * pos;
    const Vector3 torque = R.transpose() * torque_about(W, at);
    const Quaternion q = quaternion(m->body_quat + 4 * body);
    quaternion_cotangent_to_ambient(m->body_quat + 4 * body, q.conjugate() * torque,
                                    &bar[4 * static_cast<size_t>(body)]);
  }
}

// cotangents of jnt_pos and jnt_axis. W moves everything behind the joint, but not its axes, whose
// cotangents are S_bar; R is the frame behind the joint and becomes the one before it.
void joint_parameters(const mjModel* m, const mjData* d, int joint, const Vector6& W,
                      const std::vector<Vector6>& S_bar, const ParameterBar& params,
                      Quaternion& R) {
  const int body = m->jnt_bodyid[joint], dof = m->jnt_dofadr[joint], q = m->jnt_qposadr[joint];
  const int type = m->jnt_type[joint];
  if (type == mjJNT_FREE) return;
  const Vector3 local_axis(m->jnt_axis + 3 * joint);
  const Vector3 anchor = from_origin(m, d, body, d->xanchor + 3 * joint);
  const double angle = d->qpos[q] - m->qpos0[q];  // of a hinge; way of a slide
  const Quaternion behind = R;
  if (type == mjJNT_BALL) R = behind * quaternion(d->qpos + q).conjugate();
  if (type == mjJNT_HINGE) {
    R = behind * Quaternion(Eigen::AngleAxisd(-angle, local_axis.normalized()));
  }
  const auto linear = [&](int k) -> Vector3 { return S_bar[static_cast<size_t>(k)].tail<3>(); };

  // anchor = before pos, and everything behind moves by (before - behind) pos; a slide has no
  // anchor
  if (const Vec bar = params[Parameter::kJntPos]; !bar.empty() && type != mjJNT_SLIDE) {
    Vector3 at_anchor = W.tail<3>();
    for (int k = dof; k < dof + dof_count(type); k++) {
      at_anchor += axis(d, k).head<3>().cross(linear(k));
    }
    row3(bar, joint) += R.conjugate() * at_anchor - behind.conjugate() * Vector3(W.tail<3>());
  }

  if (const Vec bar = params[Parameter::kJntAxis]; !bar.empty() && type != mjJNT_BALL) {
    Vector3 world_bar;
    if (type == mjJNT_SLIDE) {
      world_bar = angle * W.tail<3>() + linear(dof);
    } else {
      // everything behind turns by angle Jl(angle axis) d(axis); Jl(u)ᵀ = Jr(-u)ᵀ
      const Vector3 turn = angle * (R * local_axis.normalized());
      world_bar = angle * right_jacobian_transposed(-turn, torque_about(W, anchor)) +
                  S_bar[static_cast<size_t>(dof)].head<3>() + linear(dof).cross(anchor);
    }
    // as a function that normalises its axis
    const Vector3 unit = local_axis.normalized();
    Vector3 local_bar = R.conjugate() * world_bar;
    local_bar -= unit * unit.dot(local_bar);
    row3(bar, joint) += local_bar / local_axis.norm();
  }
}

// torque that cotangents of a rotation matrix are: with R's columns r_j, δr_j = ω × r_j, so that
// R_bar · δR = ω · Σ_j r_j × r_bar_j
Vector3 matrix_torque(const mjtNum* xmat, CVec xmat_bar, int i) {
  Vector3 T = Vector3::Zero();
  if (xmat_bar.empty()) return T;
  const Rotation R(xmat + 9 * static_cast<ptrdiff_t>(i)),
      R_bar(&xmat_bar[9 * static_cast<size_t>(i)]);
  for (int j = 0; j < 3; j++) T += Vector3(R.col(j)).cross(Vector3(R_bar.col(j)));
  return T;
}

}  // namespace

Sweep::Sweep(const mjModel* m) {
  const auto nbody = static_cast<size_t>(m->nbody), nv = static_cast<size_t>(m->nv);
  for (Motion* motion : {&V, &L, &U, &C, &B, &G, &Q}) {
    motion->X.resize(nbody, Vector6::Zero());
    motion->X_bar.resize(nbody, Vector6::Zero());
  }
  for (auto* x : {&A, &A_bar, &W, &W_inertial}) x->resize(nbody, Vector6::Zero());
  S_bar.resize(nv, Vector6::Zero());
  for (auto* x : {&Q_bodies, &I_behind}) x->resize(nbody, Matrix6::Zero());
}

void Sweep::clear() {
  for (auto* x : {&V.X_bar, &A_bar, &W, &W_inertial, &S_bar}) {
    std::fill(x->begin(), x->end(), Vector6::Zero());
  }
  nused_ = 0;
}

void Sweep::use(const mjModel* m, const mjData* d, CVec y, Motion& motion) {
  motion.y = y;
  body_motions(m, d, y, motion.X);
  std::fill(motion.X_bar.begin(), motion.X_bar.end(), Vector6::Zero());
  used_[static_cast<size_t>(nused_++)] = &motion;
}

void body_motions(const mjModel* m, const mjData* d, CVec y, std::vector<Vector6>& X) {
  X[0].setZero();
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    Vector6& out = X[static_cast<size_t>(body)];
    out = X[static_cast<size_t>(m->body_parentid[body])];
    const int begin = m->body_dofadr[body];
    for (int k = begin; k < begin + m->body_dofnum[body]; k++) {
      out += axis(d, k) * y[static_cast<size_t>(k)];
    }
  }
}

Vector6 motion_of(const mjModel* m, const mjData* d, int body, CVec y) {
  Vector6 X = Vector6::Zero();
  for (int k = last_dof(m, body); k >= 0; k = m->dof_parentid[k]) {
    X += axis(d, k) * y[static_cast<size_t>(k)];
  }
  return X;
}

void add_motion_bar(const mjModel* m, int body, CVec y, const Vector6& X_bar, Sweep& s) {
  for (int k = last_dof(m, body); k >= 0; k = m->dof_parentid[k]) {
    s.S_bar[static_cast<size_t>(k)] += y[static_cast<size_t>(k)] * X_bar;
  }
}

void body_accelerations(const mjModel* m, const mjData* d, CVec qvel, CVec qacc,
                        const Vector3& gravity, Sweep& s) {
  s.V.y = qvel;
  s.qacc = qacc;
  s.V.X[0].setZero();
  s.A[0] = spatial(Vector3::Zero(), -gravity);
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    const auto b = static_cast<size_t>(body), parent = static_cast<size_t>(m->body_parentid[body]);
    s.V.X[b] = s.V.X[parent];
    s.A[b] = s.A[parent];
    for (int j = m->body_jntadr[body]; j < m->body_jntadr[body] + m->body_jntnum[body]; j++) {
      const int begin = m->jnt_dofadr[j], end = begin + dof_count(m->jnt_type[j]);
      for (int k = begin; k < end; k++) {
        s.V.X[b] += axis(d, k) * qvel[static_cast<size_t>(k)];
        s.A[b] += axis(d, k) * qacc[static_cast<size_t>(k)];
      }
      for (int k = begin; k < end; k++) {
        if (!carried(m, j, k)) continue;
        s.A[b] += cross_motion(s.V.X[b], axis(d, k)) * qvel[static_cast<size_t>(k)];
      }
    }
  }
}

double point_force_pullback(int body, const Vector3& point, const Vector3& T, const Vector3& F,
                            double s_bar, Motion& motion, std::vector<Vector6>& W) {
  const auto b = static_cast<size_t>(body);
  const Vector6& X = motion.X[b];
  const Vector3 w = X.head<3>();
  motion.X_bar[b] += s_bar * wrench_at(point, T, F);
  // the point moves: F · (ω × δpoint)
  W[b] += s_bar * wrench_at(point, Vector3::Zero(), F.cross(w));
  return F.dot(velocity_at(X, point)) + T.dot(w);
}

void kinematics_pullback(const mjModel* m, const mjData* d, Sweep& s, Vec qpos_bar, Vec qvel_bar,
                         const ParameterBar& params) {
  const bool joint_frames = params.wants(Parameter::kJntPos) || params.wants(Parameter::kJntAxis);
  for (int body = static_cast<int>(m->nbody) - 1; body > 0; body--) {
    const auto b = static_cast<size_t>(body), parent = static_cast<size_t>(m->body_parentid[body]);
    Vector6 &W = s.W[b], &V_bar = s.V.X_bar[b], V = s.V.X[b];
    const Vector6& A_bar = s.A_bar[b];
    inertial_parameters(m, d, body, s.W_inertial[b], params);
    W += s.W_inertial[b];
    Quaternion R = joint_frames ? quaternion(d->xquat + 4 * body) : Quaternion::Identity();

    const int first = m->body_jntadr[body];
    for (int j = first + m->body_jntnum[body] - 1; j >= std::max(first, 0); j--) {
      const int begin = m->jnt_dofadr[j], end = begin + dof_count(m->jnt_type[j]);
      const Vector6 W_behind = W;

      // A += (V × S) v: the frame's own V
      for (int k = begin; k < end; k++) {
        if (!carried(m, j, k)) continue;
        V_bar += s.V.y[static_cast<size_t>(k)] * cross_force(axis(d, k), A_bar);
      }
      const Vector6 turning = cross_force(V, A_bar);
      for (int k = begin; k < end; k++) {
        const auto i = static_cast<size_t>(k);
        const Vector6 S = axis(d, k);
        const double v = s.V.y[i];
        Vector6& S_bar = s.S_bar[i];
        S_bar += s.qacc[i] * A_bar + v * V_bar;
        for (int n = 0; n < s.nused_; n++) {
          const Motion& motion = *s.used_[static_cast<size_t>(n)];
          S_bar += motion.y[i] * motion.X_bar[b];
        }
        qvel_bar[i] += S.dot(V_bar);
        if (!carried(m, j, k)) continue;
        qvel_bar[i] -= S.dot(turning);
        S_bar -= v * turning;
        W += cross_force(S, S_bar);
      }
      for (int k = begin; k < end; k++) {
        const auto i = static_cast<size_t>(k);
        qpos_bar[i] += axis(d, k).dot(W);
        V -= axis(d, k) * s.V.y[i];
      }
      if (joint_frames) joint_parameters(m, d, j, W_behind, s.S_bar, params, R);
    }
    body_parameters(m, d, body, W, params);

    if (parent == 0) continue;
    s.W[parent] += W;
    s.V.X_bar[parent] += V_bar;
    s.A_bar[parent] += A_bar;
    for (int n = 0; n < s.nused_; n++) {
      Motion& motion = *s.used_[static_cast<size_t>(n)];
      motion.X_bar[parent] += motion.X_bar[b];
    }
  }
}

void geom_pullback(const mjModel* m, const mjData* d, int geom, const Vector6& wrench, Sweep& s,
                   const ParameterBar& params) {
  const int body = m->geom_bodyid[geom];
  s.W[static_cast<size_t>(body)] += wrench;
  // geom frame = body frame · (geom_pos, geom_quat)
  if (const Vec to = params[Parameter::kGeomPos]; !to.empty()) {
    row3(to, geom) += Rotation(d->xmat + 9 * body).transpose() * wrench.tail<3>();
  }
  if (const Vec to = params[Parameter::kGeomQuat]; !to.empty()) {
    const Vector3 center = from_origin(m, d, body, d->geom_xpos + 3 * geom);
    quaternion_cotangent_to_ambient(
        m->geom_quat + 4 * geom,
        Rotation(d->geom_xmat + 9 * geom).transpose() * torque_about(wrench, center),
        &to[4 * static_cast<size_t>(geom)]);
  }
}

void poses_pullback(const mjModel* m, const mjData* d, const PoseBar& bar, Sweep& s,
                    const ParameterBar& params) {
  const auto vector3 = [](CVec x, int i) { return Vector3(&x[3 * static_cast<size_t>(i)]); };
  const auto or_zero = [&](CVec x, int i) {
    return x.empty() ? Vector3(Vector3::Zero()) : vector3(x, i);
  };
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    const auto b = static_cast<size_t>(body);
    const mjtNum* xpos = d->xpos + 3 * body;
    if (!bar.xpos.empty()) {
      s.W[b] += wrench_at(from_origin(m, d, body, xpos), Vector3::Zero(), vector3(bar.xpos, body));
    }
    if (!bar.xquat.empty()) {
      // δq = ½ (0, ω) q
      const Eigen::Vector4d q_bar(&bar.xquat[4 * b]);
      const Eigen::Map<const Eigen::Vector4d> q(d->xquat + 4 * body);
      const Vector3 vec = q.tail<3>(), vec_bar = q_bar.tail<3>();
      s.W[b].head<3>() += 0.5 * (q[0] * vec_bar - q_bar[0] * vec + vec.cross(vec_bar));
    }
    s.W[b].head<3>() += matrix_torque(d->xmat, bar.xmat, body);
    if (!bar.body_linvel.empty() || !bar.body_angvel.empty()) {
      point_force_pullback(body, from_origin(m, d, body, xpos), or_zero(bar.body_angvel, body),
                           or_zero(bar.body_linvel, body), 1, s.V, s.W);
    }
    if (!bar.subtree_com.empty() && m->body_subtreemass[body] < mjMINVAL) {
      // MuJoCo takes the body's own centre
      s.W_inertial[b] += wrench_at(from_origin(m, d, body, d->xipos + 3 * body), Vector3::Zero(),
                                   vector3(bar.subtree_com, body));
    }
  }

  const bool sites = !bar.site_xpos.empty() || !bar.site_xmat.empty() || !bar.site_linvel.empty() ||
                     !bar.site_angvel.empty();
  for (int site = 0; site < static_cast<int>(m->nsite) && sites; site++) {
    const int body = m->site_bodyid[site];
    const auto b = static_cast<size_t>(body);
    const Vector3 at = from_origin(m, d, body, d->site_xpos + 3 * site);
    const Vector3 v_bar = or_zero(bar.site_linvel, site);
    s.V.X_bar[b] += wrench_at(at, or_zero(bar.site_angvel, site), v_bar);
    // the site moves: v_bar · (ω × δat)
    const Vector3 w = s.V.X[b].head<3>();
    const Vector3 F = or_zero(bar.site_xpos, site) + v_bar.cross(w);
    s.W[b] += wrench_at(at, matrix_torque(d->site_xmat, bar.site_xmat, site), F);
    if (const Vec to = params[Parameter::kSitePos]; !to.empty()) {
      row3(to, site) += Rotation(d->xmat + 9 * body).transpose() * F;
    }
  }

  const bool geoms = !bar.geom_xpos.empty() || !bar.geom_xmat.empty();
  for (int geom = 0; geom < static_cast<int>(m->ngeom) && geoms; geom++) {
    const Vector3 at = from_origin(m, d, m->geom_bodyid[geom], d->geom_xpos + 3 * geom);
    geom_pullback(m, d, geom,
                  wrench_at(at, matrix_torque(d->geom_xmat, bar.geom_xmat, geom),
                            or_zero(bar.geom_xpos, geom)),
                  s, params);
  }
  if (bar.subtree_com.empty()) return;

  // com_b = Σ mass xipos / Σ mass over the subtree: what a body receives is a sum over its
  // ancestors
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    Vector3 F = Vector3::Zero();
    for (int above = body; above >= 0; above = above == 0 ? -1 : m->body_parentid[above]) {
      if (m->body_subtreemass[above] < mjMINVAL) continue;
      const Vector3 com_bar = vector3(bar.subtree_com, above);
      F += com_bar / m->body_subtreemass[above];
    }
    const Vector3 com(d->xipos + 3 * body);
    s.W_inertial[static_cast<size_t>(body)] += wrench_at(
        from_origin(m, d, body, d->xipos + 3 * body), Vector3::Zero(), m->body_mass[body] * F);
    if (const Vec to = params[Parameter::kBodyMass]; !to.empty()) {
      for (int above = body; above >= 0; above = above == 0 ? -1 : m->body_parentid[above]) {
        if (m->body_subtreemass[above] < mjMINVAL) continue;
        const Vector3 lever = com - Vector3(d->subtree_com + 3 * above);
        to[static_cast<size_t>(body)] +=
            vector3(bar.subtree_com, above).dot(lever) / m->body_subtreemass[above];
      }
    }
  }
}

}  // namespace diffmj
