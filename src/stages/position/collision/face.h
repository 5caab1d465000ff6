// Flat faces of shapes, as polygons: of boxes and meshes, and the caps of cylinders, which MuJoCo
// takes for polygons of 16 corners where it clips them.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_FACE_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_FACE_H_

#include <array>

#include "stages/position/collision/pair.h"
#include "stages/position/collision/vertices.h"

namespace diffmj {

struct Face {
  const GeomPose* geom = nullptr;
  int n = 0;                         // number of corners
  Vector3 normal = Vector3::Zero();  // outward
  int size = -1;                     // the entry of size that is its distance from the centre
  int index = 0;                     // an axis, or which of a mesh's polygons
  double sign = 1;

  // Corner i, counted round clockwise as seen from outside, in the order in which MuJoCo's collider
  // has them. The face is the plane through the first.
  Vector3 corner(int i) const;
};

constexpr int kCapCorners = 16;

// Calls fn(face) for the faces of a geom.
template <class F>
void visit_faces(const GeomPose& geom, const F& fn) {
  const mjModel* m = geom.m;
  Face face;
  face.geom = &geom;
  switch (geom.type) {
    case mjGEOM_BOX:
    case mjGEOM_CYLINDER:
      face.n = geom.type == mjGEOM_BOX ? 4 : kCapCorners;
      for (int k = geom.type == mjGEOM_BOX ? 0 : 2; k < 3; k++) {
        for (const double sign : {-1.0, 1.0}) {
          face.index = k;
          face.size = geom.type == mjGEOM_BOX ? k : 1;
          face.sign = sign;
          face.normal = sign * geom.axis(k);
          fn(face);
        }
      }
      return;
    case mjGEOM_MESH: {
      const int id = m->geom_dataid[geom.id];
      for (int k = m->mesh_polyadr[id]; k < m->mesh_polyadr[id] + m->mesh_polynum[id]; k++) {
        face.index = k;
        face.n = m->mesh_polyvertnum[k];
        face.normal = geom.mat * Vector3(m->mesh_polynormal + 3 * static_cast<ptrdiff_t>(k));
        fn(face);
      }
      return;
    }
    default:
      return;
  }
}

// A corner moves with the geom's sizes: adds what a force on it does.
void corner_size_pullback(const GeomPose& geom, const Vector3& corner, const Vector3& force,
                          Vector3& size_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_FACE_H_
