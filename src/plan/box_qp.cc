#include "plan/box_qp.h"

#include <Eigen/Cholesky>
#include <algorithm>

namespace diffmj {
namespace {

// More than sets of active bounds ever took; each is one factorisation.
constexpr int kMaxIterations = 200;
// Of Armijo's rule: the share of the expected decrease that is asked for, how steps shrink, and the
// one below which there is nothing to gain.
constexpr double kArmijo = 0.1, kShrink = 0.6, kMinStep = 1e-12;

}  // namespace

bool BoxQp::factorize(const MatrixIn& H) {
  const auto n = static_cast<Eigen::Index>(free_.size());
  for (Eigen::Index i = 0; i < n; i++) {
    for (Eigen::Index j = 0; j <= i; j++) {
      factor_(i, j) = H(free_[static_cast<size_t>(i)], free_[static_cast<size_t>(j)]);
    }
  }
  Eigen::Ref<Eigen::MatrixXd> block = factor_.topLeftCorner(n, n);
  const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> llt(block);
  return llt.info() == Eigen::Success;
}

void BoxQp::solve_free(Eigen::Ref<Matrix, 0, Eigen::OuterStride<>> rhs) const {
  const auto n = static_cast<Eigen::Index>(free_.size());
  if (n == 0) return;
  const auto L = factor_.topLeftCorner(n, n).triangularView<Eigen::Lower>();
  L.solveInPlace(rhs);
  L.adjoint().solveInPlace(rhs);
}

bool BoxQp::solve(const MatrixIn& H, const VectorIn& g, const VectorIn& low, const VectorIn& high,
                  Eigen::Ref<Eigen::VectorXd> x) {
  const Eigen::Index n = g.size();
  if (factor_.rows() < n) factor_.resize(n, n);
  search_.resize(n);
  candidate_.resize(n);
  Hx_.resize(n);
  x = x.cwiseMax(low).cwiseMin(high);
  const auto value = [&](const Eigen::VectorXd& at) {
    Hx_.noalias() = H * at;
    return at.dot(0.5 * Hx_ + g);
  };
  candidate_ = x;
  double now = value(candidate_);
  bool factorized = false;
  bool whole = false;  // the last step was Newton's, and no bound was met
  for (int iteration = 0; iteration < kMaxIterations; iteration++) {
    gradient_ = Hx_ + g;
    // bounds that hold
    next_free_.clear();
    for (Eigen::Index i = 0; i < n; i++) {
      const bool held = (x[i] == low[i] && gradient_[i] > 0) ||
                        (x[i] == high[i] && gradient_[i] < 0) || low[i] == high[i];
      if (!held) next_free_.push_back(static_cast<int>(i));
    }
    const bool same = factorized && next_free_ == free_;
    if (same && whole) return true;
    if (!same) {
      free_ = next_free_;
      if (!factorize(H)) return false;
      factorized = true;
    }
    if (free_.empty()) return true;
    // Newton step of the free ones
    const auto nfree = static_cast<Eigen::Index>(free_.size());
    for (Eigen::Index k = 0; k < nfree; k++) {
      search_[k] = -gradient_[free_[static_cast<size_t>(k)]];
    }
    auto part = search_.head(nfree);
    const auto L = factor_.topLeftCorner(nfree, nfree).triangularView<Eigen::Lower>();
    L.solveInPlace(part);
    L.adjoint().solveInPlace(part);
    double slope = 0;
    for (Eigen::Index k = 0; k < nfree; k++) {
      slope += search_[k] * gradient_[free_[static_cast<size_t>(k)]];
    }
    if (!(slope < 0)) return true;
    double step = 1, next = now;
    bool inside = true, taken = false;
    for (; step > kMinStep; step *= kShrink) {
      candidate_ = x;
      inside = true;
      for (Eigen::Index k = 0; k < nfree; k++) {
        const Eigen::Index i = free_[static_cast<size_t>(k)];
        const double to = x[i] + step * search_[k];
        candidate_[i] = std::clamp(to, low[i], high[i]);
        inside = inside && candidate_[i] == to;
      }
      next = value(candidate_);
      taken = now - next >= -kArmijo * step * slope;
      if (taken) break;
    }
    // rounding is larger than what there is to gain
    if (!taken) return true;
    x = candidate_;
    now = next;
    whole = step == 1 && inside;
  }
  return true;
}

}  // namespace diffmj
