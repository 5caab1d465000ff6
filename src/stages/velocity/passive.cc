#include "stages/velocity/passive.h"

#include <algorithm>
#include <cmath>

#include "base/rotation.h"
#include "stages/velocity/fluid.h"

namespace diffmj {
namespace {

// k(x) and the derivative of x k(x)
struct Stiffness {
  Stiffness(double k, const mjtNum* higher) : linear(k) { std::copy_n(higher, mjNPOLY, poly); }
  static Stiffness of_joint(const mjModel* m, int joint) {
    return {m->jnt_stiffness[joint], m->jnt_stiffnesspoly + mjNPOLY * joint};
  }
  static Stiffness of_tendon(const mjModel* m, int tendon) {
    return {m->tendon_stiffness[tendon], m->tendon_stiffnesspoly + mjNPOLY * tendon};
  }
  bool any() const {
    if (linear != 0) return true;
    for (double p : poly) {
      if (p != 0) return true;
    }
    return false;
  }
  double value(double x) const {
    double k = linear, power = 1;
    for (double p : poly) k += p * (power *= x);
    return k;
  }
  double derivative(double x) const {
    double dk = 0, power = 1;
    for (int i = 0; i < mjNPOLY; i++, power *= x) dk += (i + 1) * poly[i] * power;
    return dk;
  }
  double linear, poly[mjNPOLY];
};

// s = -k(|dif|) λ · dif: adds to stiffness_bar, returns the cotangent of dif
Vector3 spring3_pullback(const Stiffness& k, const Vector3& dif, const Vector3& lambda,
                         double& stiffness_bar) {
  const double r = dif.norm(), along = lambda.dot(dif);
  stiffness_bar -= along;
  Vector3 dif_bar = -k.value(r) * lambda;
  if (r > mjMINVAL) dif_bar -= k.derivative(r) * along / r * dif;
  return dif_bar;
}

// the actuators whose damping and armature act on a joint
template <class Fn>
void for_each_joint_actuator(const mjModel* m, int joint, Fn&& fn) {
  if (m->jnt_actuatorid[joint] == -1) return;
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    const bool on_joint =
        m->actuator_trntype[i] == mjTRN_JOINT || m->actuator_trntype[i] == mjTRN_JOINTINPARENT;
    if (on_joint && m->actuator_trnid[2 * i] == joint) fn(i);
  }
}
template <class Fn>
void for_each_tendon_actuator(const mjModel* m, int tendon, Fn&& fn) {
  if (m->tendon_actuatorid[tendon] == -1) return;
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    if (m->actuator_trntype[i] == mjTRN_TENDON && m->actuator_trnid[2 * i] == tendon) fn(i);
  }
}

// d(gear²)/d(gear) of an actuator that adds gear² times its own damping or armature
void add_gear_bar(const mjModel* m, int actuator, double bar, Vec gear_bar) {
  const int out = m->actuator_outadr[actuator];
  gear_bar[6 * static_cast<size_t>(out)] += 2 * m->actuator_gear[6 * out] * bar;
}

// X in the axes of a frame with rotation R at a point of a body; velocities relative to wind
Vector6 to_local(const Rotation& R, const Vector3& point, const Vector6& X, const Vector3& wind) {
  return spatial(R.transpose() * X.head<3>(), R.transpose() * (velocity_at(X, point) - wind));
}

// the pullback of to_local: adds to X_bar and to the wrench on the frame
void to_local_pullback(const Rotation& R, const Vector3& point, const Vector6& X,
                       const Vector3& wind, const Vector6& local_bar, Vector6& X_bar, Vector6& W) {
  const Vector3 T = R * local_bar.head<3>(), F = R * local_bar.tail<3>();
  const Vector3 w = X.head<3>();
  X_bar += wrench_at(point, T, F);
  W += wrench_at(point, T.cross(w) + F.cross(velocity_at(X, point) - wind), F.cross(w));
}

