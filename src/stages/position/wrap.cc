#include "stages/position/wrap.h"

#include <mujoco/mujoco.h>

#include <cmath>
#include <numbers>

#include "base/dual.h"

namespace diffmj {
namespace {

// a direction, or zero where there is none
Vector3 direction(const Vector3& x) {
  const double length = x.norm();
  return length < mjMINVAL ? Vector3(Vector3::Zero()) : Vector3(x / length);
}

// What the path in the plane of the circle is made of; a sphere's plane turns with the ends.
struct Plane {
  Vector3 e[2];
  Vector3 n;
  bool turns = false;
  Vector3 cross;  // e₀ × e₁, if it turns
};

Plane plane_of(const Wrap& wrap) {
  Plane plane;
  if (wrap.cylinder) {
    for (int i = 0; i < 2; i++) {
      plane.e[i] = wrap.end[i] - wrap.axis * wrap.axis.dot(wrap.end[i]);
    }
    plane.n = wrap.axis;
    return plane;
  }
  for (int i = 0; i < 2; i++) plane.e[i] = wrap.end[i];
  plane.cross = wrap.end[0].cross(wrap.end[1]);
  const double length = plane.cross.norm();
  if (length >= mjMINVAL) {
    plane.n = plane.cross / length;
    plane.turns = true;
    return plane;
  }
  // ends and centre on one line. gradient: the plane MuJoCo chooses is the one the points span
  plane.n = direction(wrap.end[0].cross(wrap.point[0]));
  if (plane.n.isZero(0)) plane.n = direction(wrap.end[0].unitOrthogonal());
  return plane;
}

// Cotangents within the plane.
struct PlaneBar {
  Vector3 e[2] = {Vector3::Zero(), Vector3::Zero()};
  Vector3 n = Vector3::Zero();
  double radius = 0;
};

// the tangent's point (1) of one end: τ = α e + κ β n × e
struct Tangent {
  Tangent(const Vector3& end, const Vector3& n, double r) : e(end), across(n.cross(end)) {
    const double L2 = e.squaredNorm();
    L = std::sqrt(L2);
    root = std::sqrt(std::max(0.0, L2 - r * r));
    alpha = r * r / L2;
    beta = r * root / L2;
  }
  Vector3 point(double kappa) const { return alpha * e + kappa * beta * across; }

  void pullback(double kappa, const Vector3& n, double r, const Vector3& bar, Vector3& e_bar,
                PlaneBar& out) const {
    constexpr double kOnSurface = 1e-8;  // of L
    const double along = e.dot(bar), sideways = kappa * across.dot(bar), L2 = L * L;
    double beta_L = 0, beta_r = 0;
    if (root > kOnSurface * L) {
      beta_L = r * (1 / (L * root) - 2 * root / (L * L2));
      beta_r = root / L2 - r * r / (root * L2);
    }
    e_bar += alpha * bar + kappa * beta * bar.cross(n) +
             (-2 * alpha / L * along + beta_L * sideways) / L * e;
    out.radius += 2 * r / L2 * along + beta_r * sideways;
    out.n += kappa * beta * e.cross(bar);
  }

  Vector3 e, across;
  double L, root, alpha, beta;
};

class Outside {
 public:
  Outside(const Plane& plane, double radius, const Vector3& near0, const Vector3& near1)
      : n_(plane.n),
        r_(radius),
        tangent_{Tangent(plane.e[0], plane.n, radius), Tangent(plane.e[1], plane.n, radius)} {
    const auto distance = [&](double sign) {
      return (tangent_[0].point(-sign) - near0).norm() + (tangent_[1].point(sign) - near1).norm();
    };
    sign_ = distance(1) <= distance(-1) ? 1 : -1;
    for (int i = 0; i < 2; i++) point[i] = tangent_[i].point(kappa(i));
    // from τ₀ to τ₁, against n where sign is positive
    angle_ = std::atan2(-sign_ * n_.dot(point[0].cross(point[1])), point[0].dot(point[1]));
    constexpr double kZero = -1e-7;
    if (angle_ < kZero) angle_ += 2 * std::numbers::pi;
    arc = r_ * std::max(0.0, angle_);
  }

  void pullback(Vector3 bar0, Vector3 bar1, double arc_bar, PlaneBar& out) const {
    out.radius += angle_ * arc_bar;
    const double turn = sign_ * arc_bar / r_;
    bar0 += turn * n_.cross(point[0]);
    bar1 -= turn * n_.cross(point[1]);
    tangent_[0].pullback(kappa(0), n_, r_, bar0, out.e[0], out);
    tangent_[1].pullback(kappa(1), n_, r_, bar1, out.e[1], out);
  }

