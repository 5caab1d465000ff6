#include "base/dual.h"

#include <gtest/gtest.h>

#include <numbers>

#include "harness/check_pullback.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

// every operation once, smooth at the points below
template <class T>
T everything(const T& x, const T& y) {
  using std::abs, std::acos, std::asin, std::atan2, std::cos, std::erfc, std::exp, std::log,
      std::max, std::min, std::pow, std::sin, std::sqrt;
  T sum = -x * y / (2 + x * x) + 3 * x - 1 / y + (y - 2) / 4 + (1 - x) * 0.5;
  sum += sqrt(x * x + y * y) + pow(abs(y), 1.7) + pow(x, 3) + pow(x, 0);
  sum -= sin(x) * cos(y) + exp(-x) * log(2 + y * y) + erfc(x * y);
  sum *= atan2(y, x) + atan2(x, y);
  sum /= acos(x / 4) + asin(y / 4) + 3;
  return sum + max(x, y) * min(x, y) + max(T(0.1), x);
}

const std::vector<Vector> kPoints = {{0.3, -0.8}, {-1.2, 0.4}, {2.1, 1.3}, {-0.2, -1.9}};

TEST(Dual, ValueIsThatOfDoubles) {
  for (const Vector& p : kPoints) {
    const double expected = everything(p[0], p[1]);
    EXPECT_EQ(everything(Dual<2>(p[0]), Dual<2>(p[1])).v, expected);
    EXPECT_EQ((everything(Dual<2, Dual<2>>(p[0]), Dual<2, Dual<2>>(p[1])).v.v), expected);
  }
}

TEST(Dual, FirstDerivativesMatchDifferences) {
  const Operation op = {
      .forward = [](const Vector& x) { return Vector{everything(x[0], x[1])}; },
      .pullback =
          [](const Vector& x, const Vector& y_bar, Vector& x_bar) {
            const auto y = everything(Dual<2>::variable(x[0], 0), Dual<2>::variable(x[1], 1));
            for (size_t i = 0; i < 2; i++) x_bar[i] += y.d[i] * y_bar[0];
          },
  };
  for (const Vector& p : kPoints) {
    EXPECT_TRUE(check_pullback(op, p, 2, {.tolerance = tolerances().stage / 10}));
  }
}

TEST(Dual, SecondDerivativesMatchDifferences) {
  const Vector w = {0.7, -0.4};
  using Inner = Dual<2>;
  using Outer = Dual<1, Inner>;
  const Operation op = {
      // derivative along w
      .forward =
          [&](const Vector& x) {
            Dual<1> a(x[0]), b(x[1]);
            a.d[0] = w[0];
            b.d[0] = w[1];
            return Vector{everything(a, b).d[0]};
          },
      .pullback =
          [&](const Vector& x, const Vector& y_bar, Vector& x_bar) {
            Outer a(Inner::variable(x[0], 0)), b(Inner::variable(x[1], 1));
            a.d[0] = w[0];
            b.d[0] = w[1];
            const Inner slope = everything(a, b).d[0];
            for (size_t i = 0; i < 2; i++) x_bar[i] += slope.d[i] * y_bar[0];
          },
  };
  for (const Vector& p : kPoints) {
    EXPECT_TRUE(check_pullback(op, p, 2, {.tolerance = tolerances().stage / 10}));
  }
}

// Dual<2, Dual<1>> has the numbers of Dual<1, Dual<2>>
TEST(Dual, NestsInEitherOrder) {
  for (const Vector& p : kPoints) {
    using A = Dual<1, Dual<2>>;
    using B = Dual<2, Dual<1>>;
    A a0(Dual<2>::variable(p[0], 0)), a1(Dual<2>::variable(p[1], 1));
    a0.d[0] = 1;
    B b0 = B::variable(Dual<1>::variable(p[0], 0), 0), b1 = B::variable(p[1], 1);
    const A a = everything(a0, a1);
    const B b = everything(b0, b1);
    for (size_t i = 0; i < 2; i++) {
      EXPECT_NEAR(a.d[0].d[i], b.d[i].d[0], tolerances().forward * (1 + std::abs(a.d[0].d[i])));
    }
  }
}

TEST(Dual, ComparesByValue) {
  const auto x = Dual<1>::variable(2, 0);
  const Dual<1> constant = 2;
  EXPECT_TRUE(x == constant && x == 2.0 && 2.0 == x && x != 3.0);
  EXPECT_TRUE(x < 3.0 && x <= 2.0 && x > 1.0 && 1.0 < x && !(x < constant));
  const Dual<2, Dual<1>> outer(x);
  EXPECT_TRUE(outer == x && outer < 3.0 && 1.0 < outer && outer >= x);
}

// where the derivative is infinite or missing, it is 0, and so are those of higher order
TEST(Dual, CornersAreFlat) {
  using D = Dual<1, Dual<1>>;
  const auto at = [](double x) { return D::variable(Dual<1>::variable(x, 0), 0); };
  for (const D& y : {sqrt(at(0)), pow(at(0), 0.5), abs(at(0)), atan2(at(0), at(0)), asin(at(1)),
                     acos(at(-1)), pow(at(0), 0)}) {
    EXPECT_EQ(y.d[0].v, 0);
    EXPECT_EQ(y.v.d[0], 0);
    EXPECT_EQ(y.d[0].d[0], 0);
  }
  EXPECT_EQ(acos(at(-1)).v.v, std::numbers::pi);
  // a norm that nearly underflows has a finite curvature
  EXPECT_TRUE(std::isfinite(sqrt(at(1e-160) * at(1e-160)).d[0].d[0]));
}

}  // namespace
}  // namespace diffmj
