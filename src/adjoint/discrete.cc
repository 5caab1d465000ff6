#include "adjoint/discrete.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "adjoint/continuous.h"
#include "adjoint/jump.h"
#include "adjoint/reverse_steps.h"
#include "adjoint/sensors.h"
#include "base/require.h"
#include "diffmj/error.h"
#include "diffmj/observables.h"
#include "diffmj/sensors.h"
#include "diffmj/state.h"
#include "integrate/step.h"
#include "mj/call.h"
#include "model/parameters.h"
#include "record/adaptive.h"
#include "record/input.h"
#include "record/sensordata.h"
#include "record/trajectory.h"
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
    throw UnsupportedError(who + ": the cotangent of efc_force is not there with " +
                           (model.impl().cfd ? "cfd" : "collisions smooth-field") +
                           ", whose constraint forces are others than the rollout's; leave one of "
                           "them out");
  }
  const bool stages = model.is_adaptive() || model.integrator() == Integrator::kRk4;
  if (stages || model.gradient_path() == GradientPath::kDifferences) {
    throw UnsupportedError(who + ": the cotangent of efc_force is not there with " +
                           (stages
                                ? std::string("integrator ") + integrator_name(model.integrator()) +
                                      ", whose steps have several sets of forces"
                                : "steps that are differentiated by differences") +
                           "; use Euler, implicit or implicitfast");
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

void require_cotangents(const std::string& who, const Model& model, const Trajectory& t,
                        const Cotangents& cotangents) {
  if (t.model_id != model.impl().id) {
    throw InputError(who + ": the trajectory was made with another model (nq, nv, na, nu = " +
                     std::to_string(t.nq) + ", " + std::to_string(t.nv) + ", " +
                     std::to_string(t.na) + ", " + std::to_string(t.nu) +
                     "); use the one it was rolled out with, or a copy of it");
  }
  const auto check = [&](const char* name, CVec x, int width) {
    if (x.empty()) return;
    const int rows = cotangents.final_row ? 1 : t.nstep + 1;
    const size_t expected = size(rows, width);
    require_size(who, (std::string("the cotangent of ") + name).c_str(), x.size(), expected,
                 expected,
                 std::to_string(rows) + " x " + std::to_string(width) +
                     (cotangents.final_row ? " (final_row: the row of the last state)"
                                           : " (one row per state)"));
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
    throw UnsupportedError(who + ": the gradient in " + name +
                           " is not there with cfd, for it has no analytic pullback in this model; "
                           "leave one of them out");
  }
  if (!cotangents.params.empty() && model.gradient_path() == GradientPath::kDifferences) {
    const std::string& reason = model.gradient_path_reason();
    throw UnsupportedError(
        who + ": the gradient in parameters (" + cotangents.params[0] +
        ") is not there for models whose steps are differentiated by differences" +
        (reason.empty() ? "; use path analytic or oracle" : ": " + reason));
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

// adds what the poses and velocities at state i receive
void add_pose_cotangent(const Model& model, const Trajectory& t, const Cotangents& c, int i,
                        Vec x_bar, const ParameterBar& params, Workspace& workspace) {
  bool any = false;
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

// The cotangents of the sensors at state i, 0 where a value is beyond its cutoff; empty: all are.
class SensorCotangents {
 public:
  SensorCotangents(const Model& model, const Trajectory& t, const Cotangents& c,
                   Workspace& workspace)
      : model_(model), t_(t), c_(c), workspace_(workspace) {
    const mjModel* m = model.mj();
    has_cutoff_ = std::any_of(m->sensor_cutoff, m->sensor_cutoff + m->nsensor,
                              [](double cutoff) { return cutoff > 0; });
  }

  // good until the next call
  CVec at(int i) {
    const CVec bars = c_.sensordata.empty() ? CVec() : cotangent_row(t_, c_, c_.sensordata, i);
    if (all_zero(bars)) return {};
    if (!has_cutoff_) return bars;
    row_.assign(bars.begin(), bars.end());
    if (t_.sensordata.empty()) {
      evaluate_sensors_at(model_, state_input(t_, i), workspace_);
      mask_cutoff(model_.mj(), CVec(workspace_.data->sensordata, row_.size()), row_);
    } else {
      mask_cutoff(model_.mj(), row(t_.sensordata, i, model_.nsensordata()), row_);
    }
    return all_zero(row_) ? CVec() : CVec(row_);
  }

 private:
  const Model& model_;
  const Trajectory& t_;
  const Cotangents& c_;
  Workspace& workspace_;
  bool has_cutoff_ = false;
  std::vector<double> row_;
};

void allocate(const Trajectory& t, double value, Gradient& g) {
  g.qpos.assign(size(1, t.nq), value);
  g.qpos_tangent.assign(size(1, t.nv), value);
  g.qvel.assign(size(1, t.nv), value);
  g.act.assign(size(1, t.na), value);
  const int nstep = std::isnan(value) ? t.nstep_asked : t.nstep;
  g.ctrl.assign(size(nstep, t.nu), value);
  g.qfrc_applied.assign(size(nstep, t.nv), value);
  g.xfrc_applied.assign(t.xfrc_applied.empty() ? 0 : size(nstep, 6 * t.nbody), value);
}

std::string not_finite(const Trajectory& t, int step) {
  return "the gradient is not finite from step " + std::to_string(step) + " of " +
         std::to_string(t.nstep) +
         " backwards: the motion amplifies small changes beyond what numbers hold; use a shorter "
         "horizon, or a smaller timestep if the motion is unstable";
}

void add_row(const Matrix& from, int i, std::vector<double>& to) {
  double* row = to.data() + static_cast<ptrdiff_t>(i) * from.cols();
  for (Eigen::Index k = 0; k < from.cols(); k++) row[k] += from(0, k);
}

// The accepted steps of an interval, the last one first. gradient: where forces bend within a step
// its own derivative weighs the two sides by the method's b_i, not by how long each was; the
// adjoint equation, solved along that step, does (bends; null: not wanted).
bool interval_pullback(const Model& model, const Trajectory& t, ReverseSteps& steps, int interval,
                       ContinuousAdjoint* bends, StepBar& bar, Workspace& workspace,
                       StopSignal& stop) {
  const int last = steps.first(interval + 1) - 1;
  for (int n = last; n >= steps.first(interval); n--) {
    if (stop.poll()) return false;
    if (n < last) {
      bar.next = bar.x;
      bar.x.setZero();
    }
    if (const SolverEvent* event = steps.event(n)) {
      jump_pullback(model.impl(), *event, bar.next, bar.params, workspace);
    }
    const bool bent = bends && is_bent(t, n);
    RungeKutta* step = steps.load(n, bent, stop);
    if (!step) return false;
    if (!bent) {
      step->pullback(bar);
    } else if (!bends->step(interval, n, *step, bar, stop)) {
      return false;
    }
  }
  return true;
}

}  // namespace

SweepOutcome rollout_adjoint(const Model& model, const Trajectory& t, const Cotangents& cotangents,
                             Gradient& gradient, Workspace& workspace, StopSignal& stop,
                             int& failed_step) {
  const ModelImpl& impl = model.impl();
  const auto nv = static_cast<size_t>(t.nv);
  allocate(t, 0, gradient);
  reset_data(model, t.mocap_pos, t.mocap_quat, workspace);
  workspace.cfd.evaluations = workspace.cfd.capped = 0;
  workspace.field_qacc.clear();

  StepBar bar;
  bar.resize(impl, 1, !t.xfrc_applied.empty());
  for (const std::string& name : cotangents.params) {
    const ParameterField& field = parameter_field(name);
    std::vector<double>& to = gradient.params[name];
    to.assign(static_cast<size_t>(field.size(model.mj())), 0.0);
    bar.params.field[static_cast<size_t>(field.id)] = to;
  }
  const Vec x_bar(bar.x.data(), static_cast<size_t>(bar.x.cols()));
  const auto add = [&](int i) {
    add_cotangent(model, t, cotangents, i, x_bar);
    add_pose_cotangent(model, t, cotangents, i, x_bar, bar.params, workspace);
  };
  SensorCotangents sensors(model, t, cotangents, workspace);
  const auto add_sensors = [&](int i, CVec sensor_bar) {
    if (sensor_bar.empty()) return;
    state_sensors_pullback(impl, state_input(t, i), sensor_bar,
                           {bar.x, bar.ctrl, bar.qfrc_applied, bar.xfrc_applied, bar.params},
                           workspace);
  };
  const auto add_inputs = [&](int i) {
    if (i < 0) return;
    add_row(bar.ctrl, i, gradient.ctrl);
    add_row(bar.qfrc_applied, i, gradient.qfrc_applied);
    add_row(bar.xfrc_applied, i, gradient.xfrc_applied);
  };
  const bool discrete = model.options().adaptive.adjoint == Adjoint::kDiscrete;
  std::optional<ReverseSteps> steps;
  std::optional<ContinuousAdjoint> continuous;
  if (model.is_adaptive()) {
    const bool backsolve = model.options().adaptive.adjoint == Adjoint::kBacksolve;
    if (!backsolve) steps.emplace(model, t, workspace);
    continuous.emplace(model, t, bar, backsolve ? nullptr : &*steps, workspace);
  }
  add(t.nstep);
  add_sensors(t.nstep, sensors.at(t.nstep));
  add_inputs(t.nstep - 1);
  for (int i = t.nstep - 1; i >= 0; i--) {
    if (stop.poll(static_cast<double>(t.nstep - 1 - i) / t.nstep)) return SweepOutcome::kStopped;
    bar.next = bar.x;
    for (Matrix* x : {&bar.x, &bar.ctrl, &bar.ctrl_end, &bar.qfrc_applied, &bar.xfrc_applied}) {
      x->setZero();
    }
    if (!cotangents.efc_force.empty()) bar.efc_force = cotangents.efc_force[static_cast<size_t>(i)];
    const CVec sensor_bar = sensors.at(i);
    const bool apart = !sensor_bar.empty() && !step_takes_sensors(impl, sensor_bar);
    bar.sensordata = apart ? CVec() : sensor_bar;
    if (continuous && !discrete) {
      if (!continuous->interval(i, bar, stop)) return SweepOutcome::kStopped;
    } else if (continuous) {
      ContinuousAdjoint* bends = impl.tableau->embedded_order > 0 ? &*continuous : nullptr;
      if (!interval_pullback(model, t, *steps, i, bends, bar, workspace, stop)) {
        return SweepOutcome::kStopped;
      }
    } else {
      step_pullback(impl, step_input(t, i), row(t.qacc, i, t.nv), bar, workspace);
    }
    if (apart) add_sensors(i, sensor_bar);
    add_inputs(i);
    if (i + 1 < t.nstep) add_row(bar.ctrl_end, i + 1, gradient.ctrl);
    if (!bar.x.allFinite() || !bar.ctrl.allFinite()) {
      failed_step = i;
      return SweepOutcome::kNotFinite;
    }
    add(i);
  }
  for (const auto& [name, values] : gradient.params) {
    if (std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); }))
      continue;
    failed_step = 0;
    return SweepOutcome::kNotFinite;
  }
  std::copy_n(x_bar.begin(), nv, gradient.qpos_tangent.begin());
  std::copy_n(x_bar.begin() + t.nv, nv, gradient.qvel.begin());
  std::copy_n(x_bar.begin() + 2 * t.nv, gradient.act.size(), gradient.act.begin());
  qpos_cotangent_to_ambient(model, row(t.qpos, 0, t.nq), gradient.qpos_tangent, gradient.qpos);
  gradient.cfd_evaluations = workspace.cfd.evaluations;
  gradient.cfd_capped = workspace.cfd.capped;
  if (steps) gradient.nrecomputed = steps->nrecomputed();
  if (continuous) {
    gradient.naccepted = continuous->steps().naccepted;
    gradient.nrejected = continuous->steps().nrejected;
    gradient.nevaluation = continuous->times().count;
  }
  return SweepOutcome::kSuccess;
}

