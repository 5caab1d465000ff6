// uncertainty(): what the data determine.
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

#include "diffmj/fit.h"
#include "identify/eliminated_starts.h"

namespace diffmj {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Uncertainty uncertainty(const Objective& objective, std::span<const double> theta,
                        const RolloutOptions& options, std::span<const double> moves) {
  constexpr double kUndetermined = 1e-10;  // of the largest eigenvalue of JᵀJ
  const auto p = static_cast<Eigen::Index>(theta.size());
  const bool starts = !moves.empty();
  Objective::Residuals r =
      objective.residuals(theta, {.theta = true, .start = starts, .moves = moves}, options);
  EliminatedStarts eliminated;
  if (starts) eliminated.linearize(theta, {moves.begin(), moves.end()}, r);
  const auto n = static_cast<Eigen::Index>(r.values.size());
  Eigen::MatrixXd J = Eigen::Map<const RowMajor>(r.theta.data(), n, p);
  Eigen::VectorXd size(p);
  for (Eigen::Index i = 0; i < p; i++) {
    // a parameter that has gone to 0 has the size it started with
    const auto k = static_cast<size_t>(i);
    size[i] = std::max(std::abs(theta[k]), std::abs(objective.family().start()[k]));
    if (size[i] == 0) size[i] = 1;
  }
  J *= size.asDiagonal();
  double sum = 0;
  Eigen::Index used = 0;
  for (const double x : r.values) {
    if (!std::isfinite(x)) continue;
    sum += x * x;
    used++;
  }
  const Eigen::Index freedom = used - p - eliminated.rank();
  const double variance = freedom > 0 ? sum / static_cast<double>(freedom) : 0;
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
