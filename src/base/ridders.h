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

}  // namespace diffmj

#endif  // DIFFMJ_BASE_RIDDERS_H_
