// Forces that bodies exert on each other, and on the skin.
//
// The force between a body and its parent balances everything behind the joint
// (mj_rnePostConstraint):
//
//   f_b = Σ_{i behind b} (I A + V ×* I V - ext)_i
//
// so that a weighted sum of such sensors is the power of inertial and external forces with a
// virtual motion X: that of the weights for all bodies behind b, 0 for others. It is pulled back
// like inverse dynamics and like rows of constraints, with X in the place of λ's motion.
#include <algorithm>

#include "mj/call.h"
#include "stages/acceleration/constraint_parameters.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/inverse_dynamics.h"
#include "stages/acceleration/noslip.h"
#include "stages/sensors/scratch.h"
#include "stages/sensors/sensors_internal.h"

namespace diffmj {
namespace {

bool is_behind(const mjModel* m, int body, int ancestor) {
  while (body > ancestor) body = m->body_parentid[body];
  return body == ancestor;
}

Eigen::Map<Vector3> row3(Vec x, int i) {
  return Eigen::Map<Vector3>(x.data() + 3 * static_cast<ptrdiff_t>(i));
}

// the constraint forces at a, of all rows
const std::vector<double>& constraint_forces_of(const SensorContext& c) {
  std::vector<double>& f = c.scratch.row_force;
  if (c.scratch.has_row_force) return f;
  c.scratch.has_row_force = true;
  f.assign(static_cast<size_t>(c.nefc()), 0.0);
  if (has_noslip(c.m) && c.nefc() > 0) {
    std::copy_n(c.workspace.noslip.force.begin(), f.size(), f.begin());
    return f;
  }
  for (int i = 0; i < c.nefc(); i += constraint_rows_at(c.d, i)) {
    constraint_force(c.d, c.workspace.newton.zone[static_cast<size_t>(i)], c.workspace.newton.y, i,
                     f);
  }
  return f;
}

// force and torque of a contact in its frame, from its rows
void contact_force(const mjData* d, const mjContact& contact, const std::vector<double>& f,
                   double* force) {
  std::fill(force, force + 6, 0.0);
  const double* rows = f.data() + contact.efc_address;
  if (d->efc_type[contact.efc_address] == mjCNSTR_CONTACT_PYRAMIDAL) {
    mju_decodePyramid(force, rows, contact.friction, contact.dim);
  } else {
    std::copy_n(rows, contact.dim, force);
  }
}

// the reverse: adds to the rows' cotangents and to friction
void contact_force_pullback(const SensorContext& c, const mjContact& contact, const double* bar) {
  const auto first = static_cast<size_t>(contact.efc_address);
  if (c.d->efc_type[contact.efc_address] != mjCNSTR_CONTACT_PYRAMIDAL) {
    for (int k = 0; k < contact.dim; k++) c.bar.force[first + static_cast<size_t>(k)] += bar[k];
    return;
  }
  const std::vector<double>& f = constraint_forces_of(c);
  for (int k = 1; k < contact.dim; k++) {
    const size_t row = first + 2 * static_cast<size_t>(k - 1);
    const double mu = contact.friction[k - 1];
    c.bar.force[row] += bar[0] + mu * bar[k];
    c.bar.force[row + 1] += bar[0] - mu * bar[k];
    contact_friction_pullback(c.m, contact, k - 1, bar[k] * (f[row] - f[row + 1]), c.bar.params,
                              c.workspace);
  }
}

bool involves_geoms(const mjContact& contact) {
  return contact.efc_address >= 0 && contact.geom[0] >= 0 && contact.geom[1] >= 0;
}

// -ext · X of contacts: what the force between two bodies does along their virtual motions
void contacts_pullback(const SensorContext& c) {
  const mjModel* m = c.m;
  const std::vector<Vector6>& X = c.scratch.motion;
  c.workspace.constraint.contacts.assign(static_cast<size_t>(c.ncon()), ContactBar());
  for (int i = 0; i < c.ncon(); i++) {
    const mjContact& contact = c.d->contact[i];
    if (!involves_geoms(contact)) continue;
    const int body1 = m->geom_bodyid[contact.geom[0]], body2 = m->geom_bodyid[contact.geom[1]];
    const Vector6 &X1 = X[static_cast<size_t>(body1)], &X2 = X[static_cast<size_t>(body2)];
    if (X1.isZero(0) && X2.isZero(0)) continue;
    const Vector3 u = velocity_at(X2, from_origin(m, c.d, body2, contact.pos)) -
                      velocity_at(X1, from_origin(m, c.d, body1, contact.pos));
    const Vector3 w = X2.head<3>() - X1.head<3>();
    const Rotation frame(contact.frame);
    double force[6], force_bar[6];
    contact_force(c.d, contact, constraint_forces_of(c), force);
    ContactBar& out = c.workspace.constraint.contacts[static_cast<size_t>(i)];
    Vector3 F = Vector3::Zero();
    for (int k = 0; k < 3; k++) {
      const Vector3 row = frame.row(k);
      force_bar[k] = -row.dot(u);
      force_bar[k + 3] = -row.dot(w);
      out.frame.row(k) -= (force[k] * u + force[k + 3] * w).transpose();
      F += force[k] * row;
    }
    // the place moves: F · (ω × δpos)
    out.pos -= F.cross(w);
    contact_force_pullback(c, contact, force_bar);
    c.scratch.has_contacts = true;
  }
}

// -ext · X of connects and welds: -f · (J X), with the rows' own velocities
void equalities_pullback(const SensorContext& c) {
  const mjModel* m = c.m;
  const mjData* d = c.d;
  if (c.nefc() == 0) return;
  const std::vector<double>& f = constraint_forces_of(c);
  for (int i = 0, n = 1; i < d->ne; i += n) {
    const int id = d->efc_id[i], type = m->eq_type[id];
    n = type == mjEQ_CONNECT ? 3 : type == mjEQ_WELD ? 6 : 1;
    if (n == 1) continue;
    const bool sites = m->eq_objtype[id] == mjOBJ_SITE;
    const mjtNum* data = m->eq_data + mjNEQDATA * id;
    double velocity[6] = {};
    mjtNum quat[2][4];
    Vector3 w = Vector3::Zero();
    for (int side = 0; side < 2; side++) {
      const int object = side == 0 ? m->eq_obj1id[id] : m->eq_obj2id[id];
      const int body = sites ? m->site_bodyid[object] : object;
      const Vector6& X = c.scratch.motion[static_cast<size_t>(body)];
      const double sign = side == 0 ? 1 : -1;
      Vector3 world(d->site_xpos + 3 * static_cast<ptrdiff_t>(sites ? object : 0));
      if (!sites) {
        const mjtNum* local = data + 3 * (type == mjEQ_WELD ? 1 - side : side);
        world = Vector3(d->xpos + 3 * body) + Rotation(d->xmat + 9 * body) * Vector3(local);
      }
      const Vector3 u = velocity_at(X, from_origin(m, d, body, world.data()));
      for (int k = 0; k < 3; k++) velocity[k] += sign * u[k];
      w += sign * X.head<3>();
      mju_copy4(quat[side], d->xquat + 4 * body);
      if (sites) {
        mju_mulQuat(quat[side], d->xquat + 4 * body, m->site_quat + 4 * object);
      } else if (side == 0) {
        mju_mulQuat(quat[side], d->xquat + 4 * body, data + 6);
      }
    }
    if (type == mjEQ_WELD) {
      // ½ torquescale vec(conj(q2) ω q1)
      const mjtNum turn[4] = {0, w[0], w[1], w[2]};
      mjtNum conjugate[4], product[4];
      mju_negQuat(conjugate, quat[1]);
      mju_mulQuat(product, turn, quat[0]);
      mju_mulQuat(product, conjugate, product);
      for (int k = 0; k < 3; k++) velocity[3 + k] = 0.5 * data[10] * product[1 + k];
    }
    for (int k = 0; k < n; k++) {
      const auto row = static_cast<size_t>(i + k);
      if (velocity[k] != 0) c.bar.force[row] -= velocity[k];
      c.workspace.constraint.rows.J_lambda[row] -= f[row];
    }
    c.scratch.has_rows = true;
  }
}

// -ext · X of forces that the user applies, at centres of mass
void applied_pullback(const SensorContext& c) {
  const mjModel* m = c.m;
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    const Vector6& X = c.scratch.motion[static_cast<size_t>(body)];
    if (X.isZero(0)) continue;
    const Vector3 point = from_origin(m, c.d, body, c.d->xipos + 3 * body);
    const Vector3 F(c.d->xfrc_applied + 6 * body), w = X.head<3>();
    c.sweep.W_inertial[static_cast<size_t>(body)] -= wrench_at(point, Vector3::Zero(), F.cross(w));
    if (c.bar.xfrc_applied.empty()) continue;
    const Vec to = c.bar.xfrc_applied.subspan(6 * static_cast<size_t>(body), 6);
    Eigen::Map<Vector3>(to.data()) -= velocity_at(X, point);
    Eigen::Map<Vector3>(to.data() + 3) -= w;
  }
}

// the forces between all bodies and their parents
const std::vector<Vector6>& internal_forces(const SensorContext& c) {
  std::vector<Vector6>& f = c.scratch.internal;
  if (c.scratch.has_internal) return f;
  c.scratch.has_internal = true;
  std::copy(constraint_forces_of(c).begin(), constraint_forces_of(c).end(),
            c.nefc() > 0 ? c.d->efc_force : c.scratch.row_force.data());
  mj_call("mj_rnePostConstraint", [&] {
    std::copy(c.problem.qacc.begin(), c.problem.qacc.end(), c.d->qacc);
    const int ncon = c.d->ncon, ne = c.d->ne;
    if (!c.problem.constrained) c.d->ncon = c.d->ne = 0;
    mj_comVel(c.m, c.d);
    mj_rnePostConstraint(c.m, c.d);
    c.d->ncon = ncon;
    c.d->ne = ne;
  });
  for (size_t b = 0; b < f.size(); b++) f[b] = Eigen::Map<const Vector6>(c.d->cfrc_int + 6 * b);
  return f;
}

}  // namespace

