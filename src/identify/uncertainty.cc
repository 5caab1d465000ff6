// uncertainty(): what the data determine.
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "diffmj/fit.h"
#include "identify/eliminated_starts.h"

namespace diffmj {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Σ over clusters of s sᵀ, s = Jᵀ r: what the sums of squares of the estimate are, whatever the
// residuals of a cluster have to do with each other. Clusters are recordings, or segments where
// recordings are few; empty: these are few, too.
Eigen::MatrixXd clustered(const Objective& objective, const Objective::Residuals& r,
                          const Eigen::MatrixXd& J) {
  const std::vector<Segment>& segments = objective.segments();
  const auto enough = static_cast<size_t>(std::max<Eigen::Index>(10, 2 * J.cols()));
  std::map<int, Eigen::VectorXd> by_recording, by_segment;
  for (size_t i = 0; i < segments.size(); i++) {
    const Eigen::Index n = r.first[i + 1] - r.first[i];
    const Eigen::Map<const Eigen::VectorXd> values(r.values.data() + r.first[i], n);
    if (n == 0 || !values.allFinite()) continue;
    const Eigen::VectorXd s = J.middleRows(r.first[i], n).transpose() * values;
    by_segment[static_cast<int>(i)] = s;
    const auto [at, fresh] = by_recording.try_emplace(segments[i].recording, s);
    if (!fresh) at->second += s;
  }
  const auto& clusters = by_recording.size() >= enough ? by_recording : by_segment;
  if (clusters.size() < enough) return {};
  Eigen::MatrixXd out = Eigen::MatrixXd::Zero(J.cols(), J.cols());
  for (const auto& [id, s] : clusters) out += s * s.transpose();
  const auto n = static_cast<double>(clusters.size());
  return n / (n - 1) * out;
}

}  // namespace

Uncertainty uncertainty(const Objective& objective, std::span<const double> theta,
                        const RolloutOptions& options, std::span<const double> moves) {
  // directions of a smaller share of the largest eigenvalue of JᵀJ, or whose standard error is that
  // many times the parameters' sizes
  constexpr double kUndetermined = 1e-10, kMany = 1e3;
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
  Eigen::MatrixXd inverse = Eigen::MatrixXd::Zero(p, p);
  std::vector<bool> unknown(theta.size());
  for (Eigen::Index k = 0; k < p; k++) {
    if (values[k] > kUndetermined * largest && variance <= kMany * kMany * values[k]) {
      inverse += vectors.col(k) * vectors.col(k).transpose() / values[k];
      continue;
    }
    out.undetermined.emplace_back(vectors.col(k).data(), vectors.col(k).data() + p);
    for (Eigen::Index i = 0; i < p; i++) {
      if (std::abs(vectors(i, k)) > 1e-3) unknown[static_cast<size_t>(i)] = true;
    }
  }
  const Eigen::MatrixXd covariance = variance * inverse;
  const Eigen::MatrixXd sums = clustered(objective, r, J);
  Eigen::VectorXd squares = covariance.diagonal();
  if (sums.size() > 0) squares = squares.cwiseMax((inverse * sums * inverse).diagonal());
  for (Eigen::Index i = 0; i < p; i++) {
    out.error.push_back(unknown[static_cast<size_t>(i)]
                            ? std::numeric_limits<double>::infinity()
                            : size[i] * std::sqrt(std::max(0.0, squares[i])));
    for (Eigen::Index j = 0; j < p; j++) {
      const double scale = std::sqrt(covariance(i, i) * covariance(j, j));
      out.correlation.push_back(i == j ? 1 : scale > 0 ? covariance(i, j) / scale : 0);
    }
  }
  return out;
}

}  // namespace diffmj
