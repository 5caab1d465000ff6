// What the two parts of actuation's pullback share: actuators in closed form (actuation.cc), and
// controllers by differences (controllers.cc).
#ifndef DIFFMJ_STAGES_ACCELERATION_ACTUATION_INTERNAL_H_
#define DIFFMJ_STAGES_ACCELERATION_ACTUATION_INTERNAL_H_

#include "stages/acceleration/actuation.h"
#include "stages/position/transmission.h"

namespace diffmj {

// PID, dcmotor or orientation: differentiated by differences.
bool is_controller(const mjModel* m, int actuator);

// The controllers' part of actuation_pullback, which has left its masked λ in the workspace.
void controllers_pullback(const StageModel& impl, const ActuationIn& in, const ActuationBar& bar,
                          Sweep& sweep, const ParameterBar& params, Workspace& workspace);

// Implicit integrators take no derivative of this actuator: a range clamps its force.
bool not_implicit(const mjModel* m, const mjData* d, int actuator);

// ctrl[j] as it is given, before clamping.
inline double control_value(const StepInput& in, int j) {
  return in.ctrl.empty() ? 0.0 : in.ctrl[static_cast<size_t>(j)];
}

// What the force of one output receives: of λᵀ τ, λ as forces meet it, and of itself.
inline double output_cotangent(const mjData* d, const ActuationIn& in, int out, CVec lambda) {
  const double own = in.force_bar.empty() ? 0 : in.force_bar[static_cast<size_t>(out)];
  return moment_dot(d, out, lambda) + own;
}

// Σ μ_r m_r m_c b_c over D's non-zeros, m the moment of one output. Adds weight times its
// derivative in m to y (nv) if that is not empty.
double metric_form(const StageModel& impl, const ActuationIn& in, int out, double weight, Vec y,
                   Workspace& workspace);

// velocity = moment · qvel of one output. Adds to qvel_bar (nv).
void velocity_pullback(const mjData* d, int out, double velocity_bar, Vec qvel_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_ACTUATION_INTERNAL_H_
