#include "mj/collider.h"

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

namespace diffmj {
namespace {

thread_local const Collider* asked_for = nullptr;
thread_local const Collider* in_effect = nullptr;

template <class Entry>
using TableOf = std::array<std::array<Entry, mjNGEOMTYPES>, mjNGEOMTYPES>;
using Table = TableOf<mjfCollision>;

// what was in MuJoCo's table before; null: it is still there. Read while other threads install
TableOf<std::atomic<mjfCollision>>& replaced() {
  static TableOf<std::atomic<mjfCollision>> table = {};
  return table;
}

std::atomic_ref<mjfCollision> mujocos(size_t type1, size_t type2) {
  return std::atomic_ref(mjCOLLISIONFUNC[type1][type2]);
}

template <size_t type1, size_t type2>
int dispatch(const mjModel* m, mjData* d, mjPreContact* contact, int geom1, int geom2,
             mjtNum margin) {
  const Collider* collider = in_effect;
  if (collider) return collider->collide(*collider, m, d, contact, geom1, geom2, margin);
  return replaced()[type1][type2].load(std::memory_order_acquire)(m, d, contact, geom1, geom2,
                                                                  margin);
}

template <size_t... k>
Table make_dispatchers(std::index_sequence<k...> /*pairs*/) {
  Table table = {};
  ((table[k / mjNGEOMTYPES][k % mjNGEOMTYPES] = dispatch<k / mjNGEOMTYPES, k % mjNGEOMTYPES>), ...);
  return table;
}

}  // namespace

int collide_as_mujoco(const Collider& self, const mjModel* m, mjData* d, mjPreContact* contact,
                      int geom1, int geom2, mjtNum margin, bool only_first) {
  const auto collide = [&](const mjModel* own) {
    const auto i = static_cast<size_t>(own->geom_type[geom1]),
               j = static_cast<size_t>(own->geom_type[geom2]);
    // in this order: where the entry is a dispatcher, what it replaced can be seen
    const mjfCollision entry = mujocos(i, j).load(std::memory_order_acquire),
                       before = replaced()[i][j].load(std::memory_order_acquire);
    return (before ? before : entry)(own, d, contact, geom1, geom2, margin);
  };
  if (m->geom_type != self.seen_type && !only_first) return collide(m);
  mjModel own = *m;
  own.geom_type = const_cast<int*>(self.type);
  if (only_first) own.opt.disableflags |= mjDSBL_MULTICCD;
  return collide(&own);
}

int collide_geoms(const mjModel* m, mjData* d, mjPreContact* contact, int geom1, int geom2,
                  mjtNum margin) {
  if (in_effect && in_effect->seen_type) {
    return in_effect->collide(*in_effect, m, d, contact, geom1, geom2, margin);
  }
  const auto i = static_cast<size_t>(m->geom_type[geom1]),
             j = static_cast<size_t>(m->geom_type[geom2]);
  return mujocos(i, j).load(std::memory_order_acquire)(m, d, contact, geom1, geom2, margin);
}

CollidingModel::CollidingModel(const mjModel* m) : seen_(m) {
  if (!in_effect || !in_effect->seen_type) return;
  copy_ = *m;
  copy_.geom_type = const_cast<int*>(in_effect->seen_type);
  // the room for contacts of such pairs
  copy_.opt.sdf_initpoints = m->nhfield > 0 ? mjMAXCONPAIR : kMaxSeen;
  // sensors of distances and rays look at types too, and nothing here reads sensors
  copy_.opt.disableflags |= mjDSBL_SENSOR;
  seen_ = &copy_;
}

ColliderScope::ColliderScope(const Collider* collider)
    : outer_(std::exchange(asked_for, collider)) {}
ColliderScope::~ColliderScope() { asked_for = outer_; }

const Collider* collider_asked_for() { return asked_for; }

bool may_be_replaced(int type1, int type2) {
  const auto entry = [](int i, int j) {
    return mujocos(static_cast<size_t>(i), static_cast<size_t>(j)).load(std::memory_order_relaxed);
  };
  const mjfCollision own = entry(type1, type2);
  return own && own != entry(mjGEOM_BOX, mjGEOM_BOX) &&
         own != entry(mjGEOM_ELLIPSOID, mjGEOM_ELLIPSOID);
}

void install_dispatcher(int type1, int type2) {
  static std::mutex mutex;
  static const Table kDispatchers =
      make_dispatchers(std::make_index_sequence<size_t{mjNGEOMTYPES} * mjNGEOMTYPES>());
  const std::lock_guard lock(mutex);
  const auto i = static_cast<size_t>(type1), j = static_cast<size_t>(type2);
  std::atomic<mjfCollision>& before = replaced()[i][j];
  if (!may_be_replaced(type1, type2) || before.load(std::memory_order_relaxed)) return;
  // before the entry, for other threads may be colliding
  before.store(mujocos(i, j).load(std::memory_order_relaxed), std::memory_order_release);
  mujocos(i, j).store(kDispatchers[i][j], std::memory_order_release);
}

namespace internal {

ColliderInEffect::ColliderInEffect() : outer_(std::exchange(in_effect, asked_for)) {}
ColliderInEffect::~ColliderInEffect() { in_effect = outer_; }

}  // namespace internal
}  // namespace diffmj
