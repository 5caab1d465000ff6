// Knots of a spline to one row per step, and back.
#ifndef DIFFMJ_PLAN_SPLINE_H_
#define DIFFMJ_PLAN_SPLINE_H_

#include <array>
#include <optional>
#include <vector>

#include "diffmj/plan.h"
#include "mj/view.h"

namespace diffmj {

class Spline {
 public:
  // knots: none is one per step.
  Spline(int nstep, std::optional<int> knots, Interpolation interpolation);

  int nstep() const { return static_cast<int>(rows_.size()); }
  int knots() const { return knots_; }

  struct Weights {  // of at most four knots
    int first = 0, count = 0;
    std::array<double, 4> w = {};
  };
  // Those of row i.
  const Weights& row_weights(int i) const { return rows_[static_cast<size_t>(i)]; }

  // Row i (width) of knots, with the bits that values() gives it.
  void row(CVec knots, int width, int i, Vec to) const;
  // rows (nstep x width) of knots (knots x width).
  void values(CVec knots, int width, Vec rows) const;
  // Adds to knots_bar.
  void pullback(CVec rows_bar, int width, Vec knots_bar) const;
  // Knots of the spline that begins this many steps later; the end is held.
  void shift(double steps, int width, Vec knots) const;
  // Knots through rows: their values at the knots' times.
  void sample(CVec rows, int width, Vec knots) const;

 private:
  // at a time in units of knots
  Weights weights(double at, Interpolation interpolation) const;

  int knots_;
  double spacing_;  // steps between knots
  Interpolation interpolation_;
  std::vector<Weights> rows_;  // nstep
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_SPLINE_H_
