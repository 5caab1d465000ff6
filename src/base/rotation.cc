#include "base/rotation.h"

#include <cmath>

namespace diffmj {
namespace {

// below this angle the closed forms cancel; the series are exact to 1e-16 there
constexpr double kSmallAngle = 1e-2;

double sin_over(double theta) {  // sin θ / θ
  const double t2 = theta * theta;
  return theta < kSmallAngle ? 1 - t2 / 6 + t2 * t2 / 120 - t2 * t2 * t2 / 5040
                             : std::sin(theta) / theta;
}

double b_of(double theta) {  // (1 - cos θ)/θ²
  const double half = sin_over(theta / 2);
  return half * half / 2;
}

double c_of(double theta) {  // (θ - sin θ)/θ³
  const double t2 = theta * theta;
  return theta < 10 * kSmallAngle ? 1. / 6 - t2 / 120 + t2 * t2 / 5040 - t2 * t2 * t2 / 362880
                                  : (theta - std::sin(theta)) / (t2 * theta);
}

double k_of(double theta) {  // (1 - (θ/2) cot(θ/2))/θ²
  const double t2 = theta * theta;
  return theta < 10 * kSmallAngle ? 1. / 12 + t2 / 720 + t2 * t2 / 30240 + t2 * t2 * t2 / 1209600
                                  : (1 - theta / 2 / std::tan(theta / 2)) / t2;
}

double k_derivative_over(double theta) {  // k'(θ)/θ
  const double t2 = theta * theta;
  if (theta < 10 * kSmallAngle) return 1. / 360 + t2 / 7560 + t2 * t2 / 201600;
  const double sine = std::sin(theta / 2);
  // d/dθ of (θ/2) cot(θ/2) is cot(θ/2)/2 - (θ/4)/sin²(θ/2)
  const double slope = 0.5 / std::tan(theta / 2) - theta / (4 * sine * sine);
  return (-slope / t2 - 2 * k_of(theta) / theta) / theta;
}

}  // namespace

Vector3 rotate(const Vector3& u, const Vector3& w) {
  const double theta = u.norm();
  const Vector3 uw = u.cross(w);
  return w + sin_over(theta) * uw + b_of(theta) * u.cross(uw);
}

Vector3 right_jacobian_transposed(const Vector3& u, const Vector3& w) {
  // (I - b u^ + c u^²)ᵀ = I + b u^ + c u^²
  const double theta = u.norm();
  const Vector3 uw = u.cross(w);
  return w + b_of(theta) * uw + c_of(theta) * u.cross(uw);
}

Vector3 dexpinv(const Vector3& u, const Vector3& w) {
  const Vector3 uw = u.cross(w);
  return w + 0.5 * uw + k_of(u.norm()) * u.cross(uw);
}

void dexpinv_pullback(const Vector3& u, const Vector3& w, const Vector3& y_bar, Vector3& u_bar,
                      Vector3& w_bar) {
  const double theta = u.norm();
  const double k = k_of(theta);
  const Vector3 uy = u.cross(y_bar);
  // y = w
  w_bar += y_bar - 0.5 * uy + k * u.cross(uy);
  //   + ½ u×w
  u_bar += 0.5 * w.cross(y_bar);
  //   + k u×(u×w) = k (u (u·w) - w (u·u))
  const double dot = u.dot(w);
  u_bar += k * (dot * y_bar + u.dot(y_bar) * w - 2 * w.dot(y_bar) * u);
  const Vector3 uuw = u * dot - w * u.squaredNorm();
  u_bar += k_derivative_over(theta) * uuw.dot(y_bar) * u;
}

Eigen::Matrix<double, 4, 3> quaternion_tangent(const Eigen::Vector4d& q) {
  Eigen::Matrix<double, 4, 3> G;
  // clang-format off
  G << -q[1], -q[2], -q[3],
        q[0], -q[3],  q[2],
        q[3],  q[0], -q[1],
       -q[2],  q[1],  q[0];
  // clang-format on
  return 0.5 * G;
}

void quaternion_cotangent_to_ambient(const double* q, const Vector3& u_bar, double* q_bar) {
  const Eigen::Map<const Eigen::Vector4d> quaternion(q);
  const double norm = quaternion.norm();
  // Gᵀ G = ¼ I, so the cotangent with Gᵀ q_bar = u_bar and q_bar ⟂ q is 4 G u_bar
  Eigen::Map<Eigen::Vector4d> out(q_bar);
  out += 4 / norm * (quaternion_tangent(quaternion / norm) * u_bar);
}

}  // namespace diffmj
