// Wrapping of one stretch of a tendon: the pullback against differences of mju_wrap, and finite
// where a path touches, an end lies on the surface, or everything is on one line.
#include "stages/position/wrap.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>
#include <random>

#include "harness/check_pullback.h"
#include "harness/tolerances.h"

// exported, but not declared in MuJoCo's public headers
extern "C" mjtNum mju_wrap(mjtNum wpnt[6], const mjtNum x0[3], const mjtNum x1[3],
                           const mjtNum xpos[3], const mjtNum xmat[9], mjtNum radius, int type,
                           const mjtNum side[3]);

namespace diffmj {
namespace {

constexpr mjtNum kCenter[3] = {0, 0, 0};
constexpr mjtNum kAxes[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};

enum class Side { kNone, kOutside, kInside };

struct Case {
  bool cylinder = false;
  Side side = Side::kNone;
  Vector z = {};  // both ends and the radius

  // (points, length); all zero where the path does not wrap
  Vector forward(const Vector& at) const {
    const mjtNum inside[3] = {0.1 * at[6], 0, 0.02 * at[6]}, outside[3] = {0.3, 1.2, 0.1};
    Vector out(7);
    const mjtNum* of = side == Side::kNone ? nullptr : side == Side::kInside ? inside : outside;
    out[6] = mju_wrap(out.data(), &at[0], &at[3], kCenter, kAxes, at[6],
                      cylinder ? mjWRAP_CYLINDER : mjWRAP_SPHERE, of);
    return out[6] < 0 ? Vector(7) : out;
  }
  bool wraps() const { return forward(z) != Vector(7); }

  WrapBar pull(const Vector& at, const Vector& bar) const {
    const Vector y = forward(at);
    const Wrap wrap{.cylinder = cylinder,
                    .axis = Vector3::UnitZ(),
                    .radius = at[6],
                    .end = {Vector3(&at[0]), Vector3(&at[3])},
                    .point = {Vector3(&y[0]), Vector3(&y[3])}};
    return wrap_pullback(wrap, Vector3(&bar[0]), Vector3(&bar[3]), bar[6]);
  }
  void pullback(const Vector& at, const Vector& bar, Vector& z_bar) const {
    const WrapBar out = pull(at, bar);
    for (size_t k = 0; k < 3; k++) {
      z_bar[k] += out.end[0][static_cast<Eigen::Index>(k)];
      z_bar[3 + k] += out.end[1][static_cast<Eigen::Index>(k)];
    }
    z_bar[6] += out.radius;
  }
};

bool finite(const WrapBar& bar) {
  return bar.end[0].allFinite() && bar.end[1].allFinite() && std::isfinite(bar.radius);
}

class WrapPullback : public ::testing::TestWithParam<std::tuple<bool, Side>> {};

TEST_P(WrapPullback, MatchesDifferences) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  int wrapped = 0, inconclusive = 0;
  for (int i = 0; i < 4000; i++) {
    Case one{.cylinder = std::get<0>(GetParam()), .side = std::get<1>(GetParam())};
    for (int k = 0; k < 6; k++) one.z.push_back(uniform(random));
    one.z.push_back(0.2 + 0.15 * uniform(random));
    if (!one.wraps()) continue;
    wrapped++;
    const Operation op{.forward = [&](const Vector& z) { return one.forward(z); },
                       .pullback = [&](const Vector& z, const Vector& bar,
                                       Vector& z_bar) { one.pullback(z, bar, z_bar); }};
    const auto result = check_pullback(op, one.z, 7,
                                       {.tolerance = tolerances().smooth,
                                        .smallest = 1e-2,
                                        .step = 2e-5,
                                        .levels = 5,
                                        .directions = 2,
                                        .seed = static_cast<unsigned>(i)});
    if (!result && std::string(result.message()).find("inconclusive") != std::string::npos) {
      inconclusive++;
      continue;
    }
    ASSERT_TRUE(result) << i;
  }
  EXPECT_GT(wrapped, 200);
  EXPECT_LT(inconclusive, wrapped / 20);
}

INSTANTIATE_TEST_SUITE_P(Kinds, WrapPullback,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(Side::kNone, Side::kOutside,
                                                              Side::kInside)));

// ends on the surface, on the axis, opposite each other, coincident; paths that just touch
TEST(WrapPullback, IsFiniteAtSingularities) {
  const double r = 0.25;
  const std::vector<Vector> places = {{r, 0, 0},
                                      {0, r, 0},
                                      {-r, 0, 0},
                                      {1, r, 0},
                                      {-1, r, 0},
                                      {0.5, 0, 0},
                                      {-0.5, 0, 0},
                                      {0, 0, 0.5},
                                      {r, 0, 0.7},
                                      {r / std::sqrt(2), r / std::sqrt(2), 0},
                                      {1, 0, 0},
                                      {0, 0, 0},
                                      {r + 1e-16, 1e-16, 0},
                                      {1e-9, r, 1e-9},
                                      {0, 0.5, 0}};
  int wrapped = 0;
  for (const Vector& first : places) {
    for (const Vector& second : places) {
      for (const bool cylinder : {false, true}) {
        for (const Side side : {Side::kNone, Side::kOutside, Side::kInside}) {
          Case one{.cylinder = cylinder, .side = side, .z = first};
          one.z.insert(one.z.end(), second.begin(), second.end());
          one.z.push_back(r);
          if (!one.wraps()) continue;
          wrapped++;
          for (size_t k = 0; k < 7; k++) {
            Vector bar(7);
            bar[k] = 1;
            EXPECT_TRUE(finite(one.pull(one.z, bar))) << "cylinder " << cylinder << " bar " << k;
          }
        }
      }
    }
  }
  EXPECT_GT(wrapped, 100);
}

}  // namespace
}  // namespace diffmj
