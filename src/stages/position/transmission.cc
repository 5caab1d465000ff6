#include "stages/position/transmission.h"

#include <cmath>

#include "base/dual.h"
#include "base/rotation.h"
#include "stages/position/tendon.h"

namespace diffmj {
namespace {

// A site: its body, its place relative to the origin and its axes.
struct Site {
  Site(const mjModel* m, const mjData* d, int site)
      : id(site),
        body(m->site_bodyid[site]),
        point(from_origin(m, d, body, d->site_xpos + 3 * site)),
        R(d->site_xmat + 9 * site) {}
  int id, body;
  Vector3 point;
  Rotation R;
};

// y without the dofs that carry both bodies
void drop_common_dofs(const mjModel* m, int body1, int body2, Vec y) {
  int k1 = last_dof(m, body1), k2 = last_dof(m, body2);
  while (k1 != k2 && k1 >= 0 && k2 >= 0) {
    (k1 > k2 ? k1 : k2) = m->dof_parentid[std::max(k1, k2)];
  }
  if (k1 != k2) return;
  for (int k = k1; k >= 0; k = m->dof_parentid[k]) y[static_cast<size_t>(k)] = 0;
}

// wrench on a site's frame; the site's own place in its body is a parameter
void add_wrench(const mjData* d, const Site& site, const Vector3& torque, const Vector3& force,
                Sweep& s, const ParameterBar& params) {
  s.W[static_cast<size_t>(site.body)] += wrench_at(site.point, torque, force);
  if (const Vec bar = params[Parameter::kSitePos]; !bar.empty()) {
    Eigen::Map<Vector3>(&bar[3 * static_cast<size_t>(site.id)]) +=
        Rotation(d->xmat + 9 * site.body).transpose() * force;
  }
}

Eigen::Map<Vector3> gear_part(const ParameterBar& params, int out, int part) {
  return Eigen::Map<Vector3>(params[Parameter::kActuatorGear].data() +
                             6 * static_cast<ptrdiff_t>(out) + 3 * part);
}

// gear · log q and the moment gear, or Rᵀ gear: of a ball, or of a free joint's rotation
void rotation_pullback(const mjModel* m, const mjData* d, int joint, int offset, bool in_parent,
                       int out, double length_bar, CVec y, Vec qpos_bar,
                       const ParameterBar& params) {
  const auto v = static_cast<size_t>(m->jnt_dofadr[joint] + offset);
  const Vector3 gear(m->actuator_gear + 6 * out + offset);
  mjtNum quat[4], log[3], conjugate[4], turned[3];
  mju_copy4(quat, d->qpos + m->jnt_qposadr[joint] + offset);
  mju_normalize4(quat);
  mju_quat2Vel(log, quat, 1);
  mju_negQuat(conjugate, quat);
  mju_rotVecQuat(turned, gear.data(), conjugate);
  const Vector3 angle(log), moment = in_parent ? Vector3(turned) : gear, yv(&y[v]);
  Eigen::Map<Vector3> q_bar(&qpos_bar[v]);
  // the axis is the same in both frames: gear · log q whichever it is given in
  q_bar += dexpinv(-angle, length_bar * gear);
  // δ(Rᵀ gear) = (Rᵀ gear) × δ
  if (in_parent) q_bar += yv.cross(moment);
  if (params.wants(Parameter::kActuatorGear)) {
    Vector3 bar = yv;
    if (in_parent) {
      mjtNum back[3];
      mju_rotVecQuat(back, yv.data(), quat);
      bar = Vector3(back);
    }
    gear_part(params, out, offset / 3) += length_bar * angle + bar;
  }
}

void joint_pullback(const mjModel* m, const mjData* d, int actuator, double length_bar, CVec y,
                    Vec qpos_bar, const ParameterBar& params) {
  const int out = m->actuator_outadr[actuator], joint = m->actuator_trnid[2 * actuator];
  const bool in_parent = m->actuator_trntype[actuator] == mjTRN_JOINTINPARENT;
  const auto v = static_cast<size_t>(m->jnt_dofadr[joint]);
  switch (m->jnt_type[joint]) {
    case mjJNT_BALL:
      rotation_pullback(m, d, joint, 0, in_parent, out, length_bar, y, qpos_bar, params);
      break;
    case mjJNT_FREE:
      // length is always 0
      rotation_pullback(m, d, joint, 3, in_parent, out, 0, y, qpos_bar, params);
      if (params.wants(Parameter::kActuatorGear)) gear_part(params, out, 0) += Vector3(&y[v]);
      break;
    default:
      qpos_bar[v] += length_bar * m->actuator_gear[6 * out];
      if (const Vec bar = params[Parameter::kActuatorGear]; !bar.empty()) {
        bar[6 * static_cast<size_t>(out)] += length_bar * d->qpos[m->jnt_qposadr[joint]] + y[v];
      }
  }
}

// moment · y = (R force gear) · v + (R torque gear) · ω
void site_pullback(const mjModel* m, const mjData* d, int actuator, CVec y, Sweep& s,
                   const ParameterBar& params) {
  const int out = m->actuator_outadr[actuator];
  const Site site(m, d, m->actuator_trnid[2 * actuator]);
  const Vector3 F = site.R * Vector3(m->actuator_gear + 6 * out),
                T = site.R * Vector3(m->actuator_gear + 6 * out + 3);
  const Vector6 X = motion_of(m, d, site.body, y);
  const Vector3 w = X.head<3>(), v = velocity_at(X, site.point);
  add_motion_bar(m, site.body, y, wrench_at(site.point, T, F), s);
  add_wrench(d, site, F.cross(v) + T.cross(w), F.cross(w), s, params);
  if (params.wants(Parameter::kActuatorGear)) {
    gear_part(params, out, 0) += site.R.transpose() * v;
    gear_part(params, out, 1) += site.R.transpose() * w;
  }
}

// log of the rotation from refsite to site; vec_bar gives torques on both bodies
Vector3 relative_rotation(const mjModel* m, const mjData* d, const Site& site, const Site& ref) {
  mjtNum quat[4], refquat[4], vec[3];
  mju_mulQuat(quat, d->xquat + 4 * site.body, m->site_quat + 4 * site.id);
  mju_mulQuat(refquat, d->xquat + 4 * ref.body, m->site_quat + 4 * ref.id);
  mju_subQuat(vec, quat, refquat);
  return Vector3(vec);
}
void relative_rotation_pullback(const Site& site, const Site& ref, const Vector3& vec,
                                const Vector3& vec_bar, Sweep& s) {
  // d(vec) = Jr⁻¹ Rᵀ (δθ - δθ_ref)
  const Vector3 torque = site.R * dexpinv(-vec, vec_bar);
  s.W[static_cast<size_t>(site.body)].head<3>() += torque;
  s.W[static_cast<size_t>(ref.body)].head<3>() -= torque;
}

// length = gear · (Rrefᵀ (p - pref), log of the relative rotation);  moment · y = (Rref gear) ·
// (relative velocity by y), dofs that carry both sites left out
void refsite_pullback(const mjModel* m, const mjData* d, int actuator, double length_bar, Vec y,
                      Sweep& s, const ParameterBar& params) {
  const int out = m->actuator_outadr[actuator];
  const Site site(m, d, m->actuator_trnid[2 * actuator]),
      ref(m, d, m->actuator_trnid[2 * actuator + 1]);
  const Vector3 force_gear(m->actuator_gear + 6 * out), torque_gear(m->actuator_gear + 6 * out + 3);
  const Vector3 F = ref.R * force_gear, T = ref.R * torque_gear;
  drop_common_dofs(m, site.body, ref.body, y);
  const Vector6 X = motion_of(m, d, site.body, y), Xref = motion_of(m, d, ref.body, y);
  const Vector3 w = X.head<3>() - Xref.head<3>();
  const Vector3 v = velocity_at(X, site.point) - velocity_at(Xref, ref.point);
  // bodies of two trees have two origins
  const Vector3 apart = Vector3(d->site_xpos + 3 * site.id) - Vector3(d->site_xpos + 3 * ref.id);

  // moment · y
  add_motion_bar(m, site.body, y, wrench_at(site.point, T, F), s);
  add_motion_bar(m, ref.body, y, -wrench_at(ref.point, T, F), s);
  add_wrench(d, site, Vector3::Zero(), F.cross(X.head<3>()) + length_bar * F, s, params);
  add_wrench(d, ref, F.cross(v) + T.cross(w) - length_bar * apart.cross(F),
             -F.cross(Xref.head<3>()) - length_bar * F, s, params);

  // length of the rotation
  const Vector3 vec = relative_rotation(m, d, site, ref);
  if (torque_gear != Vector3::Zero()) {
    relative_rotation_pullback(site, ref, vec, length_bar * torque_gear, s);
  }
  if (params.wants(Parameter::kActuatorGear)) {
    gear_part(params, out, 0) += ref.R.transpose() * (v + length_bar * apart);
    gear_part(params, out, 1) += ref.R.transpose() * w + length_bar * vec;
  }
}

// length of the crank: a·v - sqrt((a·v)² + rod² - v·v), a the slider's axis, v from slider to crank
template <class T>
T crank_length(const T* v, const T* a, double rod) {
  using std::sqrt;
  const T av = a[0] * v[0] + a[1] * v[1] + a[2] * v[2];
  const T det = av * av + rod * rod - (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
  return det > 0 ? av - sqrt(det) : av;
}

void slidercrank_pullback(const mjModel* m, const mjData* d, int actuator, double length_bar,
                          CVec y, Sweep& s, const ParameterBar& params) {
  const int out = m->actuator_outadr[actuator];
  const Site crank(m, d, m->actuator_trnid[2 * actuator]),
      slider(m, d, m->actuator_trnid[2 * actuator + 1]);
  const double gear = m->actuator_gear[6 * out], rod = m->actuator_cranklength[actuator];
  const Vector3 v = Vector3(d->site_xpos + 3 * crank.id) - Vector3(d->site_xpos + 3 * slider.id);
  const Vector3 a = slider.R.col(2);

  // velocities of v and a by y
  const Vector6 X = motion_of(m, d, crank.body, y), Xs = motion_of(m, d, slider.body, y);
  const Vector3 w = X.head<3>(), ws = Xs.head<3>();
  const Vector3 v_dot = velocity_at(X, crank.point) - velocity_at(Xs, slider.point);
  const Vector3 a_dot = ws.cross(a);

  // the inner dual is the direction (v_dot, a_dot), the outer one the gradient in (v, a)
  using Inner = Dual<1>;
  using Outer = Dual<6, Inner>;
  Outer arg[6];
  for (int k = 0; k < 6; k++) {
    arg[k] = Outer(Inner(k < 3 ? v[k] : a[k - 3]));
    arg[k].v.d[0] = k < 3 ? v_dot[k] : a_dot[k - 3];
    arg[k].d[static_cast<size_t>(k)] = Inner(1.0);
  }
  const Outer length = crank_length(arg, arg + 3, rod);
  Vector3 dv, da, v_bar, a_bar;  // gradient of length; of  gear (length_bar length + its rate)
  for (size_t k = 0; k < 3; k++) {
    const auto i = static_cast<Eigen::Index>(k);
    dv[i] = gear * length.d[k].v;
    da[i] = gear * length.d[k + 3].v;
    v_bar[i] = gear * (length_bar * length.d[k].v + length.d[k].d[0]);
    a_bar[i] = gear * (length_bar * length.d[k + 3].v + length.d[k + 3].d[0]);
  }

  // v_dot and a_dot as motions, and their dependence on the sites
  add_motion_bar(m, crank.body, y, wrench_at(crank.point, Vector3::Zero(), dv), s);
  add_motion_bar(m, slider.body, y, wrench_at(slider.point, a.cross(da), -dv), s);
  add_wrench(d, crank, Vector3::Zero(), v_bar + dv.cross(w), s, params);
  add_wrench(d, slider, a.cross(a_bar) + a.cross(da.cross(ws)), -v_bar - dv.cross(ws), s, params);
  if (params.wants(Parameter::kActuatorGear)) {
    gear_part(params, out, 0)[0] += length_bar * length.v.v + length.v.d[0];
  }
}

// three lengths: the relative rotation; moments: of the three axes of the joint, or of the site
void orientation_pullback(const mjModel* m, const mjData* d, int actuator, CVec length_bar, CVec y,
                          Vec qpos_bar, Sweep& s) {
  const int out = m->actuator_outadr[actuator], refid = m->actuator_trnid[2 * actuator + 1];
  const Vector3 vec(d->actuator_length + out), vec_bar(length_bar.data());
  if (refid < 0) {
    const int dof = m->jnt_dofadr[m->actuator_trnid[2 * actuator]];
    Eigen::Map<Vector3>(&qpos_bar[static_cast<size_t>(dof)]) += dexpinv(-vec, vec_bar);
    return;
  }
  const Site site(m, d, m->actuator_trnid[2 * actuator]), ref(m, d, refid);
  relative_rotation_pullback(site, ref, vec, vec_bar, s);
  const auto nv = static_cast<size_t>(m->nv);
  for (int k = 0; k < 3; k++) {
    const CVec yk = y.subspan(static_cast<size_t>(k) * nv, nv);
    const Vector3 T = site.R.col(k);
    const Vector3 w =
        motion_of(m, d, site.body, yk).head<3>() - motion_of(m, d, ref.body, yk).head<3>();
    const Vector6 turn = spatial(T, Vector3::Zero());
    add_motion_bar(m, site.body, yk, turn, s);
    add_motion_bar(m, ref.body, yk, -turn, s);
    s.W[static_cast<size_t>(site.body)].head<3>() += T.cross(w);
  }
}

// gear times the tendon's length and moment arms
void tendon_transmission_pullback(const mjModel* m, const mjData* d, int actuator,
                                  double length_bar, Vec y, Vec qpos_bar, Sweep& s,
                                  const ParameterBar& params) {
  const int out = m->actuator_outadr[actuator], tendon = m->actuator_trnid[2 * actuator];
  const double gear = m->actuator_gear[6 * out];
  if (params.wants(Parameter::kActuatorGear)) {
    gear_part(params, out, 0)[0] +=
        length_bar * d->ten_length[tendon] + tendon_rate(m, d, tendon, y);
  }
  eigen(y) *= gear;
  tendon_direction_pullback(m, d, tendon, gear * length_bar, y, qpos_bar, s, params);
}

}  // namespace

double moment_dot(const mjData* d, int out, CVec y) {
  double sum = 0;
  const int begin = d->moment_rowadr[out];
  for (int k = begin; k < begin + d->moment_rownnz[out]; k++) {
    sum += d->actuator_moment[k] * y[static_cast<size_t>(d->moment_colind[k])];
  }
  return sum;
}

bool moment_varies(const mjModel* m, int actuator) {
  const int type = m->actuator_trntype[actuator];
  if (type != mjTRN_JOINT && type != mjTRN_JOINTINPARENT) {
    return type != mjTRN_SO3 || m->actuator_trnid[2 * actuator + 1] >= 0;
  }
  const int joint = m->jnt_type[m->actuator_trnid[2 * actuator]];
  return type == mjTRN_JOINTINPARENT && (joint == mjJNT_BALL || joint == mjJNT_FREE);
}

void transmission_pullback(const mjModel* m, const mjData* d, int actuator, CVec length_bar, Vec y,
                           Vec qpos_bar, Sweep& s, const ParameterBar& params) {
  switch (m->actuator_trntype[actuator]) {
    case mjTRN_JOINT:
    case mjTRN_JOINTINPARENT:
      joint_pullback(m, d, actuator, length_bar[0], y, qpos_bar, params);
      break;
    case mjTRN_SITE:
      if (m->actuator_trnid[2 * actuator + 1] < 0) {
        site_pullback(m, d, actuator, y, s, params);
      } else {
        refsite_pullback(m, d, actuator, length_bar[0], y, s, params);
      }
      break;
    case mjTRN_SLIDERCRANK:
      slidercrank_pullback(m, d, actuator, length_bar[0], y, s, params);
      break;
    case mjTRN_TENDON:
      tendon_transmission_pullback(m, d, actuator, length_bar[0], y, qpos_bar, s, params);
      break;
    case mjTRN_SO3:
      orientation_pullback(m, d, actuator, length_bar, y, qpos_bar, s);
      break;
    default:
      break;  // not on this path: model_impl's analytic_obstacle
  }
}

}  // namespace diffmj
