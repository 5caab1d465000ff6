#include "stages/position/collision/feature.h"

#include <cmath>
#include <limits>

#include "stages/position/collision/vertices.h"

namespace diffmj {
namespace {

class Finder {
 public:
  Finder(const GeomPose& geom, const Vector3& surface, const Vector3& outward,
         const FeatureTolerance& tolerance, Feature& out)
      : geom_(geom),
        q_(surface),
        m_(outward),
        near_(tolerance.place * geom.size.lpNorm<1>()),
        flat_(tolerance.normal),
        out_(out) {}

  bool run() {
    switch (geom_.type) {
      case mjGEOM_SPHERE:
        return sphere();
      case mjGEOM_CAPSULE:
        return capsule();
      case mjGEOM_ELLIPSOID:
        return ellipsoid();
      case mjGEOM_CYLINDER:
        return cylinder();
      case mjGEOM_BOX:
        return box();
      case mjGEOM_MESH:
        return mesh();
      case mjGEOM_HFIELD:
        return hfield();
      default:
        return false;
    }
  }

 private:
  bool sphere() {
    out_.p = geom_.pos;
    set_radius(0);
    return is_core();
  }

  // an end, or the segment between them
  bool capsule() {
    const Vector3 axis = geom_.axis(2);
    const double half = geom_.size[1];
    set_radius(0);
    const double x = axis.dot(q_ - out_.radius * m_ - geom_.pos);
    if (std::abs(x) >= half - near_) {
      end(axis, 1, x);
      out_.p = geom_.pos + std::copysign(half, x) * axis;
    } else {
      out_.p = geom_.pos + x * axis;
      if (!tangent(axis)) return false;
    }
    return is_core();
  }

  // corner, edge or face: the coordinates that are at their bounds
  bool box() {
    const Vector3 y = geom_.local(q_), m = geom_.mat.transpose() * m_;
    out_.p = q_;
    int bounds = 0;
    for (int k = 0; k < 3; k++) {
      const double beyond = std::abs(y[k]) - geom_.size[k];
      if (beyond > near_) return false;
      if (beyond >= -near_ || std::abs(m[k]) > flat_) {
        if (beyond < -near_) return false;
        end(geom_.axis(k), k, y[k]);
        bounds++;
      } else if (!tangent(geom_.axis(k))) {
        return false;
      }
    }
    return bounds > 0;
  }

  // side, cap or the rim between them
  bool cylinder() {
    const Vector3 y = geom_.local(q_), axis = geom_.axis(2);
    const double radius = geom_.size[0], half = geom_.size[1];
    const double rho = std::hypot(y[0], y[1]);
    if (rho > radius + near_ || std::abs(y[2]) > half + near_) return false;
    const bool at_side = rho >= radius - near_, at_cap = std::abs(y[2]) >= half - near_;
    if (at_side && !at_cap) {
      out_.p = geom_.pos + y[2] * axis;
      set_radius(0);
      return tangent(axis) && is_core();
    }
    if (!at_cap) return false;
    end(axis, 1, y[2]);
    out_.p = q_;
    if (!at_side) return tangent(geom_.axis(0)) && tangent(geom_.axis(1));
    // ∂t/∂θ = -u/radius
    const Vector3 u = geom_.mat * Vector3(y[0] / rho, y[1] / rho, 0);
    out_.size_rate.col(0) = u;
    out_.K(0, 0) = -m_.dot(u) / radius;
    return tangent(axis.cross(u));
  }

  // surface x with Σ (x/s)² = 1: curvature tᵀ diag(1/s²) t / |x/s²| towards the inside
  bool ellipsoid() {
    const Vector3 d = geom_.mat.transpose() * m_, s = geom_.size;
    const Vector3 x = ellipsoid_support(s, d);
    out_.p = geom_.pos + geom_.mat * x;
    if ((out_.p - q_).lpNorm<Eigen::Infinity>() > near_) return false;
    Vector3 first = d.cross(Vector3::Unit(std::abs(d[0]) < 0.6 ? 0 : 1)).normalized();
    const std::array<Vector3, 2> t = {first, d.cross(first)};
    const Vector3 curvature = s.array().inverse().square();
    const double gradient = x.cwiseProduct(curvature).norm();
    for (int i = 0; i < 2; i++) {
      for (int j = 0; j < 2; j++) {
        out_.K(i, j) =
            -t[static_cast<size_t>(i)].dot(curvature.cwiseProduct(t[static_cast<size_t>(j)])) /
            gradient;
      }
      out_.t[static_cast<size_t>(i)] = geom_.mat * t[static_cast<size_t>(i)];
    }
    out_.dim = 2;
    out_.size_rate = geom_.mat * ellipsoid_support_size_rate(s, d);
    return true;
  }

  bool mesh() {
    const HullVertices hull(geom_);
    return polytope(hull.size(), [&](int i) { return hull[i]; });
  }

