// Splines and noise of plans.
#include "plan/spline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/check_pullback.h"
#include "plan/noise.h"

namespace diffmj {
namespace {

Vector rows(const Spline& spline, const Vector& knots, int width = 1) {
  Vector out(static_cast<size_t>(spline.nstep() * width));
  spline.values(knots, width, out);
  return out;
}

TEST(Spline, OfOneKnotPerStepIsTheKnots) {
  const Vector knots = {1, -2, 4, 8, 16};
  for (const auto x : {Interpolation::kZero, Interpolation::kLinear, Interpolation::kCubic}) {
    EXPECT_EQ(rows(Spline(5, {}, x), knots), knots);
  }
}

TEST(Spline, HoldsGoesStraightOrCurves) {
  EXPECT_EQ(rows(Spline(6, 3, Interpolation::kZero), {1, 2, 5}), Vector({1, 1, 2, 2, 5, 5}));
  EXPECT_EQ(rows(Spline(5, 3, Interpolation::kLinear), {1, 2, 5}), Vector({1, 1.5, 2, 3.5, 5}));
  EXPECT_EQ(rows(Spline(4, 1, Interpolation::kLinear), {7}), Vector(4, 7.0));
  // straight lines stay straight, and a parabola is met between knots with two neighbours
  const Vector cubic = rows(Spline(7, 4, Interpolation::kCubic), {0, 1, 4, 9});
  EXPECT_NEAR(cubic[3], 2.25, 1e-15);
  const Vector line = rows(Spline(10, 4, Interpolation::kCubic), {0, 3, 6, 9});
  for (size_t i = 0; i < line.size(); i++) EXPECT_NEAR(line[i], static_cast<double>(i), 1e-14);
}

TEST(Spline, PullbackMatchesDifferences) {
  for (const auto x : {Interpolation::kZero, Interpolation::kLinear, Interpolation::kCubic}) {
    const Spline spline(11, 5, x);
    const Operation op{
        .forward = [&](const Vector& z) { return rows(spline, z, 2); },
        .pullback = [&](const Vector&, const Vector& y_bar,
                        Vector& z_bar) { spline.pullback(y_bar, 2, z_bar); },
    };
    EXPECT_TRUE(check_pullback(op, {1, 2, -3, 4, 0, 1, 2, 2, -1, 5}, 10));
  }
}

TEST(Spline, ShiftsAndHoldsItsEnd) {
  Vector knots = {0, 1, 2, 3, 4, 5};
  Spline(6, {}, Interpolation::kZero).shift(2, 1, knots);
  EXPECT_EQ(knots, Vector({2, 3, 4, 5, 5, 5}));
  // by parts of a knot
  knots = {0, 4, 8};
  Spline(9, 3, Interpolation::kLinear).shift(2, 1, knots);
  EXPECT_EQ(knots, Vector({2, 6, 8}));
  knots.resize(3);
  Spline(9, 3, Interpolation::kLinear).sample(Vector{0, 1, 2, 3, 4, 5, 6, 7, 8}, 1, knots);
  EXPECT_EQ(knots, Vector({0, 4, 8}));
}

TEST(Noise, HasItsColorAndUnitVariance) {
  constexpr int kTimes = 64, kSamples = 4000;
  for (const Noise color : {Noise::kWhite, Noise::kPink, Noise::kBrown}) {
    const ColoredNoise noise(color, kTimes);
    double variance = 0, step = 0;
    for (unsigned k = 0; k < kSamples; k++) {
      RandomNormal random({7, k});
      Vector x(2 * kTimes, 0.0);
      noise.add(random, 2, Vector{0, 1}, x.data());
      for (size_t i = 0; i < kTimes; i++) {
        EXPECT_EQ(x[2 * i], 0);
        variance += x[2 * i + 1] * x[2 * i + 1] / 4 / kTimes / kSamples;
        if (i == 0) continue;
        const double d = x[2 * i + 1] - x[2 * i - 1];
        step += d * d / 4 / (kTimes - 1) / kSamples;
      }
    }
    EXPECT_NEAR(variance, 1, 0.05) << noise_name(color);
    // mean square of a step: 2 of white noise; of brown noise one increment, 2/(n + 1)
    const double expected = color == Noise::kWhite  ? 2
                            : color == Noise::kPink ? 0.6
                                                    : 2.0 / (kTimes + 1);
    EXPECT_NEAR(step, expected, color == Noise::kPink ? 0.3 : 0.03 * expected) << noise_name(color);
  }
}

// Columns draw their numbers one after the other: two of them at once are as each alone.
TEST(Noise, OfColumnsIsAsOfEachAlone) {
  constexpr int kTimes = 20;
  for (const Noise color : {Noise::kWhite, Noise::kPink, Noise::kBrown}) {
    const ColoredNoise noise(color, kTimes);
    RandomNormal both({5}), each({5});
    Vector x(2 * kTimes, 1.0), a(kTimes, 1.0), b(kTimes, 1.0);
    noise.add(both, 0.3, Vector{2, 5}, x.data());
    noise.add(each, 0.3, Vector{2}, a.data());
    noise.add(each, 0.3, Vector{5}, b.data());
    for (size_t i = 0; i < kTimes; i++) {
      EXPECT_EQ(x[2 * i], a[i]) << noise_name(color);
      EXPECT_EQ(x[2 * i + 1], b[i]) << noise_name(color);
    }
  }
}

TEST(Noise, OfEachKeyIsItsOwn) {
  RandomNormal a({1, 2, 3}), b({1, 2, 3}), c({1, 2, 4}), d({1, 3, 2});
  const double x = a.next();
  EXPECT_EQ(x, b.next());
  EXPECT_NE(x, c.next());
  EXPECT_NE(x, d.next());
}

// moments, and the shares of numbers beyond bounds: of layers, and of the tail beyond 3.654
TEST(Noise, IsNormal) {
  constexpr int kNumbers = 4000000;
  RandomNormal random({11});
  std::array<double, 5> moment = {};
  constexpr std::array<double, 6> kBounds = {0.1, 0.5, 1, 2, 3, 3.8};
  std::array<double, 6> beyond = {}, above = {};
  for (int i = 0; i < kNumbers; i++) {
    const double x = random.next();
    double power = 1;
    for (double& m : moment) m += (power *= x) / kNumbers;
    for (size_t k = 0; k < kBounds.size(); k++) {
      beyond[k] += std::abs(x) > kBounds[k] ? 1 : 0;
      above[k] += x > kBounds[k] ? 1 : 0;
    }
  }
  // five standard deviations of means over the numbers
  const auto error = [&](double variance) { return 5 * std::sqrt(variance / kNumbers); };
  EXPECT_NEAR(moment[0], 0, error(1));
  EXPECT_NEAR(moment[1], 1, error(2));
  EXPECT_NEAR(moment[2], 0, error(15));
  EXPECT_NEAR(moment[3], 3, error(96));
  EXPECT_NEAR(moment[4], 0, error(945));
  for (size_t k = 0; k < kBounds.size(); k++) {
    const double p = std::erfc(kBounds[k] / std::sqrt(2.0));
    EXPECT_NEAR(beyond[k] / kNumbers, p, error(p)) << kBounds[k];
    EXPECT_NEAR(above[k] / kNumbers, p / 2, error(p / 2)) << kBounds[k];
  }
}

}  // namespace
}  // namespace diffmj
