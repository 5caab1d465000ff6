#include "mj/collider.h"

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

namespace diffmj {
namespace {

thread_local const Collider* asked_for = nullptr;
thread_local const Collider* in_effect = nullptr;

using Table = std::array<std::array<mjfCollision, mjNGEOMTYPES>, mjNGEOMTYPES>;

Table& replaced() {
  static Table table = {};
  return table;
}

template <size_t type1, size_t type2>
int dispatch(const mjModel* m, mjData* d, mjPreContact* contact, int geom1, int geom2,
             mjtNum margin) {
  const Collider* collider = in_effect;
  if (collider) return collider->collide(*collider, m, d, contact, geom1, geom2, margin);
  return replaced()[type1][type2](m, d, contact, geom1, geom2, margin);
}

template <size_t... k>
Table make_dispatchers(std::index_sequence<k...> /*pairs*/) {
  Table table = {};
  ((table[k / mjNGEOMTYPES][k % mjNGEOMTYPES] = dispatch<k / mjNGEOMTYPES, k % mjNGEOMTYPES>), ...);
  return table;
}

}  // namespace

ColliderScope::ColliderScope(const Collider* collider)
    : outer_(std::exchange(asked_for, collider)) {}
ColliderScope::~ColliderScope() { asked_for = outer_; }

void install_dispatcher(int type1, int type2) {
  static std::mutex mutex;
  static const Table kDispatchers =
      make_dispatchers(std::make_index_sequence<size_t{mjNGEOMTYPES} * mjNGEOMTYPES>());
  const std::lock_guard lock(mutex);
  const auto i = static_cast<size_t>(type1), j = static_cast<size_t>(type2);
  mjfCollision& entry = mjCOLLISIONFUNC[i][j];
  const mjfCollision boxes = mjCOLLISIONFUNC[mjGEOM_BOX][mjGEOM_BOX],
                     convex = mjCOLLISIONFUNC[mjGEOM_ELLIPSOID][mjGEOM_ELLIPSOID];
  if (!entry || entry == boxes || entry == convex || replaced()[i][j]) return;
  // before the entry, for other threads may be colliding
  replaced()[i][j] = entry;
  std::atomic_ref(entry).store(kDispatchers[i][j], std::memory_order_release);
}

namespace internal {

ColliderInEffect::ColliderInEffect() : outer_(std::exchange(in_effect, asked_for)) {}
ColliderInEffect::~ColliderInEffect() { in_effect = outer_; }

}  // namespace internal
}  // namespace diffmj
