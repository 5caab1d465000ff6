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

// m × x: rate of change of the motion x when it is carried by a frame that moves with m
inline Vector6 cross_motion(const Vector6& m, const Vector6& x) {
  return spatial(m.head<3>().cross(x.head<3>()),
                 m.head<3>().cross(x.tail<3>()) + m.tail<3>().cross(x.head<3>()));
}

// m ×* f: the same of a force. f·(m × x) = -(m ×* f)·x, and so f·(x × m) = (m ×* f)·x.
inline Vector6 cross_force(const Vector6& m, const Vector6& f) {
  return spatial(m.head<3>().cross(f.head<3>()) + m.tail<3>().cross(f.tail<3>()),
                 m.head<3>().cross(f.tail<3>()));
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
  Vector6 operator*(const Vector6& m) const {
    const Vector3 w = m.head<3>(), v = m.tail<3>();
    return spatial(rotational * w + mass_com.cross(v), mass * v - mass_com.cross(w));
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
