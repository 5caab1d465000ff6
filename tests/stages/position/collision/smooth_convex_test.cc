// Smooth colliders of ellipsoids, cylinders and meshes: differentiable through every case of
// MuJoCo's general collider, and near it.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "harness/collision_paths.h"
#include "harness/models.h"
#include "setup/model_impl.h"
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
      {"box's face under a cylinder, geoms in the other order", convex_xml(kBox, kCylinder),
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

// ---- against MuJoCo's, over random poses in which geoms are at most 2 mm deep in each other

struct Compared {
  int poses = 0, one = 0, same = 0;  // one: contact of MuJoCo's; same: and of ours
  double median = 0, high = 0;       // of errors of dist [m]; high: of 90 %
};

Compared compare(const std::string& xml, double width) {
  const Model exact = Model::from_xml(xml), ours = Model::from_xml(xml, smooth(width));
  EXPECT_EQ(ours.collisions_notice(), "");
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  const auto contacts_of = [](const Model& model, const Vector& qpos, double* distance) {
    Contacts contacts(model);
    contacts(qpos);
    const mjData* d = contacts.data();
    if (distance) *distance = mj_geomDistance(model.mj(), const_cast<mjData*>(d), 0, 1, 1, nullptr);
    return std::vector<mjContact>(d->contact, d->contact + d->ncon);
  };
  Compared out;
  std::vector<double> error;
  for (int i = 0; i < 20000 && out.poses < 100; i++) {
    Vector qpos(7);
    for (size_t k = 0; k < 7; k++) qpos[k] = (k < 3 ? .1 : 1) * normal(random);
    mju_normalize4(&qpos[3]);
    double distance = 0;
    const std::vector<mjContact> theirs = contacts_of(exact, qpos, &distance);
    if (theirs.empty() || distance < -.002 || distance > -2e-5) continue;
    out.poses++;
    const std::vector<mjContact> smooth_ones = contacts_of(ours, qpos, nullptr);
    out.one += theirs.size() == 1;
    out.same += theirs.size() == 1 && smooth_ones.size() == 1;
    double deepest = 0;
    for (const mjContact& c : smooth_ones) deepest = std::min(deepest, c.dist);
    error.push_back(std::abs(deepest - distance));
  }
  std::sort(error.begin(), error.end());
  out.median = error[error.size() / 2];
  out.high = error[error.size() * 9 / 10];
  return out;
}

TEST(SmoothConvex, ConvergesToMujocoAsWidthGoesToZero) {
  const std::pair<const char*, const char*> pairs[] = {
      {kPlane, kMesh},          {kSphere, kEllipsoid},   {kSphere, kMesh},
      {kCapsule, kEllipsoid},   {kCapsule, kCylinder},   {kCapsule, kMesh},
      {kEllipsoid, kEllipsoid}, {kEllipsoid, kCylinder}, {kEllipsoid, kBox},
      {kEllipsoid, kMesh},      {kCylinder, kCylinder},  {kCylinder, kBox},
      {kCylinder, kMesh},       {kBox, kMesh},           {kMesh, kWedge},
  };
  for (const auto& [first, second] : pairs) {
    SCOPED_TRACE(std::string(first) + ", " + second);
    double last = INFINITY;
    for (const double width : {1e-3, 1e-4, 1e-5}) {
      const Compared compared = compare(convex_xml(first, second), width);
      EXPECT_GE(compared.poses, 40);
      // edges and corners are rounded, by half the width
      EXPECT_LT(compared.high, 0.7 * width + 2e-6) << width;
      EXPECT_LE(compared.median, last);
      last = std::max(compared.median, 1e-6);  // as near as MuJoCo comes
      // and it is one where MuJoCo has one; but a second end may be in the other geom too
      if (width > 1e-5) continue;
      EXPECT_GE(compared.same, compared.one * 85 / 100) << compared.one;
    }
  }
}

// ---- derivatives of the smooth colliders, contacts of MuJoCo's

TEST(SmoothConvex, BackwardIsNearTheExactDerivativeAtSmallWidths) {
  for (const Path& path : convex_sweeps()) {
    SCOPED_TRACE(path.name);
    const Model exact = Model::from_xml(path.xml),
                wide = Model::from_xml(path.xml, smooth(5e-3, Collisions::kSmoothBackward));
    constexpr int kPoses = 15;
    int contacts = 0, left = 0;
    for (int i = 0; i < kPoses; i++) {
      std::mt19937 random(static_cast<unsigned>(i));
      const Vector qpos = pose_near(path, static_cast<double>(i) / (kPoses - 1), random);
      Contacts found(wide);
      found(qpos);
      const int n = found.data()->ncon;
      if (n == 0) continue;
      std::vector<ContactBar> bar(static_cast<size_t>(n), {.dist = 1});
      PairBar out(Vector3::Zero());
      contacts += n;
      left += smooth_backward_pullback(wide.impl().smooth_collider(), wide.mj(), found.data(), 0, n,
                                       bar.data(), false, out);
      // derivatives of MuJoCo's contacts of ellipsoids are not better than this
      EXPECT_LT(backward_difference(exact, path.xml, 1e-7, qpos, random), 0.03) << "pose " << i;
    }
    // ends of faces are elsewhere in part; on a plane the exact derivative is smooth
    EXPECT_TRUE(left < contacts || path.xml.find("plane") != std::string::npos);
  }
}

}  // namespace
}  // namespace diffmj
