#include "stages/velocity/fluid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/dual.h"

namespace diffmj {
namespace {

constexpr double kPi = std::numbers::pi;

template <class T>
using Triple = std::array<T, 3>;

template <class T>
Triple<T> scaled(const Vector3& k, const Triple<T>& x) {  // k ∘ x
  return {k[0] * x[0], k[1] * x[1], k[2] * x[2]};
}

template <class T>
Triple<T> cross(const Triple<T>& a, const Triple<T>& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

template <class T>
T dot(const Triple<T>& a, const Triple<T>& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

template <class T>
T norm(const Triple<T>& a) {
  using std::sqrt;
  return sqrt(dot(a, a));
}

template <class T>
void box_force(const FluidShape& shape, const Triple<T>& w, const Triple<T>& v, Triple<T>& torque,
               Triple<T>& force) {
  using std::abs;
  for (size_t i = 0; i < 3; i++) {
    const auto axis = static_cast<Eigen::Index>(i);
    torque[i] = -(shape.viscous_torque + shape.drag_torque[axis] * abs(w[i])) * w[i];
    force[i] = -(shape.viscous_force + shape.drag_force[axis] * abs(v[i])) * v[i];
  }
}

template <class T>
void ellipsoid_force(const FluidShape& shape, const Triple<T>& w, const Triple<T>& v,
                     Triple<T>& torque, Triple<T>& force) {
  using std::sqrt;

  // the medium that is carried along
  const Triple<T> momentum = scaled(shape.added_mass, v);
  const Triple<T> added_torque = cross(momentum, v);
  const Triple<T> added_gyro = cross(scaled(shape.added_inertia, w), w);
  const Triple<T> added_force = cross(momentum, w);

  // the cross-section in the flow
  const T speed = norm(v);
  const Triple<T> normal = scaled(shape.normal, v);
  const T normal2 = dot(normal, normal);
  T area = 0.0, kutta_scale = 0.0;
  // gradient: none of it at rest, as MuJoCo; nor if a flat shape moves in its plane
  if (speed >= mjMINVAL && normal2 > 0.0) {
    const T ratio = sqrt(normal2 / dot(normal, v));
    area = kPi * ratio;
    kutta_scale = shape.kutta * kPi / (ratio * speed);
  }

  // lift
  const Triple<T> magnus = cross(w, v);
  const Triple<T> kutta = cross(cross(normal, v), v);

  // drag
  const T drag_torque = shape.viscous_torque + norm(scaled(shape.drag_torque, w));
  const T drag_force = shape.viscous_force + speed * (shape.drag_slender + shape.drag_blunt * area);

  for (size_t i = 0; i < 3; i++) {
    torque[i] = added_torque[i] + added_gyro[i] - drag_torque * w[i];
    force[i] =
        added_force[i] + shape.magnus * magnus[i] + kutta_scale * kutta[i] - drag_force * v[i];
  }
}

template <class T>
void local_force(const FluidShape& shape, const T twist[6], T wrench[6]) {
  const Triple<T> w = {twist[0], twist[1], twist[2]}, v = {twist[3], twist[4], twist[5]};
  Triple<T> torque, force;
  if (shape.model == FluidModel::kBox) {
    box_force(shape, w, v, torque, force);
  } else {
    ellipsoid_force(shape, w, v, torque, force);
  }
  for (size_t i = 0; i < 3; i++) {
    wrench[i] = shape.interaction * torque[i];
    wrench[3 + i] = shape.interaction * force[i];
  }
}

// gradient in twist of uᵀ J(twist) w: J w is the derivative along w
Vector6 curvature(const FluidShape& shape, const Vector6& twist, const Vector6& u,
                  const Vector6& w) {
  using Gradient = Dual<6>;
  Dual<1, Gradient> x[6], y[6];
  for (size_t i = 0; i < 6; i++) {
    const auto row = static_cast<Eigen::Index>(i);
    x[i].v = Gradient::variable(twist[row], i);
    x[i].d[0] = w[row];
  }
  local_force(shape, x, y);
  Vector6 out = Vector6::Zero();
  for (size_t i = 0; i < 6; i++) {
    out += u[static_cast<Eigen::Index>(i)] * Vector6(y[i].d[0].d.data());
  }
  return out;
}

// semi-axes of the ellipsoid that stands for a geom; MuJoCo: mju_geomSemiAxes
Vector3 semi_axes(const mjModel* m, int geom) {
  Vector3 size(m->geom_size + 3 * geom);
  switch (m->geom_type[geom]) {
    case mjGEOM_SPHERE:
      return Vector3::Constant(size[0]);
    case mjGEOM_CAPSULE:
      return {size[0], size[0], size[0] + size[1]};
    case mjGEOM_CYLINDER:
      return {size[0], size[0], size[1]};
    default:
      return size;
  }
}

}  // namespace

bool fluid_uses_ellipsoid(const mjModel* m, int body) {
  for (int i = 0; i < m->body_geomnum[body]; i++) {
    if (m->geom_fluid[mjNFLUID * (m->body_geomadr[body] + i)] > 0) return true;
  }
  return false;
}

FluidShape fluid_box(const mjModel* m, int body) {
  FluidShape shape;
  const double mass = m->body_mass[body];
  if (mass < mjMINVAL) return shape;

  // edges of the box with this mass and inertia
  const Vector3 inertia(m->body_inertia + 3 * body);
  Vector3 edge;
  for (int i = 0; i < 3; i++) {
    edge[i] = std::sqrt(std::max(mjMINVAL, inertia.sum() - 2 * inertia[i]) / mass * 6);
  }

  // viscosity: that of a sphere
  const double viscosity = std::max(0.0, m->opt.viscosity);
  const double diameter = edge.sum() / 3;
  shape.viscous_torque = kPi * std::pow(diameter, 3) * viscosity;
  shape.viscous_force = 3 * kPi * diameter * viscosity;

  // drag
  const double density = std::max(0.0, m->opt.density);
  for (int i = 0; i < 3; i++) {
    const double a = edge[(i + 1) % 3], b = edge[(i + 2) % 3];
    shape.drag_torque[i] = density * edge[i] * (a * a * a * a + b * b * b * b) / 64;
    shape.drag_force[i] = density * a * b / 2;
  }
  return shape;
}

FluidShape fluid_ellipsoid(const mjModel* m, int geom) {
  FluidShape shape;
  shape.model = FluidModel::kEllipsoid;
  if (m->body_mass[m->geom_bodyid[geom]] < mjMINVAL) return shape;

  // the medium's side: coefficients of the geom
  const double* coef = m->geom_fluid + mjNFLUID * geom;
  const double blunt = coef[1], slender = coef[2], angular = coef[3];
  const double density = m->opt.density, viscosity = m->opt.viscosity;
  const Vector3 size = semi_axes(m, geom);
  shape.interaction = coef[0];
  shape.added_mass = density * Vector3(coef + 6);
  shape.added_inertia = density * Vector3(coef + 9);

  // lift
  shape.kutta = coef[4] * density;
  shape.magnus = coef[5] * density * 4 / 3 * kPi * size.prod();
  for (int i = 0; i < 3; i++) {
    const double product = size[(i + 1) % 3] * size[(i + 2) % 3];
    shape.normal[i] = product * product;
  }

  // viscosity: that of a sphere
  const double diameter = 2 * size.mean();
  shape.viscous_torque = kPi * std::pow(diameter, 3) * viscosity;
  shape.viscous_force = 3 * kPi * diameter * viscosity;

  // drag, between that of the largest cross-section and that of the one that is shown
  const double largest = size.maxCoeff(), middle = size.sum() - largest - size.minCoeff();
  shape.drag_slender = density * slender * kPi * largest * middle;
  shape.drag_blunt = density * (blunt - slender);
  const auto moment = [](double axis, double radius) {
    return 8. / 15 * kPi * axis * std::pow(radius, 4);
  };
  const double largest_moment = moment(middle, largest);
  for (int i = 0; i < 3; i++) {
    const double shown = moment(size[i], std::max(size[(i + 1) % 3], size[(i + 2) % 3]));
    shape.drag_torque[i] = density * (angular * shown + slender * (largest_moment - shown));
  }
  return shape;
}

Vector6 fluid_force(const FluidShape& shape, const Vector6& twist) {
  Vector6 wrench;
  local_force(shape, twist.data(), wrench.data());
  return wrench;
}

void fluid_jacobian(const FluidShape& shape, const Vector6& twist, Vector6& wrench,
                    Eigen::Matrix<double, 6, 6>& J) {
  Dual<6> x[6], y[6];
  for (size_t i = 0; i < 6; i++) {
    x[i] = Dual<6>::variable(twist[static_cast<Eigen::Index>(i)], i);
  }
  local_force(shape, x, y);
  for (int i = 0; i < 6; i++) {
    wrench[i] = y[i].v;
    J.row(i) = Vector6(y[i].d.data());
  }
}

Vector6 fluid_curvature(const FluidShape& shape, const Vector6& twist, const Vector6& u,
                        const Vector6& w, bool symmetric) {
  // gradient: the second derivative of |x| x jumps at 0; there it is the mean of both sides, 0
  const Vector6 uJw = curvature(shape, twist, u, w);
  return symmetric ? Vector6(0.5 * (uJw + curvature(shape, twist, w, u))) : uJw;
}

}  // namespace diffmj
