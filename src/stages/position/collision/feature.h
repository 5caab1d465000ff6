// What of a shape a contact touches: a vertex, an edge, a rim, a face or a curved surface, with a
// radius around it.
//
//   surface point = p + radius m,    δp = v + ω × p + Σ_k size_rate_k δsize_k + T δθ
//   K_ij = m · ∂t_i/∂θ_j             m the outward normal at the contact, tangents T ⟂ m
//
// A sphere is a vertex, a capsule's side an edge, a cylinder's too, each with a radius.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_FEATURE_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_FEATURE_H_

#include "stages/position/collision/pair.h"

namespace diffmj {

struct Feature {
  int dim = 0;  // number of tangents
  Vector3 p = Vector3::Zero();
  double radius = 0;
  int radius_size = -1;  // the entry of size that the radius is, -1: none
  std::array<Vector3, 2> t = {Vector3::Zero(), Vector3::Zero()};
  Eigen::Matrix2d K = Eigen::Matrix2d::Zero();
  Eigen::Matrix3d size_rate = Eigen::Matrix3d::Zero();  // column k: ∂p/∂size_k at the same normal
};

// How well a collider's results tell a feature.
struct FeatureTolerance {
  double place = kFeatureTolerance;  // of the sizes
  double normal = 1e-7;              // tangents against the normal
};

// The feature of a geom at a point of its surface with an outward normal. False if there is none,
// or if the shape is not known.
bool find_feature(const GeomPose& geom, const Vector3& surface, const Vector3& outward,
                  const FeatureTolerance& tolerance, Feature& out);

// The feature that is farthest along an outward normal, with p any of its points; boxes, cylinders
// and meshes.
bool support_feature(const GeomPose& geom, const Vector3& outward,
                     const FeatureTolerance& tolerance, Feature& out);

// p = s² d / |s d| of an ellipsoid's local normal d, and ∂p/∂s.
Vector3 ellipsoid_support(const Vector3& size, const Vector3& d);
Eigen::Matrix3d ellipsoid_support_size_rate(const Vector3& size, const Vector3& d);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_FEATURE_H_
