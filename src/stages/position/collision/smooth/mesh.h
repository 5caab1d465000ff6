// Convex hulls of meshes, for smooth colliders.
//
// The hull is drawn in by the rounding r, so that the ball of that radius rolled over it lies
// inside the mesh and touches its faces: a vertex goes to where the planes of its faces meet after
// they were moved inward by r; in the least-squares sense where there are more than three.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_MESH_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_MESH_H_

#include <mujoco/mujoco.h>

#include <Eigen/Core>
#include <vector>

#include "base/vec3.h"

namespace diffmj {

class SmoothMesh {
 public:
  SmoothMesh() = default;
  SmoothMesh(const mjModel* m, int mesh, double width);

  bool is_empty() const { return core_.empty(); }
  double width() const { return width_; }        // w' of its extents
  double rounding() const { return rounding_; }  // r
  // How much directions turn while the mean goes over a face: e⁻¹² is left of the other end.
  double eps() const { return 0.75 * width_ / extent_; }
  // The largest radius of what its facets approximate, 0 if they meet at large angles.
  double roundness() const { return roundness_; }

  bool has_faces() const { return !faces_.empty(); }
  // The normal of a face that v is within `near` of, null if there is none. Facets of what is round
  // are no faces.
  const Vec3<double>* face(const Vec3<double>& v, double near) const {
    for (const Vec3<double>& n : faces_) {
      const Vec3<double> off = v - n;
      if (dot(off, off) < near * near) return &n;
    }
    return nullptr;
  }

  // All vertices, a row each.
  const Eigen::Matrix<double, Eigen::Dynamic, 3>& vertices() const { return vertices_; }
  // Replaces `out` by the vertices that may be among those farthest in a direction that is `tilt`
  // radians or less from v, but for `reach`. Its cost is that of the vertices found: it climbs to
  // the farthest one along edges of the hull, and goes on to its neighbours.
  void near(const Vec3<double>& v, double tilt, double reach, std::vector<Vec3<double>>& out) const;

 private:
  std::vector<Vec3<double>> core_, faces_;
  Eigen::Matrix<double, Eigen::Dynamic, 3> vertices_;  // core_, along its longest axis
  std::vector<int> first_, next_;  // neighbours of vertex i: next_[first_[i]] to [first_[i + 1]]
  double width_ = 0, rounding_ = 0, extent_ = 0,
         roundness_ = 0;  // extent: the smallest half extent
};

// Those of a model's geoms that may collide, by mesh.
class SmoothMeshes {
 public:
  SmoothMeshes(const mjModel* m, double width);
  // Null if the geom has none.
  const SmoothMesh* of_geom(const mjModel* m, int geom) const {
    const int id = m->geom_dataid[geom];
    if (id < 0 || id >= static_cast<int>(mesh_.size())) return nullptr;
    const SmoothMesh& mesh = mesh_[static_cast<size_t>(id)];
    return mesh.is_empty() ? nullptr : &mesh;
  }

 private:
  std::vector<SmoothMesh> mesh_;
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_MESH_H_