void force_sensor_pullback(const SensorContext& c, int sensor, CVec s_bar) {
  const mjModel* m = c.m;
  const SensorFrame site(m, c.d, mjOBJ_SITE, m->sensor_objid[sensor]);
  const Vector6& f = internal_forces(c)[static_cast<size_t>(site.body)];
  const Vector3 bar = site.mat * vector3(s_bar), zero = Vector3::Zero(), F = f.tail<3>();
  Vector6 X;
  if (m->sensor_type[sensor] == mjSENS_FORCE) {
    X = spatial(zero, bar);
    frame_wrench(c, site, bar.cross(F), zero);
  } else {
    const Vector3 T = torque_about(f, site.point);
    X = spatial(bar, -bar.cross(site.point));
    frame_wrench(c, site, bar.cross(T), bar.cross(F));
  }
  for (int body = site.body; body < static_cast<int>(m->nbody); body++) {
    if (!is_behind(m, body, site.body)) continue;
    c.scratch.motion[static_cast<size_t>(body)] += X;
  }
  c.scratch.has_bodies = true;
}

void force_sensors_finish(const SensorContext& c) {
  if (!c.scratch.has_bodies) return;
  const mjModel* m = c.m;
  Sweep& s = c.sweep;
  s.L.X = c.scratch.motion;
  inverse_dynamics_pullback(m, c.d, 1, s, c.bar.params);
  // what stands still has its weight
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    const auto b = static_cast<size_t>(body);
    if (m->body_weldid[body] != 0 || c.scratch.motion[b].isZero(0)) continue;
    const Vector3 u =
        velocity_at(c.scratch.motion[b], from_origin(m, c.d, body, c.d->xipos + 3 * body));
    if (const Vec to = c.bar.params[Parameter::kBodyMass]; !to.empty()) {
      to[b] -= u.dot(effective_gravity(m));
    }
    const Vec to = c.bar.params[Parameter::kGravity];
    if (!to.empty() && !(m->opt.disableflags & mjDSBL_GRAVITY)) {
      row3(to, 0) -= m->body_mass[body] * u;
    }
  }
  applied_pullback(c);
  equalities_pullback(c);
  contacts_pullback(c);
}

