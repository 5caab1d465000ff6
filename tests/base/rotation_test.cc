#include "base/rotation.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include "harness/check_pullback.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

// angles in every branch: zero, series, closed form, near a full turn
const std::vector<double> kAngles = {0, 1e-9, 3e-3, 0.05, 0.3, 1.5, 3.1, 6.0};
const Vector3 kAxis = Vector3(0.3, -0.8, 0.5).normalized();

Vector3 vector3(const Vector& x, size_t at) { return {x[at], x[at + 1], x[at + 2]}; }

TEST(Rotation, RotateMatchesMujoco) {
  const Vector3 w(0.4, 1.2, -0.7);
  for (double angle : kAngles) {
    const Vector3 u = angle * kAxis;
    double quat[4], expected[3];
    mju_axisAngle2Quat(quat, kAxis.data(), angle);
    mju_rotVecQuat(expected, w.data(), quat);
    EXPECT_LE((rotate(u, w) - Vector3(expected)).norm(), tolerances().forward) << angle;
  }
}

// exp(u + du) = exp(u) exp(Jr du): the quaternion's own derivative
TEST(Rotation, RightJacobianIsThatOfExp) {
  for (double angle : kAngles) {
    const Vector3 base = angle * kAxis;
    double quat0[4];
    mju_axisAngle2Quat(quat0, kAxis.data(), angle);
    const Operation op = {
        .forward =
            [&](const Vector& x) {
              const Vector3 u = vector3(x, 0);
              double quat[4], tangent[3];
              const Vector3 axis = u.norm() > 0 ? Vector3(u.normalized()) : kAxis;
              mju_axisAngle2Quat(quat, axis.data(), u.norm());
              mju_subQuat(tangent, quat, quat0);
              return Vector(tangent, tangent + 3);
            },
        .pullback =
            [](const Vector& x, const Vector& y_bar, Vector& x_bar) {
              const Vector3 bar = right_jacobian_transposed(vector3(x, 0), vector3(y_bar, 0));
              for (int i = 0; i < 3; i++) x_bar[static_cast<size_t>(i)] += bar[i];
            },
    };
    EXPECT_TRUE(
        check_pullback(op, {base[0], base[1], base[2]}, 3, {.tolerance = tolerances().stage}))
        << angle;
  }
}

TEST(Rotation, DexpinvInvertsRightJacobian) {
  const Vector3 w(0.4, 1.2, -0.7), y(-0.2, 0.5, 0.9);
  for (double angle : {0.0, 1e-9, 3e-3, 0.05, 0.3, 1.5, 3.1}) {
    const Vector3 u = angle * kAxis;
    // ⟨Jrᵀ y, Jr⁻¹ w⟩ = ⟨y, w⟩
    EXPECT_NEAR(right_jacobian_transposed(u, y).dot(dexpinv(u, w)), y.dot(w), tolerances().forward)
        << angle;
  }
}

TEST(Rotation, DexpinvPullbackMatchesDifferences) {
  const Operation op = {
      .forward =
          [](const Vector& x) {
            const Vector3 y = dexpinv(vector3(x, 0), vector3(x, 3));
            return Vector(y.data(), y.data() + 3);
          },
      .pullback =
          [](const Vector& x, const Vector& y_bar, Vector& x_bar) {
            Vector3 u_bar = Vector3::Zero(), w_bar = Vector3::Zero();
            dexpinv_pullback(vector3(x, 0), vector3(x, 3), vector3(y_bar, 0), u_bar, w_bar);
            for (int i = 0; i < 3; i++) {
              x_bar[static_cast<size_t>(i)] += u_bar[i];
              x_bar[static_cast<size_t>(i) + 3] += w_bar[i];
            }
          },
  };
  for (double angle : {0.0, 1e-9, 3e-3, 0.05, 0.0999, 0.1001, 0.3, 1.5, 3.1}) {
    const Vector3 u = angle * kAxis;
    EXPECT_TRUE(check_pullback(op, {u[0], u[1], u[2], 0.4, 1.2, -0.7}, 6,
                               {.tolerance = tolerances().stage}))
        << angle;
  }
}

}  // namespace
}  // namespace diffmj
