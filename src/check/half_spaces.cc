#include "check/half_spaces.h"

#include <Eigen/Dense>
#include <algorithm>

namespace diffmj {
namespace {

using Vector = std::vector<double>;

bool is_inside(const std::vector<HalfSpace>& spaces, const Vector& u) {
  return std::all_of(spaces.begin(), spaces.end(), [&](const HalfSpace& h) { return h.has(u); });
}

}  // namespace

double HalfSpace::missing(const Vector& u) const {
  double along = 0;
  for (const auto& [place, one] : slope) along += one * u[static_cast<size_t>(place)];
  return least - at.side * along;
}

// By projections onto one half space after the other; if these converge slowly, by the smallest
// change that puts u onto the bounds of those it has left.
bool move_inside(const std::vector<HalfSpace>& spaces, const std::function<void()>& fix,
                 Vector& u) {
  constexpr int kSweeps = 100, kSolves = 6;
  constexpr size_t kMany = 300;
  const auto sweep = [&] {
    for (int i = 0; i < kSweeps; i++) {
      fix();
      if (is_inside(spaces, u)) return true;
      for (const HalfSpace& h : spaces) {
        const double missing = h.missing(u);
        if (missing <= 0) continue;
        for (const auto& [place, slope] : h.slope) {
          u[static_cast<size_t>(place)] += h.at.side * missing * slope / (h.length * h.length);
        }
      }
    }
    return false;
  };
  if (sweep()) return true;
  if (spaces.size() > kMany) return false;
  std::vector<bool> bound(spaces.size(), false);
  for (int i = 0; i < kSolves; i++) {
    std::vector<size_t> rows;
    for (size_t k = 0; k < spaces.size(); k++) {
      bound[k] = bound[k] || spaces[k].missing(u) > 0;
      if (bound[k]) rows.push_back(k);
    }
    Eigen::MatrixXd A = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(rows.size()),
                                              static_cast<Eigen::Index>(u.size()));
    Eigen::VectorXd b(A.rows());
    for (size_t k = 0; k < rows.size(); k++) {
      const HalfSpace& h = spaces[rows[k]];
      const auto at = static_cast<Eigen::Index>(k);
      for (const auto& [place, slope] : h.slope) A(at, place) = h.at.side * slope / h.length;
      b(at) = h.missing(u) / h.length;
    }
    const Eigen::VectorXd change = A.completeOrthogonalDecomposition().solve(b);
    for (size_t k = 0; k < u.size(); k++) u[k] += change(static_cast<Eigen::Index>(k));
    if (sweep()) return true;
  }
  return false;
}

}  // namespace diffmj
