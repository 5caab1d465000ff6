// The contacts of one pair of geoms, as MuJoCo's collider gives them.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_DETECT_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_DETECT_H_

#include <mujoco/mujoco.h>

#include <array>

namespace diffmj {

constexpr int kMaxContacts = mjMAXCONPAIR;  // of one pair

// What two contacts, or one before and after a step, may differ in and still be the same: normals,
// places, distances. More is a jump of the collider, from one of its cases to another.
constexpr double kSameNormal = 0.05;
constexpr double kSamePlace = 5e-3;     // [m]
constexpr double kSameDistance = 1e-3;  // [m]

struct Detected {
  int n = 0;
  std::array<mjPreContact, kMaxContacts> contact;

  // The one that is nearest, in place and distance first; -1 if there is none.
  int nearest(const mjtNum* pos, double dist, const mjtNum* normal) const;
};

// Those of the geoms of `like`, at their poses in d. Inside mj_call.
void detect_contacts(const mjModel* m, mjData* d, const mjContact& like, Detected& out);

// Whether the collider of two geoms iterates.
bool is_iterative(const mjModel* m, int geom1, int geom2);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_DETECT_H_
