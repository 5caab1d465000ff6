// Smooth colliders of ellipsoids, cylinders and meshes: differentiable through every case of
// MuJoCo's general collider, and near it.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "harness/collision_paths.h"
#include "harness/models.h"
#include "stages/position/collision/smooth/convex.h"

namespace diffmj {
namespace {

const char* const kPlane = "type='plane' size='3 3 1'";
const char* const kSphere = "type='sphere' size='.05'";
const char* const kCapsule = "type='capsule' size='.04 .1'";
const char* const kEllipsoid = "type='ellipsoid' size='.06 .09 .12'";
const char* const kCylinder = "type='cylinder' size='.09 .12'";
const char* const kBox = "type='box' size='.08 .11 .13'";
const char* const kMesh = "type='mesh' mesh='cuboid'";
const char* const kWedge = "type='mesh' mesh='wedge'";
const char* const kPrism = "type='mesh' mesh='prism'";

// seven corners: more than MuJoCo takes
std::string prism() {
  std::string text;
  for (int i = 0; i < 14; i++) {
    const double angle = 2 * std::numbers::pi * (i / 2) / 7;
    for (const double x : {.1 * std::cos(angle), .1 * std::sin(angle), i % 2 ? .06 : -.06}) {
      text += std::to_string(x) + " ";
    }
  }
  return text;
}

std::string convex_xml(const std::string& geom1, const std::string& geom2) {
  return "<mujoco><asset><mesh name='cuboid' vertex='-1 -1 -1 1 -1 -1 -1 1 -1 1 1 -1 -1 -1 1 1 -1 "
         "1 "
         "-1 1 1 1 1 1' scale='.08 .11 .13'/><mesh name='wedge' vertex='-.1 -.1 -.06 .1 -.1 -.06 "
         "-.1 .12 -.06 .1 .12 -.06 -.08 0 .1 .09 0 .1'/><mesh name='prism' vertex='" +
         prism() + "'/></asset><worldbody><body><geom " + geom1 +
         "/></body><body><freejoint/><geom " + geom2 + "/></body></worldbody></mujoco>";
}

std::vector<Path> convex_sweeps() {
  const double pi = std::numbers::pi;
  const Vector3 x = Vector3::UnitX(), y = Vector3::UnitY();
  return {
      {"mesh on a plane through its face", convex_xml(kPlane, kPrism),
       [=](double s) { return pose(0, 0, .058, Vector3(.2, 1, 0), s); }, -.08, .08},
      {"mesh on a plane, turning on a corner", convex_xml(kPlane, kPrism),
       [=](double s) { return pose(0, 0, .062, Vector3(std::cos(s), std::sin(s), 0), .1); }, 0, 1},
      {"sphere on a mesh over its edge", convex_xml(kSphere, kMesh),
       [=](double s) { return pose(.125, .02, s); }, .1, .16},
      {"sphere on an ellipsoid", convex_xml(kSphere, kEllipsoid),
       [=](double s) { return pose(.1, .02, s); }, -.03, .03, false},
      {"capsule on a cylinder's side through parallel", convex_xml(kCapsule, kCylinder),
       [=](double s) { return pose(.127, 0, .03, x, s); }, -.08, .08},
      {"capsule on a cylinder's cap through flat", convex_xml(kCapsule, kCylinder),
       [=](double s) { return pose(.157, .01, 0, y, pi / 2 + s); }, -.08, .08},
      {"capsule on a cylinder over its rim", convex_xml(kCapsule, kCylinder),
       [=](double s) { return pose(.12, .02, s, x, .6); }, .1, .17},
      {"capsule on a mesh's face through parallel", convex_xml(kCapsule, kMesh),
       [=](double s) { return pose(.117, .01, .02, y, s); }, -.11, .11},
      {"ellipsoid on a box over its edge", convex_xml(kEllipsoid, kBox),
       [=](double s) { return pose(.125, .02, .05 + s); }, .08, .16},
      {"ellipsoid on a cylinder over its rim", convex_xml(kEllipsoid, kCylinder),
       [=](double s) { return pose(.13, .02, .05 + s); }, .1, .17},
      {"ellipsoid and ellipsoid", convex_xml(kEllipsoid, kEllipsoid),
       [=](double s) { return pose(.1, .02, s, x, .3); }, -.03, .03, false},
      {"ellipsoid on a mesh over its corner", convex_xml(kEllipsoid, kMesh),
       [=](double s) { return pose(.12, .1 + .2 * s, .1 + s); }, .05, .13},
      {"cylinder on a cylinder's cap through flat", convex_xml(kCylinder, kCylinder),
       [=](double s) { return pose(.03, .01, .238, y, s); }, -.08, .08},
      {"cylinder on a cylinder's side through parallel", convex_xml(kCylinder, kCylinder),
       [=](double s) { return pose(.177, 0, .03, x, s); }, -.08, .08},
      {"cylinder on a box's face through flat", convex_xml(kCylinder, kBox),
       [=](double s) { return pose(.02, .01, .248, x, s); }, -.08, .08},
      {"cylinder over a box's edge", convex_xml(kCylinder, kBox),
       [=](double s) { return pose(s, .01, .246, y, .004); }, .1, .15},
      {"cylinder's side on a box through parallel", convex_xml(kCylinder, kBox),
       [=](double s) { return pose(.167, 0, .02, y, s); }, -.08, .08},
      {"cylinder on a mesh through flat", convex_xml(kCylinder, kMesh),
       [=](double s) { return pose(.02, .01, .248, x, s); }, -.08, .08},
      {"box on a mesh through flat", convex_xml(kBox, kMesh),
       [=](double s) { return pose(.02, .01, .258, Vector3(1, .4, 0), s); }, -.08, .08},
      {"box over a mesh's edge", convex_xml(kBox, kMesh),
       [=](double s) { return pose(s, .01, .2575, y, .004); }, .1, .15, false},
      {"wedge on a mesh through flat", convex_xml(kMesh, kWedge),
       [=](double s) { return pose(.02, .01, .188, x, s); }, -.11, .11},
  };
}

TEST(SmoothConvex, SlopesDoNotJumpWhereMujocosDo) { expect_smooth(convex_sweeps(), 1e-5); }

TEST(SmoothConvex, PullbackMatchesDifferences) { expect_pullbacks(convex_sweeps()); }

}  // namespace
}  // namespace diffmj
