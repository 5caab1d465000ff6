// The two points where a tendon meets a sphere or cylinder, and the length between them; MuJoCo:
// mju_wrap.
//
// In the plane of the circle (normal n; for a sphere the plane of both ends and the centre, for a
// cylinder the one across its axis) with ends e, L = |e|, and radius r:
//
//   outside:  τ = (r² e ∓ r √(L² - r²) n × e) / L²,   arc = r · angle from τ₀ to τ₁            (1)
//   inside:   τ₀ = τ₁, where the way e₀ - τ - e₁ is shortest: a root that Newton's method finds (2)
//   cylinder: along the axis the path is a straight line over the unrolled surface             (3)
//
// The pullback is guided by the points the forward pass found: which of the two tangents, inside or
// outside is read from them, so that it holds for every rule by which a version of MuJoCo decides.
#ifndef DIFFMJ_STAGES_POSITION_WRAP_H_
#define DIFFMJ_STAGES_POSITION_WRAP_H_

#include "base/spatial.h"

namespace diffmj {

// All relative to the centre of the sphere or cylinder, in world axes.
struct Wrap {
  bool cylinder;
  Vector3 axis;  // of a cylinder
  double radius;
  Vector3 end[2];    // the two sites
  Vector3 point[2];  // where the path meets the surface, as MuJoCo found it
};
struct WrapBar {
  Vector3 end[2] = {Vector3::Zero(), Vector3::Zero()};
  double radius = 0;
};

// From cotangents of the two points and of the length between them to those of ends and radius.
// gradient: finite everywhere; where an end lies on the surface the tangent's point moves
// infinitely fast, and that part is left out.
WrapBar wrap_pullback(const Wrap& wrap, const Vector3& point0_bar, const Vector3& point1_bar,
                      double length_bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_WRAP_H_