// the sum of normal forces on a site's body that meet the site's volume
void touch_sensor_pullback(const SensorContext& c, int sensor, CVec s_bar) {
  const mjModel* m = c.m;
  const mjData* d = c.d;
  const int site = m->sensor_objid[sensor], body = m->site_bodyid[site];
  for (int i = 0; i < c.ncon(); i++) {
    const mjContact& contact = d->contact[i];
    if (!involves_geoms(contact)) continue;
    const int body1 = m->geom_bodyid[contact.geom[0]], body2 = m->geom_bodyid[contact.geom[1]];
    if (body != body1 && body != body2) continue;
    double force[6];
    contact_force(d, contact, constraint_forces_of(c), force);
    if (force[0] <= 0) continue;
    // as MuJoCo has it: a ray from the contact along its force
    mjtNum ray[3];
    mju_scl3(ray, contact.frame, force[0]);
    mju_normalize3(ray);
    if (body == body2) mju_scl3(ray, ray, -1);
    if (mju_rayGeom(d->site_xpos + 3 * site, d->site_xmat + 9 * site, m->site_size + 3 * site,
                    contact.pos, ray, m->site_type[site], nullptr) < 0) {
      continue;
    }
    const double bar[6] = {s_bar[0], 0, 0, 0, 0, 0};
    contact_force_pullback(c, contact, bar);
  }
}

}  // namespace diffmj
