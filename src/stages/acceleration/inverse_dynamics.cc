#include "stages/acceleration/inverse_dynamics.h"

namespace diffmj {
namespace {

// Calls fn(body, inertia) for every body that moves and has mass.
template <class Fn>
void for_each_body(const mjModel* m, const mjData* d, Fn&& fn) {
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    if (m->body_weldid[body] == 0) continue;
    fn(body, SpatialInertia(d->cinert + 10 * static_cast<ptrdiff_t>(body)));
  }
}

// A motion in the axes of a body's inertial frame, at its centre of mass.
struct LocalMotion {
  LocalMotion(const mjModel* m, const mjData* d, int body, const Vector6& X)
      : w(Rotation(d->ximat + 9 * body).transpose() * X.head<3>()),
        v(Rotation(d->ximat + 9 * body).transpose() *
          velocity_at(X, from_origin(m, d, body, d->xipos + 3 * body))) {}
  Vector3 w, v;
};

Eigen::Map<Vector3> row3(Vec x, int i) {
  return Eigen::Map<Vector3>(x.data() + 3 * static_cast<ptrdiff_t>(i));
}

// φ of one body is linear in mass and principal inertias:
//   mass l · (a + ω × v) + lω · (D α + ω × D ω)   at the centre of mass, in its principal axes
void inertia_parameters(const mjModel* m, const mjData* d, int body, double phi_bar, const Sweep& s,
                        const ParameterBar& params) {
  const Vec mass_bar = params[Parameter::kBodyMass], inertia_bar = params[Parameter::kBodyInertia];
  if (mass_bar.empty() && inertia_bar.empty()) return;
  const auto b = static_cast<size_t>(body);
  const LocalMotion L(m, d, body, s.L.X[b]), V(m, d, body, s.V.X[b]), A(m, d, body, s.A[b]);
  if (!mass_bar.empty()) mass_bar[b] += phi_bar * L.v.dot(A.v + V.w.cross(V.v));
  if (!inertia_bar.empty()) {
    row3(inertia_bar, body) += phi_bar * (L.w.cwiseProduct(A.w) + V.w.cwiseProduct(L.w.cross(V.w)));
  }
}

}  // namespace

Vector3 effective_gravity(const mjModel* m) {
  return m->opt.disableflags & mjDSBL_GRAVITY ? Vector3(Vector3::Zero()) : Vector3(m->opt.gravity);
}

double inverse_dynamics(const mjModel* m, const mjData* d, const Sweep& s) {
  double phi = 0;
  for_each_body(m, d, [&](int body, const SpatialInertia& I) {
    const auto b = static_cast<size_t>(body);
    phi += s.L.X[b].dot(I * s.A[b] + cross_force(s.V.X[b], I * s.V.X[b]));
  });
  for (size_t k = 0; k < s.qacc.size(); k++) phi += m->dof_armature[k] * s.L.y[k] * s.qacc[k];
  return phi;
}

void inverse_dynamics_pullback(const mjModel* m, const mjData* d, double phi_bar, Sweep& s,
                               const ParameterBar& params) {
  // φ in the frame of the body, in which I is constant
  for_each_body(m, d, [&](int body, const SpatialInertia& I) {
    const auto b = static_cast<size_t>(body);
    const Vector6 &L = s.L.X[b], &V = s.V.X[b], &A = s.A[b];
    const Vector6 h = I * V;
    const Vector6 L_bar = phi_bar * (I * A + cross_force(V, h));
    const Vector6 A_bar = phi_bar * (I * L);
    const Vector6 V_bar = phi_bar * (I * cross_motion(L, V) - cross_force(L, h));
    s.L.X_bar[b] += L_bar;
    s.A_bar[b] += A_bar;
    s.V.X_bar[b] += V_bar;
    // δ in the body's frame is δX - ξ × X
    s.W_inertial[b] -= cross_force(L, L_bar) + cross_force(V, V_bar) + cross_force(A, A_bar);
    inertia_parameters(m, d, body, phi_bar, s, params);
    if (const Vec bar = params[Parameter::kGravity]; !bar.empty()) {
      if (!(m->opt.disableflags & mjDSBL_GRAVITY)) row3(bar, 0) -= A_bar.tail<3>();
    }
  });
  if (const Vec bar = params[Parameter::kDofArmature]; !bar.empty()) {
    for (size_t k = 0; k < bar.size(); k++) bar[k] += phi_bar * s.L.y[k] * s.qacc[k];
  }
}

