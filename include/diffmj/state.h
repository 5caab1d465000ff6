// States of a model and their tangent space.
//
// A tangent has 2 nv + na numbers: position (nv), velocity (nv), activation (na). Positions move by
// MuJoCo's mj_integratePos and are compared by mj_differentiatePos: rotations of ball and free
// joints are three numbers in the frame of the joint.
#ifndef DIFFMJ_STATE_H_
#define DIFFMJ_STATE_H_

#include <span>
#include <vector>

#include "diffmj/model.h"

namespace diffmj {

struct State {
  double time = 0;                      // [s]
  std::vector<double> qpos, qvel, act;  // nq, nv, na
};

// A keyframe of the model: a state and the inputs that are stored with it.
struct Keyframe {
  State state;
  std::vector<double> ctrl;                   // nu
  std::vector<double> mocap_pos, mocap_quat;  // 3 nmocap, 4 nmocap
};

// The model's default state: qpos0, at rest.
State default_state(const Model& model);
// Throws InputError if there is no keyframe of this number (Model::keyframe finds it by name).
Keyframe load_keyframe(const Model& model, int key);

// x ⊕ dx
State plus(const Model& model, const State& x, std::span<const double> dx);
// y ⊖ x: the tangent dx with x ⊕ dx = y, written to dx (2 nv + na)
void minus(const Model& model, const State& y, const State& x, std::span<double> dx);

// Conversions between cotangents of qpos in nq coordinates (ambient) and in the tangent space (nv).
// to_tangent adds. to_ambient overwrites and gives the gradient of the function that normalises
// quaternions first, the form that JAX and PyTorch users expect.
void qpos_cotangent_to_tangent(const Model& model, std::span<const double> qpos,
                               std::span<const double> qpos_bar, std::span<double> tangent_bar);
void qpos_cotangent_to_ambient(const Model& model, std::span<const double> qpos,
                               std::span<const double> tangent_bar, std::span<double> qpos_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STATE_H_
