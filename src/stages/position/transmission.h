// Length and moment arm of actuators; MuJoCo: mj_transmission.
//
//   joint          length = gear q (ball: gear · log q),      moment = gear
//   jointinparent  the same with gear given in the parent's frame: moment = Rᵀ gear
//   site           moment · y = (R gear) · (velocity, angular velocity of the site by y)
//   site, refsite  relative to the reference site and in its frame; length is the relative pose
//   slidercrank    length of the crank as a function of the two sites, moment its derivative
//   tendon         gear times the tendon's length and J: stages/position/tendon.h
//   orientation    three lengths, the relative rotation; moments of its three axes
//
// The pullback is that of  length_bar length + moment · y  with y a generalised vector held fixed.
// That is all actuation needs: the force λᵀ momentᵀ force and the velocity moment · v are of this
// form.
#ifndef DIFFMJ_STAGES_POSITION_TRANSMISSION_H_
#define DIFFMJ_STAGES_POSITION_TRANSMISSION_H_

#include "stages/position/kinematics.h"

namespace diffmj {

// moment · y of one output
double moment_dot(const mjData* d, int out, CVec y);

// Moment arms of this actuator depend on qpos or on a parameter: y matters.
bool moment_varies(const mjModel* m, int actuator);

// One actuator: outnum cotangents of length and as many vectors y (rows of nv numbers; only those
// that moment_varies reads need be valid). Adds to qpos_bar (nv), to the sweep, actuator_gear and
// site_pos. y may be changed.
void transmission_pullback(const mjModel* m, const mjData* d, int actuator, CVec length_bar, Vec y,
                           Vec qpos_bar, Sweep& sweep, const ParameterBar& params);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_TRANSMISSION_H_