  // one of the prisms near the point
  bool hfield() {
    return visit_prisms(geom_, geom_.local(q_),
                        [&](const std::array<Vector3, 3>& top, double bottom) {
                          out_ = Feature();
                          return polytope(6, [&](int i) {
                            const Vector3& v = top[static_cast<size_t>(i % 3)];
                            return i < 3 ? v : Vector3(v[0], v[1], bottom);
                          });
                        });
  }

  // the vertices that are farthest along the normal: one, an edge or a face
  template <class F>
  bool polytope(int n, const F& vertex) {
    const Vector3 d = geom_.mat.transpose() * m_, q = geom_.local(q_);
    Vector3 top = Vector3::Zero();
    double most = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < n; i++) {
      const Vector3 v = vertex(i);
      if (v.dot(d) <= most) continue;
      most = v.dot(d);
      top = v;
    }
    if (std::abs(q.dot(d) - most) > near_) return false;
    // the farthest of those in the plane across the normal, then the farthest from that line
    Vector3 along = Vector3::Zero();
    const auto in_plane = [&](const Vector3& v) {
      const Vector3 way = v - top;
      return std::abs(way.dot(d)) <= flat_ * way.norm() && way.norm() > near_;
    };
    for (int i = 0; i < n; i++) {
      const Vector3 v = vertex(i);
      if (in_plane(v) && (v - top).squaredNorm() > along.squaredNorm()) along = v - top;
    }
    out_.p = q_;
    if (along.isZero(0)) return (q - top).lpNorm<Eigen::Infinity>() <= near_;
    const double length = along.norm();
    const Vector3 t = along / length;
    bool face = false;
    for (int i = 0; i < n && !face; i++) {
      const Vector3 v = vertex(i);
      face = in_plane(v) && (v - top - t * t.dot(v - top)).norm() > flat_ * length + near_;
    }
    if (face) return tangent(geom_.mat * t) && tangent(m_.cross(geom_.mat * t));
    const double x = t.dot(q - top);
    if (x < -near_ || x > length + near_) return false;
    if ((q - top - x * t).lpNorm<Eigen::Infinity>() > near_) return false;
    return tangent(geom_.mat * t);
  }

  void set_radius(int size) {
    out_.radius = geom_.size[size];
    out_.radius_size = size;
  }
  // p is at a bound of size k along an axis, on the side of x
  void end(const Vector3& axis, int k, double x) {
    out_.size_rate.col(k) = x < 0 ? Vector3(-axis) : axis;
  }
  bool tangent(const Vector3& t) {
    if (std::abs(t.dot(m_)) > flat_) return false;
    out_.t[static_cast<size_t>(out_.dim++)] = t;
    return true;
  }
  bool is_core() const {
    return (q_ - out_.radius * m_ - out_.p).lpNorm<Eigen::Infinity>() <= near_;
  }

  const GeomPose& geom_;
  const Vector3 &q_, &m_;
  double near_, flat_;
  Feature& out_;
};

}  // namespace

bool find_feature(const GeomPose& geom, const Vector3& surface, const Vector3& outward,
                  const FeatureTolerance& tolerance, Feature& out) {
  return Finder(geom, surface, outward, tolerance, out).run();
}

bool support_feature(const GeomPose& geom, const Vector3& outward,
                     const FeatureTolerance& tolerance, Feature& out) {
  const Vector3 d = geom.mat.transpose() * outward;
  Vector3 local = Vector3::Zero();
  const auto end = [&](int k, double size) {
    if (std::abs(d[k]) > tolerance.normal) local[k] = std::copysign(size, d[k]);
  };
  if (geom.type == mjGEOM_BOX) {
    for (int k = 0; k < 3; k++) end(k, geom.size[k]);
  } else if (geom.type == mjGEOM_CYLINDER) {
    const double across = std::hypot(d[0], d[1]);
    end(2, geom.size[1]);
    if (across > tolerance.normal) local.head<2>() = geom.size[0] / across * d.head<2>();
  } else if (geom.type == mjGEOM_MESH) {
    double most = -std::numeric_limits<double>::infinity();
    const HullVertices hull(geom);
    for (int i = 0; i < hull.size(); i++) {
      const Vector3 v = hull[i];
      if (v.dot(d) <= most) continue;
      most = v.dot(d);
      local = v;
    }
  } else {
    return false;
  }
  return find_feature(geom, geom.pos + geom.mat * local, outward, tolerance, out);
}

Vector3 ellipsoid_support(const Vector3& size, const Vector3& d) {
  const Vector3 scaled = size.cwiseProduct(d);
  return size.cwiseProduct(scaled) / scaled.norm();
}

Eigen::Matrix3d ellipsoid_support_size_rate(const Vector3& size, const Vector3& d) {
  // p = s² d / L,  L = |s d|:  ∂p_k/∂s_j = 2 s_k d_k δ_kj / L - p_k s_j d_j² / L²
  const Vector3 scaled = size.cwiseProduct(d);
  const double length = scaled.norm();
  const Vector3 p = size.cwiseProduct(scaled) / length;
  Eigen::Matrix3d rate = -p * scaled.cwiseProduct(d).transpose() / (length * length);
  rate.diagonal() += 2 / length * scaled;
  return rate;
}

}  // namespace diffmj
