// Colliders of our own in place of MuJoCo's, for the MuJoCo calls of one thread.
//
// MuJoCo finds the collider of a pair of geoms in mjCOLLISIONFUNC, a table of the whole process. A
// dispatcher is installed there once: it calls what was there before unless the calling thread is
// inside an mj_call and has asked for another. Other threads, and what the user calls on this one,
// even from a callback in the middle of a rollout, have MuJoCo's.
//
// Some entries must stay as they are: mj_geomDistance compares them with mjc_Convex and mjc_BoxBox.
// Geoms of such pairs are given another type for MuJoCo's calls, that of signed distance functions,
// whose entries may be replaced (CollidingModel); the collider knows their own.
#ifndef DIFFMJ_MJ_COLLIDER_H_
#define DIFFMJ_MJ_COLLIDER_H_

#include <mujoco/mujoco.h>

namespace diffmj {

class SmoothMeshes;  // stages/position/collision/smooth/mesh.h

struct Collider {
  // As mjfCollision. Writes no more contacts than mj_maxContact says of the pair, for MuJoCo has no
  // room for more. No exceptions: it is called from C.
  int (*collide)(const Collider& self, const mjModel* m, mjData* d, mjPreContact* contact,
                 int geom1, int geom2, mjtNum margin) = nullptr;
  // The rates [m/s] at which the distances of d's contacts change, of pairs that have a collider of
  // this kind; others' are left. The velocity stage must have been evaluated.
  void (*rates)(const Collider& self, const mjModel* m, const mjData* d, double* rate) = nullptr;
  double width = 0;  // [m]
  const SmoothMeshes* meshes = nullptr;
  // Of each geom: its own type, and the one that MuJoCo's calls see; null: their own.
  const int* type = nullptr;
  const int* seen_type = nullptr;
};

// How many contacts a pair may have that MuJoCo takes for signed distance functions.
constexpr int kMaxSeen = 32;

// What MuJoCo's own collider gives for two geoms, in the order of their own types; only_first: no
// more are looked for where that costs.
int collide_as_mujoco(const Collider& self, const mjModel* m, mjData* d, mjPreContact* contact,
                      int geom1, int geom2, mjtNum margin, bool only_first);

// Asks for a collider, on this thread until destroyed; null: MuJoCo's. Nests.
class ColliderScope {
 public:
  explicit ColliderScope(const Collider* collider);
  ~ColliderScope();
  ColliderScope(const ColliderScope&) = delete;
  ColliderScope& operator=(const ColliderScope&) = delete;

 private:
  const Collider* outer_;
};

// What this thread asks for; null: MuJoCo's.
const Collider* collider_asked_for();

// What a call of MuJoCo's would give for two geoms, in this order. Inside mj_call.
int collide_geoms(const mjModel* m, mjData* d, mjPreContact* contact, int geom1, int geom2,
                  mjtNum margin);

// A model as MuJoCo's calls that collide geoms are to see it; m itself if no collider is in effect,
// or none that asks for other types. To be used inside mj_call.
class CollidingModel {
 public:
  explicit CollidingModel(const mjModel* m);
  operator const mjModel*() const { return seen_; }  // NOLINT: it is one

 private:
  mjModel copy_;  // of the pointers
  const mjModel* seen_;
};

// Puts a dispatcher in the place of the collider of two types of geoms, type1 ≤ type2; only the
// first call for a pair does anything. Entries that must stay are left alone.
void install_dispatcher(int type1, int type2);
bool may_be_replaced(int type1, int type2);

namespace internal {
// What was asked for is in effect only inside mj_call; nests.
class ColliderInEffect {
 public:
  ColliderInEffect();
  ~ColliderInEffect();
  ColliderInEffect(const ColliderInEffect&) = delete;
  ColliderInEffect& operator=(const ColliderInEffect&) = delete;

 private:
  const Collider* outer_;
};
}  // namespace internal

}  // namespace diffmj

#endif  // DIFFMJ_MJ_COLLIDER_H_