// Calls fn(body, shape, R, point, W) for everything the fluid acts on: W is the array of
// wrenches its frame belongs to.
template <class Fn>
void for_each_fluid_frame(const mjModel* m, const mjData* d, Sweep& s, Fn&& fn) {
  if (!(m->opt.viscosity > 0) && !(m->opt.density > 0)) return;
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    if (m->body_weldid[body] == 0 || m->body_mass[body] < mjMINVAL) continue;
    if (!fluid_uses_ellipsoid(m, body)) {
      fn(body, fluid_box(m, body), Rotation(d->ximat + 9 * body),
         from_origin(m, d, body, d->xipos + 3 * body), s.W_inertial);
      continue;
    }
    for (int g = m->body_geomadr[body]; g < m->body_geomadr[body] + m->body_geomnum[body]; g++) {
      if (m->geom_fluid[mjNFLUID * g] == 0) continue;
      fn(body, fluid_ellipsoid(m, g), Rotation(d->geom_xmat + 9 * g),
         from_origin(m, d, body, d->geom_xpos + 3 * g), s.W);
    }
  }
}

}  // namespace

void spring_pullback(const mjModel* m, const mjData* d, CVec lambda, Vec qpos_bar,
                     const ParameterBar& params) {
  if (m->opt.disableflags & mjDSBL_SPRING) return;
  const Vec stiffness_bar = params[Parameter::kJntStiffness],
            spring_bar = params[Parameter::kQposSpring];
  for (int joint = 0; joint < static_cast<int>(m->njnt); joint++) {
    const Stiffness k = Stiffness::of_joint(m, joint);
    double k_bar = 0;
    if (!k.any() && stiffness_bar.empty()) continue;
    auto q = static_cast<size_t>(m->jnt_qposadr[joint]);
    auto v = static_cast<size_t>(m->jnt_dofadr[joint]);
    const auto vector3 = [](auto x, size_t i) { return Eigen::Map<Vector3>(&x[i]); };
    switch (m->jnt_type[joint]) {
      case mjJNT_FREE: {
        const Vector3 dif = Vector3(d->qpos + q) - Vector3(m->qpos_spring + q);
        const Vector3 dif_bar = spring3_pullback(k, dif, Vector3(&lambda[v]), k_bar);
        vector3(qpos_bar, v) += dif_bar;
        if (!spring_bar.empty()) vector3(spring_bar, q) -= dif_bar;
        q += 3;
        v += 3;
        [[fallthrough]];
      }
      case mjJNT_BALL: {
        mjtNum quat[4], difference[3];
        mju_copy4(quat, d->qpos + q);
        mju_normalize4(quat);
        mju_subQuat(difference, quat, m->qpos_spring + q);
        const Vector3 dif(difference);
        const Vector3 dif_bar = spring3_pullback(k, dif, Vector3(&lambda[v]), k_bar);
        // d(dif) = Jr⁻¹ dq - Jl⁻¹ d(qpos_spring)
        vector3(qpos_bar, v) += dexpinv(-dif, dif_bar);
        if (!spring_bar.empty()) {
          quaternion_cotangent_to_ambient(m->qpos_spring + q, -dexpinv(dif, dif_bar),
                                          &spring_bar[q]);
        }
        break;
      }
      default: {
        const double x = d->qpos[q] - m->qpos_spring[q];
        const double x_bar = -lambda[v] * (k.value(x) + x * k.derivative(x));
        k_bar -= lambda[v] * x;
        qpos_bar[v] += x_bar;
        if (!spring_bar.empty()) spring_bar[q] -= x_bar;
      }
    }
    if (!stiffness_bar.empty()) stiffness_bar[static_cast<size_t>(joint)] += k_bar;
  }
}

Damping::Damping(double constant, const mjtNum* higher) : linear(constant) {
  std::copy_n(higher, mjNPOLY, poly);
}

void Damping::add_actuator(const mjModel* m, int actuator) {
  const double gear = m->actuator_gear[6 * m->actuator_outadr[actuator]];
  linear += gear * gear * m->actuator_damping[actuator];
  for (int i = 0; i < mjNPOLY; i++) {
    poly[i] += gear * gear * m->actuator_dampingpoly[mjNPOLY * actuator + i];
  }
}

Damping::Damping(const mjModel* m, int dof)
    : Damping(m->dof_damping[dof], m->dof_dampingpoly + static_cast<ptrdiff_t>(mjNPOLY) * dof) {
  for_each_joint_actuator(m, m->dof_jntid[dof], [&](int i) { add_actuator(m, i); });
}

Damping Damping::of_actuator(const mjModel* m, int actuator) {
  return {m->actuator_damping[actuator],
          m->actuator_dampingpoly + static_cast<ptrdiff_t>(mjNPOLY) * actuator};
}

