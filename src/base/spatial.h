// Spatial vectors in world axes about an origin: motions (ω, v of the point that is at the origin)
// and forces (torque about the origin, force). Power is their dot product.
#ifndef DIFFMJ_BASE_SPATIAL_H_
#define DIFFMJ_BASE_SPATIAL_H_

#include <Eigen/Core>
#include <Eigen/Geometry>

namespace diffmj {

using Vector3 = Eigen::Vector3d;
using Vector6 = Eigen::Matrix<double, 6, 1>;
using Matrix6 = Eigen::Matrix<double, 6, 6>;

// From the two halves. (Eigen's comma initialiser is many times slower.)
inline Vector6 spatial(const Vector3& angular, const Vector3& linear) {
  Vector6 out;
  out.head<3>() = angular;
  out.tail<3>() = linear;
  return out;
}

// The products below are written out: they are most of what a backward pass computes, and as Eigen
// expressions they take twice the instructions.

// m × x: rate of change of the motion x when it is carried by a frame that moves with m
[[gnu::always_inline]] inline Vector6 cross_motion(const Vector6& m, const Vector6& x) {
  Vector6 out;
  out[0] = m[1] * x[2] - m[2] * x[1];
  out[1] = m[2] * x[0] - m[0] * x[2];
  out[2] = m[0] * x[1] - m[1] * x[0];
  out[3] = m[1] * x[5] - m[2] * x[4] + m[4] * x[2] - m[5] * x[1];
  out[4] = m[2] * x[3] - m[0] * x[5] + m[5] * x[0] - m[3] * x[2];
  out[5] = m[0] * x[4] - m[1] * x[3] + m[3] * x[1] - m[4] * x[0];
  return out;
}

// m ×* f: the same of a force. f·(m × x) = -(m ×* f)·x, and so f·(x × m) = (m ×* f)·x.
[[gnu::always_inline]] inline Vector6 cross_force(const Vector6& m, const Vector6& f) {
  Vector6 out;
  out[0] = m[1] * f[2] - m[2] * f[1] + m[4] * f[5] - m[5] * f[4];
  out[1] = m[2] * f[0] - m[0] * f[2] + m[5] * f[3] - m[3] * f[5];
  out[2] = m[0] * f[1] - m[1] * f[0] + m[3] * f[4] - m[4] * f[3];
  out[3] = m[1] * f[5] - m[2] * f[4];
  out[4] = m[2] * f[3] - m[0] * f[5];
  out[5] = m[0] * f[4] - m[1] * f[3];
  return out;
}

// Velocity of a point, given relative to the origin.
inline Vector3 velocity_at(const Vector6& m, const Vector3& point) {
  return m.tail<3>() + m.head<3>().cross(point);
}

// A force that acts at a point, with a torque; and the torque of a wrench about a point.
inline Vector6 wrench_at(const Vector3& point, const Vector3& torque, const Vector3& force) {
  return spatial(torque + point.cross(force), force);
}

inline Vector3 torque_about(const Vector6& wrench, const Vector3& point) {
  return wrench.head<3>() - point.cross(wrench.tail<3>());
}

// A body's inertia about the origin: rotational part, mass times centre of mass, mass; as MuJoCo
// keeps it in cinert (xx, yy, zz, xy, xz, yz of the rotational part first).
struct SpatialInertia {
  explicit SpatialInertia(const double* cinert)
      : mass(cinert[9]), mass_com(cinert[6], cinert[7], cinert[8]) {
    rotational.col(0) = Vector3(cinert[0], cinert[3], cinert[4]);
    rotational.col(1) = Vector3(cinert[3], cinert[1], cinert[5]);
    rotational.col(2) = Vector3(cinert[4], cinert[5], cinert[2]);
  }

  // momentum of a motion
  [[gnu::always_inline]] Vector6 operator*(const Vector6& m) const {
    const Eigen::Matrix3d& I = rotational;  // symmetric
    const Vector3& c = mass_com;
    Vector6 out;
    out[0] = I(0, 0) * m[0] + I(1, 0) * m[1] + I(2, 0) * m[2] + c[1] * m[5] - c[2] * m[4];
    out[1] = I(1, 0) * m[0] + I(1, 1) * m[1] + I(2, 1) * m[2] + c[2] * m[3] - c[0] * m[5];
    out[2] = I(2, 0) * m[0] + I(2, 1) * m[1] + I(2, 2) * m[2] + c[0] * m[4] - c[1] * m[3];
    out[3] = mass * m[3] + c[2] * m[1] - c[1] * m[2];
    out[4] = mass * m[4] + c[0] * m[2] - c[2] * m[0];
    out[5] = mass * m[5] + c[1] * m[0] - c[0] * m[1];
    return out;
  }

  Matrix6 matrix() const {
    Matrix6 out;
    for (int k = 0; k < 6; k++) out.col(k) = *this * Vector6(Vector6::Unit(k));
    return out;
  }

  double mass;
  Vector3 mass_com;
  Eigen::Matrix3d rotational;
};

}  // namespace diffmj

#endif  // DIFFMJ_BASE_SPATIAL_H_
