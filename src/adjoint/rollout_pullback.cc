// rollout_pullback(): one backward pass, or those of a batch.
#include <limits>

#include "adjoint/cotangents.h"
#include "adjoint/sweep.h"
#include "base/parallel.h"
#include "diffmj/error.h"
#include "diffmj/gradient.h"
#include "mj/callbacks.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

std::string not_finite(const Trajectory& t, int step) {
  return "the gradient is not finite from step " + std::to_string(step) + " of " +
         std::to_string(t.nstep) +
         " backwards: the motion amplifies small changes beyond what numbers hold; use a shorter "
         "horizon, or a smaller timestep if the motion is unstable";
}

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
    fill_gradient(model_of(k), trajectories[k], cotangents[k],
                  std::numeric_limits<double>::quiet_NaN(), out[k]);
    out[k].message = failure;
  });
  if (stop.stopped()) throw Interrupted("rollout_pullback: interrupted");
  return out;
}

}  // namespace

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

}  // namespace diffmj
