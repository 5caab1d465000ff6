#include "stages/position/collision/capsule_box.h"

#include <cmath>

#include "stages/position/collision/nearest.h"

namespace diffmj {
namespace {

class CapsuleBox {
 public:
  CapsuleBox(const std::array<GeomPose, 2>& geom, PairBar& out)
      : geom_(geom),
        axis_(geom[0].axis(2)),
        across_(geom[1].mat.transpose() * axis_),
        near_(std::min(feature_tolerance(geom[0]), feature_tolerance(geom[1]))),
        out_(out) {}

  bool run(const mjContact* contact, int n, const PairContactBar* bar) {
    if (n > 2) return false;
    const PairContact first(contact[0]);
    std::array<Feature, 2> feature;
    for (int side = 0; side < 2; side++) {
      const auto k = static_cast<size_t>(side);
      if (!find_feature(geom_[k], first.surface(side), first.outward(side), {}, feature[k])) {
        return false;
      }
    }
    double x1_bar = 0;
    if (n == 2 && !second(PairContact(contact[1]), bar[1], feature, x1_bar)) return false;
    nearest_pullback(feature, first, bar[0], x1_bar, out_);
    return true;
  }

 private:
  double place(const Vector3& p) const { return axis_.dot(p - geom_[0].pos); }

  bool second(const PairContact& contact, const PairContactBar& bar,
              const std::array<Feature, 2>& first, double& x1_bar) {
    // a sphere around a point that is fixed in the capsule, and the cotangent of its place x
    std::array<Feature, 2> feature;
    Feature& centre = feature[0];
    centre.radius = geom_[0].size[0];
    centre.radius_size = 0;
    const double x = place(contact.surface(0) - centre.radius * contact.n);
    centre.p = geom_[0].pos + x * axis_;
    if ((contact.surface(0) - centre.radius * contact.n - centre.p).lpNorm<Eigen::Infinity>() >
        near_) {
      return false;
    }
    if (!find_feature(geom_[1], contact.surface(1), contact.outward(1), {}, feature[1])) {
      return false;
    }
    const double x_bar = axis_.dot(nearest_pullback(feature, contact, bar, 0, out_).force);

    // an end of the segment
    const double half = geom_[0].size[1];
    if (std::abs(std::abs(x) - half) <= near_) {
      out_.size[0][1] += x < 0 ? -x_bar : x_bar;
      return true;
    }
    const double x1 = place(first[0].p);
    if (first[1].dim > 0 && leaves(centre.p, x_bar)) return true;
    return first[1].dim < 2 && spans(x - x1, first[0], x_bar, x1_bar);
  }

  // side_k · (c - centre) = ± size_k
  bool leaves(const Vector3& c, double x_bar) {
    const Vector3 y = geom_[1].local(c);
    for (int k = 0; k < 3; k++) {
      if (std::abs(std::abs(y[k]) - geom_[1].size[k]) > near_) continue;
      if (std::abs(across_[k]) < mjMINVAL) continue;
      const double lambda = x_bar / across_[k];
      out_.force(0, c, -lambda * geom_[1].axis(k));
      out_.force(1, c, lambda * geom_[1].axis(k));
      out_.size[1][k] += y[k] < 0 ? -lambda : lambda;
      return true;
    }
    return false;
  }

  // x = x1 ± 2 size_k / |axis · side_k|
  bool spans(double way, const Feature& first, double x_bar, double& x1_bar) {
    for (int k = 0; k < 3; k++) {
      const double a = across_[k], size = geom_[1].size[k];
      if (std::abs(std::abs(way * a) - 2 * size) > near_) continue;
      out_.size[1][k] += way / size * x_bar;
      // δway = -way δa / a,  a = axis · side_k
      const Vector3 torque = -way / a * x_bar * axis_.cross(geom_[1].axis(k));
      out_.torque(0, torque);
      out_.torque(1, -torque);
      if (first.dim == 1) {
        x1_bar += x_bar;
      } else {
        out_.size[0][1] += place(first.p) < 0 ? -x_bar : x_bar;
      }
      return true;
    }
    return false;
  }

  const std::array<GeomPose, 2>& geom_;
  Vector3 axis_, across_;  // the capsule's, in the world and in the box
  double near_;
  PairBar& out_;
};

}  // namespace

bool capsule_box_pullback(const std::array<GeomPose, 2>& geom, const mjContact* contact, int n,
                          const PairContactBar* bar, PairBar& out) {
  return CapsuleBox(geom, out).run(contact, n, bar);
}

}  // namespace diffmj
