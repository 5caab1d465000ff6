#include "stages/position/collision/nearest.h"

#include <algorithm>
#include <cmath>

namespace diffmj {
namespace {

constexpr size_t kMaxUnknowns = 6;  // of n and of two places

// A x = b by elimination with full pivoting; A and b are overwritten.
// gradient: what A does not determine (coincident centres, parallel edges) is left at 0
// Returns the rank.
size_t solve_small(size_t n, std::array<std::array<double, kMaxUnknowns>, kMaxUnknowns>& A,
                   std::array<double, kMaxUnknowns>& b, std::array<double, kMaxUnknowns>& x) {
  std::array<size_t, kMaxUnknowns> column = {0, 1, 2, 3, 4, 5};
  size_t rank = 0;
  for (; rank < n; rank++) {
    size_t pivot_row = rank, pivot_column = rank;
    double largest = 0;
    for (size_t i = rank; i < n; i++) {
      for (size_t j = rank; j < n; j++) {
        if (std::abs(A[i][column[j]]) <= largest) continue;
        largest = std::abs(A[i][column[j]]);
        pivot_row = i;
        pivot_column = j;
      }
    }
    if (!(largest > mjMINVAL)) break;
    std::swap(A[rank], A[pivot_row]);
    std::swap(b[rank], b[pivot_row]);
    std::swap(column[rank], column[pivot_column]);
    for (size_t i = rank + 1; i < n; i++) {
      const double factor = A[i][column[rank]] / A[rank][column[rank]];
      if (factor == 0) continue;
      for (size_t j = rank + 1; j < n; j++) A[i][column[j]] -= factor * A[rank][column[j]];
      b[i] -= factor * b[rank];
    }
  }
  x.fill(0);
  for (size_t i = rank; i-- > 0;) {
    double sum = b[i];
    for (size_t j = i + 1; j < rank; j++) sum -= A[i][column[j]] * x[column[j]];
    x[column[i]] = sum / A[i][column[i]];
  }
  return rank;
}

}  // namespace

NearestResult nearest_pullback(const std::array<Feature, 2>& feature, const PairContact& contact,
                               const PairContactBar& bar, double theta_bar, PairBar& out) {
  const Feature &f1 = feature[0], &f2 = feature[1];
  const Vector3& n = contact.n;
  const double length = contact.dist + f1.radius + f2.radius;
  const Vector3 e0 = n.cross(Vector3::Unit(std::abs(n[0]) < 0.6 ? 0 : 1)).normalized();
  const std::array<Vector3, 2> e = {e0, n.cross(e0)};
  const auto d1 = static_cast<size_t>(f1.dim), d2 = static_cast<size_t>(f2.dim);

  // A z = cotangents of (n, θ1, θ2)
  std::array<std::array<double, kMaxUnknowns>, kMaxUnknowns> A = {};
  std::array<double, kMaxUnknowns> g = {}, z = {};
  const Vector3 n_bar = bar.n + 0.5 * (f1.radius - f2.radius) * bar.pos, half = 0.5 * bar.pos;
  for (size_t i = 0; i < 2; i++) {
    A[i][i] = -length;
    g[i] = e[i].dot(n_bar);
    for (size_t j = 0; j < d1; j++) A[i][2 + j] = A[2 + j][i] = -e[i].dot(f1.t[j]);
    for (size_t j = 0; j < d2; j++) A[i][2 + d1 + j] = A[2 + d1 + j][i] = e[i].dot(f2.t[j]);
  }
  for (size_t i = 0; i < d1; i++) {
    for (size_t j = 0; j < d1; j++)
      A[2 + i][2 + j] = -f1.K(static_cast<int>(i), static_cast<int>(j));
    g[2 + i] = f1.t[i].dot(half);
  }
  if (d1 > 0) g[2] += theta_bar;
  for (size_t i = 0; i < d2; i++) {
    // K of a feature is along its own outward normal, -n for the second
    for (size_t j = 0; j < d2; j++) {
      A[2 + d1 + i][2 + d1 + j] = -f2.K(static_cast<int>(i), static_cast<int>(j));
    }
    g[2 + d1 + i] = f2.t[i].dot(half);
  }
  const bool determined = solve_small(2 + d1 + d2, A, g, z) == 2 + d1 + d2;

  // the right-hand sides of (2), transposed; dist and pos through p1 and p2 themselves
  const Vector3 across = z[0] * e[0] + z[1] * e[1];
  const std::array<Vector3, 2> force = {half - bar.dist * n + across, half + bar.dist * n - across};
  Vector3 turn1 = Vector3::Zero(), turn2 = Vector3::Zero();
  for (size_t j = 0; j < d1; j++) turn1 += z[2 + j] * f1.t[j];
  for (size_t j = 0; j < d2; j++) turn2 += z[2 + d1 + j] * f2.t[j];
  out.torque(0, turn1.cross(n));
  out.torque(1, n.cross(turn2));
  const double along = 0.5 * n.dot(bar.pos);
  for (size_t side = 0; side < 2; side++) {
    const Feature& f = feature[side];
    out.force(static_cast<int>(side), f.p, force[side]);
    out.size[side] += f.size_rate.transpose() * force[side];
    if (f.radius_size >= 0) {
      out.size[side][f.radius_size] += (side == 0 ? along : -along) - bar.dist;
    }
  }
  return {.force = force[0], .determined = determined};
}

bool nearest_pullback(const std::array<GeomPose, 2>& geom, const PairContact& contact,
                      const FeatureTolerance& tolerance, const PairContactBar& bar, PairBar& out,
                      Undetermined rest) {
  std::array<Feature, 2> feature;
  for (int side = 0; side < 2; side++) {
    const auto k = static_cast<size_t>(side);
    if (!find_feature(geom[k], contact.surface(side), contact.outward(side), tolerance,
                      feature[k])) {
      return false;
    }
  }
  PairBar with = out;
  const NearestResult result = nearest_pullback(feature, contact, bar, 0, with);
  if (!result.determined && rest == Undetermined::kUnknown) return false;
  out = with;
  return true;
}

}  // namespace diffmj
