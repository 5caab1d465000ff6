#include "base/ridders.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace diffmj {
namespace {

// Neville's tableau of slopes whose error has the powers step, 2 step, ... of h, which halves from
// entry to entry.
class Tableau {
 public:
  explicit Tableau(double factor) : factor_(factor) {}

  void add(double slope, double rounding) {
    row_.assign(1, slope);
    double factor = factor_;
    for (size_t k = 0; k < previous_.size(); k++, factor *= factor_) {
      row_.push_back((factor * row_[k] - previous_[k]) / (factor - 1));
      const double error =
          std::max(std::abs(row_[k + 1] - row_[k]), std::abs(row_[k + 1] - previous_[k])) +
          rounding;
      if (error < best_.error_bar) best_ = {.derivative = row_[k + 1], .error_bar = error};
    }
    previous_.swap(row_);
  }
  // a sample does not count: what comes after begins anew
  void restart() { previous_.clear(); }
  const RiddersResult& best() const { return best_; }
  bool has(double enough) const { return best_.error_bar <= enough; }
  bool is_empty() const { return previous_.empty(); }

 private:
  double factor_;
  std::vector<double> previous_, row_;
  RiddersResult best_{.error_bar = std::numeric_limits<double>::infinity()};
};

}  // namespace

RiddersSides ridders_sides(const std::function<RiddersSample(double)>& f, double f0, double enough,
                           const RiddersOptions& options) {
  Tableau central(4), plus(2), minus(2), plus_beyond(2), minus_beyond(2);
  double h = options.step;
  RiddersSample last_up{.valid = false}, last_down{.valid = false};  // at twice the step
  for (int level = 0; level < options.levels; level++, h /= 2) {
    const RiddersSample up = f(h), down = f(-h);
    const auto rounding = [&](double a, double b) {
      return (std::numeric_limits<double>::epsilon() * (std::abs(a) + std::abs(b)) +
              options.noise) /
             h;
    };
    const auto add = [&](bool valid, double slope, double error, Tableau& to) {
      if (valid) {
        to.add(slope, error);
      } else {
        to.restart();
      }
    };
    add(up.valid && down.valid, (up.value - down.value) / (2 * h),
        rounding(up.value, down.value) / 2, central);
    add(up.valid, (up.value - f0) / h, rounding(up.value, f0), plus);
    add(down.valid, (f0 - down.value) / h, rounding(down.value, f0), minus);
    add(up.valid && last_up.valid, (last_up.value - up.value) / h,
        rounding(up.value, last_up.value), plus_beyond);
    add(down.valid && last_down.valid, (down.value - last_down.value) / h,
        rounding(down.value, last_down.value), minus_beyond);
    last_up = up;
    last_down = down;
    const auto done = [&](const Tableau& t) { return t.is_empty() || t.has(enough); };
    if (level >= 3 && !(plus.is_empty() && minus.is_empty()) && done(central) && done(plus) &&
        done(minus)) {
      break;
    }
  }
  return {central.best(), plus.best(), minus.best(), plus_beyond.best(), minus_beyond.best()};
}

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
