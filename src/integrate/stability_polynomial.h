// How far the steps of a Runge-Kutta method may go before they amplify what the motion does not.
//
// A step of size h multiplies a perturbation of x' = λ x by R(hλ), the motion by e^hλ:
//
//   R(z) = 1 + Σ_k r_k z^k,     r_k = bᵀ A^(k-1) 1         docs/derivations/adaptive.md, eq. 12
//
// Along a ray z = r λ/|λ| the limit is the first r at which |R(z)| > (1 + kGrowth) max(1, |e^z|).
#ifndef DIFFMJ_INTEGRATE_STABILITY_POLYNOMIAL_H_
#define DIFFMJ_INTEGRATE_STABILITY_POLYNOMIAL_H_

#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>

#include "integrate/tableau.h"

namespace diffmj {

struct StabilityPolynomial {
  // What a step may add to a perturbation that the motion leaves as it is. On the imaginary axis,
  // an oscillation without damping, methods of low order have no limit but 0 without it.
  static constexpr double kGrowth = 1e-4;

  std::array<double, kMaxStage + 1> r = {1};
  size_t degree = 0;

  template <class Real>
  explicit constexpr StabilityPolynomial(const TableauOf<Real>& t) {
    // A^(k-1) 1
    std::array<Real, kMaxStage> power = {};
    for (size_t i = 0; i < t.nstage; i++) power[i] = 1;
    for (size_t k = 1; k <= t.nstage; k++) {
      Real sum = 0;
      for (size_t i = 0; i < t.nstage; i++) sum += t.b[i] * power[i];
      r[k] = static_cast<double>(sum);
      if (sum != 0) degree = k;
      // the last rows first: row i reads those before it
      for (size_t i = t.nstage; i-- > 0;) {
        Real next = 0;
        for (size_t j = 0; j < i; j++) next += t.A[i][j] * power[j];
        power[i] = next;
      }
    }
  }

  // |R(x + iy)|²
  constexpr double squared(double x, double y) const {
    double re = 0, im = 0;
    for (size_t k = degree + 1; k-- > 0;) {
      const double product = re * x - im * y + r[k];
      im = re * y + im * x;
      re = product;
    }
    return re * re + im * im;
  }

  // The limits on the negative real and on the imaginary axis.
  constexpr double real_limit() const { return axis(-1, 0); }
  constexpr double imaginary_limit() const { return axis(0, 1); }

  double value(std::complex<double> z) const { return std::sqrt(squared(z.real(), z.imag())); }
  // |R(z)| over what the motion does, max(1, |e^z|).
  double excess(std::complex<double> z) const {
    return value(z) / std::exp(std::max(0.0, z.real()));
  }
  // The largest |z| along the ray through λ; infinite if there is none.
  double limit(std::complex<double> lambda) const {
    const double size = std::abs(lambda);
    if (!(size > 0)) return std::numeric_limits<double>::infinity();
    const std::complex<double> direction = lambda / size;
    if (direction.real() > 0) {
      return first_exit([&](double s) { return excess(s * direction) <= 1 + kGrowth; });
    }
    // without |e^z|, which is at most 1 there: polynomials in s
    std::array<double, kMaxStage + 1> re, im;
    std::complex<double> power = 1;
    for (size_t k = 0; k <= degree; k++) {
      re[k] = r[k] * power.real();
      im[k] = r[k] * power.imag();
      power *= direction;
    }
    return first_exit([&](double s) {
      double x = 0, y = 0;
      for (size_t k = degree + 1; k-- > 0;) {
        x = x * s + re[k];
        y = y * s + im[k];
      }
      return x * x + y * y <= kMostSquared;
    });
  }

 private:
  static constexpr double kMostSquared = (1 + kGrowth) * (1 + kGrowth);

  template <class Inside>
  static constexpr double first_exit(Inside&& inside) {
    // where the motion itself grows there may be no limit
    constexpr double kStride = 1.0 / 32, kFurthest = 16;
    double low = 0, high = kStride;
    while (inside(high)) {
      low = high;
      high += kStride;
      if (high > kFurthest) return std::numeric_limits<double>::infinity();
    }
    for (int k = 0; k < 40; k++) {
      const double middle = (low + high) / 2;
      (inside(middle) ? low : high) = middle;
    }
    return low;
  }
  // without |e^z|, which is at most 1 there
  constexpr double axis(double x, double y) const {
    return first_exit([&](double s) { return squared(s * x, s * y) <= kMostSquared; });
  }
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_STABILITY_POLYNOMIAL_H_
