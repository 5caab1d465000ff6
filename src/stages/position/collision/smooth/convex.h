// Two convex geoms: ellipsoids, cylinders and meshes, with each other and with the other shapes.
//
// With x_i(v) the point of geom i farthest in a direction v (convex_shape.h), they touch along the
// normal n for which what lies between the two points is along it,
//
//   D = x_2(-n) - x_1(n),   e_k·D = 0 for e_k ⟂ n,   dist = n·D                              (20)
//
// Newton's method on the sphere, from MuJoCo's normal, with the matrix D_1 + D_2 + dist in the
// plane of the e_k. Faces and edges touch in more than a point: the ends of what is in contact are
// where they would touch if they were tilted against each other by as much as moves x_i(v) from
// end to end,
//
//   e_k·(x_2(-n - m + t) - x_1(n + m + t)) = 0 for m ⟂ n                                     (21)
//
// in four directions t along the axes of the second geom, or in both along a capsule. A normal that
// is off a face's by what it takes to move x_i over it is the face's, and the point of a round geom
// on it that which the face's normal has.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_CONVEX_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_CONVEX_H_

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "stages/position/collision/smooth/convex_shape.h"
#include "stages/position/collision/smooth/geom.h"
#include "stages/position/collision/smooth/places.h"

namespace diffmj {

template <class T>
Vec3<T> unit(const Vec3<T>& v) {
  return T(1.0 / norm(v)) * v;
}

template <class T>
SmoothGeom<double> values_of(const SmoothGeom<T>& geom) {
  SmoothGeom<double> out;
  out.pos = values_of(geom.pos);
  for (size_t k = 0; k < 3; k++) {
    out.axis[k] = values_of(geom.axis[k]);
    out.size[k] = value_of(geom.size[k]);
  }
  out.mesh = geom.mesh;
  return out;
}

// How much geoms are tilted to find the ends of what is in contact, along n's tangents. Returns
// their number.
template <class T>
size_t contact_tilts(const ConvexShape<T>* first, const ConvexShape<T>& second, const Vec3<T>& n,
                     const T& depth, std::array<Vec3<T>, kMaxEnds>& t) {
  // of either geom; a half would just do, and of one alone the whole
  const T share = (first ? 0.6 : 1.2) * (1.0 + depth / (first ? first->width() : second.width()));
  if (!second.has_faces() || (first && !first->has_faces())) return 0;
  const auto tangent = [&](const Vec3<T>& axis, const T& eps) {
    return T(share * eps) * (axis - dot(axis, n) * n);
  };
  if (first && first->type() == mjGEOM_CAPSULE) {
    t[0] = tangent(first->geom().axis[2], T(first->eps(2) + second.eps()));
    t[1] = -t[0];
    return 2;
  }
  const std::array<Vec3<T>, 3>& axis = second.geom().axis;
  const T other = first ? first->eps() : T(0.0);
  Vec3<T> a, b;
  if (second.type() == mjGEOM_CYLINDER && std::abs(value_of(dot(n, axis[2]))) < 0.7) {
    a = tangent(axis[2], T(second.eps(2) + other));
    b = tangent(cross(n, axis[2]), T(second.eps(0) + other));
  } else {
    size_t k = 2;
    if (second.type() != mjGEOM_CYLINDER) {
      for (size_t i = 0; i < 2; i++) {
        if (std::abs(value_of(dot(n, axis[i]))) > std::abs(value_of(dot(n, axis[k])))) k = i;
      }
    }
    const size_t i = (k + 1) % 3, j = (k + 2) % 3;
    a = tangent(axis[i], T(second.eps(i) + other));
    b = tangent(axis[j], T(second.eps(j) + other));
  }
  t = {a + b, a - b, b - a, -(a + b)};
  return 4;
}

// Place::near of an end that is found by tilting geoms by t.
template <class T>
T near_middle(const T& w, const T& roundness, const Vec3<T>& t) {
  return kNear * w + 7.0 * roundness * norm(t);
}

class ConvexSolver {
 public:
  ConvexSolver(ConvexShape<double>& first, ConvexShape<double>& second)
      : first_(first), second_(second), between_(second.geom().pos - first.geom().pos) {}

