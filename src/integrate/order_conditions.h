// Order conditions of Runge-Kutta methods. A method is of order p if for every rooted tree τ with
// at most p nodes [Hairer93, II.2]
//
//   Σ_i b_i φ_i(τ) = 1/γ(τ),     φ_i([τ1 .. τm]) = Π_k Σ_j A_ij φ_j(τk),     γ(τ) = |τ| Π_k γ(τk)
//
// and its dense output if  Σ_i b_i(θ) φ_i(τ) = θ^|τ| / γ(τ).  docs/derivations/adaptive.md, eq. 2.
#ifndef DIFFMJ_INTEGRATE_ORDER_CONDITIONS_H_
#define DIFFMJ_INTEGRATE_ORDER_CONDITIONS_H_

#include <array>
#include <cstddef>

#include "integrate/tableau.h"

namespace diffmj {

// A rooted tree as the depths of its nodes in preorder, the larger of two subtrees first
// [Beyer80]: 0 1 2 3 is the chain of four nodes, 0 1 1 1 the bush.
struct RootedTree {
  static constexpr size_t kMaxNode = 10;

  explicit constexpr RootedTree(size_t n) : nnode(n) {
    for (size_t i = 0; i < n; i++) depth[i] = i;
  }
  // The next tree of as many nodes; false after the last, the bush.
  constexpr bool next() {
    size_t p = nnode - 1;
    while (p > 0 && depth[p] == 1) p--;
    if (p == 0) return false;
    const size_t shift = p - parent(p);
    for (size_t i = p; i < nnode; i++) depth[i] = depth[i - shift];
    return true;
  }
  constexpr size_t parent(size_t i) const {
    size_t p = i - 1;
    while (depth[p] + 1 != depth[i]) p--;
    return p;
  }

  size_t nnode;
  std::array<size_t, kMaxNode> depth = {};
};

// φ(τ), nk numbers, and 1/γ(τ).
template <class Real>
struct ElementaryWeight {
  constexpr ElementaryWeight(const TableauOf<Real>& t, const RootedTree& tree) {
    // plain arrays: this runs in the compiler, which counts every call
    Real f[RootedTree::kMaxNode][kMaxStage] = {};
    int size[RootedTree::kMaxNode] = {};
    for (size_t node = 0; node < tree.nnode; node++) {
      size[node] = 1;
      for (size_t i = 0; i < t.nk; i++) f[node][i] = 1;
    }
    // children come after their parents
    for (size_t node = tree.nnode; node-- > 1;) {
      const size_t p = tree.parent(node);
      size[p] += size[node];
      density /= static_cast<Real>(size[node]);
      for (size_t i = 0; i < t.nk; i++) {
        const Real* const a = t.A[i].data();
        Real sum = 0;
        if (size[node] == 1) {
          sum = t.c[i];
        } else {
          for (size_t j = 0; j < i; j++) sum += a[j] * f[node][j];
        }
        f[p][i] *= sum;
      }
    }
    density /= static_cast<Real>(size[0]);
    for (size_t i = 0; i < t.nk; i++) phi[i] = f[0][i];
  }

  std::array<Real, kMaxStage> phi = {};
  Real density = 1;
};

template <class Real>
constexpr Real larger(Real a, Real b) {
  const Real m = b < 0 ? -b : b;
  return a < m ? m : a;
}

// Of all trees with n nodes, the largest |Σ b_i φ_i - 1/γ|: of b, of bhat, and of dense output over
// all powers of θ. c stands for the sums of A's rows: consistency_residual.
template <class Real>
struct OrderResidual {
  constexpr OrderResidual(const TableauOf<Real>& t, size_t n) {
    const int order = static_cast<int>(n);
    RootedTree tree(n);
    do {
      const ElementaryWeight<Real> w(t, tree);
      Real sum = -w.density, sum_hat = -w.density;
      for (size_t i = 0; i < t.nstage; i++) {
        sum += t.b[i] * w.phi[i];
        sum_hat += t.bhat[i] * w.phi[i];
      }
      b = larger(b, sum);
      bhat = larger(bhat, sum_hat);
      for (size_t m = 0; m < kMaxDense && order <= t.dense_order + 1; m++) {
        Real sum_dense = m + 1 == n ? -w.density : 0;
        for (size_t i = 0; i < t.nk; i++) sum_dense += t.dense[i][m] * w.phi[i];
        dense = larger(dense, sum_dense);
      }
    } while (tree.next());
  }

  Real b = 0, bhat = 0;
  Real dense = 0;  // up to one node more than dense_order
};

// What is not a condition of order: c are the sums of A's rows, A is strictly lower triangular,
// b(1) = b, and b' (0) and b' (1) are those of f at the two ends.
template <class Real>
constexpr Real consistency_residual(const TableauOf<Real>& t) {
  Real residual = 0;
  for (size_t i = 0; i < t.nk; i++) {
    Real sum = -t.c[i];
    for (size_t j = 0; j < kMaxStage; j++) {
      sum += t.A[i][j];
      if (j >= i) residual = larger(residual, t.A[i][j]);
    }
    residual = larger(residual, sum);
    Real value = -t.b[i], slope = i == t.nk - 1 ? Real(-1) : Real(0);
    for (size_t m = 0; m < kMaxDense; m++) {
      value += t.dense[i][m];
      slope += static_cast<Real>(m + 1) * t.dense[i][m];
    }
    residual = larger(residual, value);
    residual = larger(residual, slope);
    residual = larger(residual, t.dense[i][0] - (i == 0 ? Real(1) : Real(0)));
  }
  return residual;
}

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_ORDER_CONDITIONS_H_
