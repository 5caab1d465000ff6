// Which colliders compute the contacts and their derivatives (docs/gradients.md).
#ifndef DIFFMJ_COLLISIONS_H_
#define DIFFMJ_COLLISIONS_H_

#include <string>

namespace diffmj {

enum class Collisions {
  kMujoco,          // MuJoCo's, forward and backward
  kSmooth,          // smooth ones, forward and backward: cases of a collider are blended
  kSmoothBackward,  // MuJoCo's forward, bitwise; derivatives of the smooth ones: a surrogate
  kSmoothField,     // MuJoCo's forward; the derivative of the dynamics that smooth contacts give
};

struct CollisionOptions {
  Collisions mode = Collisions::kMujoco;
  // [m] Width over which the cases of a collider are blended. As it goes to 0, contacts converge to
  // MuJoCo's. Not used by kMujoco.
  double smoothness = 1e-3;
};

const char* collisions_name(Collisions mode);  // "mujoco", "smooth", ...
// The inverse; an InputError lists the valid names.
Collisions collisions_from_name(const std::string& name);

}  // namespace diffmj

#endif  // DIFFMJ_COLLISIONS_H_
