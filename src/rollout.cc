// rollout(): nstep calls of mj_step, recorded.
#include "diffmj/rollout.h"

#include <algorithm>
#include <new>
#include <optional>

#include "base/parallel.h"
#include "base/require.h"
#include "diffmj/sensors.h"
#include "integrate/step.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "model/workspace.h"
#include "record/adaptive.h"
#include "record/input.h"
#include "record/pose_reader.h"
#include "record/recorder.h"
#include "record/rollout_into.h"
#include "record/sensordata.h"
#include "record/trajectory.h"
#include "stages/position/collision.h"
#include "stages/position/tendon.h"
#include "stages/sensors/sensors.h"
#include "stages/surrogate_field.h"

namespace diffmj {
namespace {

// A bad state found by MuJoCo's own checks in the step just made, or left behind by it: mj_step
// checks qpos and qvel when it begins, the last state of a rollout needs the same check.
BadState find_bad_step(const Model& model, const mjData* d) {
  for (const auto& [warning, what] :
       {std::pair{mjWARN_BADQPOS, "qpos"}, {mjWARN_BADQVEL, "qvel"}, {mjWARN_BADQACC, "qacc"}}) {
    if (d->warning[warning].number > 0) return {what, d->warning[warning].lastinfo};
  }
  return find_bad_state(model, d->qpos, d->qvel, d->act);
}

// Contacts of the step just made, or none of any step as soon as they do not fit.
void record_contacts(const mjData* d, size_t most, Trajectory& t) {
  if (t.contact_begin.empty()) return;
  try {
    keep_contacts(d, t.contacts);
    t.contact_begin.push_back(t.contacts.size());
    if (t.contacts.size() <= most) return;
  } catch (const std::bad_alloc&) {
    // the backward pass finds them again
  }
  t.contacts = {};
  t.contact_begin = {};
}

// What of the stages is kept for the backward pass.
struct Kept {
  bool tendons;
  size_t contacts;  // bytes
};
Kept kept_of(const Model& model, int nstep, size_t nrollout, bool keep) {
  if (!keep) return {false, 0};
  return {keeps_tendons(model, nstep, nrollout), contact_bytes(model, nrollout)};
}

// mj_step computes the sensors of the state it begins with, unless colliders of our own are in its
// place.
bool steps_sense(const Model& model) {
  return !model.is_adaptive() && !cfd_forward(model.impl()) && !model.impl().collider();
}

// The memory of a trajectory that is over, for the next.
Trajectory emptied(Trajectory& old) {
  Trajectory t;
  const auto take = [](auto& from, auto& to) {
    from.clear();
    to = std::move(from);
  };
  for (auto x : {&Trajectory::time, &Trajectory::qpos, &Trajectory::qvel, &Trajectory::act,
                 &Trajectory::qacc, &Trajectory::qacc_warmstart, &Trajectory::next_warmstart,
                 &Trajectory::tendon_numbers, &Trajectory::sensordata, &Trajectory::ctrl,
                 &Trajectory::qfrc_applied, &Trajectory::xfrc_applied}) {
    take(old.*x, t.*x);
  }
  take(old.steps, t.steps);
  take(old.tendon_objects, t.tendon_objects);
  take(old.contacts, t.contacts);
  take(old.contact_begin, t.contact_begin);
  return t;
}

// t: empty, but for its memory
Trajectory steps_of_mujoco(const Model& model, const RolloutInput& input, int nstep,
                           const Kept& kept, bool sensors, const PoseReader* poses, Trajectory t,
                           const ControlLaw& law, StopSignal& stop) {
  const mjModel* m = model.mj();
  mjModel sensing = *m;  // of the pointers
  if (sensors) sensing.opt.disableflags &= ~mjDSBL_SENSOR;
  const auto nsensordata = sensors ? static_cast<size_t>(m->nsensordata) : 0;
  TendonRecordSize tendons(m);
  if (!kept.tendons) tendons.numbers = tendons.objects = 0;
  allocate_rows(model, input, nstep, tendons, t);
  WorkspaceLease workspace(model.impl());
  mjData* d = workspace->data.get();
  WarningCollector warnings;
  reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
  d->time = input.time;
  const auto set = [](CVec from, mjtNum* to) { std::copy(from.begin(), from.end(), to); };
  set(input.qpos, d->qpos);
  set(input.qvel, d->qvel);
  set(input.act, d->act);
  set(input.qacc_warmstart, d->qacc_warmstart);
  record_state(d->time, d->qpos, d->qvel, d->act, 0, t);
  if (kept.contacts > 0) t.contact_begin.assign(1, 0);

  int done = 0;
  for (; done < nstep; done++) {
    if (stop.poll(static_cast<double>(done) / nstep)) {
      t.outcome = Outcome::kInterrupted;
      t.message = "interrupted at step " + std::to_string(done) + " of " + std::to_string(nstep);
      break;
    }
    const double time = d->time;
    if (law) {
      const auto nu = static_cast<size_t>(t.nu);
      law({.step = done,
           .qpos = row(t.qpos, done, t.nq),
           .qvel = row(t.qvel, done, t.nv),
           .act = row(t.act, done, t.na)},
          Vec(t.ctrl).subspan(static_cast<size_t>(done) * nu, nu));
    }
    set(input_row(t.ctrl, done, t.nu), d->ctrl);
    set(input_row(t.qfrc_applied, done, t.nv), d->qfrc_applied);
    set(input_row(t.xfrc_applied, done, 6 * t.nbody), d->xfrc_applied);
    double* warmstart = t.qacc_warmstart.data() + static_cast<ptrdiff_t>(done) * t.nv;
    std::copy(d->qacc_warmstart, d->qacc_warmstart + t.nv, warmstart);
    try {
      if (cfd_forward(model.impl())) {
        const StepInput in{.time = time,
                           .qpos = row(t.qpos, done, t.nq),
                           .qvel = row(t.qvel, done, t.nv),
                           .act = row(t.act, done, t.na),
                           .qacc_warmstart = row(t.qacc_warmstart, done, t.nv),
                           .ctrl = input_row(t.ctrl, done, t.nu),
                           .qfrc_applied = input_row(t.qfrc_applied, done, t.nv),
                           .xfrc_applied = input_row(t.xfrc_applied, done, 6 * t.nbody)};
        cfd_step(model.impl(), in, *workspace);
      } else {
        mj_call("mj_step", [&] { mj_step(CollidingModel(&sensing), d); });
      }
    } catch (const MujocoError& error) {
      t.outcome = Outcome::kMujocoError;
      t.message = std::string(error.what()) + " (at step " + std::to_string(done) + ")";
      break;
    }
    warnings.look(d, done, t.warnings);
    if (const BadState bad = find_bad_step(model, d); bad.what) {
      fail_not_finite(model, bad, done, time,
                      "use a smaller timestep, softer contacts or smaller controls", t);
      break;
    }
    StepRecord& record = t.steps[static_cast<size_t>(done)];
    record.ncon = d->ncon;
    record.nefc = d->nefc;
    for (int i = 0; i < std::max(1, std::min(d->nisland, +mjNISLAND)); i++) {
      record.solver_niter += d->solver_niter[i];
    }
    // for RK4 the data holds the last stage; its first acceleration is computed again when needed
    std::copy(d->qacc, d->qacc + t.nv, t.qacc.data() + static_cast<ptrdiff_t>(done) * t.nv);
    record_state(d->time, d->qpos, d->qvel, d->act, done + 1, t);
    record_contacts(d, kept.contacts, t);
    if (poses) poses->read(d, done);
    t.sensordata.insert(t.sensordata.end(), d->sensordata, d->sensordata + nsensordata);
    if (tendons.numbers > 0) {
      const auto i = static_cast<size_t>(done);
      keep_tendons(m, d, Vec(t.tendon_numbers).subspan(i * tendons.numbers, tendons.numbers),
                   std::span(t.tendon_objects).subspan(i * tendons.objects, tendons.objects));
    }
  }
  resize_rows(done, tendons, t);  // drops the rows of steps that were not completed
  t.nstep = done;
  t.next_warmstart.assign(d->qacc_warmstart, d->qacc_warmstart + t.nv);
  if (poses && t.ok()) {
    // the last state, which no step begins with
    poses->evaluate(d);
    poses->read(d, done);
  }
  if (sensors && t.ok()) {
    evaluate_sensors_at(model, state_input(t, done), *workspace);
    t.sensordata.insert(t.sensordata.end(), d->sensordata, d->sensordata + nsensordata);
  } else {
    t.sensordata.clear();
  }
  return t;
}

// poses: where those of this rollout go; null: they are not asked for. old: its memory is used
Trajectory rollout_one(const Model& model, const RolloutInput& input, int nstep, const Kept& kept,
                       const RolloutOptions& options, Poses* poses, Trajectory& old,
                       const ControlLaw& law, StopSignal& stop) {
  const bool sense = options.sensors && steps_sense(model);
  const bool leave = poses && steps_leave_poses(model) && !cfd_forward(model.impl());
  std::optional<PoseReader> reader;
  if (leave) reader.emplace(model, options.observables, nstep, *poses);
  Trajectory t = model.is_adaptive()
                     ? adaptive_rollout(model, input, nstep, options.steps_of, false, stop, law)
                     : steps_of_mujoco(model, input, nstep, kept, sense, leave ? &*reader : nullptr,
                                       emptied(old), law, stop);
  if (options.sensors && !sense && t.ok()) t.sensordata = sensordata(model, t);
  if (poses && !leave && t.ok()) *poses = diffmj::poses(model, t, options.observables);
  return t;
}

void require_poses(size_t nrollout, const RolloutOptions& options) {
  if (options.observables.empty() || options.poses.size() == nrollout) return;
  throw InputError("rollout: poses has " + std::to_string(options.poses.size()) +
                   " entries, expected one per rollout, " + std::to_string(nrollout));
}

Poses* poses_of(const RolloutOptions& options, size_t i) {
  return options.observables.empty() ? nullptr : &options.poses[i];
}

}  // namespace

Trajectory rollout(const Model& model, const RolloutInput& input, int nstep,
                   const RolloutOptions& options) {
  require_no_callbacks("rollout");
  require_input("rollout", model, input, nstep);
  if (options.sensors) require_sensor_values("rollout", model);
  require_steps_of("rollout", model, nstep, options.steps_of);
  require_memory("rollout", trajectory_bytes(model, nstep));
  require_poses(1, options);
  StopSignal stop(options.interrupted, options.progress);
  Trajectory none;
  return rollout_one(model, input, nstep, kept_of(model, nstep, 1, options.keep_stages), options,
                     poses_of(options, 0), none, {}, stop);
}

namespace {

// model_of(i): the model of rollout i
template <class ModelOf>
void run_batch(ModelOf&& model_of, std::span<const RolloutInput> inputs, int nstep,
               const RolloutOptions& options, std::span<Trajectory> out,
               const BatchControlLaw& law = {}) {
  require_no_callbacks("rollout");
  for (size_t i = 0; i < inputs.size(); i++) {
    require_input("rollout " + std::to_string(i) + " of the batch", model_of(i), inputs[i], nstep);
    if (i > 0 && &model_of(i) == &model_of(0)) continue;
    require_steps_of("rollout", model_of(i), nstep, options.steps_of);
    if (options.sensors) require_sensor_values("rollout", model_of(i));
  }
  if (out.empty()) return;
  require_memory("rollout", trajectory_bytes(model_of(0), nstep, inputs.size()));
  require_poses(inputs.size(), options);
  const Kept kept = kept_of(model_of(0), nstep, inputs.size(), options.keep_stages);
  StopSignal stop(options.interrupted, options.progress);
  parallel_for(static_cast<int>(inputs.size()), options.nthread, stop, [&](int i, StopSignal& s) {
    const auto k = static_cast<size_t>(i);
    ControlLaw own;
    if (law) own = [&law, i](const LawInput& in, Vec ctrl) { law(i, in, ctrl); };
    out[k] = rollout_one(model_of(k), inputs[k], nstep, kept, options, poses_of(options, k), out[k],
                         own, s);
  });
  if (stop.stopped()) throw Interrupted("rollout: interrupted");
}

}  // namespace

std::vector<Trajectory> rollout_batch(const Model& model, std::span<const RolloutInput> inputs,
                                      int nstep, const RolloutOptions& options) {
  std::vector<Trajectory> out(inputs.size());
  rollout_batch_into(model, inputs, nstep, options, out);
  return out;
}

void rollout_batch_into(const Model& model, std::span<const RolloutInput> inputs, int nstep,
                        const RolloutOptions& options, std::span<Trajectory> out,
                        const BatchControlLaw& law) {
  run_batch([&](size_t) -> const Model& { return model; }, inputs, nstep, options, out, law);
}

std::vector<Trajectory> rollout_batch(std::span<const Model> models,
                                      std::span<const RolloutInput> inputs, int nstep,
                                      const RolloutOptions& options) {
  if (models.size() != inputs.size()) {
    throw InputError("rollout: " + std::to_string(models.size()) + " models but " +
                     std::to_string(inputs.size()) + " inputs");
  }
  std::vector<Trajectory> out(inputs.size());
  run_batch([&](size_t i) -> const Model& { return models[i]; }, inputs, nstep, options, out);
  return out;
}

}  // namespace diffmj
