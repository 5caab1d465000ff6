// fit(): Adam on bounded parameters; uncertainty(): what the data determine.
#include "diffmj/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

#include "diffmj/error.h"

namespace diffmj {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// 1 at 0 with slope 1, and so a relative step at first
constexpr double kSharp = 2 * 0.6931471805599453;
double softplus(double z) {
  const double x = kSharp * z;
  return (x > 30 ? x : std::log1p(std::exp(x))) / (kSharp / 2);
}

std::string number_text(double x) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", x);
  return text;
}

// Segments of one iteration: all, or the next of a shuffled order.
class Minibatches {
 public:
  Minibatches(int n, int size, unsigned seed) : size_(size), random_(seed) {
    if (size <= 0 || size >= n) return;
    order_.resize(static_cast<size_t>(n));
    std::iota(order_.begin(), order_.end(), 0);
    at_ = order_.size();
  }
  bool whole() const { return order_.empty(); }
  std::vector<int> next() {
    if (whole()) return {};
    std::vector<int> out;
    while (out.size() < static_cast<size_t>(size_)) {
      if (at_ == order_.size()) {
        // std::shuffle differs between standard libraries
        for (size_t i = order_.size(); i > 1; i--) std::swap(order_[i - 1], order_[random_() % i]);
        at_ = 0;
      }
      out.push_back(order_[at_++]);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

 private:
  int size_;
  std::mt19937_64 random_;
  std::vector<int> order_;
  size_t at_ = 0;
};

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
                       " starts at " + number_text(x.start) + ", expected between its bounds " +
                       number_text(low) + " and " + number_text(high));
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

FitResult fit(const Objective& objective, std::span<const double> start,
              const FitOptions& options) {
  const size_t n = start.size();
  if (n != static_cast<size_t>(objective.family().size())) {
    throw InputError("fit: start has " + std::to_string(n) + " numbers, expected " +
                     std::to_string(objective.family().size()));
  }
  if (options.iterations < 0 || !(options.rate > 0) || !(options.beta1 >= 0 && options.beta1 < 1) ||
      !(options.beta2 >= 0 && options.beta2 < 1)) {
    throw InputError("fit: expected iterations >= 0, rate > 0 and beta1, beta2 in [0, 1)");
  }
  const FitVariables variables(start, options.bounds, objective.family().names());
  const auto begin = std::chrono::steady_clock::now();
  const RolloutOptions run{.nthread = options.nthread, .interrupted = options.interrupted};
  Minibatches batches(objective.nsegment(), options.minibatch, options.seed);

  FitResult out;
  std::vector<double> z(n), first(n), second(n);
  out.theta.assign(start.begin(), start.end());
  double best = std::numeric_limits<double>::infinity();
  try {
    for (int k = 0; k <= options.iterations; k++) {
      const std::vector<double> theta = variables.theta(z);
      const bool last = k == options.iterations;
      const Objective::Value value =
          objective.evaluate(theta, !last, last ? std::vector<int>() : batches.next(), run);
      FitStep step{
          .iteration = k,
          .loss = value.loss,
          .theta = theta,
          .gradient = value.gradient,
          .seconds =
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          .nfailed = value.nfailed};
      // of minibatches losses do not compare: the last one counts
      if (value.loss < best || !batches.whole()) {
        best = value.loss;
        out.theta = theta;
        out.loss = value.loss;
      }
      out.history.push_back(step);
      if (options.progress) options.progress(step);
      if (last) break;

      double size = 0;
      const std::vector<double> slope = variables.slope(z);
      for (size_t i = 0; i < n; i++) {
        const double g = value.gradient[i] * slope[i];
        size = std::max(size, std::abs(g));
        first[i] = options.beta1 * first[i] + (1 - options.beta1) * g;
        second[i] = options.beta2 * second[i] + (1 - options.beta2) * g * g;
        const double m = first[i] / (1 - std::pow(options.beta1, k + 1)),
                     v = second[i] / (1 - std::pow(options.beta2, k + 1));
        if (v > 0) z[i] -= options.rate * m / std::sqrt(v);
      }
      if (batches.whole() && size < options.tolerance) break;
      if (options.interrupted && options.interrupted()) {
        out.interrupted = true;
        break;
      }
    }
  } catch (const Interrupted&) {
    out.interrupted = true;
  }
  return out;
}

Uncertainty uncertainty(const Objective& objective, std::span<const double> theta,
                        const RolloutOptions& options) {
  constexpr double kStep = 1e-5;           // relative
  constexpr double kUndetermined = 1e-10;  // of the largest eigenvalue of JᵀJ
  const auto p = static_cast<Eigen::Index>(theta.size());
  const std::vector<double> r = objective.residuals(theta, options);
  const auto n = static_cast<Eigen::Index>(r.size());
  Eigen::MatrixXd J(n, p);
  Eigen::VectorXd size(p);
  std::vector<double> moved(theta.begin(), theta.end());
  for (Eigen::Index i = 0; i < p; i++) {
    const auto k = static_cast<size_t>(i);
    size[i] = theta[k] == 0 ? 1 : std::abs(theta[k]);
    const double h = kStep * size[i];
    moved[k] = theta[k] + h;
    const std::vector<double> plus = objective.residuals(moved, options);
    moved[k] = theta[k] - h;
    const std::vector<double> minus = objective.residuals(moved, options);
    moved[k] = theta[k];
    for (Eigen::Index j = 0; j < n; j++) {
      const auto row = static_cast<size_t>(j);
      const double slope = (plus[row] - minus[row]) / (2 * kStep);
      J(j, i) = std::isfinite(slope) ? slope : 0;
    }
  }
  double sum = 0;
  Eigen::Index used = 0;
  for (const double x : r) {
    if (!std::isfinite(x)) continue;
    sum += x * x;
    used++;
  }
  const double variance = used > p ? sum / static_cast<double>(used - p) : 0;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(J.transpose() * J);
  const Eigen::VectorXd& values = solver.eigenvalues();
  const Eigen::MatrixXd& vectors = solver.eigenvectors();
  const double largest = p > 0 ? std::max(values[p - 1], 0.0) : 0;

  Uncertainty out;
  Eigen::MatrixXd covariance = Eigen::MatrixXd::Zero(p, p);
  std::vector<bool> unknown(theta.size());
  for (Eigen::Index k = 0; k < p; k++) {
    if (values[k] > kUndetermined * largest) {
      covariance += variance / values[k] * vectors.col(k) * vectors.col(k).transpose();
      continue;
    }
    out.undetermined.emplace_back(vectors.col(k).data(), vectors.col(k).data() + p);
    for (Eigen::Index i = 0; i < p; i++) {
      if (std::abs(vectors(i, k)) > 1e-3) unknown[static_cast<size_t>(i)] = true;
    }
  }
  for (Eigen::Index i = 0; i < p; i++) {
    out.error.push_back(unknown[static_cast<size_t>(i)]
                            ? std::numeric_limits<double>::infinity()
                            : size[i] * std::sqrt(std::max(0.0, covariance(i, i))));
    for (Eigen::Index j = 0; j < p; j++) {
      const double scale = std::sqrt(covariance(i, i) * covariance(j, j));
      out.correlation.push_back(i == j ? 1 : scale > 0 ? covariance(i, j) / scale : 0);
    }
  }
  return out;
}

}  // namespace diffmj
