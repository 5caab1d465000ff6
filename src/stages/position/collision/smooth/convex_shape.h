// Convex geoms for smooth colliders, by the point of theirs that is farthest in a direction.
//
// That point jumps where a face is met, from corner to corner, and stands still where an edge or a
// corner is. Here it moves over the face while the direction turns by ε = w'/size,
//
//   x_k = (s_k - r) c(v_k/ε_k) + r v_k                                              box      (16)
//   c(x) = x (15 - 10 x² + 3 x⁴)/8 on [-1, 1], the sign beyond                               (17)
//
// and a ball of radius r = w'/2 is rolled over the geom, drawn in by r, so that it turns round
// edges and corners. A capsule is a segment with its own radius for r, a cylinder has (17) along
// its axis and over its caps, an ellipsoid needs nothing. Of a mesh it is the mean of its vertices,
//
//   x = Σ p_i v_i + r v,   p_i ∝ exp(v·v_i/T),  T = w'/8                                     (18)
//
// All points are inside the geom, and on its faces where those are met.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_CONVEX_SHAPE_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_CONVEX_SHAPE_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/mesh.h"
#include "stages/position/collision/smooth/smoothing.h"

namespace diffmj {

constexpr double kRounding = 0.5;       // r/w'
constexpr double kTemperature = 0.125;  // T/w'
constexpr double kLowest = 24;          // of T below the highest: e⁻²⁴ of its weight is left

// A point, and how it changes with the direction: D = ∂x/∂v, symmetric.
struct SupportPoint {
  Vec3<double> along(const Vec3<double>& e) const {
    return {xx * e.x + xy * e.y + xz * e.z, xy * e.x + yy * e.y + yz * e.z,
            xz * e.x + yz * e.y + zz * e.z};
  }

  Vec3<double> x;
  double xx = 0, xy = 0, xz = 0, yy = 0, yz = 0, zz = 0;
};

template <class T>
class ConvexShape {
 public:
  ConvexShape(int type, const SmoothGeom<T>& geom, double width)
      : type_(type), geom_(geom), s_(geom.size) {
    switch (type_) {
      case mjGEOM_SPHERE:
        r_ = s_[0];
        break;
      case mjGEOM_CAPSULE:
        w_ = shape_width(width, s_[1]);
        r_ = s_[0];
        eps_[2] = w_ / s_[1];
        half_ = {T(0.0), T(0.0), s_[1]};
        break;
      case mjGEOM_ELLIPSOID:
        w_ = shape_width(width, s_[0], s_[1], s_[2]);
        break;
      case mjGEOM_CYLINDER:
        w_ = shape_width(width, s_[0], s_[1]);
        r_ = kRounding * w_;
        eps_ = {w_ / s_[0], w_ / s_[0], w_ / s_[1]};
        half_ = {s_[0] - r_, s_[0] - r_, s_[1] - r_};
        break;
      case mjGEOM_BOX:
        w_ = shape_width(width, s_[0], s_[1], s_[2]);
        r_ = kRounding * w_;
        for (size_t k = 0; k < 3; k++) {
          eps_[k] = w_ / s_[k];
          half_[k] = s_[k] - r_;
        }
        break;
      default:
        w_ = T(geom.mesh->width());
        r_ = T(geom.mesh->rounding());
        eps_.fill(T(geom.mesh->eps()));
    }
  }

  int type() const { return type_; }
  const SmoothGeom<T>& geom() const { return geom_; }
  // Whether it has faces or edges, which may touch in more than a point.
  bool has_faces() const {
    return type_ == mjGEOM_MESH ? geom_.mesh->has_faces()
                                : type_ != mjGEOM_SPHERE && type_ != mjGEOM_ELLIPSOID;
  }
  // w', if the shape has one
  const T& width() const { return w_; }
  const T& eps(size_t k) const { return eps_[k]; }
  T eps() const {
    using std::sqrt;
    return sqrt(T(eps_[0] * eps_[0] + eps_[1] * eps_[1] + eps_[2] * eps_[2]));
  }
  // How far its points go per radian of the direction where it is curved; v as in support().
  T roundness(const Vec3<T>& v) const {
    switch (type_) {
      case mjGEOM_CAPSULE:
        return s_[0];
      case mjGEOM_CYLINDER:  // but for its caps
        return r_ + half_[0] * smooth_ramp(T(norm(Vec3<T>{v.x, v.y, T(0.0)}) - eps_[0]), eps_[0]);
      case mjGEOM_MESH:
        return T(geom_.mesh->roundness());
      default:
        return r_;
    }
  }
  // The vertices of a mesh to look at; null: all.
  void set_near(const std::vector<Vec3<double>>* near) { near_ = near; }
  const std::vector<Vec3<double>>* near() const { return near_; }

