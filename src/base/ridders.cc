#include "base/ridders.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace diffmj {

RiddersResult ridders(const std::function<double(double)>& f, const RiddersOptions& options) {
  const double f0 = f(0);
  std::vector<double> previous, row;    // of Neville's tableau
  std::vector<double> gaps, roundings;  // half the difference of the one-sided slopes
  RiddersResult best{.error_bar = std::numeric_limits<double>::infinity()};
  double h = options.step;
  for (int level = 0; level < options.levels; level++, h /= 2) {
    const double plus = f(h), minus = f(-h);
    gaps.push_back((plus - 2 * f0 + minus) / (2 * h));
    row.assign(1, (plus - minus) / (2 * h));
    // differences of numbers of this size cannot be better
    const double rounding = (std::numeric_limits<double>::epsilon() *
                                 (std::abs(f0) + std::abs(plus) + std::abs(minus)) +
                             options.noise) /
                            (2 * h);
    roundings.push_back(rounding);
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

  // the gap of the one-sided slopes is corner + O(h): extrapolated, and taken where three of these
  // in a row are steadiest
  const auto corner = [&](size_t i) { return 2 * gaps[i] - gaps[i - 1]; };
  double steadiest = std::numeric_limits<double>::infinity();
  for (size_t i = 3; i < gaps.size(); i++) {
    const double error =
        std::max(std::abs(corner(i) - corner(i - 1)), std::abs(corner(i - 1) - corner(i - 2))) +
        roundings[i];
    if (error >= steadiest) continue;
    steadiest = error;
    // no more than its own uncertainty is no corner
    best.corner = std::abs(corner(i)) > 4 * error ? std::abs(corner(i)) : 0;
  }
  return best;
}

}  // namespace diffmj
