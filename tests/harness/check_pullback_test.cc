// The harness itself: what is wrong must be rejected.
// label: smoke
#include "harness/check_pullback.h"

#include <gtest/gtest.h>

#include <cmath>

namespace diffmj {
namespace {

// y = (x0 x1, sin x0, x1³)
const Operation kRight = {
    .forward =
        [](const Vector& x) {
          return Vector{x[0] * x[1], std::sin(x[0]), std::pow(x[1], 3)};
        },
    .pullback =
        [](const Vector& x, const Vector& y_bar, Vector& x_bar) {
          x_bar[0] += x[1] * y_bar[0] + std::cos(x[0]) * y_bar[1];
          x_bar[1] += x[0] * y_bar[0] + 3 * x[1] * x[1] * y_bar[2];
        },
};
const Vector kX = {0.7, -1.3};

// y = |x0 - corner|, with the slope of one side as its pullback
Operation corner_at(double corner, double slope) {
  return {.forward = [=](const Vector& x) { return Vector{std::abs(x[0] - corner)}; },
          .pullback = [=](const Vector&, const Vector& y_bar,
                          Vector& x_bar) { x_bar[0] += slope * y_bar[0]; }};
}

TEST(CheckPullback, AcceptsRightPullback) { EXPECT_TRUE(check_pullback(kRight, kX, 2)); }

TEST(CheckPullback, RejectsWrongSign) {
  Operation wrong = kRight;
  wrong.pullback = [](const Vector& x, const Vector& y_bar, Vector& x_bar) {
    x_bar[0] += x[1] * y_bar[0] - std::cos(x[0]) * y_bar[1];
    x_bar[1] += x[0] * y_bar[0] + 3 * x[1] * x[1] * y_bar[2];
  };
  const auto result = check_pullback(wrong, kX, 2);
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("wrong"), std::string::npos) << result.message();
}

TEST(CheckPullback, RejectsMissingTerm) {
  Operation wrong = kRight;
  wrong.pullback = [](const Vector& x, const Vector& y_bar, Vector& x_bar) {
    x_bar[0] += x[1] * y_bar[0] + std::cos(x[0]) * y_bar[1];
    x_bar[1] += 3 * x[1] * x[1] * y_bar[2];
  };
  EXPECT_FALSE(check_pullback(wrong, kX, 2));
}

TEST(CheckPullback, RejectsSmallError) {
  Operation wrong = kRight;
  wrong.pullback = [](const Vector& x, const Vector& y_bar, Vector& x_bar) {
    kRight.pullback(x, y_bar, x_bar);
    x_bar[0] += 1e-5 * x[1] * y_bar[0];
  };
  EXPECT_FALSE(check_pullback(wrong, kX, 2));
}

TEST(CheckPullback, RejectsPullbackThatOverwrites) {
  Operation wrong = kRight;
  wrong.pullback = [](const Vector& x, const Vector& y_bar, Vector& x_bar) {
    std::fill(x_bar.begin(), x_bar.end(), 0.0);
    kRight.pullback(x, y_bar, x_bar);
  };
  const auto result = check_pullback(wrong, kX, 2);
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("adding"), std::string::npos) << result.message();
}

TEST(CheckPullback, RejectsPullbackThatIsNotLinear) {
  Operation wrong = kRight;
  wrong.pullback = [](const Vector& x, const Vector& y_bar, Vector& x_bar) {
    kRight.pullback(x, y_bar, x_bar);
    x_bar[0] += y_bar[0] * y_bar[0];
  };
  EXPECT_FALSE(check_pullback(wrong, kX, 2));
}

TEST(CheckPullback, RejectsPullbackWithMemory) {
  Operation wrong = kRight;
  auto calls = std::make_shared<int>(0);
  wrong.pullback = [calls](const Vector& x, const Vector& y_bar, Vector& x_bar) {
    kRight.pullback(x, y_bar, x_bar);
    if (++*calls == 5) x_bar[0] += 1e-14;
  };
  EXPECT_FALSE(check_pullback(wrong, kX, 2));
}

TEST(CheckPullback, IsInconclusiveAtKinkNearby) {
  for (double slope : {1.0, -1.0}) {
    const auto result = check_pullback(corner_at(2e-8, slope), {0.0}, 1);
    EXPECT_FALSE(result);
    EXPECT_NE(std::string(result.message()).find("inconclusive"), std::string::npos)
        << result.message();
  }
}

TEST(CheckPullback, IsInconclusiveAtKinkItself) {
  // central differences give 0 with no error at all: only the slopes on the two sides tell
  for (double slope : {1.0, -1.0, 0.0}) {
    const auto result = check_pullback(corner_at(0, slope), {0.0}, 1);
    EXPECT_FALSE(result);
    EXPECT_NE(std::string(result.message()).find("inconclusive"), std::string::npos)
        << result.message();
  }
}

TEST(CheckPullback, SeesPastKinkFurtherAway) {
  EXPECT_TRUE(check_pullback(corner_at(1e-4, -1), {0.0}, 1));
}

TEST(CheckPullback, IsInconclusiveForNoise) {
  Operation noisy = kRight;
  noisy.forward = [](const Vector& x) {
    Vector y = kRight.forward(x);
    y[0] += 1e-6 * std::sin(1e12 * x[0]);
    return y;
  };
  EXPECT_FALSE(check_pullback(noisy, kX, 2));
}

TEST(CheckPullback, RejectsNan) {
  Operation wrong = kRight;
  wrong.pullback = [](const Vector&, const Vector&, Vector& x_bar) { x_bar[0] += NAN; };
  EXPECT_FALSE(check_pullback(wrong, kX, 2));
}

}  // namespace
}  // namespace diffmj
