// Spatial vectors in the world frame, about the world's origin: motions (ω, v of the point that is
// at the origin) and forces (torque about the origin, force). Power is their dot product.
#ifndef DIFFMJ_BASE_SPATIAL_H_
#define DIFFMJ_BASE_SPATIAL_H_

#include <Eigen/Core>
#include <Eigen/Geometry>

namespace diffmj {

using Vector3 = Eigen::Vector3d;
using Vector6 = Eigen::Matrix<double, 6, 1>;

// m × x: rate of change of the motion x when it is carried by a frame that moves with m
inline Vector6 cross_motion(const Vector6& m, const Vector6& x) {
  Vector6 out;
  out << m.head<3>().cross(x.head<3>()),
      m.head<3>().cross(x.tail<3>()) + m.tail<3>().cross(x.head<3>());
  return out;
}

// m ×* f: the same of a force. f·(m × x) = -(m ×* f)·x, and so f·(x × m) = (m ×* f)·x.
inline Vector6 cross_force(const Vector6& m, const Vector6& f) {
  Vector6 out;
  out << m.head<3>().cross(f.head<3>()) + m.tail<3>().cross(f.tail<3>()),
      m.head<3>().cross(f.tail<3>());
  return out;
}

// A force that acts at a point, with a torque.
inline Vector6 wrench_at(const Vector3& point, const Vector3& torque, const Vector3& force) {
  Vector6 out;
  out << torque + point.cross(force), force;
  return out;
}

// A body's inertia: mass, centre of mass, rotational inertia about it in world axes.
struct SpatialInertia {
  double mass = 0;
  Vector3 com = Vector3::Zero();
  Eigen::Matrix3d inertia = Eigen::Matrix3d::Zero();

  // momentum of a motion
  Vector6 operator*(const Vector6& m) const {
    const Vector3 w = m.head<3>();
    const Vector3 linear = mass * (m.tail<3>() + w.cross(com));
    return wrench_at(com, inertia * w, linear);
  }
};

}  // namespace diffmj

#endif  // DIFFMJ_BASE_SPATIAL_H_
