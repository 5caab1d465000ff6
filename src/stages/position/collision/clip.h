// A polygon of one geom, clipped by the sides of another geom's face as MuJoCo's collider of convex
// shapes does it: side after side, each a plane through an edge of the face along its normal N.
//
//   v = P + t (Q - P),   pn · (v - a) = 0,   pn = edge × N
//
// P and Q are points that are there before: corners of the polygon, fixed in its geom, or cut by
// earlier sides. Polygons of meshes are not quite flat, so that a point's height depends on these.
// Sides are fixed in the geom that has the face, and pn · δv = pn · (motion of the side).
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_CLIP_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_CLIP_H_

#include "stages/position/collision/face.h"

namespace diffmj {

class Clip {
 public:
  // The corners of a polygon, in order. False if there are more than fit.
  bool add_corner(const Vector3& v);
  // Cuts by all sides of the face; false if there are more points than fit.
  bool run(const Face& face);

  // What is left.
  int size() const { return size_; }
  const Vector3& operator[](int i) const { return point_[index(i)].v; }

  // Cotangents of points that are left, and then of both geoms: side is that of the face.
  void clear_bars() {
    for (size_t i = 0; i < npoint_; i++) point_[i].bar.setZero();
  }
  void add_bar(int i, const Vector3& v_bar) { point_[index(i)].bar += v_bar; }
  void pullback(const std::array<GeomPose, 2>& geom, int side, const Face& face, PairBar& out);

 private:
  static constexpr size_t kMaxPoints = 384;

  struct Point {
    Vector3 v, bar;
    int cut;          // the side that has made it, -1: a corner
    size_t from, to;  // P and Q
    double t;
  };

  size_t index(int i) const { return left_[static_cast<size_t>(i)]; }

  size_t npoint_ = 0;
  int size_ = 0;
  std::array<Point, kMaxPoints> point_;
  std::array<size_t, kMaxPoints> left_, next_;
};

// The plane of side i of a face: through corner i, its normal inwards.
Vector3 side_normal(const Face& face, int i);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_CLIP_H_
