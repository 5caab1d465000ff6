#include "adjoint/reverse_steps.h"

#include <algorithm>

#include "diffmj/error.h"
#include "setup/model_impl.h"

namespace diffmj {

ReverseSteps::ReverseSteps(const Model& model, const Trajectory& trajectory, Workspace& workspace)
    : model_(model), trajectory_(trajectory), method_(model.impl(), workspace), x_(model.impl()) {
  const SolverRecord& s = trajectory.solver;
  if (s.kept_step.empty()) return;
  schedule_.emplace(checkpoint_slots(model.options().adaptive));
  schedule_->reverse(static_cast<int>(s.naccepted), s.kept_step);
  slots_ = s.kept;
  slots_nefc_ = s.kept_nefc;
  const size_t nslot = static_cast<size_t>(schedule_->nslot());
  slots_nefc_.resize(std::min(nslot, static_cast<size_t>(s.naccepted)));
  slots_.resize(slots_nefc_.size() * StepState::size(model.impl()));
}

// something is held back where step i, which was just made, ends
bool ReverseSteps::ends_at_jump(int i) {
  return event(i) || (is_masked(trajectory_, i) && !method_.held_at_end(times_).empty());
}

int ReverseSteps::interval_of(int n) const {
  const std::vector<int>& first = trajectory_.solver.first_step;
  return static_cast<int>(std::upper_bound(first.begin(), first.end(), n) - first.begin()) - 1;
}

// step n from the state at hand, as it was made before
void ReverseSteps::make(int n, bool whole) {
  const int interval = interval_of(n);
  if (n == first(interval)) x_.enter(model_, trajectory_, interval);
  const std::vector<double>& time = trajectory_.solver.time;
  const auto k = static_cast<size_t>(n);
  x_.time = time[k];
  const std::span<const EventConstraint> released = released_before(trajectory_, n);
  x_.released.assign(released.begin(), released.end());
  const bool made = method_.step(x_.start(), interval_input(model_, trajectory_, interval),
                                 time[k + 1] - time[k], times_) &&
                    (!whole || method_.finish(times_));
  if (!made) throw RolloutError("step " + std::to_string(n) + " cannot be made again");
}

RungeKutta* ReverseSteps::load(int n, bool whole, StopSignal& stop) {
  const SolverRecord& s = trajectory_.solver;
  if (!schedule_) {
    method_.load(kept_step(model_, trajectory_, n),
                 interval_input(model_, trajectory_, interval_of(n)));
  } else {
    const size_t width = StepState::size(model_.impl());
    for (bool back = false; !back;) {
      const CheckpointAction action = schedule_->next();
      const auto slot = static_cast<size_t>(std::max(action.slot, 0));
      const Vec row = Vec(slots_).subspan(action.slot < 0 ? 0 : slot * width, width);
      switch (action.kind) {
        case CheckpointAction::Kind::kRestore:
          x_.read(row, slots_nefc_[slot], s.time[static_cast<size_t>(action.begin)]);
          method_.forget();
          break;
        case CheckpointAction::Kind::kAdvance:
          for (int i = action.begin; i < action.end; i++) {
            if (stop.poll()) return nullptr;
            make(i, true);
            x_.follow(method_, s.time[static_cast<size_t>(i) + 1], ends_at_jump(i));
            nrecomputed_++;
          }
          break;
        case CheckpointAction::Kind::kKeep:
          x_.write(row, slots_nefc_[slot]);
          break;
        case CheckpointAction::Kind::kStepBack:
          make(n, whole);
          method_.forget();
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