Gradient rollout_pullback(const Model& model, const Trajectory& trajectory,
                          const Cotangents& cotangents, const RolloutOptions& options) {
  require_no_callbacks("rollout_pullback");
  if (!trajectory.ok()) {
    throw InputError("rollout_pullback: the rollout did not reach its last step: " +
                     trajectory.message);
  }
  require_cotangents("rollout_pullback", model, trajectory, cotangents);
  StopSignal stop(options.interrupted, options.progress);
  WorkspaceLease workspace(model.impl());
  Gradient gradient;
  int failed_step = 0;
  switch (rollout_adjoint(model, trajectory, cotangents, gradient, *workspace, stop, failed_step)) {
    case SweepOutcome::kSuccess:
      break;
    case SweepOutcome::kStopped:
      throw Interrupted("rollout_pullback: interrupted");
    case SweepOutcome::kNotFinite:
      throw RolloutError("rollout_pullback: " + not_finite(trajectory, failed_step));
  }
  return gradient;
}

namespace {

// model_of(i): the model of trajectory i
template <class ModelOf>
std::vector<Gradient> pullback_batch(ModelOf&& model_of, std::span<const Trajectory> trajectories,
                                     std::span<const Cotangents> cotangents,
                                     const RolloutOptions& options) {
  require_no_callbacks("rollout_pullback");
  if (trajectories.size() != cotangents.size()) {
    throw InputError("rollout_pullback: " + std::to_string(trajectories.size()) +
                     " trajectories but " + std::to_string(cotangents.size()) + " cotangents");
  }
  for (size_t i = 0; i < trajectories.size(); i++) {
    if (!trajectories[i].ok()) continue;
    require_cotangents("rollout_pullback, rollout " + std::to_string(i) + " of the batch",
                       model_of(i), trajectories[i], cotangents[i]);
  }
  std::vector<Gradient> out(trajectories.size());
  StopSignal stop(options.interrupted, options.progress);
  parallel_for(static_cast<int>(out.size()), options.nthread, stop, [&](int i, StopSignal& s) {
    const auto k = static_cast<size_t>(i);
    std::string failure = trajectories[k].message;
    if (trajectories[k].ok()) {
      try {
        WorkspaceLease workspace(model_of(k).impl());
        int failed_step = 0;
        if (rollout_adjoint(model_of(k), trajectories[k], cotangents[k], out[k], *workspace, s,
                            failed_step) == SweepOutcome::kNotFinite) {
          failure = not_finite(trajectories[k], failed_step);
        }
      } catch (const Error& error) {
        failure = error.what();
      }
    }
    if (failure.empty()) return;
    allocate(trajectories[k], std::numeric_limits<double>::quiet_NaN(), out[k]);
    for (const std::string& name : cotangents[k].params) {
      out[k].params[name].assign(static_cast<size_t>(parameter_field(name).size(model_of(k).mj())),
                                 std::numeric_limits<double>::quiet_NaN());
    }
    out[k].message = failure;
  });
  if (stop.stopped()) throw Interrupted("rollout_pullback: interrupted");
  return out;
}

}  // namespace