  // (20) from a normal nearby; false if there is no solution that Newton's method finds.
  bool solve_normal(const Vec3<double>& start);
  // Whether an end may be apart from the middle: both points move enough if the normal turns. It
  // spares vertices on faces, and balls, what would come out as one place.
  bool may_have_end(const Vec3<double>& t, double near) const {
    const auto moves = [&](const ConvexShape<double>& shape, const Vec3<double>& v) {
      const Vec3<double> way =
          shape.support(shape.local(unit(v + 2.0 * t))) - shape.support(shape.local(v));
      return dot(way, way) > 0.25 * near * near;
    };
    return moves(first_, n) && moves(second_, -n);
  }
  // (21)
  bool solve_end(const Vec3<double>& t);

  Vec3<double> n, e1, e2;
  double m1 = 0, m2 = 0;
  // (M + shift)⁻¹ (f1, f2), M the matrix of the last solution.
  template <class T>
  void step(const T& f1, const T& f2, T& s1, T& s2, double shift = 0) const {
    const double a = M_[0] + shift, d = M_[3] + shift, scale = 1 / (a * d - M_[1] * M_[2]);
    s1 = scale * (d * f1 - M_[1] * f2);
    s2 = scale * (a * f2 - M_[2] * f1);
  }

 private:
  static constexpr int kMaxSteps = 60, kMaxTries = 20;
  static constexpr double kSmall = 1e-10;  // [m] one more step from there is exact

  template <class Begin, class Move>
  bool solve(double most, const Begin& begin, const Move& move);
  // sets F_ and M_; returns D
  Vec3<double> evaluate(const Vec3<double>& y1, const Vec3<double>& y2);