  Vec3<T> local(const Vec3<T>& v) const {
    return {dot(geom_.axis[0], v), dot(geom_.axis[1], v), dot(geom_.axis[2], v)};
  }
  Vec3<T> global(const Vec3<T>& x) const {
    return x.x * geom_.axis[0] + x.y * geom_.axis[1] + x.z * geom_.axis[2];
  }

  // From its centre, v of unit length; both in its own axes.
  Vec3<T> support(const Vec3<T>& v) const {
    switch (type_) {
      case mjGEOM_SPHERE:
        return r_ * v;
      case mjGEOM_CAPSULE:
        return {r_ * v.x, r_ * v.y, r_ * v.z + half_[2] * smooth_sign(T(v.z / eps_[2]))};
      case mjGEOM_ELLIPSOID: {
        const Vec3<T> sv = {s_[0] * v.x, s_[1] * v.y, s_[2] * v.z};
        const T scale = 1.0 / norm(sv);
        return {scale * s_[0] * sv.x, scale * s_[1] * sv.y, scale * s_[2] * sv.z};
      }
      case mjGEOM_CYLINDER: {
        const T across = half_[0] * disc(v) + r_;
        return {across * v.x, across * v.y, r_ * v.z + half_[2] * smooth_sign(T(v.z / eps_[2]))};
      }
      case mjGEOM_BOX:
        return {r_ * v.x + half_[0] * smooth_sign(T(v.x / eps_[0])),
                r_ * v.y + half_[1] * smooth_sign(T(v.y / eps_[1])),
                r_ * v.z + half_[2] * smooth_sign(T(v.z / eps_[2]))};
      default:
        return mesh_support(v);
    }
  }

  // In which of its axes the point moves as v turns because the shape is round there, 1, and in
  // which because it goes over a face or an edge, 0. v as in support().
  Vec3<T> turns(const Vec3<T>& v) const {
    const auto beyond = [](const T& size, const T& eps) { return smooth_ramp(T(size - eps), eps); };
    const auto size = [](const T& x) { return x < 0.0 ? T(-x) : x; };
    switch (type_) {
      case mjGEOM_CAPSULE:
        return {T(1.0), T(1.0), beyond(size(v.z), eps_[2])};
      case mjGEOM_CYLINDER: {
        const T across = beyond(norm(Vec3<T>{v.x, v.y, T(0.0)}), eps_[0]);
        return {across, across, beyond(size(v.z), eps_[2])};
      }
      case mjGEOM_BOX:
        return {beyond(size(v.x), eps_[0]), beyond(size(v.y), eps_[1]), beyond(size(v.z), eps_[2])};
      case mjGEOM_MESH:
        if (geom_.mesh->has_faces()) return {T(0.0), T(0.0), T(0.0)};
        break;
      default:
        break;
    }
    return {T(1.0), T(1.0), T(1.0)};
  }

  // v without what is so small that a face, an edge or a side is met: the normal there.
  Vec3<T> snapped(const Vec3<T>& v, const Vec3<T>& turns) const {
    if (type_ == mjGEOM_SPHERE || type_ == mjGEOM_ELLIPSOID) return v;
    Vec3<T> out = {turns.x * v.x, turns.y * v.y, turns.z * v.z};
    if (type_ == mjGEOM_MESH) {
      const Vec3<double>* face = geom_.mesh->face(values_of(v), 2 * value_of(eps_[0]));
      if (!face) return v;
      const Vec3<T> off = {v.x - face->x, v.y - face->y, v.z - face->z};
      const T share = smooth_ramp(T(norm(off) - eps_[0]), eps_[0]);
      out = {face->x + share * off.x, face->y + share * off.y, face->z + share * off.z};
    }
    return T(1.0 / norm(out)) * out;
  }

