// Which colliders give the contacts, and which their derivatives (docs/gradients.md).
#ifndef DIFFMJ_COLLISIONS_H_
#define DIFFMJ_COLLISIONS_H_

#include <string>

namespace diffmj {

enum class Collisions {
  kMujoco,          // MuJoCo's, forward and backward
  kSmooth,          // smooth ones, forward and backward: no case of a collider ends abruptly
  kSmoothBackward,  // MuJoCo's forward, bitwise; derivatives of the smooth ones: a surrogate
  kSmoothField,     // MuJoCo's forward; the derivative of the dynamics that smooth contacts give
};

struct CollisionOptions {
  Collisions mode = Collisions::kMujoco;
  // [m] Over which cases of a collider go over into each other. As it goes to 0 contacts converge
  // to MuJoCo's. kMujoco does not read it.
  double smoothness = 1e-3;
};

const char* collisions_name(Collisions mode);  // "mujoco", "smooth", ...
// The inverse; InputError lists the names there are.
Collisions collisions_from_name(const std::string& name);

}  // namespace diffmj

#endif  // DIFFMJ_COLLISIONS_H_
