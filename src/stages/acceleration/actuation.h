// Forces of actuators and their activations; MuJoCo: mj_fwdActuation, mj_nextActivation.
//
//   force = clamp(gain(l, l') input + bias(l, l'))
//   input: clamped ctrl, act, or the next act (actearly)
//   gain, bias: constant, affine in length l and velocity l' = moment · qvel, or muscles (muscle.h)
//   act_dot = ctrl, (ctrl - act)/tau;   act_next = clamp(act + h act_dot), exactly for filterexact
//   τ = clamp(momentᵀ force + gravity compensation through actuators)
//
// The pullback is that of  λᵀ τ + act_dot_bar · act_dot + act_next_bar · act_next  and of the
// metric's term  h μᵀ D b,  D = ∂τ/∂v, of implicit integrators. Controllers with inner states (PID,
// dcmotor, orientation) are functions of a few numbers: central differences of mj_fwdActuation in
// those, all actuators at once, so that the cost does not grow with their number.
#ifndef DIFFMJ_STAGES_ACCELERATION_ACTUATION_H_
#define DIFFMJ_STAGES_ACCELERATION_ACTUATION_H_

#include <string>

#include "stages/position/kinematics.h"
#include "stages/stage_model.h"
#include "stages/step_input.h"
#include "stages/workspace.h"

namespace diffmj {

struct ActuationIn {
  const StepInput* in;
  CVec lambda;                     // nv
  CVec act_dot_bar, act_next_bar;  // na; empty: 0
  CVec act_from, act_dot_from;  // na: what act_next starts from; empty: act and act_dot themselves
  double h = 0;                 // metric's term, if mu is not empty
  CVec mu, b;                   // nv
  CVec force_bar = {};          // nout: of actuators' forces themselves; empty: 0
};
struct ActuationBar {
  Vec qpos, qvel, act, ctrl;  // nv, nv, na, nu: added to
};

// λ as forces through actuators meet it: 0 where the joint's actuatorfrcrange clamps them. Writes
// to masked (nv); false if it is λ itself.
bool clamp_lambda(const mjModel* m, const mjData* d, CVec lambda, Vec masked);

// d must hold mj_transmission, actuator_velocity and mj_fwdActuation.
void actuation_pullback(const StageModel& impl, const ActuationIn& in, const ActuationBar& bar,
                        Sweep& sweep, const ParameterBar& params, Workspace& workspace);

// act_next as a function of act and act_dot alone; without controllers. Adds to act_bar and
// act_dot_bar, one row for each cotangent.
void next_activation_pullback(const mjModel* m, CVec act, CVec act_dot, const Matrix& act_next_bar,
                              Eigen::Ref<Matrix> act_bar, Matrix& act_dot_bar);

// Some actuator is a controller: actuator_gainprm, actuator_biasprm and actuator_dynprm have no
// analytic cotangent.
bool has_controllers(const mjModel* m);

// By its group: there is no force, and a step leaves its activations as they are. act_dot goes on.
bool actuator_disabled(const mjModel* m, int actuator);

// A control of value u that is clamped does not act; at its very bound the side within counts.
bool control_clamped(const mjModel* m, int control, double u);

// Of filters, at least MuJoCo's smallest number. [s]
double time_constant(const mjModel* m, int actuator);

// Names what of this actuator the pullback does not know; empty if it knows all.
std::string actuation_obstacle(const mjModel* m, int actuator);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_ACTUATION_H_
