// Which states of a rollout are kept when only n may be, while its number of steps is not known;
// and how every step is then reversed, from the last to the first, with as few steps recomputed as
// possible. With c places, the first of which holds the state before them, ℓ steps take
//
//   t(ℓ, c) = r ℓ - β(c+1, r-1),   β(c, r) = C(c+r, c),   β(c, r-1) < ℓ ≤ β(c, r)         (6)
//
// steps again [Griewank00]. Going forward, the state dropped for a new one is that which leaves the
// least to be recomputed if the rollout ended now. docs/derivations/adaptive.md, eq. 6 and 7.
#ifndef DIFFMJ_BASE_CHECKPOINTS_H_
#define DIFFMJ_BASE_CHECKPOINTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace diffmj {

// t(ℓ, c), eq. 6; c ≥ 1.
int64_t checkpoint_cost(int64_t nstep, int64_t nslot);

// One action of the backward pass, with the state at hand and the kept ones. "State i" is that
// before step i.
struct CheckpointAction {
  enum class Kind {
    kRestore,   // take state `begin` from `slot`
    kAdvance,   // make steps begin, ..., end - 1 again
    kKeep,      // put state `begin`, which is at hand, into `slot`
    kStepBack,  // reverse step `begin`, whose state is at hand
    kDone,      // every step was reversed
  };
  Kind kind = Kind::kDone;
  int slot = -1;
  int begin = 0, end = 0;
};

class Checkpoints {
 public:
  // At most nslot ≥ 1 states, beside the one at hand; throws InputError otherwise. The only
  // allocations are here.
  explicit Checkpoints(int nslot);

  // Forward: to be asked before each step, 0, 1, 2, ... The slot that this state goes to (what it
  // held is no longer needed), or none.
  std::optional<int> keep(int step);
  // Backward: steps 0, ..., nstep - 1 were made. next() then says what to do, up to kDone.
  void reverse(int nstep);
  // The same of another's rollout: slot i holds state step_of_slot[i].
  void reverse(int nstep, std::span<const int> step_of_slot);
  CheckpointAction next();
  // Steps that the backward pass will recompute, if the rollout ends after nstep.
  int64_t nrecompute(int nstep) const;
  // For another rollout.
  void clear();

  int nslot() const { return nslot_; }
  int nkept() const { return static_cast<int>(kept_.size()); }

 private:
  struct Kept {
    int step, slot;
  };

  int nslot_;
  std::vector<Kept> kept_;  // by step
  std::vector<int> free_;   // slots
  int unreversed_ = 0;      // steps left in the backward pass
  int at_hand_ = -1;        // the state at hand in the backward pass; -1: none of use
  bool keep_next_ = false;  // the state at hand goes to a slot
};

}  // namespace diffmj

#endif  // DIFFMJ_BASE_CHECKPOINTS_H_
