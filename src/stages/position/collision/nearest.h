// Contacts where the distance of two features is extremal: nearest points, or the least
// penetration.
//
//   p2 - p1 = L n,    T1ᵀ n = 0,  T2ᵀ n = 0                                                  (1)
//   dist = L - radius1 - radius2,   pos = ½ (p1 + p2 + n (radius1 - radius2))
//
// The geoms' motion w = δp at fixed θ moves n and the places θ on the features,
//
//   | -L   -B1   B2 |  | Eᵀ δn |     | -Eᵀ (w2 - w1)   |
//   | -B1ᵀ -K1      |  |  δθ1  |  =  | -T1ᵀ (ω1 × n)   |        B = Eᵀ T,  E a basis of n⟂   (2)
//   |  B2ᵀ       K2 |  |  δθ2  |     |  T2ᵀ (ω2 × n)   |
//
// with K along n; the matrix is symmetric. (docs/derivations/collision.md)
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_NEAREST_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_NEAREST_H_

#include "stages/position/collision/feature.h"

namespace diffmj {

struct NearestResult {
  Vector3 force;           // on the first feature's point: its cotangent
  bool determined = true;  // whether (2) has one solution
};

// Adds to out. theta_bar is a cotangent of the place on the first feature's first tangent.
NearestResult nearest_pullback(const std::array<Feature, 2>& feature, const PairContact& contact,
                               const PairContactBar& bar, double theta_bar, PairBar& out);

// The same with the features found; false, with nothing added, if there are none that fit, or if
// only a determined result is wanted and this one is not.
enum class Undetermined { kZero, kUnknown };
bool nearest_pullback(const std::array<GeomPose, 2>& geom, const PairContact& contact,
                      const FeatureTolerance& tolerance, const PairContactBar& bar, PairBar& out,
                      Undetermined rest = Undetermined::kZero);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_NEAREST_H_