std::vector<Gradient> rollout_pullback_batch(const Model& model,
                                             std::span<const Trajectory> trajectories,
                                             std::span<const Cotangents> cotangents,
                                             const RolloutOptions& options) {
  return pullback_batch([&](size_t) -> const Model& { return model; }, trajectories, cotangents,
                        options);
}

std::vector<Gradient> rollout_pullback_batch(std::span<const Model> models,
                                             std::span<const Trajectory> trajectories,
                                             std::span<const Cotangents> cotangents,
                                             const RolloutOptions& options) {
  if (models.size() != trajectories.size()) {
    throw InputError("rollout_pullback: " + std::to_string(models.size()) + " models but " +
                     std::to_string(trajectories.size()) + " trajectories");
  }
  return pullback_batch([&](size_t i) -> const Model& { return models[i]; }, trajectories,
                        cotangents, options);
}

namespace {

// every row of A and B is the pullback of one unit cotangent, those of bar.next
void linearize_interval(const Model& model, const Trajectory& t, StepBar& bar,
                        Workspace& workspace) {
  StopSignal never({});
  if (t.solver.bent_step.empty()) {
    ReverseSteps steps(model, t, workspace);
    interval_pullback(model, t, steps, 0, nullptr, bar, workspace, never);
    return;
  }
  // the adjoint equation takes one at a time
  StepBar one;
  for (Eigen::Index i = 0; i < bar.next.rows(); i++) {
    one.resize(model.impl(), 1, false);
    one.next = bar.next.row(i);
    ReverseSteps steps(model, t, workspace);
    ContinuousAdjoint bends(model, t, one, &steps, workspace);
    interval_pullback(model, t, steps, 0, &bends, one, workspace, never);
    bar.x.row(i) = one.x;
    bar.ctrl.row(i) = one.ctrl;
    bar.ctrl_end.row(i) = one.ctrl_end;
  }
}

}  // namespace