Damping Damping::of_tendon(const mjModel* m, int tendon) {
  Damping B(m->tendon_damping[tendon],
            m->tendon_dampingpoly + static_cast<ptrdiff_t>(mjNPOLY) * tendon);
  for_each_tendon_actuator(m, tendon, [&](int i) { B.add_actuator(m, i); });
  return B;
}

bool Damping::any() const {
  return linear != 0 || std::any_of(poly, poly + mjNPOLY, [](double p) { return p != 0; });
}

double Damping::value(double v) const {
  double out = linear, power = 1;
  for (double p : poly) out += p * (power *= std::abs(v));
  return out;
}

double Damping::slope(double v) const {
  double out = linear, power = 1;
  for (int i = 0; i < mjNPOLY; i++) out += (i + 2) * poly[i] * (power *= std::abs(v));
  return out;
}

double Damping::curvature(double v) const {
  double out = 0, power = 1;
  for (int i = 0; i < mjNPOLY; i++, power *= std::abs(v))
    out += (i + 2) * (i + 1) * poly[i] * power;
  return v < 0 ? -out : out;
}

void damper_pullback(const mjModel* m, CVec lambda, CVec qvel, double h, CVec mu, CVec b,
                     Vec qvel_bar, const ParameterBar& params) {
  if (m->opt.disableflags & mjDSBL_DAMPER) return;
  const Vec damping_bar = params[Parameter::kDofDamping],
            gear_bar = params[Parameter::kActuatorGear];
  for (size_t k = 0; k < lambda.size(); k++) {
    const int dof = static_cast<int>(k);
    const Damping B(m, dof);
    const double v = qvel[k], implicit = mu.empty() ? 0 : h * mu[k] * b[k];
    qvel_bar[k] -= lambda[k] * B.slope(v) + implicit * B.curvature(v);
    if (!damping_bar.empty()) damping_bar[k] -= lambda[k] * v + implicit;
    if (gear_bar.empty()) continue;
    for_each_joint_actuator(m, m->dof_jntid[dof], [&](int actuator) {
      const Damping own = Damping::of_actuator(m, actuator);
      add_gear_bar(m, actuator, -lambda[k] * v * own.value(v) - implicit * own.slope(v), gear_bar);
    });
  }
}

void armature_gear_pullback(const mjModel* m, CVec armature_bar, Vec gear_bar) {
  for (size_t k = 0; k < armature_bar.size(); k++) {
    for_each_joint_actuator(m, m->dof_jntid[k], [&](int actuator) {
      add_gear_bar(m, actuator, m->actuator_armature[actuator] * armature_bar[k], gear_bar);
    });
  }
}

double tendon_armature(const mjModel* m, int tendon) {
  double sum = m->tendon_armature[tendon];
  for_each_tendon_actuator(m, tendon, [&](int actuator) {
    const double gear = m->actuator_gear[6 * m->actuator_outadr[actuator]];
    sum += gear * gear * m->actuator_armature[actuator];
  });
  return sum;
}

void tendon_armature_gear_pullback(const mjModel* m, int tendon, double armature_bar,
                                   Vec gear_bar) {
  for_each_tendon_actuator(m, tendon, [&](int actuator) {
    add_gear_bar(m, actuator, m->actuator_armature[actuator] * armature_bar, gear_bar);
  });
}

namespace {

// How far the length of a tendon is off lengthspring.
struct SpringBand {
  SpringBand(const mjModel* m, const mjData* d, int tendon) {
    const double low = m->tendon_lengthspring[2 * tendon],
                 high = m->tendon_lengthspring[2 * tendon + 1], length = d->ten_length[tendon];
    // gradient: 0 within the dead band and at its very ends; a spring without a band has none
    at_rest = low == high && length == low;
    above = length > high;
    below = !above && length < low;
    x = above ? length - high : below ? length - low : 0;
  }
  bool acts() const { return above || below || at_rest; }
  double x;
  bool above, below, at_rest;
};

}  // namespace

double tendon_spring_force(const mjModel* m, const mjData* d, int tendon) {
  const double x = SpringBand(m, d, tendon).x;
  return -x * Stiffness::of_tendon(m, tendon).value(x);
}

