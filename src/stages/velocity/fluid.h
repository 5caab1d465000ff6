// Force of the medium on a body that moves through it; MuJoCo: mj_inertiaBoxFluidModel,
// mj_ellipsoidFluidModel (mj_addedMassForces, mj_viscousForces).
//
// ω and v: rotation and velocity relative to the medium, in the axes of the shape and at its centre
// (a body's inertial frame or a geom's frame). ∘ is the product of components, n ∘ v the normal of
// the cross-section that the ellipsoid shows to the flow.
//
//   box        torque = -(c_ω + k_ω ∘ |ω|) ∘ ω
//              force  = -(c_v + k_v ∘ |v|) ∘ v
//
//   ellipsoid  torque = (m ∘ v) × v + (I ∘ ω) × ω - (c_ω + |k_ω ∘ ω|) ω
//              force  = (m ∘ v) × ω + g ω × v + κ A cos α ((n ∘ v) × v) × v / |n ∘ v|
//                       - (c_v + |v| (s + b A)) v
//              A      = π |n ∘ v| / √(v·(n ∘ v))          area that the flow sees
//              cos α  = v·(n ∘ v) / (|v| |n ∘ v|)
//
// A and the lift κ are 0 below the speed mjMINVAL: measured on releases 3.17.0 and 4.0.0. Sources
// in circulation bound the denominators instead, which cuts the lift of small or slow geoms.
#ifndef DIFFMJ_STAGES_VELOCITY_FLUID_H_
#define DIFFMJ_STAGES_VELOCITY_FLUID_H_

#include <mujoco/mujoco.h>

#include <Eigen/Core>

#include "base/spatial.h"

namespace diffmj {

enum class FluidModel { kBox, kEllipsoid };

// All constants of a body's inertia box or of a geom's ellipsoid; the default feels nothing. The
// density and the viscosity of the medium are in the coefficients.
struct FluidShape {
  FluidModel model = FluidModel::kBox;
  double interaction = 1;  // scales everything

  double viscous_torque = 0;              // c_ω [N m s]
  double viscous_force = 0;               // c_v [N s/m]
  Vector3 drag_torque = Vector3::Zero();  // k_ω [N m s²]
  Vector3 drag_force = Vector3::Zero();   // k_v [N s²/m²], box only

  // ellipsoid only
  Vector3 added_mass = Vector3::Zero();     // m [kg]
  Vector3 added_inertia = Vector3::Zero();  // I [kg m²]
  Vector3 normal = Vector3::Zero();         // n [m⁴]: squared products of the other two semi-axes
  double magnus = 0;                        // g [kg]
  double kutta = 0;                         // κ [kg/m³]
  double drag_slender = 0;                  // s [kg/m]
  double drag_blunt = 0;                    // b [kg/m³]: what facing the flow adds to it
};

// Does any geom of the body ask for the ellipsoid? Then those that do take the place of the box.
bool fluid_uses_ellipsoid(const mjModel* m, int body);

// A body without mass feels nothing, nor do its geoms.
FluidShape fluid_box(const mjModel* m, int body);
FluidShape fluid_ellipsoid(const mjModel* m, int geom);

// All in local axes; twists are (ω, v), wrenches (torque, force).
Vector6 fluid_force(const FluidShape& shape, const Vector6& twist);

// The wrench and J = ∂wrench/∂twist; overwrites both. It exists everywhere: |x| x has a slope at 0.
void fluid_jacobian(const FluidShape& shape, const Vector6& twist, Vector6& wrench,
                    Eigen::Matrix<double, 6, 6>& J);

// Gradient in twist of uᵀ J(twist) w; symmetric: of uᵀ ½(J + Jᵀ) w. Always finite.
Vector6 fluid_curvature(const FluidShape& shape, const Vector6& twist, const Vector6& u,
                        const Vector6& w, bool symmetric);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_VELOCITY_FLUID_H_
