// Several readings of the same contacts: the features that they may be of. Where MuJoCo's result
// fits more than one, the pullback is known only if it does not depend on the choice.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_READINGS_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_READINGS_H_

#include "stages/position/collision/pair.h"

namespace diffmj {

class Readings {
 public:
  // How much readings may differ and still be the same, relative: more than rounding, or, with the
  // features of curved shapes, which a collider finds by iterating, more than that leaves.
  static constexpr double kExact = 1e-7, kIterative = 1e-3;

  Readings(const Vector3& pivot, double same) : first_(pivot), same_(same) {}

  // read(bar) adds to bar; false if the contacts do not fit.
  template <class F>
  void add(const F& read) {
    PairBar bar(first_.pivot);
    if (!read(bar)) return;
    if (count_++ == 0) {
      first_ = bar;
    } else {
      agree_ = agree_ && is_same(bar);
    }
  }

  // How many fitted.
  int count() const { return count_; }

  // Adds what the readings have in common; false, with nothing added, if there is none or if they
  // differ.
  bool commit(PairBar& out) const {
    if (count_ == 0 || !agree_) return false;
    for (size_t i = 0; i < 2; i++) {
      out.wrench[i] += first_.wrench[i];
      out.size[i] += first_.size[i];
    }
    return true;
  }

 private:
  bool is_same(const PairBar& bar) const {
    double apart = 0, scale = 0;
    for (size_t i = 0; i < 2; i++) {
      apart += (bar.wrench[i] - first_.wrench[i]).norm() + (bar.size[i] - first_.size[i]).norm();
      scale += bar.wrench[i].norm() + bar.size[i].norm();
    }
    return apart <= same_ * scale;
  }

  PairBar first_;
  double same_;
  int count_ = 0;
  bool agree_ = true;
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_READINGS_H_