TendonForce tendon_passive_force(const mjModel* m, const mjData* d, int tendon) {
  TendonForce out;
  if (!(m->opt.disableflags & mjDSBL_SPRING)) {
    const Stiffness k = Stiffness::of_tendon(m, tendon);
    const SpringBand band(m, d, tendon);
    out.force -= band.x * k.value(band.x);
    if (band.acts()) out.by_length -= k.value(band.x) + band.x * k.derivative(band.x);
  }
  if (!(m->opt.disableflags & mjDSBL_DAMPER)) {
    const Damping B = Damping::of_tendon(m, tendon);
    const double v = d->ten_velocity[tendon];
    out.force -= v * B.value(v);
    out.by_velocity -= B.slope(v);
  }
  return out;
}

void tendon_passive_pullback(const mjModel* m, const mjData* d, CVec lambda, CVec qvel, double h,
                             CVec mu, CVec b, const TendonFits& fits, std::span<TendonBar> tendons,
                             Vec qpos_bar, Vec y, Sweep& sweep, const ParameterBar& params) {
  const bool springs = !(m->opt.disableflags & mjDSBL_SPRING),
             dampers = !(m->opt.disableflags & mjDSBL_DAMPER);
  const Vec stiffness_bar = params[Parameter::kTendonStiffness],
            damping_bar = params[Parameter::kTendonDamping],
            spring_bar = params[Parameter::kTendonLengthspring],
            gear_bar = params[Parameter::kActuatorGear];
  for (int tendon = 0; tendon < static_cast<int>(m->ntendon); tendon++) {
    const auto t = static_cast<size_t>(tendon);
    TendonBar& bar = tendons[t];
    const Stiffness k = Stiffness::of_tendon(m, tendon);
    const Damping B = Damping::of_tendon(m, tendon);
    const bool spring = springs && (k.any() || !stiffness_bar.empty()),
               damper = dampers && (B.any() || !damping_bar.empty() || !gear_bar.empty());
    if (!spring && !damper) continue;
    const double J_lambda = tendon_rate(m, d, tendon, lambda);
    if (spring) {
      const SpringBand band(m, d, tendon);
      const double x = band.x;
      bar.rate[TendonBar::kLambda] -= x * k.value(x);
      if (!stiffness_bar.empty()) stiffness_bar[t] -= J_lambda * x;
      if (band.acts()) {
        const double x_bar = -J_lambda * (k.value(x) + x * k.derivative(x));
        bar.length += x_bar;
        if (!spring_bar.empty() && !band.at_rest) {
          spring_bar[2 * t + (band.above ? 1 : 0)] -= x_bar;
        }
      }
    }
    if (!damper) continue;
    const double v = tendon_rate(m, d, tendon, qvel);
    bar.rate[TendonBar::kLambda] -= v * B.value(v);
    bar.rate[TendonBar::kV] -= J_lambda * B.slope(v);
    // -h μᵀ Jᵀ slope J b
    double implicit = 0;
    if (!mu.empty() && fits.D[t]) {
      const double J_mu = tendon_rate(m, d, tendon, mu), J_b = tendon_rate(m, d, tendon, b);
      implicit = h * J_mu * J_b;
      bar.rate[TendonBar::kMu] -= h * B.slope(v) * J_b;
      bar.rate[TendonBar::kB] -= h * B.slope(v) * J_mu;
    } else if (!mu.empty()) {
      std::fill(y.begin(), y.end(), 0.0);
      implicit = h * tendon_form(m, d, tendon, derivative_pattern(m), mu, b, -h * B.slope(v), y);
      tendon_direction_pullback(m, d, tendon, 0, y, qpos_bar, sweep, params);
    }
    bar.rate[TendonBar::kV] -= implicit * B.curvature(v);
    if (!damping_bar.empty()) damping_bar[t] -= J_lambda * v + implicit;
    if (gear_bar.empty()) continue;
    for_each_tendon_actuator(m, tendon, [&](int actuator) {
      const Damping own = Damping::of_actuator(m, actuator);
      add_gear_bar(m, actuator, -J_lambda * v * own.value(v) - implicit * own.slope(v), gear_bar);
    });
  }
}

