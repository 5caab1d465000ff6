// Passive forces: springs, dampers, gravity compensation, fluid; MuJoCo: mj_passive.
//
//   slide, hinge:  τ = -x k(x),  x = q - qpos_spring,   k(x) = stiffness + Σ_i poly_i xⁱ
//   free, ball:    τ = -d k(|d|),  d = difference of the positions or rotations, three numbers
//   damper:        τ = -v B(|v|),  B(v) = damping + Σ_i poly_i vⁱ,  actuators' damping added
//   tendon:        a force -x k(x) - v B(|v|) along it,  x = how far its length is off lengthspring
//
//   gravity compensation: a force -gravcomp mass gravity at the body's centre of mass
//
//   fluid:         stages/velocity/fluid.h
//
// The pullback is that of the scalar λᵀ τ.
#ifndef DIFFMJ_STAGES_VELOCITY_PASSIVE_H_
#define DIFFMJ_STAGES_VELOCITY_PASSIVE_H_

#include <span>

#include "stages/position/kinematics.h"
#include "stages/position/tendon.h"

namespace diffmj {

// All passive forces are off when springs and dampers both are.
inline bool passive_enabled(const mjModel* m) {
  const int both = mjDSBL_SPRING | mjDSBL_DAMPER;
  return (m->opt.disableflags & both) != both;
}

// Joint springs: adds to qpos_bar (nv), jnt_stiffness and qpos_spring.
void spring_pullback(const mjModel* m, const mjData* d, CVec lambda, Vec qpos_bar,
                     const ParameterBar& params);

// Damping of a dof or tendon: force -v B(|v|). slope is d(v B)/dv, curvature the derivative of
// that.
struct Damping {
  Damping(const mjModel* m, int dof);
  static Damping of_tendon(const mjModel* m, int tendon);
  // An actuator's own, without the gear² with which its joint or tendon has it.
  static Damping of_actuator(const mjModel* m, int actuator);
  double value(double v) const;
  double slope(double v) const;
  double curvature(double v) const;
  bool any() const;
  double linear;
  double poly[mjNPOLY];

 private:
  Damping(double linear, const mjtNum* poly);
  void add_actuator(const mjModel* m, int actuator);
};
// λᵀ τ of the dampers, and the metric's term -h μᵀ diag(slope) b unless mu is empty: adds to
// qvel_bar (nv), dof_damping and, of actuators with damping, actuator_gear.
void damper_pullback(const mjModel* m, CVec lambda, CVec qvel, double h, CVec mu, CVec b,
                     Vec qvel_bar, const ParameterBar& params);

// The force of a tendon's spring along it, -x k(x). d must hold mj_tendon.
double tendon_spring_force(const mjModel* m, const mjData* d, int tendon);

// The force of a tendon's spring and damper along it, and its slopes. d must hold mj_tendon and
// ten_velocity.
struct TendonForce {
  double force = 0, by_length = 0, by_velocity = 0;
};
TendonForce tendon_passive_force(const mjModel* m, const mjData* d, int tendon);

// Springs and dampers of tendons, and the metric's term of implicit integrators, -h μᵀ Jᵀ slope J b
// within the pattern of D, unless mu is empty: adds to the tendons' cotangents, to
// tendon_stiffness, tendon_damping, tendon_lengthspring and, of actuators with damping, to
// actuator_gear. Where JᵀJ does not fit the pattern also to the sweep, with y (nv) as scratch.
void tendon_passive_pullback(const mjModel* m, const mjData* d, CVec lambda, CVec qvel, double h,
                             CVec mu, CVec b, const TendonFits& fits, std::span<TendonBar> tendons,
                             Vec qpos_bar, Vec y, Sweep& sweep, const ParameterBar& params);

// Gravity compensation and fluid, for the motion that carries λ: add to the sweep, body_mass and
// opt.gravity.
void gravcomp_pullback(const mjModel* m, const mjData* d, Motion& lambda, Sweep& sweep,
                       const ParameterBar& params);
void fluid_pullback(const mjModel* m, const mjData* d, Motion& lambda, Sweep& sweep);

// The metric's term of implicit integrators, h μᵀ D b with D = ∂(fluid forces)/∂v, which
// implicitfast takes symmetric.
void fluid_metric_pullback(const mjModel* m, const mjData* d, double h, Motion& mu, Motion& b,
                           Sweep& sweep);

// Actuators on joints add gear² armature to M: actuator_gear from the cotangents of armature (nv).
void armature_gear_pullback(const mjModel* m, CVec armature_bar, Vec gear_bar);

// Armature of a tendon, that of its actuators added.
double tendon_armature(const mjModel* m, int tendon);
// The same for tendons: actuator_gear from the cotangent of one tendon's armature.
void tendon_armature_gear_pullback(const mjModel* m, int tendon, double armature_bar, Vec gear_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_VELOCITY_PASSIVE_H_
