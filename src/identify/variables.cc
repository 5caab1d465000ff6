// FitVariables: bounds by a change of variables.
#include <cmath>

#include "base/text.h"
#include "diffmj/error.h"
#include "diffmj/fit.h"

namespace diffmj {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// 1 at 0 with slope 1, and so a relative step at first
constexpr double kSharp = 2 * 0.6931471805599453;
double softplus(double z) {
  const double x = kSharp * z;
  return (x > 30 ? x : std::log1p(std::exp(x))) / (kSharp / 2);
}

}  // namespace

FitVariables::FitVariables(std::span<const double> start, std::span<const FitBounds> bounds,
                           std::span<const std::string> names) {
  if (!bounds.empty() && bounds.size() != start.size()) {
    throw InputError("fit: there are " + std::to_string(bounds.size()) +
                     " bounds, expected one per parameter, " + std::to_string(start.size()));
  }
  for (size_t i = 0; i < start.size(); i++) {
    One x{.start = start[i], .bounds = bounds.empty() ? FitBounds() : bounds[i]};
    const auto [low, high] = x.bounds;
    if (!(x.start > low && x.start < high)) {
      throw InputError("fit: parameter " +
                       (i < names.size() ? "'" + names[i] + "'" : std::to_string(i)) +
                       " starts at " + text("%g", x.start) + ", expected between its bounds " +
                       text("%g", low) + " and " + text("%g", high));
    }
    const double size = x.start == 0 ? 1 : std::abs(x.start);
    x.scale = size;
    if (std::isfinite(low) && std::isfinite(high)) {
      // the parameter's size, or what the interval allows
      const double share = (x.start - low) / (high - low);
      x.kind = One::Kind::kBoth;
      x.offset = std::log(share / (1 - share));
      x.scale = std::min(1.0, size / ((high - low) * share * (1 - share)));
    } else if (std::isfinite(low)) {
      x.kind = One::Kind::kLow;
      x.scale = x.start - low;
    } else if (std::isfinite(high)) {
      x.kind = One::Kind::kHigh;
      x.scale = high - x.start;
    }
    all_.push_back(x);
  }
}

std::vector<double> FitVariables::theta(std::span<const double> z) const {
  std::vector<double> out;
  for (size_t i = 0; i < all_.size(); i++) {
    const One& x = all_[i];
    const auto [low, high] = x.bounds;
    switch (x.kind) {
      case One::Kind::kFree:
        out.push_back(x.start + x.scale * z[i]);
        break;
      case One::Kind::kLow:
        out.push_back(low + x.scale * softplus(z[i]));
        break;
      case One::Kind::kHigh:
        out.push_back(high - x.scale * softplus(-z[i]));
        break;
      case One::Kind::kBoth:
        out.push_back(low + (high - low) * logistic(x.offset + x.scale * z[i]));
        break;
    }
  }
  return out;
}

std::vector<double> FitVariables::slope(std::span<const double> z) const {
  std::vector<double> out;
  for (size_t i = 0; i < all_.size(); i++) {
    const One& x = all_[i];
    const double s = logistic(x.offset + x.scale * z[i]);
    switch (x.kind) {
      case One::Kind::kFree:
        out.push_back(x.scale);
        break;
      case One::Kind::kLow:
        out.push_back(x.scale * 2 * logistic(kSharp * z[i]));
        break;
      case One::Kind::kHigh:
        out.push_back(x.scale * 2 * logistic(-kSharp * z[i]));
        break;
      case One::Kind::kBoth:
        out.push_back((x.bounds.high - x.bounds.low) * s * (1 - s) * x.scale);
        break;
    }
  }
  return out;
}

}  // namespace diffmj
