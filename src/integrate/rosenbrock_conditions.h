// Order conditions of linearly implicit methods. With Γ = (1/gamma - C)⁻¹, α = A Γ, β = α + Γ and
// the weights b Γ, the conditions are those of Runge-Kutta methods but for [Hairer96, IV.7]
//
//   φ_i([τ1]) = Σ_j β_ij φ_j(τ1),     φ_i([τ1 .. τm]) = Π_k Σ_j α_ij φ_j(τk)  for m > 1
//
// docs/derivations/stiff.md, eq. 2.
#ifndef DIFFMJ_INTEGRATE_ROSENBROCK_CONDITIONS_H_
#define DIFFMJ_INTEGRATE_ROSENBROCK_CONDITIONS_H_

#include <array>
#include <cstddef>

#include "integrate/order_conditions.h"
#include "integrate/tableau.h"

namespace diffmj {

template <class Real>
struct RosenbrockForm {
  using Square = std::array<std::array<Real, kMaxStage>, kMaxStage>;

  explicit constexpr RosenbrockForm(const TableauOf<Real>& t) : n(t.nsolve()) {
    // column by column of the inverse of a lower triangular matrix
    for (size_t j = 0; j < n; j++) {
      for (size_t i = j; i < n; i++) {
        Real sum = i == j ? 1 : 0;
        for (size_t k = j; k < i; k++) sum += t.C[i][k] * gamma[k][j];
        gamma[i][j] = sum * t.gamma;
      }
    }
    for (size_t i = 0; i < n; i++) {
      for (size_t j = 0; j < n; j++) {
        Real sum = 0;
        for (size_t k = 0; k < i; k++) sum += t.A[i][k] * gamma[k][j];
        alpha[i][j] = sum;
        beta[i][j] = sum + gamma[i][j];
      }
    }
  }

  // Σ_i w_i Γ_ij φ_j
  constexpr Real weighed(const std::array<Real, kMaxStage>& w,
                         const std::array<Real, kMaxStage>& phi) const {
    Real sum = 0;
    for (size_t i = 0; i < n; i++) {
      for (size_t j = 0; j <= i; j++) sum += w[i] * gamma[i][j] * phi[j];
    }
    return sum;
  }

  size_t n;
  Square gamma = {}, alpha = {}, beta = {};
};

// As OrderResidual, of trees with n nodes.
template <class Real>
struct RosenbrockResidual {
  constexpr RosenbrockResidual(const TableauOf<Real>& t, size_t nnode) {
    const RosenbrockForm<Real> form(t);
    RootedTree tree(nnode);
    do {
      add(t, form, tree);
    } while (tree.next());
  }

  Real b = 0, bhat = 0, dense = 0;

 private:
  constexpr void add(const TableauOf<Real>& t, const RosenbrockForm<Real>& form,
                     const RootedTree& tree) {
    std::array<std::array<Real, kMaxStage>, RootedTree::kMaxNode> f = {};
    int size[RootedTree::kMaxNode] = {}, nchild[RootedTree::kMaxNode] = {};
    Real density = 1;
    for (size_t node = 0; node < tree.nnode; node++) {
      size[node] = 1;
      if (node > 0) nchild[tree.parent(node)]++;
      for (size_t i = 0; i < form.n; i++) f[node][i] = 1;
    }
    for (size_t node = tree.nnode; node-- > 1;) {
      const size_t p = tree.parent(node);
      size[p] += size[node];
      density /= static_cast<Real>(size[node]);
      const auto& a = nchild[p] == 1 ? form.beta : form.alpha;
      for (size_t i = 0; i < form.n; i++) {
        Real sum = 0;
        for (size_t j = 0; j <= i; j++) sum += a[i][j] * f[node][j];
        f[p][i] *= sum;
      }
    }
    density /= static_cast<Real>(size[0]);
    b = larger(b, form.weighed(t.b, f[0]) - density);
    bhat = larger(bhat, form.weighed(t.bhat, f[0]) - density);
    for (size_t m = 0; m < kMaxDense; m++) {
      std::array<Real, kMaxStage> w = {};
      for (size_t i = 0; i < form.n; i++) w[i] = t.dense[i][m];
      dense = larger(dense, form.weighed(w, f[0]) - (m + 1 == tree.nnode ? density : Real(0)));
    }
  }
};

// What is not a condition of order: c and gamma_i are sums of the rows of α and Γ, b(1) = b, the
// last stage is the end of the step.
template <class Real>
constexpr Real rosenbrock_consistency(const TableauOf<Real>& t) {
  const RosenbrockForm<Real> form(t);
  Real residual = larger(Real(0), t.c[form.n] - 1);
  for (size_t i = 0; i < form.n; i++) {
    Real c = -t.c[i], g = -t.gamma_time[i], value = -t.b[i];
    for (size_t j = 0; j <= i; j++) {
      c += form.alpha[i][j];
      g += form.gamma[i][j];
    }
    for (size_t m = 0; m < kMaxDense; m++) value += t.dense[i][m];
    residual = larger(larger(larger(residual, c), g), value);
    residual = larger(residual, t.A[form.n][i] - t.b[i]);
  }
  return residual;
}

// R(∞) = 1 - b Γ β⁻¹ 1 of the step and, with bhat, of the embedded one: 0 if what decays at once is
// gone after a step. β is lower triangular with gamma in its diagonal.
template <class Real>
constexpr Real rosenbrock_limit(const TableauOf<Real>& t, const std::array<Real, kMaxStage>& b) {
  const RosenbrockForm<Real> form(t);
  std::array<Real, kMaxStage> x = {};
  for (size_t i = 0; i < form.n; i++) {
    Real sum = 1;
    for (size_t j = 0; j < i; j++) sum -= form.beta[i][j] * x[j];
    x[i] = sum / form.beta[i][i];
  }
  return 1 - form.weighed(b, x);
}

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_ROSENBROCK_CONDITIONS_H_