  Vector3 point[2];
  double arc;

 private:
  double kappa(int i) const { return i == 0 ? -sign_ : sign_; }
  Vector3 n_;
  double r_, sign_ = 1, angle_ = 0;
  Tangent tangent_[2];
};

// (2): one point, either the root or, where Newton's method gives up, below the ends' mean
class Inside {
 public:
  Inside(const Plane& plane, double radius, const Vector3& near)
      : n_(plane.n), r_(radius), e_{plane.e[0], plane.e[1]} {
    mean_ = 0.5 * (e_[0] + e_[1]);
    point = r_ * direction(mean_);
    for (int i = 0; i < 2; i++) L_[i] = e_[i].norm();
    cross_ = n_.dot(e_[0].cross(e_[1]));
    if (!newton()) return;
    const int from = leads();
    const Vector3 v = e_[from] / L_[from];
    const Vector3 root = r_ * (std::cos(angle_.v) * v + std::sin(angle_.v) * n_.cross(v));
    if ((root - near).norm() > (point - near).norm()) return;
    found_ = true;
    point = root;
  }

  void pullback(const Vector3& bar, PlaneBar& out) const {
    out.radius += bar.dot(point) / r_;
    if (!found_) {
      const double length = mean_.norm();
      if (length < mjMINVAL) return;
      const Vector3 u = mean_ / length, mean_bar = r_ / length * (bar - u * u.dot(bar));
      for (Vector3& e_bar : out.e) e_bar += 0.5 * mean_bar;
      return;
    }
    // τ = r (cos v + sin n × v)
    const int from = leads();
    const Vector3 v = e_[from] / L_[from];
    const double c = r_ * std::cos(angle_.v), s = r_ * std::sin(angle_.v);
    const Vector3 v_bar = c * bar + s * bar.cross(n_);
    out.e[from] += (v_bar - v * v.dot(v_bar)) / L_[from];
    out.n += s * v.cross(bar);
    // the angle as a function of r/L₀, r/L₁ and the angle between the ends
    const double angle_bar = bar.dot(n_.cross(point));
    const double between = (cross_ > 0 ? 1 : -1) * angle_bar * angle_.d[2];
    for (int i = 0; i < 2; i++) {
      const double ratio_bar = angle_bar * angle_.d[static_cast<size_t>(i)], L = L_[i];
      out.e[i] -= ratio_bar * r_ / (L * L) / L * e_[i];
      out.radius += ratio_bar / L;
      out.e[i] += (i == 0 ? -between : between) / (L * L) * n_.cross(e_[i]);
    }
  }

  Vector3 point;

 private:
  using T = Dual<3>;

  int leads() const { return cross_ > 0 ? 0 : 1; }

  // asin(A sin x) + asin(B sin x) - 2 x + G = 0 by MuJoCo's own iterations, from above,
  // differentiated one by one: what they leave over is part of the forward pass
  bool newton() {
    constexpr double kTolerance = 1e-6;
    constexpr int kIterations = 20;
    if (L_[0] < mjMINVAL || L_[1] < mjMINVAL) return false;
    const double cosine = e_[0].dot(e_[1]) / (L_[0] * L_[1]);
    if (cosine < -1 + mjMINVAL || cosine > 1 - mjMINVAL) return false;
    const T A = T::variable(r_ / L_[0], 0), B = T::variable(r_ / L_[1], 1),
            G = T::variable(std::acos(cosine), 2);
    T x(std::numbers::pi / 2), sine(1.0);
    const auto residual = [&] { return asin(A * sine) + asin(B * sine) - 2.0 * x + G; };
    const auto slope = [&](const T& ratio) {
      return ratio / max(T(mjMINVAL), sqrt(1.0 - sine * sine * ratio * ratio));
    };
    T f = residual();
    if (f > 0.0) return false;
    int iteration = 0;
    for (; iteration < kIterations && std::abs(f.v) > kTolerance; iteration++) {
      const T df = cos(x) * (slope(A) + slope(B)) - 2.0;
      if (df > -mjMINVAL) return false;
      const T next = x - f / df;
      if (next > x) return false;
      x = next;
      sine = sin(x);
      f = residual();
      if (f > kTolerance) return false;
    }
    if (iteration >= kIterations) return false;
    angle_ = x - asin((leads() == 0 ? A : B) * sine);
    return true;
  }

