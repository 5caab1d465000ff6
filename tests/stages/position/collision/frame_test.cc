// The frame of a contact from its normal and tangent.
#include "stages/position/collision/frame.h"

#include <gtest/gtest.h>

#include "harness/check_pullback.h"
#include "harness/tolerances.h"
#include "stages/position/kinematics.h"

namespace diffmj {
namespace {

// mju_makeFrame, which MuJoCo does not export; every pair below compares with
// its own
Vector make_frame(const Vector &x) {
  Vector3 n(x.data()), t(x.data() + 3);
  n.normalize();
  if (t.norm() < 0.5) t = n[1] < 0.5 && n[1] > -0.5 ? Vector3::UnitY() : Vector3::UnitZ();
  t = (t - n * n.dot(t)).normalized();
  const Vector3 b = n.cross(t);
  return {n[0], n[1], n[2], t[0], t[1], t[2], b[0], b[1], b[2]};
}

// x = (normal, tangent)
Operation frame_operation(const Vector &tangent) {
  const auto whole = [tangent](const Vector &x) {
    Vector all = x;
    if (tangent.empty()) all.resize(6, 0.0);
    return all;
  };
  return {
      .forward = [=](const Vector &x) { return make_frame(whole(x)); },
      .pullback =
          [=](const Vector &x, const Vector &y_bar, Vector &x_bar) {
            const Vector all = whole(x);
            const Eigen::Matrix3d frame_bar = Rotation(y_bar.data());
            Vector3 normal_bar = Vector3::Zero(), tangent_bar = Vector3::Zero();
            contact_frame_pullback(Vector3(all.data()), Vector3(all.data() + 3), frame_bar,
                                   normal_bar, tangent_bar);
            for (size_t k = 0; k < x.size(); k++) {
              x_bar[k] += k < 3 ? normal_bar[static_cast<Eigen::Index>(k)]
                                : tangent_bar[static_cast<Eigen::Index>(k) - 3];
            }
          },
  };
}

const std::vector<Vector> kNormals = {{0.36, 0.48, 0.8}, {0, 0, 1},         {1, 0, 0},
                                      {0, 1, 0},         {0, -1, 0},        {0.01, 0.9999, -0.02},
                                      {0.5, 0.51, -0.7}, {0.7, -0.49, 0.52}};

TEST(ContactFrame, WithoutTangentMatchesDifferences) {
  for (Vector normal : kNormals) {
    SCOPED_TRACE(::testing::PrintToString(normal));
    mju_normalize3(normal.data());
    EXPECT_TRUE(check_pullback(frame_operation({}), normal, 3, {.tolerance = tolerances().stage}));
  }
}

TEST(ContactFrame, WithTangentMatchesDifferences) {
  const std::vector<Vector> tangents = {{0.6, -0.8, 0.1}, {0, 0.6, 0.7}, {0.9, 0.2, -0.3}};
  for (Vector normal : kNormals) {
    mju_normalize3(normal.data());
    for (const Vector &tangent : tangents) {
      SCOPED_TRACE(::testing::PrintToString(normal) + ::testing::PrintToString(tangent));
      Vector x = normal;
      x.insert(x.end(), tangent.begin(), tangent.end());
      EXPECT_TRUE(
          check_pullback(frame_operation(tangent), x, 6, {.tolerance = tolerances().stage}));
    }
  }
}

// a tangent along the normal: finite, the normal's own row only
TEST(ContactFrame, TangentAlongTheNormalIsFinite) {
  Vector3 normal_bar = Vector3::Zero(), tangent_bar = Vector3::Zero();
  contact_frame_pullback(Vector3::UnitX(), Vector3::UnitX(), Eigen::Matrix3d::Ones(), normal_bar,
                         tangent_bar);
  EXPECT_TRUE(normal_bar.allFinite() && tangent_bar.allFinite());
}

}  // namespace
}  // namespace diffmj
