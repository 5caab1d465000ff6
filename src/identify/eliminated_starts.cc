#include "identify/eliminated_starts.h"

#include <Eigen/Dense>
#include <cmath>

namespace diffmj {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<RowMajor>;

// Directions in which residuals change less, relative to the one in which they change most, are not
// moved along.
constexpr double kThreshold = 1e-7;

}  // namespace

std::vector<double> EliminatedStarts::predict(std::span<const double> theta) const {
  std::vector<double> out = moves_;
  if (theta_.empty()) return out;
  const size_t p = theta_.size();
  for (size_t i = 0; i < out.size(); i++) {
    out[i] -= step_[i];
    for (size_t k = 0; k < p; k++) out[i] -= slope_[i * p + k] * (theta[k] - theta_[k]);
  }
  return out;
}

void EliminatedStarts::linearize(std::span<const double> theta, std::vector<double> moves,
                                 Objective::Residuals& r) {
  const size_t nsegment = r.first.size() - 1, p = theta.size(), nx = moves.size() / nsegment;
  theta_.assign(theta.begin(), theta.end());
  moves_ = std::move(moves);
  step_.assign(nsegment * nx, 0);
  slope_.assign(nsegment * nx * p, 0);
  rank_ = 0;
  const auto columns = static_cast<Eigen::Index>(nx), parameters = static_cast<Eigen::Index>(p);
  for (size_t i = 0; i < nsegment; i++) {
    const auto begin = static_cast<size_t>(r.first[i]);
    const Eigen::Index n = r.first[i + 1] - r.first[i];
    if (n == 0 || std::isnan(r.values[begin])) continue;
    const Eigen::Map<const Eigen::VectorXd> values(r.values.data() + begin, n);
    const Rows start(r.start.data() + begin * nx, n, columns);
    Rows jacobian(r.theta.data() + begin * p, n, parameters);
    Eigen::CompleteOrthogonalDecomposition<Eigen::MatrixXd> solver;
    solver.setThreshold(kThreshold);
    solver.compute(start);
    rank_ += static_cast<int>(solver.rank());
    Eigen::Map<Eigen::VectorXd>(step_.data() + i * nx, columns) = solver.solve(values);
    Rows slope(slope_.data() + i * nx * p, columns, parameters);
    slope = solver.solve(Eigen::MatrixXd(jacobian));
    jacobian -= start * slope;
  }
}

}  // namespace diffmj
