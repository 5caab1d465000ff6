// A residual as a least-squares method sees it under a loss that is not ½ r².
#ifndef DIFFMJ_IDENTIFY_RESIDUAL_LOSS_H_
#define DIFFMJ_IDENTIFY_RESIDUAL_LOSS_H_

#include "diffmj/fit.h"

namespace diffmj {

// y = r √(ρ(u)/u), u = r²/s², so that ½ y² = ½ s² ρ(u), and dy/dr = ρ'(u) / √(ρ(u)/u).
struct RobustResidual {
  double value, slope;
};
RobustResidual robust_residual(const ResidualLoss& loss, double r);

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_RESIDUAL_LOSS_H_
