// Several places where two geoms touch: the nearest, and those at the ends of what is in contact.
//
// Place 0 is the middle one, the others are ends. An end that is not apart from the middle, or from
// an end before it, leaves; the middle leaves where it lies between two ends that are as near:
//
//   a_i = A(0, i) Π_j (1 - a_j (1 - A(j, i))),   A(i, j) = S(|p_i - p_j|/6w - 1)
//   a_0 = Π_ij (1 - a_i a_j N_i N_j S(-(p_i - p_0)·(p_j - p_0)/36w²)),  N_i = 1 - S((d_i - d_0)/w)
//   (19)
//
// with a larger distance for 6w where geoms are curved. The fourth end comes only when
// the middle has left.
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
void emit_places(const std::array<Place<T>, 1 + kMaxEnds>& place, size_t nend, const Vec3<T>& n,
                 const T& w, const Emit& emit) {
  const auto apart = [&](size_t i, size_t j, const T& near) {
    const Vec3<T> way = place[j].pos - place[i].pos;
    if (dot(way, way) <= near * near) return T(0.0);
    return smooth_ramp(T(norm(way) - near), near);
  };
  const T beside = kNear * w;
  std::array<T, 1 + kMaxEnds> a;
  a[0] = T(1.0);
  for (size_t i = 1; i <= nend; i++) {
    a[i] = apart(0, i, place[i].near);
    for (size_t j = 1; j < i && a[i] > 0.0; j++) {
      if (a[j] > 0.0) a[i] *= 1.0 - a[j] * (1.0 - apart(j, i, place[i].near));
    }
  }
  const auto near = [&](size_t i) {
    return 1.0 - smooth_ramp(T(place[i].dist - place[0].dist), w);
  };
  for (size_t i = 1; i <= nend; i++) {
    for (size_t j = 1; j < i && a[0] > 0.0; j++) {
      if (a[i] == 0.0 || a[j] == 0.0) continue;
      const T facing = -dot(place[i].pos - place[0].pos, place[j].pos - place[0].pos);
      a[0] *= 1.0 - a[i] * a[j] * near(i) * near(j) * smooth_ramp(facing, T(beside * beside));
    }
  }
  // never five: MuJoCo has room for four on a plane
  if (nend == kMaxEnds) {
    a[kMaxEnds] *= smooth_step(T(1.0 - 2.0 * a[0]));
    a[0] = smooth_step(T(2.0 * a[0] - 1.0));
  }
  for (size_t i = 0; i <= nend; i++) {
    if (a[i] == 0.0 && (i > 0 || !emit.wants_middle())) continue;
    emit(SmoothContact<T>{place[i].dist, place[i].pos, n, fading(a[i], w)});
  }
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_PLACES_H_