FreeBodyBias::FreeBodyBias(const mjModel* m, const mjData* d, int body)
    : mass(0), R(Rotation(d->xmat + 9 * body)) {
  // about the common centre of mass, which is the origin of its tree
  const SpatialInertia at_com(d->crb + 10 * static_cast<ptrdiff_t>(body));
  mass = at_com.mass;
  s = R.transpose() * -from_origin(m, d, body, d->xpos + 3 * body);
  I = R.transpose() * at_com.rotational * R;
  I += mass * (s.squaredNorm() * Eigen::Matrix3d::Identity() - s * s.transpose());
}

Eigen::Matrix<double, 6, 3> FreeBodyBias::by_velocity(const Vector3& w) const {
  Eigen::Matrix<double, 6, 3> out;
  const Vector3 ws = w.cross(s), Iw = I * w;
  for (int k = 0; k < 3; k++) {
    const Vector3 e = Vector3::Unit(k);
    out.col(k).head<3>() = mass * (R * (e.cross(ws) + w.cross(e.cross(s))));
    out.col(k).tail<3>() = e.cross(Iw) + w.cross(I.col(k));
  }
  return out;
}

void FreeBodyBias::form_pullback(const Vector3& w, const Vector6& mu, const Vector3& beta,
                                 double phi_bar, double* qpos_bar, double* qvel_bar) const {
  // φ = μ_linear · R g + μ_angular · (β × I ω + ω × I β),  g = mass (β × (ω × s) + ω × (β × s))
  const Vector3 linear = R.transpose() * mu.head<3>(), angular = mu.tail<3>();
  const Vector3 bs = beta.cross(s), Ib = I * beta;
  const Vector3 g = mass * (beta.cross(w.cross(s)) + w.cross(bs));
  Eigen::Map<Vector3>(qpos_bar + 3) += phi_bar * g.cross(linear);
  Eigen::Map<Vector3>(qvel_bar + 3) +=
      phi_bar * (mass * (s.cross(linear.cross(beta)) + bs.cross(linear)) + I * angular.cross(beta) +
                 Ib.cross(angular));
}

double mass_form(const mjModel* m, const mjData* d, const Motion& mu, const Motion& x) {
  double psi = 0;
  for_each_body(m, d, [&](int body, const SpatialInertia& I) {
    const auto b = static_cast<size_t>(body);
    psi += mu.X[b].dot(I * x.X[b]);
  });
  for (size_t k = 0; k < x.y.size(); k++) psi += m->dof_armature[k] * mu.y[k] * x.y[k];
  return psi;
}

void mass_form_pullback(const mjModel* m, const mjData* d, double psi_bar, Motion& mu, Motion& x,
                        Sweep& s, const ParameterBar& params) {
  const Vec mass_bar = params[Parameter::kBodyMass], inertia_bar = params[Parameter::kBodyInertia],
            armature_bar = params[Parameter::kDofArmature];
  for_each_body(m, d, [&](int body, const SpatialInertia& I) {
    const auto b = static_cast<size_t>(body);
    const Vector6 mu_bar = psi_bar * (I * x.X[b]), x_bar = psi_bar * (I * mu.X[b]);
    mu.X_bar[b] += mu_bar;
    x.X_bar[b] += x_bar;
    s.W_inertial[b] -= cross_force(mu.X[b], mu_bar) + cross_force(x.X[b], x_bar);
    if (mass_bar.empty() && inertia_bar.empty()) return;
    const LocalMotion p(m, d, body, mu.X[b]), q(m, d, body, x.X[b]);
    if (!mass_bar.empty()) mass_bar[b] += psi_bar * p.v.dot(q.v);
    if (!inertia_bar.empty()) row3(inertia_bar, body) += psi_bar * p.w.cwiseProduct(q.w);
  });
  for (size_t k = 0; k < armature_bar.size(); k++) armature_bar[k] += psi_bar * mu.y[k] * x.y[k];
}

