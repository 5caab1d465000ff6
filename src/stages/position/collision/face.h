// Flat faces of shapes, as polygons: of boxes and meshes, the tops of a height field's prisms, the
// caps of cylinders, which MuJoCo takes for polygons of 16 corners where it clips them.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_FACE_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_FACE_H_

#include <array>

#include "stages/position/collision/pair.h"

namespace diffmj {

struct Face {
  const GeomPose* geom = nullptr;
  int n = 0;                         // number of corners
  Vector3 normal = Vector3::Zero();  // outward
  int size = -1;                     // the entry of size that is its distance from the centre
  int index = 0;                     // an axis, or which of a mesh's polygons
  double sign = 1;
  std::array<Vector3, 3> top = {};  // of a prism, local

  // Corner i, counted round.
  Vector3 corner(int i) const;
};

// The geom's face with this outward normal, or with one that is at most `angle` from it [rad], in
// whose plane a point is. False if there is none.
bool find_face(const GeomPose& geom, const Vector3& point, const Vector3& outward, double angle,
               double tolerance, Face& out);

// The first edge of the geom's faces that a point is on, a and b its ends; boxes and meshes.
bool find_edge(const GeomPose& geom, const Vector3& point, double tolerance, Vector3& a,
               Vector3& b);

// Whether a point is a corner of the geom.
bool is_corner(const GeomPose& geom, const Vector3& point, double tolerance);

// A corner moves with the geom's sizes: adds what a force on it does.
void corner_size_pullback(const GeomPose& geom, const Vector3& corner, const Vector3& force,
                          Vector3& size_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_FACE_H_
