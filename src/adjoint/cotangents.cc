#include "adjoint/cotangents.h"

#include <algorithm>
#include <cmath>

#include "base/require.h"
#include "diffmj/error.h"
#include "diffmj/observables.h"
#include "diffmj/state.h"
#include "mj/call.h"
#include "model/parameters.h"
#include "record/sensordata.h"
#include "record/tape.h"
#include "record/trajectory.h"
#include "setup/differentiation.h"
#include "setup/model_impl.h"
#include "stages/analytic.h"
#include "stages/position/kinematics.h"
#include "stages/sensors/sensors.h"

namespace diffmj {
namespace {

size_t size(int rows, int width) { return static_cast<size_t>(rows) * static_cast<size_t>(width); }

void require_force_cotangents(const std::string& who, const Model& model, const Trajectory& t,
                              const Cotangents& c) {
  if (c.efc_force.empty()) return;
  if (c.efc_force.size() != static_cast<size_t>(t.nstep)) {
    throw InputError(who + ": the cotangent of efc_force has " +
                     std::to_string(c.efc_force.size()) +
                     " entries, expected one per step, nstep = " + std::to_string(t.nstep));
  }
  if (model.impl().has_surrogate_field()) {
    throw UnsupportedError(who + ": the cotangent of efc_force is unavailable with " +
                           (model.impl().cfd ? "cfd" : "collisions smooth-field") +
                           ", whose constraint forces are others than the rollout's; leave one of "
                           "them out");
  }
  const bool stages = model.is_adaptive() || model.integrator() == Integrator::kRk4;
  if (stages || !model.impl().differentiation.of_field) {
    throw UnsupportedError(who + ": the cotangent of efc_force is unavailable with " +
                           (stages
                                ? std::string("integrator ") + integrator_name(model.integrator()) +
                                      ", whose steps have several sets of forces; use Euler, "
                                      "implicit or implicitfast"
                                : differenced_steps(model.impl())));
  }
  for (size_t i = 0; i < c.efc_force.size(); i++) {
    const std::vector<double>& x = c.efc_force[i];
    const int nefc = t.steps[i].nefc;
    if (!x.empty() && x.size() != static_cast<size_t>(nefc)) {
      throw InputError(who + ": the cotangent of efc_force at step " + std::to_string(i) + " has " +
                       std::to_string(x.size()) +
                       " numbers, expected nefc = " + std::to_string(nefc) + " or none");
    }
    if (!std::all_of(x.begin(), x.end(), [](double value) { return std::isfinite(value); })) {
      throw InputError(who + ": the cotangent of efc_force is not finite at step " +
                       std::to_string(i));
    }
  }
}

// Sensors that have no derivative are refused if they have a cotangent.
void require_sensor_cotangents(const std::string& who, const Model& model, CVec sensordata_bar) {
  const mjModel* m = model.mj();
  const auto width = static_cast<size_t>(m->nsensordata);
  for (int i = 0; i < static_cast<int>(m->nsensor) && !sensordata_bar.empty(); i++) {
    const std::string why = sensor_obstacle(model.impl(), i);
    if (why.empty()) continue;
    for (size_t row = 0; row < sensordata_bar.size(); row += width) {
      const CVec part = sensordata_bar.subspan(row + static_cast<size_t>(m->sensor_adr[i]),
                                               static_cast<size_t>(m->sensor_dim[i]));
      if (std::all_of(part.begin(), part.end(), [](double x) { return x == 0; })) continue;
      throw UnsupportedError(who + ": " + sensor_name(m, i) + " has no derivative: " + why);
    }
  }
}

bool all_zero(CVec x) {
  return std::all_of(x.begin(), x.end(), [](double value) { return value == 0; });
}

// row i of a cotangent; empty where it has none
CVec cotangent_row(const Trajectory& t, const Cotangents& c, CVec x, int i) {
  if (c.final_row) return i == t.nstep ? x : CVec();
  const size_t width = x.size() / size(t.nstep + 1, 1);
  return x.subspan(static_cast<size_t>(i) * width, width);
}

}  // namespace

std::pair<PoseBar, bool> pose_cotangents(const Trajectory& t, const Cotangents& c, int i) {
  bool any = false;
  for (const Observable& x : observables()) any = any || !(c.*x.cotangent).empty();
  if (!any) return {};
  any = false;
  const auto part = [&](CVec x) {
    const CVec out = cotangent_row(t, c, x, i);
    if (all_zero(out)) return CVec();
    any = true;
    return out;
  };
  const PoseBar bar{.xpos = part(c.xpos),
                    .xquat = part(c.xquat),
                    .xmat = part(c.xmat),
                    .site_xpos = part(c.site_xpos),
                    .site_xmat = part(c.site_xmat),
                    .geom_xpos = part(c.geom_xpos),
                    .geom_xmat = part(c.geom_xmat),
                    .subtree_com = part(c.subtree_com),
                    .body_linvel = part(c.body_linvel),
                    .body_angvel = part(c.body_angvel),
                    .site_linvel = part(c.site_linvel),
                    .site_angvel = part(c.site_angvel)};
  return {bar, any};
}

namespace {

// adds what the poses and velocities at state i receive
void add_pose_cotangent(const Model& model, const Trajectory& t, const Cotangents& c, int i,
                        Vec x_bar, const ParameterBar& params, Workspace& workspace) {
  const auto [bar, any] = pose_cotangents(t, c, i);
  if (!any) return;
  const mjModel* m = model.mj();
  mjData* d = workspace.data.get();
  mj_call("mj_kinematics", [&] {
    mju_copy(d->qpos, row(t.qpos, i, t.nq).data(), t.nq);
    mj_kinematics(m, d);
    mj_comPos(m, d);
  });
  // poses and velocities alone: nothing accelerates
  const auto nv = static_cast<size_t>(t.nv);
  Sweep& sweep = workspace.sweep;
  body_accelerations(m, d, row(t.qvel, i, t.nv), workspace.zero, Vector3::Zero(), sweep);
  sweep.clear();
  poses_pullback(m, d, bar, sweep, params);
  kinematics_pullback(m, d, sweep, x_bar.first(nv), x_bar.subspan(nv, nv), params);
}

// adds the cotangent of state i
void add_cotangent(const Model& model, const Trajectory& t, const Cotangents& c, int i, Vec x_bar) {
  const auto nv = static_cast<size_t>(t.nv);
  if (const CVec bar = cotangent_row(t, c, c.qpos, i); !bar.empty()) {
    qpos_cotangent_to_tangent(model, row(t.qpos, i, t.nq), bar, x_bar.first(nv));
  }
  const auto add = [&](CVec bar, Vec to) {
    if (!bar.empty()) eigen(to) += eigen(bar);
  };
  add(cotangent_row(t, c, c.qpos_tangent, i), x_bar.first(nv));
  add(cotangent_row(t, c, c.qvel, i), x_bar.subspan(nv, nv));
  add(cotangent_row(t, c, c.act, i), x_bar.subspan(2 * nv));
}

}  // namespace

void require_cotangents(const std::string& who, const Model& model, const Trajectory& t,
                        const Cotangents& cotangents) {
  if (!is_made_with(model, t)) {
    throw InputError(who + ": the trajectory was made with another model (nq, nv, na, nu = " +
                     std::to_string(t.nq) + ", " + std::to_string(t.nv) + ", " +
                     std::to_string(t.na) + ", " + std::to_string(t.nu) +
                     "); use the one it was rolled out with, or a copy of it");
  }
  const auto check = [&](const char* name, CVec x, int width) {
    if (x.empty()) return;
    const int rows = cotangents.final_row ? 1 : t.nstep + 1;
    if (const size_t expected = size(rows, width); x.size() != expected) {
      require_size(who, (std::string("the cotangent of ") + name).c_str(), x.size(), expected,
                   expected,
                   std::to_string(rows) + " x " + std::to_string(width) +
                       (cotangents.final_row ? " (final_row: the row of the last state)"
                                             : " (one row per state)"));
    }
    for (size_t i = 0; i < x.size(); i++) {
      if (!std::isfinite(x[i])) {
        throw InputError(who + ": the cotangent of " + name + " is not finite at row " +
                         std::to_string(i / static_cast<size_t>(width)) + ", column " +
                         std::to_string(i % static_cast<size_t>(width)));
      }
    }
  };
  check("qpos", cotangents.qpos, t.nq);
  check("qpos_tangent", cotangents.qpos_tangent, t.nv);
  check("qvel", cotangents.qvel, t.nv);
  check("act", cotangents.act, t.na);
  for (const Observable& x : observables()) check(x.name, cotangents.*x.cotangent, x.size(model));
  check("sensordata", cotangents.sensordata, model.nsensordata());
  require_sensor_cotangents(who, model, cotangents.sensordata);
  require_force_cotangents(who, model, t, cotangents);
  for (const std::string& name : cotangents.params) (void)parameter_field(name);
  for (const std::string& name : cotangents.params) {
    if (!model.impl().cfd) break;
    ParameterBar asked;
    double number = 0;
    asked.field[static_cast<size_t>(parameter_field(name).id)] = Vec(&number, 1);
    if (!oracle_parameters(model.mj(), asked).any()) continue;
    throw UnsupportedError(
        who + ": the gradient in " + name +
        " is unavailable with cfd, for it has no analytic pullback in this model; "
        "leave one of them out");
  }
  if (!cotangents.params.empty() && !model.impl().differentiation.of_field) {
    throw UnsupportedError(who + ": the gradient in parameters (" + cotangents.params[0] +
                           ") is unavailable with " + differenced_steps(model.impl()));
  }
}

void add_state_cotangents(const Model& model, const Trajectory& t, const Cotangents& c, int i,
                          bool poses, Vec x_bar, const ParameterBar& params, Workspace& workspace) {
  add_cotangent(model, t, c, i, x_bar);
  if (poses) add_pose_cotangent(model, t, c, i, x_bar, params, workspace);
}

SensorCotangents::SensorCotangents(const Model& model, const Trajectory& trajectory,
                                   const Cotangents& cotangents, Workspace& workspace)
    : model_(model), trajectory_(trajectory), cotangents_(cotangents), workspace_(workspace) {
  const mjModel* m = model.mj();
  has_cutoff_ = std::any_of(m->sensor_cutoff, m->sensor_cutoff + m->nsensor,
                            [](double cutoff) { return cutoff > 0; });
}

CVec SensorCotangents::at(int i) {
  const Trajectory& t = trajectory_;
  if (cotangents_.sensordata.empty()) return {};
  const CVec bars = cotangent_row(t, cotangents_, cotangents_.sensordata, i);
  if (all_zero(bars)) return {};
  if (!has_cutoff_) return bars;
  row_.assign(bars.begin(), bars.end());
  if (t.sensordata.empty()) {
    evaluate_sensors_at(model_, state_input(t, i), workspace_);
    mask_cutoff(model_.mj(), CVec(workspace_.data->sensordata, row_.size()), row_);
  } else {
    mask_cutoff(model_.mj(), row(t.sensordata, i, model_.nsensordata()), row_);
  }
  return all_zero(row_) ? CVec() : CVec(row_);
}

}  // namespace diffmj
