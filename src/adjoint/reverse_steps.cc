#include "adjoint/reverse_steps.h"

#include <algorithm>

#include "diffmj/error.h"
#include "events/step_events.h"
#include "setup/model_impl.h"

namespace diffmj {

ReverseSteps::ReverseSteps(const Model& model, const Trajectory& trajectory, Workspace& workspace)
    : model_(model),
      trajectory_(trajectory),
      method_(model.impl(), workspace),
      mask_(model.mj(), model.impl().collider()),
      x_(model.impl()) {
  if (has_events(model.impl())) method_.suppress(&mask_);
  const Tape& tape = *trajectory.tape;
  const long nstep = trajectory.integrator.naccepted;
  if (tape.kept_step.empty()) return;
  schedule_.emplace(checkpoint_slots(model.options().adaptive));
  schedule_->reverse(static_cast<int>(nstep), tape.kept_step);
  slots_ = tape.kept;
  slots_nefc_ = tape.kept_nefc;
  const size_t nslot = static_cast<size_t>(schedule_->nslot());
  slots_nefc_.resize(std::min(nslot, static_cast<size_t>(nstep)));
  slots_.resize(slots_nefc_.size() * StepState::size(model.impl()));
}

// what was active where step n began; where nothing was suppressed within it, that does not matter
void ReverseSteps::suppress_as_in(int n) {
  if (const SuppressedStep* step = suppressed_step(trajectory_, n)) {
    mask_.set_base(step->base);
  } else {
    mask_.clear_base();
  }
}

int ReverseSteps::interval_of(int n) const {
  const std::vector<int>& first = trajectory_.integrator.first_step;
  return static_cast<int>(std::upper_bound(first.begin(), first.end(), n) - first.begin()) - 1;
}

// step n from the state at hand, as it was made before
void ReverseSteps::make(int n, bool whole) {
  const int interval = interval_of(n);
  if (n == first(interval)) x_.enter(model_, trajectory_, interval);
  const std::vector<double>& time = trajectory_.integrator.time;
  const auto k = static_cast<size_t>(n);
  x_.time = time[k];
  method_.use(step_tableau(model_.impl(), trajectory_, n));
  suppress_as_in(n);
  const bool made = method_.step(x_.start(), interval_input(model_, trajectory_, interval),
                                 time[k + 1] - time[k], times_) &&
                    (!whole || method_.finish(times_));
  if (!made) throw RolloutError("step " + std::to_string(n) + " cannot be recomputed");
}

RungeKutta* ReverseSteps::load(int n, bool whole, StopSignal& stop) {
  const std::vector<double>& time = trajectory_.integrator.time;
  if (!schedule_) {
    method_.use(step_tableau(model_.impl(), trajectory_, n));
    method_.load(kept_step(model_, trajectory_, n),
                 interval_input(model_, trajectory_, interval_of(n)));
    suppress_as_in(n);
  } else {
    const size_t width = StepState::size(model_.impl());
    for (bool back = false; !back;) {
      const CheckpointAction action = schedule_->next();
      const auto slot = static_cast<size_t>(std::max(action.slot, 0));
      const Vec row = Vec(slots_).subspan(action.slot < 0 ? 0 : slot * width, width);
      switch (action.kind) {
        case CheckpointAction::Kind::kRestore:
          x_.read(row, slots_nefc_[slot], time[static_cast<size_t>(action.begin)]);
          break;
        case CheckpointAction::Kind::kAdvance:
          for (int i = action.begin; i < action.end; i++) {
            if (stop.poll()) return nullptr;
            make(i, true);
            x_.follow(method_, time[static_cast<size_t>(i) + 1], ends_at_jump(trajectory_, i));
            nrecomputed_++;
          }
          break;
        case CheckpointAction::Kind::kKeep:
          x_.write(row, slots_nefc_[slot]);
          break;
        case CheckpointAction::Kind::kStepBack:
          make(n, whole);
          back = true;
          break;
        case CheckpointAction::Kind::kDone:
          throw Error("the steps of the rollout are all reversed");
      }
    }
  }
  // the rates at the end, which no stage of the step has
  const Tableau& tableau = method_.tableau();
  if (whole && tableau.nk > tableau.nstage) {
    if (!method_.place(tableau.nstage) || !method_.evaluate(tableau.nstage, times_)) {
      throw RolloutError("the rates after step " + std::to_string(n) + " are not finite");
    }
  }
  return &method_;
}

}  // namespace diffmj
