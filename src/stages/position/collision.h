// Distance, place and frame of contacts as functions of the two geoms' poses and sizes; MuJoCo:
// mj_collision.
//
// A contact is made of features of the two geoms (corners, edges, faces, centres), which the
// collider's result tells; the derivative is that of the same features in closed form:
//
//   collision/plane.h        points of a geom on a plane
//   collision/nearest.h      nearest points of two features: spheres, capsules, ellipsoids, ...
//   collision/box_box.h      clipped faces, edges
//   collision/capsule_box.h  nearest points, and one more along the capsule
//   collision/convex.h       nearest points that MuJoCo's iterating colliders find
//   collision/smooth.h       smooth colliders, where the model asks for them
//   collision/differences.h  what is left: central differences of MuJoCo's own collider
//
// A closed form that does not give the collider's own distance, place and normal again is of
// another case than the collider's: the pair is left to the differences then.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_H_

#include <span>
#include <vector>

#include "stages/position/collision/frame.h"
#include "stages/position/collision/pair.h"
#include "stages/stage_model.h"
#include "stages/workspace.h"

namespace diffmj {

// The number of contacts from first on that are of the same pair of geoms: these are neighbours.
int contacts_of_pair(const mjData* d, int first);

// Contacts first to first + n - 1 of the workspace's data, all of one pair of geoms: adds wrenches
// on their bodies to the sweep, and to geom_size, geom_pos and geom_quat.
void collision_pullback(const StageModel& impl, int first, int n, const ContactBar* bar,
                        const ParameterBar& params, Workspace& workspace);

// How one of these contacts, number k, moves with the two bodies, each about the origin of its
// tree: rows are its distance, its place (3) and the rotation of its frame (3), columns the twists
// of the bodies of geom[0] and geom[1].
using ContactJacobian = Eigen::Matrix<double, 7, 12>;
void collision_jacobian(const StageModel& impl, int first, int n, int k, Workspace& workspace,
                        ContactJacobian& out);

// collision_pullback in closed form, to out instead of the sweep, sizes included. False if the pair
// is left to differences; out is of no use then.
bool closed_form_pullback(const StageModel& impl, int first, int n, const ContactBar* bar,
                          Workspace& workspace, PairBar& out);

// What mj_collision found, kept so that it need not run again: appends to bytes.
void keep_contacts(const mjData* d, std::vector<unsigned char>& bytes);
// Instead of mj_collision. Inside mj_call.
void restore_contacts(const mjModel* m, std::span<const unsigned char> bytes, mjData* d);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_H_
