// Colliders of our own in place of MuJoCo's, for the MuJoCo calls of one thread.
//
// MuJoCo finds the collider of a pair of geoms in mjCOLLISIONFUNC, a table of the whole process. A
// dispatcher is installed there once: it calls what was there before unless the calling thread is
// inside an mj_call and has asked for another. Other threads, and what the user calls on this one,
// even from a callback in the middle of a rollout, have MuJoCo's.
#ifndef DIFFMJ_MJ_COLLIDER_H_
#define DIFFMJ_MJ_COLLIDER_H_

#include <mujoco/mujoco.h>

namespace diffmj {

struct Collider {
  // As mjfCollision. Writes no more contacts than mj_maxContact says of the pair, for MuJoCo has no
  // room for more. No exceptions: it is called from C.
  int (*collide)(const Collider& self, const mjModel* m, const mjData* d, mjPreContact* contact,
                 int geom1, int geom2, mjtNum margin) = nullptr;
  double width = 0;  // [m]
};

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

// Puts a dispatcher in the place of the collider of two types of geoms, type1 ≤ type2; only the
// first call for a pair does anything. mj_geomDistance compares entries of the table with
// mjc_Convex and mjc_BoxBox: such entries must stay, and are left alone.
void install_dispatcher(int type1, int type2);

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
