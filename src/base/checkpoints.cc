#include "base/checkpoints.h"

#include <algorithm>
#include <string>

#include "diffmj/error.h"

namespace diffmj {
namespace {

// r of eq. 6, with β(c, r) and β(c, r-1)
struct Repetition {
  int64_t r = 0, beta = 1, beta_before = 0;
};

Repetition repetition(int64_t nstep, int64_t nslot) {
  Repetition x;
  while (x.beta < nstep) {
    x.r++;
    x.beta_before = x.beta;
    x.beta = x.beta * (nslot + x.r) / x.r;
  }
  return x;
}

// Where the first of so many steps again puts its checkpoint: a steps on, the a before it being
// reversed last, with all places.  t(ℓ, c) = a + t(ℓ-a, c-1) + t(a, c)
int64_t first_part(int64_t nstep, int64_t nslot) {
  const Repetition x = repetition(nstep, nslot);
  // β(c-1, r-1) = β(c, r-1) c / (c+r-1)
  const int64_t rest = x.beta_before * nslot / (nslot + x.r - 1);
  return std::min(x.beta_before, nstep - rest);
}

}  // namespace

int64_t checkpoint_cost(int64_t nstep, int64_t nslot) {
  if (nstep <= 1) return 0;
  if (nslot == 1) return nstep * (nstep - 1) / 2;
  const Repetition x = repetition(nstep, nslot);
  // β(c+1, r-1) = β(c, r-1) (c+r) / (c+1)
  return x.r * nstep - x.beta_before * (nslot + x.r) / (nslot + 1);
}

Checkpoints::Checkpoints(int nslot) : nslot_(nslot) {
  if (nslot < 1) {
    throw InputError("checkpoints is " + std::to_string(nslot) + ", expected a number ≥ 1");
  }
  kept_.reserve(static_cast<size_t>(nslot));
  free_.reserve(static_cast<size_t>(nslot));
  clear();
}

void Checkpoints::clear() {
  kept_.clear();
  free_.clear();
  for (int slot = nslot_; slot-- > 0;) free_.push_back(slot);
  unreversed_ = 0;
  at_hand_ = -1;
  keep_next_ = false;
}

std::optional<int> Checkpoints::keep(int step) {
  if (!free_.empty()) {
    const int slot = free_.back();
    free_.pop_back();
    kept_.push_back({step, slot});
    return slot;
  }
  if (nslot_ == 1) return std::nullopt;

  // the steps after checkpoint k have n - k places in the backward pass
  const int n = nslot_;
  const auto gap = [&](int k) {
    const size_t i = static_cast<size_t>(k);
    return (k + 1 < n ? kept_[i + 1].step : step) - kept_[i].step;
  };
  int64_t before = 0;  // checkpoints before those that are looked at
  for (int k = 0; k < n; k++) before += checkpoint_cost(gap(k), n - k);
  // not kept: the last gap grows by this step
  int64_t best = before - checkpoint_cost(gap(n - 1), 1) + checkpoint_cost(gap(n - 1) + 1, 1);
  int dropped = 0;
  // kept instead of j: its gap joins the one before it, those after it have one place more. Of
  // equal ones the earliest goes, and to keep is better than not to: both leave room for more
  // steps.
  int64_t after = 0;
  before -= checkpoint_cost(gap(n - 1), 1);
  for (int j = n - 1; j > 0; j--) {
    before -= checkpoint_cost(gap(j - 1), n - j + 1);
    const int64_t cost = before + checkpoint_cost(gap(j - 1) + gap(j), n - j + 1) + after;
    if (cost <= best) {
      best = cost;
      dropped = j;
    }
    after += checkpoint_cost(gap(j), n - j + 1);
  }
  if (dropped == 0) return std::nullopt;
  const int slot = kept_[static_cast<size_t>(dropped)].slot;
  kept_.erase(kept_.begin() + dropped);
  kept_.push_back({step, slot});
  return slot;
}

int64_t Checkpoints::nrecompute(int nstep) const {
  int64_t sum = 0;
  int end = nstep;
  for (size_t k = kept_.size(); k-- > 0;) {
    if (kept_[k].step >= end) continue;
    sum += checkpoint_cost(end - kept_[k].step, nslot_ - static_cast<int>(k));
    end = kept_[k].step;
  }
  return sum;
}

void Checkpoints::reverse(int nstep) {
  unreversed_ = nstep;
  at_hand_ = -1;
  keep_next_ = false;
  // a state whose step was not made
  while (!kept_.empty() && kept_.back().step >= nstep) {
    free_.push_back(kept_.back().slot);
    kept_.pop_back();
  }
}

void Checkpoints::reverse(int nstep, std::span<const int> step_of_slot) {
  clear();
  free_.resize(static_cast<size_t>(nslot_) - step_of_slot.size());  // the first ones are taken
  for (size_t slot = 0; slot < step_of_slot.size(); slot++) {
    kept_.push_back({step_of_slot[slot], static_cast<int>(slot)});
  }
  std::sort(kept_.begin(), kept_.end(),
            [](const Kept& a, const Kept& b) { return a.step < b.step; });
  reverse(nstep);
}

CheckpointAction Checkpoints::next() {
  using Kind = CheckpointAction::Kind;
  if (unreversed_ == 0) return {};
  const int last = unreversed_ - 1;

  if (keep_next_) {
    keep_next_ = false;
    kept_.push_back({at_hand_, free_.back()});
    free_.pop_back();
    return {Kind::kKeep, kept_.back().slot, at_hand_, at_hand_};
  }
  if (at_hand_ == last) {
    if (kept_.back().step == last) {
      free_.push_back(kept_.back().slot);
      kept_.pop_back();
    }
    unreversed_--;
    at_hand_ = -1;
    return {Kind::kStepBack, -1, last, last};
  }
  const Kept from = kept_.back();
  if (at_hand_ != from.step) {
    at_hand_ = from.step;
    return {Kind::kRestore, from.slot, from.step, from.step};
  }
  // towards the last step, with a checkpoint on the way where there is a place
  const int nslot = static_cast<int>(free_.size()) + 1;
  const int left = unreversed_ - from.step;
  at_hand_ = nslot == 1 ? last : from.step + static_cast<int>(first_part(left, nslot));
  keep_next_ = at_hand_ < last;
  return {Kind::kAdvance, -1, from.step, at_hand_};
}

}  // namespace diffmj
