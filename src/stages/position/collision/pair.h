// What the pullbacks of contact geometry share: two geoms, one contact of theirs, and cotangents.
//
// A point fixed in a geom moves with it, δc = v + ω × c, a direction turns, δa = ω × a; a force at
// the point and a torque are their cotangents. Sizes move the features that a contact is made of.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_PAIR_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_PAIR_H_

#include <mujoco/mujoco.h>

#include <array>

#include "base/spatial.h"
#include "stages/position/kinematics.h"

namespace diffmj {

// Cotangents of one contact: mjContact's dist, pos and the rows of its frame.
struct ContactBar {
  double dist = 0;
  Vector3 pos = Vector3::Zero();
  Eigen::Matrix3d frame = Eigen::Matrix3d::Zero();  // row k is of frame row k

  bool any() const { return dist != 0 || !pos.isZero(0) || !frame.isZero(0); }
};

struct GeomPose {
  GeomPose(const mjModel* model, const mjData* d, int geom)
      : m(model),
        id(geom),
        type(m->geom_type[geom]),
        pos(d->geom_xpos + 3 * static_cast<ptrdiff_t>(geom)),
        mat(Rotation(d->geom_xmat + 9 * static_cast<ptrdiff_t>(geom))),
        size(m->geom_size + 3 * static_cast<ptrdiff_t>(geom)) {}

  Vector3 axis(int k) const { return mat.col(k); }
  Vector3 local(const Vector3& point) const { return mat.transpose() * (point - pos); }

  const mjModel* m;
  int id, type;
  Vector3 pos;          // of its centre
  Eigen::Matrix3d mat;  // columns are its axes
  Vector3 size;
};

// As a collider gives it; normals are of unit length, from the first geom to the second.
struct PairContact {
  explicit PairContact(const mjContact& contact)
      : dist(contact.dist), pos(contact.pos), n(contact.frame) {}
  explicit PairContact(const mjPreContact& contact)
      : dist(contact.dist), pos(contact.pos), n(contact.normal) {}

  // The contact's point on the surface of either geom.
  Vector3 surface(int side) const { return pos + (side == 0 ? -0.5 : 0.5) * dist * n; }
  // Outward normal of either geom.
  Vector3 outward(int side) const { return side == 0 ? n : Vector3(-n); }

  double dist;
  Vector3 pos, n;
};

struct PairContactBar {
  double dist = 0;
  Vector3 pos = Vector3::Zero(), n = Vector3::Zero(), tangent = Vector3::Zero();

  bool any() const { return dist != 0 || !pos.isZero(0) || !n.isZero(0) || !tangent.isZero(0); }
  PairContactBar& operator+=(const PairContactBar& other) {
    dist += other.dist;
    pos += other.pos;
    n += other.n;
    tangent += other.tangent;
    return *this;
  }
};

// Cotangents of the two geoms: wrenches about a pivot, and sizes.
struct PairBar {
  explicit PairBar(const Vector3& about) : pivot(about) {}

  void force(int side, const Vector3& at, const Vector3& f) {
    wrench[static_cast<size_t>(side)] += wrench_at(at - pivot, Vector3::Zero(), f);
  }
  void torque(int side, const Vector3& t) { wrench[static_cast<size_t>(side)].head<3>() += t; }

  Vector3 pivot;
  std::array<Vector6, 2> wrench = {Vector6::Zero(), Vector6::Zero()};
  std::array<Vector3, 2> size = {Vector3::Zero(), Vector3::Zero()};
};

// How far the closed form of a contact may be from what the collider gave. More is a case of the
// collider that is not known here. [m]
constexpr double kFeatureTolerance = 1e-9;  // of the sizes

inline double feature_tolerance(const GeomPose& geom) {
  return kFeatureTolerance * geom.size.lpNorm<1>();
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_PAIR_H_