 private:
  // what v.x and v.y are multiplied with to be a point of the unit disc
  T disc(const Vec3<T>& v) const {
    using std::sqrt;
    const T q = v.x * v.x + v.y * v.y, e2 = eps_[0] * eps_[0];
    if (q >= e2) return 1.0 / sqrt(q);
    const T t2 = q / e2;
    return (15.0 + t2 * (3.0 * t2 - 10.0)) / (8.0 * eps_[0]);
  }

  Vec3<T> mesh_support(const Vec3<T>& v) const;

  int type_;
  const SmoothGeom<T>& geom_;
  const std::array<T, 3>& s_;
  T w_ = T(0.0), r_ = T(0.0);
  std::array<T, 3> eps_ = {T(0.0), T(0.0), T(0.0)}, half_ = eps_;
  const std::vector<Vec3<double>>* near_ = nullptr;  // of a mesh

  friend SupportPoint support_point(const ConvexShape<double>& shape, const Vec3<double>& v);
};

// As (3) has it for the sizes of both.
template <class T>
T pair_width(const ConvexShape<T>& a, const ConvexShape<T>& b, double width) {
  if (a.type() == mjGEOM_SPHERE) return b.width();
  if (b.type() == mjGEOM_SPHERE) return a.width();
  return 1.0 / (1.0 / a.width() + 1.0 / b.width() - 1.0 / width);
}

// Weighted vertices: their mean and covariance, (18) in the mesh's axes without r v.
class VertexMean {
 public:
  explicit VertexMean(double temperature) : steep_(1 / temperature) {}

  // A vertex that is as much lower than the highest one.
  void add(const Vec3<double>& x, double below) {
    const double p = std::exp(-steep_ * below);
    if (sum_ == 0) origin_ = x;
    const Vec3<double> y = x - origin_, py = p * y;  // sums of small numbers
    sum_ += p;
    mean_ = mean_ + py;
    xx_ += py.x * y.x;
    xy_ += py.x * y.y;
    xz_ += py.x * y.z;
    yy_ += py.y * y.y;
    yz_ += py.y * y.z;
    zz_ += py.z * y.z;
  }
  SupportPoint get() const {
    const double scale = 1 / sum_;
    const Vec3<double> mean = scale * mean_;
    const auto covariance = [&](double s, double a, double b) {
      return steep_ * (scale * s - a * b);
    };
    return {mean + origin_,
            covariance(xx_, mean.x, mean.x),
            covariance(xy_, mean.x, mean.y),
            covariance(xz_, mean.x, mean.z),
            covariance(yy_, mean.y, mean.y),
            covariance(yz_, mean.y, mean.z),
            covariance(zz_, mean.z, mean.z)};
  }