  ConvexShape<double>&first_, &second_;
  Vec3<double> between_;
  std::array<double, 2> F_;
  std::array<double, 4> M_;
  double shift_ = 0;  // that makes M definite
};

inline Vec3<double> ConvexSolver::evaluate(const Vec3<double>& y1, const Vec3<double>& y2) {
  Vec3<double> D = between_;
  M_.fill(0);
  const auto add = [&](const ConvexShape<double>& shape, const Vec3<double>& y, double sign) {
    const double scale = 1 / norm(y);
    const Vec3<double> v = scale * y;
    const SupportPoint point = support_point(shape, shape.local(v));
    D = D + sign * shape.global(point.x);
    const auto turned = [&](const Vec3<double>& e) {
      return shape.global(point.along(shape.local(scale * (e - dot(e, v) * v))));
    };
    const Vec3<double> d1 = turned(e1), d2 = turned(e2);
    M_[0] += dot(e1, d1);
    M_[1] += dot(e1, d2);
    M_[2] += dot(e2, d1);
    M_[3] += dot(e2, d2);
  };
  add(first_, y1, -1);
  add(second_, y2, 1);
  F_ = {dot(e1, D), dot(e2, D)};
  return D;
}

// Newton's method for D's part across n, by steps s in the plane of the tangents. D·s falls
// along the way: a step that goes too far is one after which it is more than half as large as
// before, with the other sign. Where points stand still at corners steps are long; beyond lies a
// face, over which they move in ε.
template <class Begin, class Move>
bool ConvexSolver::solve(double most, const Begin& begin, const Move& move) {
  for (int i = 0; i < kMaxSteps; i++) {
    begin();
    const bool last = F_[0] * F_[0] + F_[1] * F_[1] < kSmall * kSmall;
    double s1, s2;
    step(F_[0], F_[1], s1, s2, shift_);
    const double length = std::sqrt(s1 * s1 + s2 * s2);
    const double before = F_[0] * s1 + F_[1] * s2;
    double scale = length > most ? most / length : 1;
    const Vec3<double> s = s1 * e1 + s2 * e2;
    for (int tries = 0;; tries++) {
      const double after = move(scale, s);
      if (last) return true;
      if (after >= -0.5 * before) break;
      if (tries == kMaxTries) return false;
      scale *= std::max(0.1, before / (before - after));
    }
  }
  return false;
}

inline bool ConvexSolver::solve_normal(const Vec3<double>& start) {
  Vec3<double> from = unit(start), D;
  const auto look = [&](const Vec3<double>& at) {
    n = at;
    const Vec3<double> any = std::abs(n.x) < 0.6   ? Vec3<double>{1, 0, 0}
                             : std::abs(n.y) < 0.6 ? Vec3<double>{0, 1, 0}
                                                   : Vec3<double>{0, 0, 1};
    e1 = unit(cross(n, any));
    e2 = cross(n, e1);
    D = evaluate(n, -n);
    // towards a maximum of the separation, wherever this is
    const double dist = dot(n, D), off = M_[1] + M_[2], difference = M_[0] - M_[3];
    const double least = 0.5 * (M_[0] + M_[3] - std::sqrt(difference * difference + off * off));
    M_[0] += dist;
    M_[3] += dist;
    shift_ = std::max(0.0, -0.9 * least - dist);
  };
  look(from);
  return solve(
      0.3, [&] { from = n; },
      [&](double scale, const Vec3<double>& s) {
        look(unit(from + scale * s));
        return dot(D, s - dot(s, n) * n);
      });
}

inline bool ConvexSolver::solve_end(const Vec3<double>& t) {
  double from1 = 0, from2 = 0;
  const auto look = [&] {
    const Vec3<double> y = n + m1 * e1 + m2 * e2;
    return evaluate(y + t, t - y);
  };
  shift_ = 0;
  // the larger face stays, and the other geom is tilted; or both are
  double best = 0, least = INFINITY;
  for (const double share : {1.0, -1.0, 0.0}) {
    m1 = share * dot(e1, t);
    m2 = share * dot(e2, t);
    look();
    const double residual2 = F_[0] * F_[0] + F_[1] * F_[1];
    if (residual2 >= least) continue;
    least = residual2;
    best = share;
  }
  if (best != 0) {
    m1 = best * dot(e1, t);
    m2 = best * dot(e2, t);
    look();
  }
  return solve(
      norm(t),
      [&] {
        from1 = m1;
        from2 = m2;
      },
      [&](double scale, const Vec3<double>& s) {
        m1 = from1 + scale * dot(e1, s);
        m2 = from2 + scale * dot(e2, s);
        return dot(look(), s);
      });
}

// The vertices of a mesh that matter for normals near n, for this thread until the next call for
// the same side.
inline void set_near_vertices(ConvexShape<double>& shape, size_t side, const Vec3<double>& v,
                              double tilt) {
  static thread_local std::array<std::vector<Vec3<double>>, 2> near;
  const SmoothMesh* mesh = shape.geom().mesh;
  if (shape.type() != mjGEOM_MESH) return;
  mesh->near(shape.local(v), tilt, kLowest * kTemperature * mesh->width(), near[side]);
  shape.set_near(&near[side]);
}

// The normal from a start near it, in solver.n; false if there is none. Vertices of meshes are
// those near the start, which is moved until they are those near the normal.
inline bool find_normal(Vec3<double> start, bool meshes, ConvexShape<double>& shape1,
                        ConvexShape<double>& shape2, ConvexSolver& solver) {
  const double tilt = 0.02 + 2 * (shape1.eps() + shape2.eps());
  for (int i = 0; i < 3; i++) {
    set_near_vertices(shape1, 0, start, tilt);
    set_near_vertices(shape2, 1, -start, tilt);
    if (!solver.solve_normal(start)) return false;
    const bool near = norm(solver.n - start) < 0.5 * tilt;
    start = solver.n;
    if (near || !meshes) break;
  }
  return true;
}

template <class T>
Vec3<T> lifted(const Vec3<double>& v) {
  return {T(v.x), T(v.y), T(v.z)};
}

// How far the point of a shape in direction v moves as v turns to the other shape's face.
template <class T>
Vec3<T> shift_to_face(const ConvexShape<T>& shape, const Vec3<T>& v, const Vec3<T>& turns,
                      const Vec3<T>& other) {
  const Vec3<T> to = shape.local(other) - v;
  const Vec3<T> turned = {v.x + turns.x * to.x, v.y + turns.y * to.y, v.z + turns.z * to.z};
  return shape.global(shape.support(unit(turned)) - shape.support(v));
}

template <class T, class Emit>
void smooth_convex(int type1, int type2, const SmoothGeom<T>& geom1, const SmoothGeom<T>& geom2,
                   double width, const Emit& emit) {
  Vec3<double> start;
  if (!emit.start(start)) return;
  const SmoothGeom<double> value1 = values_of(geom1), value2 = values_of(geom2);
  ConvexShape<double> shape1(type1, value1, width), shape2(type2, value2, width);
  ConvexSolver solver(shape1, shape2);
  if (!find_normal(start, geom1.mesh || geom2.mesh, shape1, shape2, solver)) return emit.fail();

  // the same in T: one step from the solution has its derivatives
  ConvexShape<T> first(type1, geom1, width), second(type2, geom2, width);
  first.set_near(shape1.near());
  second.set_near(shape2.near());
  Vec3<T> x1, x2;
  const auto evaluate = [&](const Vec3<T>& y1, const Vec3<T>& y2) {
    x1 = geom1.pos + first.global(first.support(first.local(unit(y1))));
    x2 = geom2.pos + second.global(second.support(second.local(unit(y2))));
    return x2 - x1;
  };
  Vec3<T> n = lifted<T>(solver.n), e1 = lifted<T>(solver.e1), e2 = lifted<T>(solver.e2);
  Vec3<T> D = evaluate(n, -n);
  if constexpr (!std::is_same_v<T, double>) {
    T s1, s2;
    solver.step(dot(e1, D), dot(e2, D), s1, s2);
    n = unit(n + s1 * e1 + s2 * e2);
    e1 = e1 - s1 * lifted<T>(solver.n);
    e2 = e2 - s2 * lifted<T>(solver.n);
    D = evaluate(n, -n);
  }
  // faces' own normals, and the points of round geoms that these have
  const Vec3<T> n1 = first.local(n), n2 = second.local(-n);
  const Vec3<T> turns1 = first.turns(n1), turns2 = second.turns(n2);
  const Vec3<T> of_first = first.global(first.snapped(n1, turns1));
  const Vec3<T> of_second = second.global(second.snapped(n2, turns2));
  const Vec3<T> both = second.local(-of_first);
  const Vec3<T> normal = -second.global(second.snapped(both, second.turns(both)));
  const auto place_of = [&](const Vec3<T>& v1, const Vec3<T>& v2, const T& near) {
    const Vec3<T> shift1 = shift_to_face(first, v1, turns1, -of_second),
                  shift2 = shift_to_face(second, v2, turns2, -of_first);
    return Place<T>{dot(normal, x2 + shift2 - x1 - shift1), 0.5 * (x1 + x2) + shift1 + shift2,
                    near};
  };
  std::array<Place<T>, 1 + kMaxEnds> place;
  place[0] = place_of(n1, n2, T(0.0));
  const T w = pair_width(first, second, width);
  if (emit.is_far(place[0].dist - 3.0 * w)) return;

  const T roundness = first.roundness(first.local(n)) + second.roundness(second.local(n));
  std::array<Vec3<T>, kMaxEnds> tilts;
  const size_t nend =
      contact_tilts(&first, second, n, smooth_positive(T(-place[0].dist), w), tilts);
  if (nend > 0 && (geom1.mesh || geom2.mesh)) {
    const double farthest = 3 * norm(values_of(tilts[0])) + 0.02;
    set_near_vertices(shape1, 0, solver.n, farthest);
    set_near_vertices(shape2, 1, -solver.n, farthest);
  }
  const auto near = [&](size_t i) { return near_middle(w, roundness, tilts[i]); };
  bool has_ends = false;
  for (size_t i = 0; i < nend && !has_ends; i++) {
    has_ends = solver.may_have_end(values_of(tilts[i]), value_of(near(i)));
  }
  if (!has_ends) return emit_places(place, 0, normal, w, 1, emit);
  for (size_t i = 0; i < nend; i++) {
    if (!solver.solve_end(values_of(tilts[i]))) return emit.fail();
    T m1(solver.m1), m2(solver.m2);
    Vec3<T> y = n + m1 * e1 + m2 * e2;
    D = evaluate(y + tilts[i], tilts[i] - y);
    if constexpr (!std::is_same_v<T, double>) {
      T s1, s2;
      solver.step(dot(e1, D), dot(e2, D), s1, s2);
      m1 += s1;
      m2 += s2;
      y = n + m1 * e1 + m2 * e2;
      D = evaluate(y + tilts[i], tilts[i] - y);
    }
    place[1 + i] =
        place_of(first.local(unit(y + tilts[i])), second.local(unit(tilts[i] - y)), near(i));
  }
  emit_places(place, nend, normal, w, kMaxEnds + 1, emit);
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_CONVEX_H_