void mass_matrix_pullback(const mjModel* m, const mjData* d, CVec M_bar, Sweep& s,
                          const ParameterBar& params) {
  const auto nbody = static_cast<int>(m->nbody), nv = static_cast<int>(m->nv);
  const Eigen::Map<const Matrix> bar(M_bar.data(), nv, nv);
  const Vec mass_bar = params[Parameter::kBodyMass], inertia_bar = params[Parameter::kBodyInertia],
            armature_bar = params[Parameter::kDofArmature];
  // of M_ij both triangles, where i carries j: M_ij = S_i · I_c S_j, I_c of all behind j
  const auto weight = [&](int i, int j) { return i == j ? bar(j, j) : 2 * bar(i, j); };
  std::vector<Matrix6>&Q = s.Q_bodies, &I_behind = s.I_behind;
  Q[0].setZero();
  for (int body = 1; body < nbody; body++) {
    const auto b = static_cast<size_t>(body);
    Q[b] = Q[static_cast<size_t>(m->body_parentid[body])];
    I_behind[b] = SpatialInertia(d->cinert + 10 * static_cast<ptrdiff_t>(body)).matrix();
    for (int j = m->body_dofadr[body]; j < m->body_dofadr[body] + m->body_dofnum[body]; j++) {
      Vector6 G = Vector6::Zero();
      for (int i = j; i >= 0; i = m->dof_parentid[i]) G += weight(i, j) * axis(d, i);
      const Vector6 S = axis(d, j);
      Q[b] += 0.5 * (G * S.transpose() + S * G.transpose());
    }
    if (m->body_weldid[body] == 0) continue;

    // I is constant in the body's frame: for each pair of axes in N, -2 (S_i ×* I S_j)
    const Matrix6 N = 2 * Q[b] * I_behind[b];
    const auto cross = [&](int i, int j) {
      return Vector3(N(i + 1, j + 2) - N(i + 2, j + 1), N(i + 2, j) - N(i, j + 2),
                     N(i, j + 1) - N(i + 1, j));
    };
    s.W_inertial[b] -= spatial(cross(0, 0) + cross(3, 3), cross(0, 3));
    if (mass_bar.empty() && inertia_bar.empty()) continue;
    // motions of the centre of mass in principal axes
    Matrix6 T;
    for (int k = 0; k < 6; k++) {
      const LocalMotion local(m, d, body, Vector6::Unit(k));
      T.col(k) = spatial(local.w, local.v);
    }
    const Vector6 squares = (T * Q[b] * T.transpose()).diagonal();
    if (!mass_bar.empty()) mass_bar[b] += squares.tail<3>().sum();
    if (!inertia_bar.empty()) row3(inertia_bar, body) += squares.head<3>();
  }

  // axes
  for (int body = nbody - 1; body > 0; body--) {
    const auto b = static_cast<size_t>(body), parent = static_cast<size_t>(m->body_parentid[body]);
    if (parent > 0) I_behind[parent] += I_behind[b];
    for (int j = m->body_dofadr[body]; j < m->body_dofadr[body] + m->body_dofnum[body]; j++) {
      const Vector6 IS = I_behind[b] * axis(d, j);
      Vector6 G = Vector6::Zero();
      for (int i = j; i >= 0; i = m->dof_parentid[i]) {
        s.S_bar[static_cast<size_t>(i)] += weight(i, j) * IS;
        G += weight(i, j) * axis(d, i);
      }
      s.S_bar[static_cast<size_t>(j)] += I_behind[b] * G;
    }
  }
  for (size_t k = 0; k < armature_bar.size(); k++) {
    armature_bar[k] += bar(static_cast<Eigen::Index>(k), static_cast<Eigen::Index>(k));
  }
}

}  // namespace diffmj
