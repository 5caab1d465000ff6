// Ridders' differences: the derivative of a scalar function along a line, with an error bar.
#ifndef DIFFMJ_BASE_RIDDERS_H_
#define DIFFMJ_BASE_RIDDERS_H_

#include <functional>

namespace diffmj {

struct RiddersOptions {
  double step = 1e-3;  // the first and largest
  int levels = 14;     // every level halves the step
  double noise = 0;    // rounding error of f, beside that of its value
};

struct RiddersResult {
  double derivative = 0;
  double error_bar = 0;  // Ridders' own estimate
  // Half the difference of the slopes on either side, where it does not vanish with the step: what
  // central differences cannot see of a corner at 0. Zero for a smooth function.
  double corner = 0;
};

// Central differences of f at 0, extrapolated to step zero [Ridders82]; the entry of the tableau
// with the smallest error estimate is taken, so that neither a step that is too large (a kink
// nearby) nor one that is too small (rounding, a loose solver) decides.
RiddersResult ridders(const std::function<double(double)>& f, const RiddersOptions& options = {});

// A value of f that counts, or one from beyond a kink.
struct RiddersSample {
  double value = 0;
  bool valid = true;
};
// Of the same kind, where some samples do not count: central differences where both sides do, and
// the slopes on either side. The error bar is infinite where too few samples count.
struct RiddersSides {
  RiddersResult central, plus, minus;  // their corner is not set
  // The same slopes of either side without f(0): if it lies beyond a kink that is much nearer than
  // the samples.
  RiddersResult plus_beyond, minus_beyond;
};
// f(0) is f0. Stops as soon as every slope that has samples is known to enough.
RiddersSides ridders_sides(const std::function<RiddersSample(double)>& f, double f0, double enough,
                           const RiddersOptions& options = {});

}  // namespace diffmj

#endif  // DIFFMJ_BASE_RIDDERS_H_
