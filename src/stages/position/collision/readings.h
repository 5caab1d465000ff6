// Several readings of the same contacts: the features that they may be of. Where MuJoCo's result
// fits more than one, the pullback is known only if it does not depend on the choice. All
// cotangents of the contacts are pulled back together: what fits is found once.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_READINGS_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_READINGS_H_

#include <array>
#include <span>

#include "stages/position/collision/pair.h"

namespace diffmj {

// Cotangents of the same contacts that are pulled back together: as many as a contact has numbers.
constexpr size_t kMaxCotangents = 7;
using PairBars = std::array<PairBar, kMaxCotangents>;

inline PairBars pair_bars(const Vector3& pivot) {
  const PairBar bar(pivot);
  return {bar, bar, bar, bar, bar, bar, bar};
}

class Readings {
 public:
  // How much readings may differ and still be the same, relative: more than rounding, or, with the
  // features of curved shapes, which a collider finds by iterating, more than that leaves.
  static constexpr double kExact = 1e-7, kIterative = 1e-3;

  // n cotangents, at most kMaxCotangents.
  Readings(const Vector3& pivot, size_t n, double same)
      : n_(n), first_(pair_bars(pivot)), same_(same) {}

  // read(bars) adds to as many as there are cotangents; false if the contacts do not fit.
  template <class F>
  void add(const F& read) {
    PairBars bars = pair_bars(first_[0].pivot);
    if (!read(std::span(bars).first(n_))) return;
    for (size_t i = 0; i < n_; i++) {
      if (count_ == 0) {
        first_[i] = bars[i];
      } else {
        agree_ = agree_ && is_same(bars[i], first_[i]);
      }
    }
    count_++;
  }

  // How many fitted.
  int count() const { return count_; }

  // Adds what the readings have in common; false, with nothing added, if there is none or if they
  // differ.
  bool commit(std::span<PairBar> out) const {
    if (count_ == 0 || !agree_) return false;
    for (size_t i = 0; i < n_; i++) {
      for (size_t side = 0; side < 2; side++) {
        out[i].wrench[side] += first_[i].wrench[side];
        out[i].size[side] += first_[i].size[side];
      }
    }
    return true;
  }

 private:
  bool is_same(const PairBar& a, const PairBar& b) const {
    double apart = 0, scale = 0;
    for (size_t i = 0; i < 2; i++) {
      apart += (a.wrench[i] - b.wrench[i]).norm() + (a.size[i] - b.size[i]).norm();
      scale += a.wrench[i].norm() + a.size[i].norm();
    }
    return apart <= same_ * scale;
  }

  size_t n_;
  PairBars first_;
  double same_;
  int count_ = 0;
  bool agree_ = true;
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_READINGS_H_