Linearization linearize(const Model& model, const RolloutInput& input, bool sensors) {
  const ModelImpl& impl = model.impl();
  const mjModel* m = model.mj();
  for (int i = 0; i < static_cast<int>(m->nsensor) && sensors; i++) {
    const std::string why = sensor_obstacle(impl, i);
    if (!why.empty()) {
      throw UnsupportedError("linearize: " + sensor_name(m, i) + " has no derivative: " + why);
    }
  }
  Trajectory t;
  if (model.is_adaptive()) {
    require_no_callbacks("linearize");
    require_input("linearize", model, input, 1);
    StopSignal never({});
    t = adaptive_rollout(model, input, 1, nullptr, true, never);
  } else {
    t = rollout(model, input, 1);
  }
  if (!t.ok()) throw InputError("linearize: the step failed: " + t.message);
  WorkspaceLease workspace(impl);
  reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
  workspace->field_qacc.clear();

  StepBar bar;
  bar.resize(impl, model.ntangent(), false);
  bar.next.setIdentity();
  if (model.is_adaptive()) {
    linearize_interval(model, t, bar, *workspace);
    bar.ctrl += bar.ctrl_end;
  } else {
    step_pullback(impl, step_input(t, 0), row(t.qacc, 0, t.nv), bar, *workspace);
  }
  Linearization out{.A = {bar.x.data(), bar.x.data() + bar.x.size()},
                    .B = {bar.ctrl.data(), bar.ctrl.data() + bar.ctrl.size()},
                    .C = {},
                    .D = {}};
  if (!sensors) return out;
  // one row at a time
  const auto width = static_cast<size_t>(m->nsensordata);
  std::vector<double> values(width), unit(width);
  evaluate_sensors_at(model, state_input(t, 0), *workspace);
  std::copy_n(workspace->data->sensordata, width, values.begin());
  StepBar one;
  for (size_t k = 0; k < width; k++) {
    std::fill(unit.begin(), unit.end(), 0.0);
    unit[k] = 1;
    mask_cutoff(m, values, unit);
    one.resize(impl, 1, false);
    state_sensors_pullback(impl, state_input(t, 0), unit,
                           {one.x, one.ctrl, one.qfrc_applied, one.xfrc_applied}, *workspace);
    out.C.insert(out.C.end(), one.x.data(), one.x.data() + one.x.size());
    out.D.insert(out.D.end(), one.ctrl.data(), one.ctrl.data() + one.ctrl.size());
  }
  return out;
}

}  // namespace diffmj
