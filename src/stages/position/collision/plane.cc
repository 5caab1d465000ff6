#include "stages/position/collision/plane.h"

#include <cmath>

#include "stages/position/collision/feature.h"

namespace diffmj {
namespace {

// points of a cylinder: the lowest of either rim, and two more of the lower one, which make an
// equilateral triangle. All turn about the axis with the direction u in which the plane falls:
//   u = w/|w|,  w = axis (axis·n) - n;    δu · τ = -τ · ((ω1 - ω2) × n) / |w|,   τ = axis × u
bool cylinder_point_pullback(const GeomPose& cylinder, const Vector3& n, const Vector3& c,
                             const Vector3& c_bar, double tolerance, double turning, PairBar& out) {
  const double radius = cylinder.size[0], half = cylinder.size[1];
  const Vector3 axis = cylinder.axis(2);
  const double along = axis.dot(n);
  const Vector3 w = axis * along - n;
  const double length = w.norm();
  // as MuJoCo decides: a cylinder that stands takes its own x axis
  const bool stands = length < mjMINVAL;
  const Vector3 u = stands ? cylinder.axis(0) : Vector3(w / length);
  const Vector3 tau = axis.cross(u), from = c - cylinder.pos;
  const double x = from.dot(u), y = from.dot(tau), z = from.dot(axis);
  const double half_root3 = 0.5 * std::sqrt(3.0);
  const auto is_at = [&](double to_x, double to_y) {
    return std::abs(x - to_x * radius) < tolerance && std::abs(y - to_y * radius) < tolerance;
  };
  if (std::abs(std::abs(z) - half) > tolerance) return false;
  if (!is_at(1, 0) && !is_at(-0.5, half_root3) && !is_at(-0.5, -half_root3)) return false;

  out.force(1, c, c_bar);
  out.size[1][0] += (x * u + y * tau).dot(c_bar) / radius;
  out.size[1][1] += z < 0 ? -axis.dot(c_bar) : axis.dot(c_bar);
  if (stands || turning == 0) return true;
  const double turn_bar = turning * axis.dot(from.cross(c_bar));
  const Vector3 torque = -turn_bar / length * n.cross(tau);
  out.torque(0, torque);
  out.torque(1, -torque);
  return true;
}

// δc = (that of a point fixed in the ellipsoid) + H (δm - ω2 × m),  m = -n;
// H = s²/L - (s² d)(s² d)ᵀ/L³,  L = |s d|,  in local axes with d = m
bool ellipsoid_point_pullback(const GeomPose& ellipsoid, const Vector3& n, const Vector3& c,
                              const Vector3& c_bar, double tolerance, PairBar& out) {
  const Vector3 s = ellipsoid.size, d = ellipsoid.mat.transpose() * -n;
  const Vector3 p = ellipsoid_support(s, d);
  if ((ellipsoid.local(c) - p).lpNorm<Eigen::Infinity>() > tolerance) return false;
  const double length = s.cwiseProduct(d).norm();
  const Vector3 local_bar = ellipsoid.mat.transpose() * c_bar;
  const Vector3 H_bar =
      ellipsoid.mat *
      Vector3((s.cwiseAbs2().cwiseProduct(local_bar) - p * p.dot(local_bar)) / length);
  out.force(1, c, c_bar);
  out.torque(0, -n.cross(H_bar));
  out.torque(1, n.cross(H_bar));
  out.size[1] += ellipsoid_support_size_rate(s, d).transpose() * local_bar;
  return true;
}

}  // namespace

Vector3 face_point_pullback(int side, const Vector3& e, int face_size, const PairContact& contact,
                            const PairContactBar& bar, PairBar& out) {
  const Vector3 c = contact.surface(1 - side);
  // pos = c - e dist/2
  const double dist_bar = bar.dist - 0.5 * e.dot(bar.pos);
  const Vector3 e_bar = (side == 0 ? bar.n : Vector3(-bar.n)) - 0.5 * contact.dist * bar.pos;
  // dist = e · (c - face)
  out.force(side, c, -dist_bar * e);
  out.torque(side, e.cross(e_bar));
  if (face_size >= 0) out.size[static_cast<size_t>(side)][face_size] -= dist_bar;
  return bar.pos + dist_bar * e;
}

bool plane_pullback(const std::array<GeomPose, 2>& geom, const PairContact& contact,
                    const PairContactBar& bar, double turning, PairBar& out) {
  const GeomPose& other = geom[1];
  const Vector3 n = geom[0].axis(2), c = contact.surface(1);
  const double tolerance = feature_tolerance(other);
  if ((contact.n - n).lpNorm<Eigen::Infinity>() > kFeatureTolerance) return false;
  if (other.type != mjGEOM_MESH && std::abs(n.dot(c - geom[0].pos) - contact.dist) > tolerance) {
    return false;
  }
  const Vector3 c_bar = face_point_pullback(0, n, -1, contact, bar, out);

  switch (other.type) {
    case mjGEOM_SPHERE:
    case mjGEOM_CAPSULE: {
      // the lowest point of a sphere, c = centre - n radius
      const double radius = other.size[0];
      Vector3 centre = other.pos;
      if (other.type == mjGEOM_CAPSULE) {
        const Vector3 axis = other.axis(2);
        const double sign = axis.dot(c - other.pos + radius * n) < 0 ? -1 : 1;
        centre += sign * other.size[1] * axis;
        out.size[1][1] += sign * axis.dot(c_bar);
        out.torque(1, axis.cross(bar.tangent));
      }
      if ((centre - radius * n - c).lpNorm<Eigen::Infinity>() > tolerance) return false;
      out.force(1, centre, c_bar);
      out.torque(0, -radius * n.cross(c_bar));
      out.size[1][0] -= n.dot(c_bar);
      return true;
    }
    case mjGEOM_BOX: {
      const Vector3 y = other.local(c);
      if ((y.cwiseAbs() - other.size).lpNorm<Eigen::Infinity>() > tolerance) return false;
      out.force(1, c, c_bar);
      out.size[1] += y.cwiseSign().cwiseProduct(other.mat.transpose() * c_bar);
      return true;
    }
    case mjGEOM_MESH:
      out.force(1, c, c_bar);
      return true;
    case mjGEOM_CYLINDER:
      return cylinder_point_pullback(other, n, c, c_bar, tolerance, turning, out);
    case mjGEOM_ELLIPSOID:
      return ellipsoid_point_pullback(other, n, c, c_bar, tolerance, out);
    default:
      return false;
  }
}

}  // namespace diffmj
