// fit(): Adam on bounded parameters; uncertainty(): what the data determine.
#include "diffmj/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "diffmj/error.h"

namespace diffmj {
namespace {

// θ(z) of one parameter, with θ(0) the start.
class Bounded {
 public:
  Bounded(double start, const FitBounds& bounds, const std::string& name)
      : start_(start), bounds_(bounds) {
    if (!(bounds.low < bounds.high) || !(start > bounds.low && start < bounds.high)) {
      throw InputError("fit: parameter " + name + " starts at " + std::to_string(start) +
                       ", expected between its bounds " + std::to_string(bounds.low) + " and " +
                       std::to_string(bounds.high));
    }
    const double size = start == 0 ? 1 : std::abs(start);
    const bool low = std::isfinite(bounds.low), high = std::isfinite(bounds.high);
    kind_ = low && high ? Kind::kBoth : low ? Kind::kLow : high ? Kind::kHigh : Kind::kFree;
    scale_ = kind_ == Kind::kLow    ? start - bounds.low
             : kind_ == Kind::kHigh ? bounds.high - start
                                    : size;
    if (kind_ == Kind::kBoth) {
      // dθ/dz is the parameter's size at the start, or what the interval allows
      const double share = (start - bounds.low) / (bounds.high - bounds.low);
      offset_ = std::log(share / (1 - share));
      const double slope = (bounds.high - bounds.low) * share * (1 - share);
      scale_ = std::min(1.0, size / slope);
    }
  }

  double value(double z) const {
    switch (kind_) {
      case Kind::kFree:
        return start_ + scale_ * z;
      case Kind::kLow:
        return bounds_.low + scale_ * softplus(z);
      case Kind::kHigh:
        return bounds_.high - scale_ * softplus(-z);
      case Kind::kBoth:
        break;
    }
    return bounds_.low + (bounds_.high - bounds_.low) * logistic(offset_ + scale_ * z);
  }
  double slope(double z) const {
    switch (kind_) {
      case Kind::kFree:
        return scale_;
      case Kind::kLow:
        return scale_ * 2 * logistic(kSharp * z);
      case Kind::kHigh:
        return scale_ * 2 * logistic(-kSharp * z);
      case Kind::kBoth:
        break;
    }
    const double s = logistic(offset_ + scale_ * z);
    return (bounds_.high - bounds_.low) * s * (1 - s) * scale_;
  }

 private:
  enum class Kind { kFree, kLow, kHigh, kBoth };
  static double logistic(double x) { return 1 / (1 + std::exp(-x)); }
  // 1 at 0 with slope 1, and so a relative step at first
  static constexpr double kSharp = 2 * 0.6931471805599453;
  static double softplus(double z) {
    const double x = kSharp * z;
    return (x > 30 ? x : std::log1p(std::exp(x))) / (kSharp / 2);
  }

  double start_;
  FitBounds bounds_;
  Kind kind_ = Kind::kFree;
  double scale_ = 1, offset_ = 0;
};

std::string name_of(const Objective& objective, size_t i) {
  const std::vector<std::string>& names = objective.family().names();
  return i < names.size() ? "'" + names[i] + "'" : std::to_string(i);
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

FitResult fit(const Objective& objective, std::span<const double> start,
              const FitOptions& options) {
  const size_t n = start.size();
  if (n != static_cast<size_t>(objective.family().size())) {
    throw InputError("fit: start has " + std::to_string(n) + " numbers, expected " +
                     std::to_string(objective.family().size()));
  }
  if (!options.bounds.empty() && options.bounds.size() != n) {
    throw InputError("fit: there are " + std::to_string(options.bounds.size()) +
                     " bounds, expected one per parameter, " + std::to_string(n));
  }
  if (options.iterations < 0 || !(options.rate > 0) || !(options.beta1 >= 0 && options.beta1 < 1) ||
      !(options.beta2 >= 0 && options.beta2 < 1)) {
    throw InputError("fit: expected iterations >= 0, rate > 0 and beta1, beta2 in [0, 1)");
  }
  std::vector<Bounded> maps;
  for (size_t i = 0; i < n; i++) {
    maps.emplace_back(start[i], options.bounds.empty() ? FitBounds() : options.bounds[i],
                      name_of(objective, i));
  }
  const auto theta_of = [&](const std::vector<double>& z) {
    std::vector<double> theta(n);
    for (size_t i = 0; i < n; i++) theta[i] = maps[i].value(z[i]);
    return theta;
  };
  const auto begin = std::chrono::steady_clock::now();
  const RolloutOptions run{.nthread = options.nthread, .interrupted = options.interrupted};
  Minibatches batches(objective.nsegment(), options.minibatch, options.seed);

  FitResult out;
  std::vector<double> z(n), first(n), second(n);
  out.theta.assign(start.begin(), start.end());
  double best = std::numeric_limits<double>::infinity();
  try {
    for (int k = 0; k <= options.iterations; k++) {
      const std::vector<double> theta = theta_of(z);
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
      for (size_t i = 0; i < n; i++) {
        const double g = value.gradient[i] * maps[i].slope(z[i]);
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
