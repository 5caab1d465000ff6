// Smooth colliders: those of the pairs in collision/smooth/, put together
// (docs/derivations/smooth_collisions.md).
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_H_

#include <string>
#include <vector>

#include "mj/collider.h"
#include "stages/position/collision/pair.h"
#include "stages/position/collision/smooth/mesh.h"

namespace diffmj {

// type1 ≤ type2, as in mjCOLLISIONFUNC.
bool has_smooth_collider(int type1, int type2);
// And MuJoCo calls it for the model of this collider.
bool has_smooth_contacts(const Collider& self, int type1, int type2);

// In words, the pairs of shapes of geoms that may collide and have none, each with the first such
// geoms; empty if there are none.
std::string pairs_without_smooth_collider(const mjModel* m);

// The collider of a model, and what it needs. Installs dispatchers.
class SmoothCollider {
 public:
  SmoothCollider(const mjModel* m, double width);
  SmoothCollider(const SmoothCollider&) = delete;
  SmoothCollider& operator=(const SmoothCollider&) = delete;
  const Collider& get() const { return collider_; }

 private:
  SmoothMeshes meshes_;
  std::vector<int> seen_type_;
  Collider collider_;
};

// Collider::rates
void smooth_rates(const Collider& self, const mjModel* m, const mjData* d, double* rate);

// Contacts first to first + n - 1 of d, all of one pair that has a smooth collider: adds to out.
// `sizes` says whether those of sizes are wanted. False, with out half written, if a contact is not
// one of the collider's.
bool smooth_pullback(const Collider& self, const mjModel* m, const mjData* d, int first, int n,
                     const ContactBar* bar, bool sizes, PairBar& out);

// Gives MuJoCo's contacts of a pair the derivatives that smooth ones have: adds to out and sets
// their bars to 0. Returns how many are left, because no smooth contact is near; planes' all are:
// the exact derivative is smooth there, but for turning (below).
int smooth_backward_pullback(const Collider& self, const mjModel* m, const mjData* d, int first,
                             int n, ContactBar* bar, bool sizes, PairBar& out);

// What turns about a plane's normal with the direction of a tilt (triangles of cylinders, tangents
// of capsules) is undetermined as the geom stands up: 0 there, 1 from a tilt of w over its size on.
double turning_weight(double sin_tilt, double size, double width);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_H_
