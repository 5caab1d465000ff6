// Dual numbers: a value and its derivatives along N directions, carried forward through templated
// code that says `using std::sqrt; sqrt(x)`. They nest: Dual<1, Dual<6>> has second derivatives.
//
//   f(v + Σ d_i ε_i) = f(v) + f'(v) Σ d_i ε_i,   ε_i ε_j = 0
#ifndef DIFFMJ_BASE_DUAL_H_
#define DIFFMJ_BASE_DUAL_H_

#include <array>
#include <cmath>
#include <compare>
#include <concepts>
#include <cstddef>
#include <numbers>

namespace diffmj {

template <int N, class T = double>
struct Dual {
  T v = T(0.0);
  std::array<T, N> d = {};

  Dual() = default;
  // A constant. Implicit, so that numbers mix.
  Dual(const T& value) : v(value) {}
  Dual(double value) requires(!std::same_as<T, double>) : v(value) {}

  // The variable of direction i.
  static Dual variable(const T& value, size_t i) {
    Dual x(value);
    x.d[i] = T(1.0);
    return x;
  }

  friend Dual operator-(const Dual& a) {
    return with(-a.v, [&](size_t i) { return -a.d[i]; });
  }

  friend Dual operator+(const Dual& a, const Dual& b) {
    return with(a.v + b.v, [&](size_t i) { return a.d[i] + b.d[i]; });
  }
  friend Dual operator-(const Dual& a, const Dual& b) {
    return with(a.v - b.v, [&](size_t i) { return a.d[i] - b.d[i]; });
  }
  friend Dual operator*(const Dual& a, const Dual& b) {
    return with(a.v * b.v, [&](size_t i) { return a.d[i] * b.v + a.v * b.d[i]; });
  }
  friend Dual operator/(const Dual& a, const Dual& b) {
    // not over b²: its square would underflow first
    const T q = a.v / b.v;
    return with(q, [&](size_t i) { return (a.d[i] - q * b.d[i]) / b.v; });
  }

  // constants have no derivatives to multiply
  friend Dual operator+(const Dual& a, double b) {
    return with(a.v + b, [&](size_t i) { return a.d[i]; });
  }
  friend Dual operator*(const Dual& a, double b) {
    return with(a.v * b, [&](size_t i) { return a.d[i] * b; });
  }
  friend Dual operator/(const Dual& a, double b) {
    return with(a.v / b, [&](size_t i) { return a.d[i] / b; });
  }
  friend Dual operator-(const Dual& a, double b) { return a + (-b); }
  friend Dual operator+(double a, const Dual& b) { return b + a; }
  friend Dual operator-(double a, const Dual& b) { return -b + a; }
  friend Dual operator*(double a, const Dual& b) { return b * a; }
  friend Dual operator/(double a, const Dual& b) { return Dual(a) / b; }

  template <class S>
  Dual& operator+=(const S& b) {
    return *this = *this + b;
  }
  template <class S>
  Dual& operator-=(const S& b) {
    return *this = *this - b;
  }
  template <class S>
  Dual& operator*=(const S& b) {
    return *this = *this * b;
  }
  template <class S>
  Dual& operator/=(const S& b) {
    return *this = *this / b;
  }

  // by value
  friend bool operator==(const Dual& a, const Dual& b) { return a.v == b.v; }
  friend bool operator==(const Dual& a, double b) { return a.v == b; }
  friend std::partial_ordering operator<=>(const Dual& a, const Dual& b) { return a.v <=> b.v; }
  friend std::partial_ordering operator<=>(const Dual& a, double b) { return a.v <=> b; }

  friend Dual max(const Dual& a, const Dual& b) { return a > b ? a : b; }
  friend Dual min(const Dual& a, const Dual& b) { return a < b ? a : b; }

  friend Dual abs(const Dual& a) {
    // gradient: at 0 the mean of both sides, 0
    if (a == 0.0) return Dual();
    return a < 0.0 ? -a : a;
  }

  friend Dual sqrt(const Dual& a) {
    using std::sqrt;
    const T root = sqrt(a.v);
    // gradient: 0 instead of infinite at 0, so that a norm has one there
    if (root == 0.0) return Dual();
    return with(root, [&](size_t i) { return a.d[i] * 0.5 / root; });
  }

  friend Dual pow(const Dual& a, double p) {
    using std::pow;
    // gradient: 0 instead of infinite at 0, as for sqrt
    const bool flat = p == 0 || (p < 1 && a == 0.0);
    return a.chain(pow(a.v, p), flat ? T(0.0) : p * pow(a.v, p - 1));
  }

  friend Dual exp(const Dual& a) {
    using std::exp;
    const T value = exp(a.v);
    return a.chain(value, value);
  }
  friend Dual log(const Dual& a) {
    using std::log;
    return a.chain(log(a.v), 1.0 / a.v);
  }
  friend Dual erfc(const Dual& a) {
    using std::erfc, std::exp;
    return a.chain(erfc(a.v), -2 * std::numbers::inv_sqrtpi * exp(-(a.v * a.v)));
  }
  friend Dual sin(const Dual& a) {
    using std::cos, std::sin;
    return a.chain(sin(a.v), cos(a.v));
  }
  friend Dual cos(const Dual& a) {
    using std::cos, std::sin;
    return a.chain(cos(a.v), -sin(a.v));
  }

  friend Dual asin(const Dual& a) {
    using std::asin;
    return a.chain(asin(a.v), arc_slope(a.v));
  }
  friend Dual acos(const Dual& a) {
    using std::acos;
    return a.chain(acos(a.v), -arc_slope(a.v));
  }
  friend Dual atan2(const Dual& y, const Dual& x) {
    using std::atan2;
    const T r2 = x.v * x.v + y.v * y.v;
    // gradient: 0 at the origin, where there is none
    if (r2 == 0.0) return Dual(atan2(y.v, x.v));
    return with(atan2(y.v, x.v), [&](size_t i) { return (x.v * y.d[i] - y.v * x.d[i]) / r2; });
  }

 private:
  // a value, and the derivative along every direction i
  template <class F>
  static Dual with(const T& value, const F& derivative) {
    Dual out(value);
    for (size_t i = 0; i < out.d.size(); i++) out.d[i] = derivative(i);
    return out;
  }

  // f(*this) from f(v) and f'(v)
  Dual chain(const T& value, const T& slope) const {
    return with(value, [&](size_t i) { return slope * d[i]; });
  }

  // 1/√(1 - v²)
  static T arc_slope(const T& v) {
    using std::sqrt;
    const T root = sqrt(1.0 - v * v);
    // gradient: 0 instead of infinite at the ends
    return root > 0.0 ? 1.0 / root : T(0.0);
  }
};

}  // namespace diffmj

#endif  // DIFFMJ_BASE_DUAL_H_
