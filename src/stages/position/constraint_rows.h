// Rows of J and their violations; MuJoCo: mj_makeConstraint, and J̇ v of mj_referenceConstraint.
//
// A row is a velocity: J_i y of a generalised vector y. With the cotangents of its products with λ,
// a and v and of its violation r (constraint_force_pullback), its share of ψ is
//
//   J_i(q) · (Jλ_bar λ + Ja_bar a + Jv_bar v) + r_bar r(q) - aref_bar (J̇ v)_i (1)
//
//   friction loss      J = e_dof
//   joint limit        J = ∓e_dof, r = ±(range - q);  ball: J = -axis of log q, r = range - |log q|
//   joint equality     J = e_1 - p'(q_2) e_2, r = q_1 - p(q_2)
//   tendon limit, friction loss, equality: the same of a tendon's length and rate
//   connect, weld      relative velocities of two points, and of the relative rotation
//   contact            velocities in its frame, whose derivatives stages/position/collision.h has
#ifndef DIFFMJ_STAGES_POSITION_CONSTRAINT_ROWS_H_
#define DIFFMJ_STAGES_POSITION_CONSTRAINT_ROWS_H_

#include <string>

#include "stages/position/kinematics.h"
#include "stages/stage_model.h"
#include "stages/workspace.h"

namespace diffmj {

// Adds (1) of all rows to the sweep, whose L, V, A and Q (the motion of a) must be set, to the
// cotangents of tendons, to qpos_bar and qvel_bar (nv), to site_pos, tendon_range and eq_data.
void constraint_rows_pullback(const StageModel& impl, Vec qpos_bar, Vec qvel_bar,
                              const ParameterBar& params, Workspace& workspace);

// The same of one connect or weld alone, whose first row is i: adds to the sweep's W, A_bar and the
// X_bar of L, Q and V of its two bodies.
void equality_rows_pullback(const StageModel& impl, int i, Workspace& workspace);

// Names what of the model's constraints the pullback does not know; empty if it knows all.
std::string constraint_obstacle(const mjModel* m);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_CONSTRAINT_ROWS_H_