void gravcomp_pullback(const mjModel* m, const mjData* d, Motion& lambda, Sweep& s,
                       const ParameterBar& params) {
  if (!m->flg_gravcomp || (m->opt.disableflags & mjDSBL_GRAVITY)) return;
  const Vector3 gravity(m->opt.gravity);
  const Vec mass_bar = params[Parameter::kBodyMass], gravity_bar = params[Parameter::kGravity];
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    const double compensation = m->body_gravcomp[body];
    if (compensation == 0 || m->body_weldid[body] == 0) continue;
    const auto b = static_cast<size_t>(body);
    const Vector3 com = from_origin(m, d, body, d->xipos + 3 * body);
    const Vector3 F = -m->body_mass[body] * compensation * gravity;
    point_force_pullback(body, com, Vector3::Zero(), F, 1, lambda, s.W_inertial);
    const Vector3 v = velocity_at(lambda.X[b], com);
    if (!mass_bar.empty()) mass_bar[b] -= compensation * gravity.dot(v);
    if (!gravity_bar.empty()) {
      Eigen::Map<Vector3>(gravity_bar.data()) -= m->body_mass[body] * compensation * v;
    }
  }
}

void fluid_pullback(const mjModel* m, const mjData* d, Motion& lambda, Sweep& s) {
  const Vector3 wind(m->opt.wind);
  for_each_fluid_frame(
      m, d, s,
      [&](int body, const FluidShape& shape, const Rotation& R, const Vector3& point,
          std::vector<Vector6>& W) {
        const auto b = static_cast<size_t>(body);
        const Vector6 v = to_local(R, point, s.V.X[b], wind);
        const Vector6 l = to_local(R, point, lambda.X[b], Vector3::Zero());
        Vector6 force;
        Eigen::Matrix<double, 6, 6> J;
        fluid_jacobian(shape, v, force, J);
        to_local_pullback(R, point, lambda.X[b], Vector3::Zero(), force, lambda.X_bar[b], W[b]);
        to_local_pullback(R, point, s.V.X[b], wind, J.transpose() * l, s.V.X_bar[b], W[b]);
      });
}

void fluid_metric_pullback(const mjModel* m, const mjData* d, double h, Motion& mu, Motion& b,
                           Sweep& s) {
  const Vector3 wind(m->opt.wind), still = Vector3::Zero();
  for_each_fluid_frame(
      m, d, s,
      [&](int body, const FluidShape& shape, const Rotation& R, const Vector3& point,
          std::vector<Vector6>& W) {
        const auto i = static_cast<size_t>(body);
        const bool symmetric =
            m->opt.integrator == mjINT_IMPLICITFAST && !is_lone_free_body(m, m->body_weldid[body]);
        const Vector6 v = to_local(R, point, s.V.X[i], wind);
        const int last = last_dof(m, body);
        if (last >= 0 && metric_is_diagonal(m, last)) {
          // one dof at a time: h μ_k b_k S_kᵀ J S_k, in which J may be taken symmetric
          for (int k = last; k >= 0; k = m->dof_parentid[k]) {
            const auto dof = static_cast<size_t>(k);
            const double weight = h * mu.y[dof] * b.y[dof];
            const Vector6 S = axis(d, k), l = to_local(R, point, S, still);
            Vector6 force;
            Eigen::Matrix<double, 6, 6> J;
            fluid_jacobian(shape, v, force, J);
            to_local_pullback(R, point, S, still, weight * (J * l + J.transpose() * l),
                              s.S_bar[dof], W[i]);
            to_local_pullback(R, point, s.V.X[i], wind,
                              weight * fluid_curvature(shape, v, l, l, symmetric), s.V.X_bar[i],
                              W[i]);
          }
          return;
        }
        const Vector6 u = to_local(R, point, mu.X[i], still), w = to_local(R, point, b.X[i], still);
        Vector6 force;
        Eigen::Matrix<double, 6, 6> J;
        fluid_jacobian(shape, v, force, J);
        if (symmetric) J = (0.5 * (J + J.transpose())).eval();
        to_local_pullback(R, point, mu.X[i], still, h * (J * w), mu.X_bar[i], W[i]);
        to_local_pullback(R, point, b.X[i], still, h * (J.transpose() * u), b.X_bar[i], W[i]);
        to_local_pullback(R, point, s.V.X[i], wind, h * fluid_curvature(shape, v, u, w, symmetric),
                          s.V.X_bar[i], W[i]);
      });
}

}  // namespace diffmj