 private:
  Vec3<double> origin_ = {0, 0, 0};
  double steep_, sum_ = 0, xx_ = 0, xy_ = 0, xz_ = 0, yy_ = 0, yz_ = 0, zz_ = 0;
  Vec3<double> mean_ = {0, 0, 0};
};

inline SupportPoint mean_vertex(const std::vector<Vec3<double>>& vertices, const Vec3<double>& v,
                                double temperature) {
  double highest = -INFINITY;
  for (const Vec3<double>& x : vertices) highest = std::max(highest, dot(v, x));
  VertexMean mean(temperature);
  for (const Vec3<double>& x : vertices) {
    const double below = highest - dot(v, x);
    if (below <= kLowest * temperature) mean.add(x, below);
  }
  return mean.get();
}

// The same of all vertices of a mesh: less work than to find those that are near, unless there are
// thousands of them.
inline SupportPoint mean_vertex(const SmoothMesh& mesh, const Vec3<double>& v, double temperature) {
  static thread_local Eigen::VectorXd scratch;
  Eigen::VectorXd& height = scratch;
  const auto& x = mesh.vertices();
  height.noalias() = x.col(0) * v.x + x.col(1) * v.y + x.col(2) * v.z;
  const double highest = height.maxCoeff(), lowest = highest - kLowest * temperature;
  VertexMean mean(temperature);
  // most are too low: several at a time
  constexpr Eigen::Index kBlock = 8;
  for (Eigen::Index begin = 0; begin < height.size(); begin += kBlock) {
    const Eigen::Index end = std::min(begin + kBlock, height.size());
    if (end - begin == kBlock && height.segment<kBlock>(begin).maxCoeff() < lowest) continue;
    for (Eigen::Index i = begin; i < end; i++) {
      if (height[i] >= lowest) mean.add({x(i, 0), x(i, 1), x(i, 2)}, highest - height[i]);
    }
  }
  return mean.get();
}

template <class T>
Vec3<T> ConvexShape<T>::mesh_support(const Vec3<T>& v) const {
  const Vec3<double> at = values_of(v);
  const double temperature = kTemperature * value_of(w_);
  const SupportPoint point =
      near_ ? mean_vertex(*near_, at, temperature) : mean_vertex(*geom_.mesh, at, temperature);
  const Vec3<T> turn = {v.x - at.x, v.y - at.y, v.z - at.z};
  return {point.x.x + point.xx * turn.x + point.xy * turn.y + point.xz * turn.z + r_ * v.x,
          point.x.y + point.xy * turn.x + point.yy * turn.y + point.yz * turn.z + r_ * v.y,
          point.x.z + point.xz * turn.x + point.yz * turn.y + point.zz * turn.z + r_ * v.z};
}

// As ConvexShape::support, with the derivative.
inline SupportPoint support_point(const ConvexShape<double>& shape, const Vec3<double>& v) {
  SupportPoint out;
  const double r = shape.r_;
  const auto slope = [&](double x, size_t k) {
    return shape.half_[k] * smooth_sign_slope(x / shape.eps_[k]) / shape.eps_[k];
  };
  if (shape.type_ == mjGEOM_MESH) {
    out = mean_vertex(*shape.near_, v, kTemperature * shape.w_);
    out.x = out.x + r * v;
  } else {
    out.x = shape.support(v);
  }
  switch (shape.type_) {
    case mjGEOM_CAPSULE:
      out.zz = slope(v.z, 2);
      break;
    case mjGEOM_ELLIPSOID: {
      const std::array<double, 3>& s = shape.s_;
      const double scale = 1 / norm(Vec3<double>{s[0] * v.x, s[1] * v.y, s[2] * v.z});
      const Vec3<double>& x = out.x;
      out.xx = scale * (s[0] * s[0] - x.x * x.x);
      out.xy = -scale * x.x * x.y;
      out.xz = -scale * x.x * x.z;
      out.yy = scale * (s[1] * s[1] - x.y * x.y);
      out.yz = -scale * x.y * x.z;
      out.zz = scale * (s[2] * s[2] - x.z * x.z);
      break;
    }
    case mjGEOM_CYLINDER: {
      const double q = v.x * v.x + v.y * v.y, e2 = shape.eps_[0] * shape.eps_[0];
      const double g = shape.disc(v), half = shape.half_[0];
      const double twist =
          half * (q >= e2 ? -g / q : (12.0 * q / e2 - 20.0) / (8.0 * e2 * shape.eps_[0]));
      out.xx = half * g + twist * v.x * v.x;
      out.xy = twist * v.x * v.y;
      out.yy = half * g + twist * v.y * v.y;
      out.zz = slope(v.z, 2);
      break;
    }
    case mjGEOM_BOX:
      out.xx = slope(v.x, 0);
      out.yy = slope(v.y, 1);
      out.zz = slope(v.z, 2);
      break;
    default:
      break;
  }
  out.xx += r;
  out.yy += r;
  out.zz += r;
  return out;
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_CONVEX_SHAPE_H_
