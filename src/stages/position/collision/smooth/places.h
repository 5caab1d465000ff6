// Several places where two geoms touch: the nearest, and those at the ends of what is in contact.
//
// Place 0 is the middle one, the others are ends. An end leaves if it is not apart from one before
// it, and is moved to the middle if it is not apart from any. The middle leaves where an end is, or
// where it lies between two ends that are nearly as deep:
//
//   p_i' = p_0 + (p_i - p_0) (1 - Π_j (1 - A(j, i))),   A(i, j) = S(|p_i - p_j|/6w - 1)
//   a_i = Π_{j<i} (1 - a_j (1 - A(j, i)))                                                    (19)
//   a_0 = Π_i (1 - a_i (1 - A'(0, i))) Π_ij (1 - a_i a_j N_i N_j S(-(p_i - p_0)·(p_j - p_0)/36w²))
//   N_i = 1 - S((d_i - d_0)/w - 1)
//
// with a larger distance for 6w where geoms are curved. So a place only leaves where another of
// full weight is. Where there is room for four contacts, the fourth end leaves for the middle.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLACES_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLACES_H_

#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/smoothing.h"

namespace diffmj {

constexpr size_t kMaxEnds = 4;
constexpr double kNear = 6;  // widths between places that are not apart

template <class T>
struct Place {
  T dist;
  Vec3<T> pos;
  T near = T(0.0);  // an end that is not farther from another place is not apart from it
};

template <class T, class Emit>
void emit_places(std::array<Place<T>, 1 + kMaxEnds>& place, size_t nend, const Vec3<T>& n,
                 const T& w, size_t room, const Emit& emit) {
  const auto apart = [&](size_t i, size_t j, const T& near) {
    const Vec3<T> way = place[j].pos - place[i].pos;
    if (dot(way, way) <= near * near) return T(0.0);
    return smooth_ramp(T(norm(way) - near), near);
  };
  const T beside = kNear * w;
  std::array<T, 1 + kMaxEnds> a, alone;
  a[0] = T(1.0);
  for (size_t i = 1; i <= nend; i++) a[i] = alone[i] = T(1.0);
  for (size_t i = 1; i <= nend; i++) {
    for (size_t j = 1; j < i; j++) {
      const T together = 1.0 - apart(j, i, place[i].near);
      a[i] *= 1.0 - a[j] * together;
      alone[i] *= together;
      alone[j] *= together;
    }
  }
  for (size_t i = 1; i <= nend; i++) {
    if (alone[i] > 0.0) {
      place[i].pos = place[i].pos + alone[i] * (place[0].pos - place[i].pos);
      place[i].dist += alone[i] * (place[0].dist - place[i].dist);
    }
    a[0] *= 1.0 - a[i] * (1.0 - apart(0, i, place[i].near));
  }
  const auto as_deep = [&](size_t i) {
    return 1.0 - smooth_ramp(T(place[i].dist - place[0].dist - w), w);
  };
  for (size_t i = 1; i <= nend; i++) {
    for (size_t j = 1; j < i && a[0] > 0.0; j++) {
      if (a[i] == 0.0 || a[j] == 0.0) continue;
      const T facing = -dot(place[i].pos - place[0].pos, place[j].pos - place[0].pos);
      a[0] *= 1.0 - a[i] * a[j] * as_deep(i) * as_deep(j) * smooth_ramp(facing, T(beside * beside));
    }
  }
  if (nend == kMaxEnds && room == kMaxEnds) {
    // not five: one of three weights whose product is under a half is under 0.8
    const T others = smooth_step(T(1.0 - 2.0 * a[1] * a[2] * a[3]));
    a[nend] *= 1.0 - smooth_step(T(2.0 * a[0])) * (1.0 - others);
    a[0] = smooth_step(T(2.0 * a[0] - 1.0));
    for (size_t i = 1; i < nend; i++) a[i] = smooth_step(T(5.0 * a[i] - 4.0));
  }
  for (size_t i = 0; i <= nend; i++) {
    if (a[i] == 0.0 && (i > 0 || !emit.wants_middle())) continue;
    emit(SmoothContact<T>{place[i].dist, place[i].pos, n, fading(a[i], w)});
  }
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLACES_H_
