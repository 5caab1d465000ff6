// rollout(): one, or those of a batch.
#include "diffmj/rollout.h"

#include <optional>

#include "base/parallel.h"
#include "base/require.h"
#include "diffmj/sensors.h"
#include "mj/callbacks.h"
#include "record/adaptive.h"
#include "record/input.h"
#include "record/mujoco_rollout.h"
#include "record/pose_reader.h"
#include "record/rollout_into.h"
#include "record/sensordata.h"
#include "record/trajectory.h"
#include "setup/model_impl.h"
#include "stages/sensors/sensors.h"
#include "stages/surrogate_field.h"

namespace diffmj {
namespace {

KeptStages kept_of(const Model& model, int nstep, size_t nrollout, bool keep) {
  if (!keep) return {};
  if (model.mj()->opt.integrator != mjINT_RK4) {
    return {.any = true,
            .tendons = keeps_tendons(model, nstep, nrollout),
            .contacts = contact_bytes(model, nrollout)};
  }
  if (!keeps_rk4(model, nstep, nrollout)) return {.any = true};
  return {.any = true, .contacts = contact_bytes(model, nrollout), .rk4 = true};
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
                 &Trajectory::qacc, &Trajectory::next_warmstart, &Trajectory::sensordata,
                 &Trajectory::ctrl, &Trajectory::qfrc_applied, &Trajectory::xfrc_applied}) {
    take(old.*x, t.*x);
  }
  take(old.steps, t.steps);
  t.tape = std::move(old.tape);
  return t;
}

// poses: where those of this rollout go; null: they are not asked for. old: its memory is used
Trajectory rollout_one(const Model& model, const RolloutInput& input, int nstep,
                       const KeptStages& kept, const RolloutOptions& options, Poses* poses,
                       Trajectory& old, const ControlLaw& law, StopSignal& stop) {
  const bool sense = options.sensors && steps_sense(model);
  const bool leave = poses && steps_leave_poses(model) && !cfd_forward(model.impl());
  std::optional<PoseReader> reader;
  if (leave) reader.emplace(model, options.observables, nstep, *poses);
  Trajectory t = model.is_adaptive()
                     ? adaptive_rollout(model, input, nstep, options.steps_of, false, stop, law)
                     : mujoco_rollout(model, input, nstep, kept, sense, leave ? &*reader : nullptr,
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
  const KeptStages kept = kept_of(model_of(0), nstep, inputs.size(), options.keep_stages);
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
