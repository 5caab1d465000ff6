// Subtrees of bodies, and energies.
#include <algorithm>

#include "mj/call.h"
#include "stages/acceleration/inverse_dynamics.h"
#include "stages/acceleration/tendon_armature.h"
#include "stages/sensors/scratch.h"
#include "stages/sensors/sensors_internal.h"
#include "stages/velocity/passive.h"

namespace diffmj {
namespace {

template <class Fn>
void for_each_behind(const mjModel* m, int root, Fn&& fn) {
  for (int body = root; body < static_cast<int>(m->nbody); body++) {
    int above = body;
    while (above > root) above = m->body_parentid[above];
    if (above == root) fn(body);
  }
}

Vector3 center_velocity(const SensorContext& c, int body) {
  return velocity_at(c.sweep.V.X[static_cast<size_t>(body)],
                     from_origin(c.m, c.d, body, c.d->xipos + 3 * static_cast<ptrdiff_t>(body)));
}

// Σ m v / Σ m of the centres of mass
void linear_velocity_pullback(const SensorContext& c, int root, const Vector3& s_bar) {
  const mjModel* m = c.m;
  const double mass = std::max(mjMINVAL, m->body_subtreemass[root]);
  Vector3 momentum = Vector3::Zero();
  for_each_behind(m, root, [&](int body) {
    momentum += m->body_mass[body] * center_velocity(c, body);
    const SensorFrame center(m, c.d, mjOBJ_BODY, body);
    frame_velocity_pullback(c, center, Vector3::Zero(), m->body_mass[body] / mass * s_bar);
  });
  const Vec to = c.bar.params[Parameter::kBodyMass];
  if (to.empty()) return;
  for_each_behind(m, root, [&](int body) {
    to[static_cast<size_t>(body)] += s_bar.dot(center_velocity(c, body) - momentum / mass) / mass;
  });
}

// Angular momentum about the subtree's centre of mass c, weighted with l: the momenta of its bodies
// times the motion of a rotation l about c, X = (l, -l × c) about the origin.
void angular_momentum_pullback(const SensorContext& c, int root, const Vector3& l) {
  const mjModel* m = c.m;
  const Vector3 center(c.d->subtree_com + 3 * static_cast<ptrdiff_t>(root));
  Sweep& s = c.sweep;
  Motion& motion = s.B;
  motion.y = c.workspace.zero;
  std::fill(motion.X.begin(), motion.X.end(), Vector6::Zero());
  std::fill(motion.X_bar.begin(), motion.X_bar.end(), Vector6::Zero());
  Vector3 momentum = Vector3::Zero();
  for_each_behind(m, root, [&](int body) {
    const Vector3 from = from_origin(m, c.d, body, center.data());
    motion.X[static_cast<size_t>(body)] = spatial(l, -l.cross(from));
    momentum += m->body_mass[body] * center_velocity(c, body);
  });
  mass_form_pullback(m, c.d, 1, motion, s.V, s, c.bar.params);
  // -p · (l × δc)
  c.scratch.com[static_cast<size_t>(root)] -= momentum.cross(l);
  c.scratch.has_com = true;
}

void potential_energy_pullback(const SensorContext& c, double e_bar) {
  const mjModel* m = c.m;
  if (!(m->opt.disableflags & mjDSBL_GRAVITY)) {
    const Vector3 gravity(m->opt.gravity);
    for (int body = 1; body < static_cast<int>(m->nbody); body++) {
      const auto b = static_cast<size_t>(body);
      const Vector3 center(c.d->xipos + 3 * static_cast<ptrdiff_t>(body));
      c.sweep.W_inertial[b] += wrench_at(from_origin(m, c.d, body, center.data()), Vector3::Zero(),
                                         -e_bar * m->body_mass[body] * gravity);
      if (const Vec to = c.bar.params[Parameter::kBodyMass]; !to.empty()) {
        to[b] -= e_bar * gravity.dot(center);
      }
      if (const Vec to = c.bar.params[Parameter::kGravity]; !to.empty()) {
        Eigen::Map<Vector3>(to.data()) -= e_bar * m->body_mass[body] * center;
      }
    }
  }
  if (m->opt.disableflags & mjDSBL_SPRING) return;
  // springs: the force is minus the derivative; tendons depend on parameters of frames, too
  mj_call("mj_passive", [&] { mj_passive(m, c.d); });
  for (size_t k = 0; k < c.bar.qpos.size(); k++) c.bar.qpos[k] -= e_bar * c.d->qfrc_spring[k];
  for (int i = 0; i < static_cast<int>(m->ntendon); i++) {
    const double force = tendon_spring_force(m, c.d, i);
    if (force == 0) continue;
    c.workspace.tendon.bars[static_cast<size_t>(i)].length -= e_bar * force;
    c.scratch.has_tendons = true;
    const int begin = m->ten_J_rowadr[i];
    for (int k = begin; k < begin + m->ten_J_rownnz[i]; k++) {
      c.bar.qpos[static_cast<size_t>(m->ten_J_colind[k])] += e_bar * force * c.d->ten_J[k];
    }
  }
}

// ½ vᵀ M v
void kinetic_energy_pullback(const SensorContext& c, double e_bar) {
  const mjModel* m = c.m;
  const CVec qvel = c.problem.in.qvel;
  Sweep& s = c.sweep;
  std::vector<double>& Mv = c.scratch.gravcomp;
  mj_call("mj_mulM", [&] { mj_mulM(m, c.d, Mv.data(), qvel.data()); });
  eigen(c.bar.qvel) += e_bar * eigen(CVec(Mv));
  s.use(m, c.d, qvel, s.U);
  s.use(m, c.d, qvel, s.C);
  mass_form_pullback(m, c.d, e_bar / 2, s.U, s.C, s, c.bar.params);
  if (m->ntendon > 0) {
    tendon_mass_form_pullback(m, c.d, e_bar / 2, qvel, qvel, c.workspace.tendon.fits,
                              c.workspace.tendon.bars, c.bar.qpos, c.workspace.tendon.y, s,
                              c.bar.params);
    c.scratch.has_tendons = true;
  }
  if (const Vec bar = c.bar.params[Parameter::kActuatorGear]; !bar.empty()) {
    for (size_t k = 0; k < qvel.size(); k++) {
      c.workspace.metric.armature_bar[k] = e_bar / 2 * qvel[k] * qvel[k];
    }
    armature_gear_pullback(m, c.workspace.metric.armature_bar, bar);
  }
}

}  // namespace

void whole_sensor_pullback(const SensorContext& c, int sensor, CVec s_bar) {
  const int id = c.m->sensor_objid[sensor];
  switch (c.m->sensor_type[sensor]) {
    case mjSENS_SUBTREECOM:
      c.scratch.com[static_cast<size_t>(id)] += vector3(s_bar);
      c.scratch.has_com = true;
      break;
    case mjSENS_SUBTREELINVEL:
      linear_velocity_pullback(c, id, vector3(s_bar));
      break;
    case mjSENS_SUBTREEANGMOM:
      angular_momentum_pullback(c, id, vector3(s_bar));
      break;
    case mjSENS_E_POTENTIAL:
      potential_energy_pullback(c, s_bar[0]);
      break;
    case mjSENS_E_KINETIC:
      c.scratch.kinetic += s_bar[0];
      break;
    default:
      break;  // the clock: time is not differentiated
  }
}

void whole_sensors_finish(const SensorContext& c) {
  if (c.scratch.kinetic != 0) kinetic_energy_pullback(c, c.scratch.kinetic);
  if (!c.scratch.has_com) return;
  for (size_t b = 0; b < c.scratch.com.size(); b++) {
    for (int k = 0; k < 3; k++) {
      c.scratch.subtree_com[3 * b + static_cast<size_t>(k)] = c.scratch.com[b][k];
    }
  }
  PoseBar bar;
  bar.subtree_com = c.scratch.subtree_com;
  poses_pullback(c.m, c.d, bar, c.sweep, c.bar.params);
}

}  // namespace diffmj