  Vector3 n_;
  double r_, L_[2] = {}, cross_ = 0;
  Vector3 e_[2], mean_;
  T angle_;  // of τ from the leading end; its derivatives by A, B and G
  bool found_ = false;
};

// (3): heights of the points are shares of the unrolled way, L₀ + w + L₁
struct Unrolled {
  Unrolled(const Wrap& wrap, const Plane& plane, const Vector3& tau0, const Vector3& tau1, double w)
      : axis(wrap.axis), arc(w) {
    const Vector3 way[2] = {plane.e[0] - tau0, plane.e[1] - tau1};
    for (int i = 0; i < 2; i++) {
      L[i] = way[i].norm();
      along[i] = direction(way[i]);
    }
    rise = axis.dot(wrap.end[1] - wrap.end[0]);
    total = std::max(mjMINVAL, L[0] + arc + L[1]);
    stretch = std::sqrt(1 + rise * rise / (total * total));
  }
  // cotangents of the points -> ends' heights, ways and the arc within the plane
  void pullback(const Vector3& bar0, const Vector3& bar1, double length_bar, double height_bar[2],
                double L_bar[2], double& arc_bar) const {
    const double z0 = axis.dot(bar0), z1 = axis.dot(bar1);
    const double f0 = L[0] / total, f1 = (L[0] + arc) / total;
    const double rise_bar = z0 * f0 + z1 * f1 + length_bar * arc * rise / (total * total * stretch);
    height_bar[0] = z0 + z1 - rise_bar;
    height_bar[1] = rise_bar;
    const double f0_bar = rise * z0, f1_bar = rise * z1;
    const double total_bar = -(f0_bar * f0 + f1_bar * f1) / total -
                             length_bar * arc * rise * rise / (total * total * total * stretch);
    L_bar[0] = (f0_bar + f1_bar) / total + total_bar;
    L_bar[1] = total_bar;
    arc_bar = f1_bar / total + length_bar * stretch + total_bar;
  }
  Vector3 axis, along[2];
  double arc, L[2], rise, total, stretch;
};

}  // namespace

WrapBar wrap_pullback(const Wrap& wrap, const Vector3& point0_bar, const Vector3& point1_bar,
                      double length_bar) {
  const Plane plane = plane_of(wrap);
  Vector3 bar[2] = {point0_bar, point1_bar}, near[2] = {wrap.point[0], wrap.point[1]};
  if (wrap.cylinder) {
    for (Vector3& x : near) x -= wrap.axis * wrap.axis.dot(x);
  }
  double arc_bar = length_bar, height_bar[2] = {0, 0};
  PlaneBar out;
  // the heights, then the planar points
  const auto unroll = [&](const Vector3& tau0, const Vector3& tau1, double arc) {
    if (!wrap.cylinder) return;
    const Unrolled path(wrap, plane, tau0, tau1, arc);
    double L_bar[2];
    path.pullback(bar[0], bar[1], length_bar, height_bar, L_bar, arc_bar);
    for (int i = 0; i < 2; i++) {
      bar[i] -= wrap.axis * wrap.axis.dot(bar[i]) + L_bar[i] * path.along[i];
      out.e[i] += L_bar[i] * path.along[i];
    }
  };
  if (wrap.point[0] == wrap.point[1]) {
    const Inside inside(plane, wrap.radius, near[0]);
    unroll(inside.point, inside.point, 0);
    inside.pullback(bar[0] + bar[1], out);
  } else {
    const Outside outside(plane, wrap.radius, near[0], near[1]);
    unroll(outside.point[0], outside.point[1], outside.arc);
    outside.pullback(bar[0], bar[1], arc_bar, out);
  }

  WrapBar result;
  result.radius = out.radius;
  for (int i = 0; i < 2; i++) {
    result.end[i] = out.e[i];
    if (!wrap.cylinder) continue;
    result.end[i] += wrap.axis * (height_bar[i] - wrap.axis.dot(out.e[i]));
  }
  if (plane.turns) {
    // n = e₀ × e₁ / |e₀ × e₁|
    const Vector3 cross_bar = (out.n - plane.n * plane.n.dot(out.n)) / plane.cross.norm();
    result.end[0] += wrap.end[1].cross(cross_bar);
    result.end[1] += cross_bar.cross(wrap.end[0]);
  }
  return result;
}

}  // namespace diffmj
