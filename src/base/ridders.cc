#include "base/ridders.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace diffmj {

RiddersResult ridders(const std::function<double(double)>& f, const RiddersOptions& options) {
  const double f0 = f(0);
  std::vector<double> previous, row, gaps;  // rows of Neville's tableau; one-sided slope gaps
  RiddersResult best{.error_bar = std::numeric_limits<double>::infinity()};
  double h = options.step;
  for (int level = 0; level < options.levels; level++, h /= 2) {
    const double plus = f(h), minus = f(-h);
    gaps.push_back(std::abs(plus - 2 * f0 + minus) / (2 * h));
    row.assign(1, (plus - minus) / (2 * h));
    // differences of numbers of this size cannot be better
    const double rounding = std::numeric_limits<double>::epsilon() *
                            (std::abs(f0) + std::abs(plus) + std::abs(minus)) / (2 * h);
    // even powers of h only: column k removes h^(2k)
    double factor = 4;
    for (size_t k = 0; k < previous.size(); k++, factor *= 4) {
      row.push_back((factor * row[k] - previous[k]) / (factor - 1));
      const double error =
          std::max(std::abs(row[k + 1] - row[k]), std::abs(row[k + 1] - previous[k])) + rounding;
      if (error < best.error_bar) best = {.derivative = row[k + 1], .error_bar = error};
    }
    previous = row;
  }

  // a smooth function's gap shrinks with h: three halvings to an eighth; that of a corner stays
  best.corner = std::numeric_limits<double>::infinity();
  for (size_t i = 3; i < gaps.size(); i++) {
    best.corner = std::min(best.corner, gaps[i] > gaps[i - 3] / 2 ? gaps[i] : 0.0);
  }
  if (gaps.size() < 4) best.corner = 0;
  return best;
}

}  // namespace diffmj
