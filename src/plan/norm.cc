// Norms of residuals.
#include <cmath>

#include "base/names.h"
#include "plan/residual.h"

namespace diffmj {
namespace {

constexpr std::pair<Norm, const char*> kNames[] = {
    {Norm::kSquared, "squared"},
    {Norm::kL2, "l2"},
    {Norm::kHuber, "huber"},
    {Norm::kCosh, "cosh"},
};

double squared(CVec r) {
  double sum = 0;
  for (const double x : r) sum += x * x;
  return sum;
}

}  // namespace

const char* norm_name(Norm norm) { return name_of(kNames, norm); }
Norm norm_from_name(const std::string& name) { return value_of("norm", kNames, name); }

double norm_value(Norm norm, double s, CVec r) {
  const double rr = squared(r);
  switch (norm) {
    case Norm::kSquared:
      return rr;
    case Norm::kL2:
      // √(rr + s²) - s without the cancellation
      return rr / (std::sqrt(rr + s * s) + s);
    case Norm::kHuber:
      return rr <= s * s ? rr : 2 * s * std::sqrt(rr) - s * s;
    case Norm::kCosh: {
      // cosh x - 1 = 2 sinh²(x/2)
      double sum = 0;
      for (const double x : r) sum += std::sinh(0.5 * x / s) * std::sinh(0.5 * x / s);
      return 4 * s * s * sum;
    }
  }
  return 0;
}

double norm_pullback(Norm norm, double s, CVec r, Vec r_bar) {
  const double rr = squared(r);
  double factor = 2;  // r_bar = factor r
  if (norm == Norm::kL2) factor = 1 / std::sqrt(rr + s * s);
  if (norm == Norm::kHuber && rr > s * s) factor = 2 * s / std::sqrt(rr);
  for (size_t i = 0; i < r.size(); i++) {
    r_bar[i] = norm == Norm::kCosh ? 2 * s * std::sinh(r[i] / s) : factor * r[i];
  }
  return norm_value(norm, s, r);
}

// kL2 and kHuber are concave in |r|²: with r_bar = factor r, factor I is their tangent's Hessian
void norm_curvature(Norm norm, double s, CVec r, Vec h) {
  const double rr = squared(r);
  double factor = 2;
  if (norm == Norm::kL2) factor = 1 / std::sqrt(rr + s * s);
  if (norm == Norm::kHuber && rr > s * s) factor = 2 * s / std::sqrt(rr);
  for (size_t i = 0; i < r.size(); i++) {
    h[i] = norm == Norm::kCosh ? 2 * std::cosh(r[i] / s) : factor;
  }
}

}  // namespace diffmj
