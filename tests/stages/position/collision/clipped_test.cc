// Contacts with several points, which MuJoCo's general collider gives of faces, edges and sides
// that clip each other: meshes with shallow facets, prisms, blocks and hulls of random points, also
// at rest, and what is left to differences of the collider.
#include "stages/position/collision/clipped.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "setup/model_impl.h"
#include "stages/position/collision/differences.h"
#include "stages/position/collision_operation.h"

namespace diffmj {
namespace {

std::string vertices(const std::vector<Vector3>& points) {
  std::string out;
  for (const Vector3& p : points) {
    for (int k = 0; k < 3; k++) out += std::to_string(p[k]) + " ";
  }
  return out;
}

std::vector<Vector3> prism(int n, double radius, double taper) {
  std::vector<Vector3> out;
  for (int i = 0; i < n; i++) {
    const double angle = 2 * std::numbers::pi * i / n + 0.1;
    const Vector3 p(radius * std::cos(angle), radius * std::sin(angle), 0);
    out.emplace_back(p - 0.05 * Vector3::UnitZ());
    out.emplace_back(taper * p + 0.05 * Vector3::UnitZ());
  }
  return out;
}

// Neighbouring facets are a few hundredths of a rad apart, and some of the polygons that the
// compiler makes of them are not flat. Sign 1: the dome is on top.
std::vector<Vector3> dome(int n, double radius, double sign) {
  std::vector<Vector3> out;
  for (int ring = 0; ring <= 5; ring++) {
    const double r = ring == 0 ? radius : radius * (1.2 - 0.2 * ring);
    const double z = ring == 0 ? -0.05 : 0.05 - 0.5 * r * r / 0.6;
    for (int i = 0; i < n; i++) {
      const double angle = 2 * std::numbers::pi * i / n + 0.2 * ring;
      out.emplace_back(sign * Vector3(r * std::cos(angle), r * std::sin(angle), z));
    }
  }
  return out;
}

std::vector<Vector3> hull(int n, double radius) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<Vector3> out;
  for (int i = 0; i < n; i++) {
    Vector3 p(normal(random), normal(random), normal(random));
    p.normalize();
    out.emplace_back(radius * p[0], 0.8 * radius * p[1], 0.05 * p[2]);
  }
  return out;
}

const char* const kBigBox = "type='box' size='.08 .11 .05'";
const char* const kBox = "type='box' size='.04 .03 .05'";
const char* const kThinBox = "type='box' size='.009 .007 .05'";
const char* const kCylinder = "type='cylinder' size='.04 .05'";
const char* const kThinCylinder = "type='cylinder' size='.006 .05'";
const char* const kLying = "type='cylinder' size='.02 .05' euler='0 90 0'";
const char* const kLong = "type='cylinder' size='.02 .2' euler='0 90 0'";
const char* const kCapsule = "type='capsule' size='.02 .05' euler='0 90 0'";
const char* const kLongCapsule = "type='capsule' size='.02 .2' euler='0 90 0'";
const char* const kMeshes[] = {"prism",     "smallprism", "dome",  "smalldome", "hull",
                               "smallhull", "hexagon",    "block", "tube"};

std::vector<Vector3> mesh_points(const std::string& name) {
  if (name == "prism") return prism(7, 0.1, 0.9);
  if (name == "smallprism") return prism(5, 0.05, 1.1);
  if (name == "dome") return dome(12, 0.1, 1);
  if (name == "smalldome") return dome(9, 0.06, -1);
  if (name == "hull") return hull(30, 0.1);
  if (name == "smallhull") return hull(20, 0.05);
  if (name == "hexagon") return prism(6, 0.1, 1);
  if (name == "tube") return prism(40, 0.024, 1);
  return {{.09, .07, .05},  {-.09, .07, .05},  {.09, -.07, .05},  {-.09, -.07, .05},
          {.09, .07, -.05}, {-.09, .07, -.05}, {.09, -.07, -.05}, {-.09, -.07, -.05}};
}

std::string mesh(const std::string& name) { return "type='mesh' mesh='" + name + "'"; }

struct Options {
  double tilt = 0;       // [rad]
  double offset = 0.03;  // [m] across, at most
  double depth = 1e-3;   // [m] < 0: apart
  bool multiccd = true;
};

// One geom below, one above it, the whole turned at random so that no axis is special.
class Stack {
 public:
  Stack(const std::string& below, const std::string& above, const Options& options)
      : options_(options), model_(Model::from_xml(xml(below, above)).tightened()) {}

  // The pose with this number; false if geoms do not touch there.
  bool pose(unsigned seed, Scene& scene) const {
    const mjModel* m = model_.mj();
    const std::unique_ptr<mjData, void (*)(mjData*)> data(mj_makeData(m), mj_deleteData);
    mjData* d = data.get();
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> unit(-1, 1);
    // as in MuJoCo: w first
    std::array<double, 4> all, tilt, yaw, relative;
    for (double& x : all) x = normal(random);
    mju_normalize4(all.data());
    const double direction = std::numbers::pi * unit(random), turn = unit(random);
    const std::array<double, 3> axis = {std::cos(direction), std::sin(direction), 0}, z = {0, 0, 1};
    mju_axisAngle2Quat(tilt.data(), axis.data(), options_.tilt);
    mju_axisAngle2Quat(yaw.data(), z.data(), turn);
    mju_mulQuat(relative.data(), tilt.data(), yaw.data());
    const double x = options_.offset * unit(random), y = options_.offset * unit(random);
    const auto deepest = [&](double height) {
      const std::array<double, 3> above = {x, y, height};
      mju_copy4(d->qpos + 3, all.data());
      mju_rotVecQuat(d->qpos + 7, above.data(), all.data());
      mju_mulQuat(d->qpos + 10, all.data(), relative.data());
      mj_kinematics(m, d);
      mj_comPos(m, d);
      mj_collision(m, d);
      double depth = -std::numeric_limits<double>::infinity();
      for (int i = 0; i < d->ncon; i++) depth = std::max(depth, -d->contact[i].dist);
      return depth;
    };
    double near = 0, far = 0.3;
    for (int i = 0; i < 50; i++) {
      const double middle = 0.5 * (near + far);
      (deepest(middle) < options_.depth ? far : near) = middle;
    }
    deepest(near);
    scene.x.qpos.assign(d->qpos, d->qpos + m->nq);
    return d->ncon > 0;
  }
  Scene scene() const { return {.name = "stack", .model = model_, .x = default_state(model_)}; }

 private:
  std::string xml(const std::string& below, const std::string& above) const {
    std::string assets;
    for (const char* name : kMeshes) {
      assets +=
          std::string("<mesh name='") + name + "' vertex='" + vertices(mesh_points(name)) + "'/>";
    }
    return std::string("<mujoco><option><flag multiccd='") +
           (options_.multiccd ? "enable" : "disable") + "'/></option><asset>" + assets +
           "</asset><worldbody><body><freejoint/><geom mass='1' " + below +
           "/></body><body><freejoint/><geom mass='1' " + above + "/></body></worldbody></mujoco>";
  }

  Options options_;
  Model model_;
};

struct Count {
  int posed = 0, conclusive = 0, closed = 0;
  std::vector<int> contacts = std::vector<int>(9);  // poses with this number of them
  std::string doubts;
};

// All conclusive poses must be right.
Count check_poses(const Stack& stack, unsigned poses, const CheckPullbackOptions& options) {
  Count count;
  for (unsigned seed = 1; seed <= poses; seed++) {
    SCOPED_TRACE("pose " + std::to_string(seed));
    Scene scene = stack.scene();
    if (!stack.pose(seed, scene)) continue;
    count.posed++;
    CollisionOperation collision(scene);
    const size_t ncon = collision.base.size() / kNumbers;
    count.contacts[std::min<size_t>(ncon, 8)]++;
    count.closed += collision.is_closed_form();
    if (!collision.is_steady()) continue;
    CheckPullbackOptions with = options;
    with.seed = seed;
    const auto result =
        check_pullback(collision.operation(), Vector(collision.nz), collision.nz, with);
    const std::string message = result.message();
    if (message.find("inconclusive") != std::string::npos) {
      count.doubts += message + "\n";
      continue;
    }
    count.conclusive++;
    EXPECT_TRUE(result) << ncon << " contacts";
  }
  return count;
}

// What the collider leaves in its results, and so how well differences of it can tell.
enum class Noise {
  kNone,  // flat shapes; facets are small, and so are the steps
  // The direction of a capsule's line is normal to some triangle of a face, whose corners are
  // rounded to single precision.
  kRounding,
  kIteration,  // the side of a cylinder
};

CheckPullbackOptions check_options(Noise noise) {
  const double scale = tolerances().stage / 1e-6;
  switch (noise) {
    case Noise::kRounding:
      return {.tolerance = 1e-4 * scale, .step = 2e-4, .levels = 5, .directions = 3};
    case Noise::kIteration:
      return {.tolerance = 1e-3 * scale, .step = 4e-4, .levels = 5, .directions = 3};
    default:
      return {.tolerance = 1e-6 * scale, .step = 4e-6, .levels = 5, .directions = 3};
  }
}
struct Case {
  const char* name;
  std::string below, above;
  double tilt;
  int most = 4;  // contacts in at least one of the poses
  Noise noise = Noise::kNone;
  double offset = 0.03;
  double steady = 0.5;  // part of the poses that must be conclusive
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ClippedPairs : public ::testing::TestWithParam<Case> {};

TEST_P(ClippedPairs, MatchDifferences) {
  const Case& c = GetParam();
  const Stack stack(c.below, c.above, {.tilt = c.tilt, .offset = c.offset});
  const Count count = check_poses(stack, 24, check_options(c.noise));
  EXPECT_GE(count.posed, 12);
  EXPECT_GE(count.conclusive, c.steady * count.posed) << count.doubts;
  EXPECT_GE(20 * count.closed, 19 * count.posed) << "left to differences";
  EXPECT_GT(count.contacts[static_cast<size_t>(c.most)], 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, ClippedPairs,
    ::testing::Values(
        Case{"dome_dome", mesh("dome"), mesh("smalldome"), 0.03},
        Case{"dome_prism", mesh("dome"), mesh("smallprism"), 0.03},
        Case{"prism_dome", mesh("prism"), mesh("smalldome"), 0.03, 3},
        Case{"prism_prism", mesh("prism"), mesh("smallprism"), 0.01},
        Case{"prism_prism_tilted", mesh("prism"), mesh("smallprism"), 0.08, 2},
        Case{"prism_prism_edges", mesh("prism"), mesh("smallprism"), 0.095, 2, Noise::kNone, 0.08},
        Case{"hull_hull", mesh("hull"), mesh("smallhull"), 0.5, 2},
        Case{"hull_box", mesh("hull"), kBox, 0.1, 2}, Case{"dome_box", mesh("dome"), kBox, 0.03},
        Case{"dome_thin_box", mesh("dome"), kThinBox, 0.03},
        Case{"dome_thin_cylinder", mesh("dome"), kThinCylinder, 0.03},
        Case{"dome_cylinder", mesh("dome"), kCylinder, 0.03},
        Case{"box_prism", kBigBox, mesh("smallprism"), 0.01},
        Case{"box_prism_edges", kBigBox, mesh("smallprism"), 0.095, 2, Noise::kNone, 0.1},
        Case{"prism_box_edges", mesh("prism"), kBox, 0.095, 2, Noise::kNone, 0.08},
        Case{"box_cylinder", kBigBox, kCylinder, 0.06, 4, Noise::kNone, 0.1},
        Case{"cylinder_cylinder", "type='cylinder' size='.09 .05'", kCylinder, 0.01},
        Case{"cylinder_box_edges", "type='cylinder' size='.09 .05'", kBox, 0.095, 1,
             Noise::kIteration, 0.04},
        Case{"prism_cylinder_overhanging", mesh("prism"), kCylinder, 0.06, 4, Noise::kNone, 0.09},
        // lines: ends of them, or where sides of the face cut them
        Case{"prism_capsule", mesh("prism"), kCapsule, 0.002, 2, Noise::kRounding},
        Case{"prism_long_capsule", mesh("prism"), kLongCapsule, 0.002, 2, Noise::kRounding},
        Case{"box_lying_cylinder", kBigBox, kLying, 0.01, 2, Noise::kIteration},
        Case{"prism_lying_cylinder", mesh("prism"), kLying, 0.01, 2, Noise::kIteration},
        Case{"prism_long_cylinder", mesh("prism"), kLong, 0.005, 2, Noise::kIteration},
        Case{"cylinder_lying_cylinder", "type='cylinder' size='.09 .05'", kLying, 0.01, 1,
             Noise::kIteration},
        // at rest: faces that are parallel exactly, or nearly
        Case{"rest_prism_prism", mesh("prism"), mesh("smallprism"), 0},
        Case{"rest_block_prism", mesh("block"), mesh("smallprism"), 1e-8},
        Case{"rest_prism_block", mesh("hexagon"), mesh("block"), 1e-6},
        Case{"rest_box_prism", kBigBox, mesh("smallprism"), 0},
        Case{"rest_prism_box", mesh("prism"), kBox, 1e-9},
        // of more than four points MuJoCo keeps four, and of a regular polygon any of equal areas
        Case{"rest_prism_cylinder", mesh("prism"), kThinCylinder, 0, 4, Noise::kNone, 0.09, 0.2},
        Case{"rest_dome_prism", mesh("dome"), mesh("smallprism"), 0},
        Case{"rest_prism_capsule", mesh("prism"), kCapsule, 0, 2, Noise::kRounding, 0.005}),
    [](const auto& info) { return std::string(info.param.name); });

// A capsule across a hexagon is cut by two sides of it that are parallel: both ways of tilting it
// have the same derivative, which is that of touching a side.
TEST(Clipped, LineAcrossParallelSides) {
  const Stack stack(mesh("hexagon"), kLongCapsule, {.offset = 0.01});
  const Count count = check_poses(stack, 24, check_options(Noise::kRounding));
  EXPECT_GE(count.conclusive, 8) << count.doubts;
  EXPECT_GE(count.closed, count.conclusive);
}

// with one contact per pair, faces that lie on each other leave its place open: the collider's own
// choice moves with them
TEST(Clipped, UndeterminedPlaceIsThatOfTheCollider) {
  const Stack stack(mesh("block"), mesh("smallprism"), {.multiccd = false});
  int conclusive = 0;
  for (unsigned seed = 1; seed <= 12; seed++) {
    SCOPED_TRACE("pose " + std::to_string(seed));
    Scene scene = stack.scene();
    ASSERT_TRUE(stack.pose(seed, scene));
    CollisionOperation collision(scene);
    ASSERT_EQ(collision.base.size(), kNumbers);
    EXPECT_FALSE(collision.is_closed_form());
    // translations of the upper body only: it must not be tilted
    const auto widened = [&](const Vector& x) {
      Vector z(collision.nz);
      std::copy(x.begin(), x.end(), z.begin() + 6);
      return z;
    };
    const Operation all = collision.operation(),
                    shifts = {.forward = [&](const Vector&x) { return all.forward(widened(x)); },
                              .pullback =
                                  [&](const Vector&x, const Vector&y_bar, Vector&x_bar) {
                                    Vector z_bar(collision.nz);
                                    all.pullback(widened(x), y_bar, z_bar);
                                    for (size_t k = 0; k < 3; k++) x_bar[k] += z_bar[6 + k];
                                  }};
    CheckPullbackOptions options = check_options(Noise::kNone);
    options.tolerance *= 100;  // differences against differences of another step
    const auto result = check_pullback(shifts, Vector(3), 3, options);
    if (std::string(result.message()).find("inconclusive") != std::string::npos) continue;
    conclusive++;
    EXPECT_TRUE(result);
  }
  EXPECT_GE(conclusive, 6);
}

// the contacts of a pair that is not the first of its data
TEST(Clipped, SecondPair) {
  const auto stack = [](const std::string& x) {
    return "<body pos='" + x + " 0 0'><freejoint/><geom type='mesh' mesh='a'/></body><body pos='" +
           x + " .02 .099' euler='.5 .3 20'><freejoint/><geom type='mesh' mesh='a'/></body>";
  };
  const Model model =
      Model::from_xml("<mujoco><asset><mesh name='a' vertex='" + vertices(prism(6, 0.1, 1)) +
                      "'/></asset><worldbody>" + stack("0") + stack("1") + "</worldbody></mujoco>")
          .tightened();
  CollisionOperation both({.name = "stacks", .model = model, .x = default_state(model)});
  const mjData* d = both.stage.d;
  int first = 0;
  while (first < d->ncon && d->contact[first].geom[0] == d->contact[0].geom[0]) first++;
  ASSERT_GT(first, 0);
  ASSERT_LT(first, d->ncon);
  const std::vector<ContactBar> bar = both.contact_bar(wave(both.base.size(), 0.3));
  const Vector3 pivot(d->contact[first].pos);
  PairBar closed(pivot), differences(pivot);
  ASSERT_TRUE(closed_form_pullback(model.impl(), first, d->ncon - first, &bar[0] + first,
                                   both.stage.workspace, closed));
  differences_pullback(model.impl(), first, d->ncon - first, &bar[0] + first, false,
                       both.stage.workspace, differences);
  for (size_t side = 0; side < 2; side++) {
    EXPECT_GT(closed.wrench[side].norm(), 0.1);
    EXPECT_LT((closed.wrench[side] - differences.wrench[side]).norm(),
              1e-5 * closed.wrench[side].norm());
  }
}

// Differences of the collider against closed forms: the steps stay inside one of its cases, and no
// contact is taken for another.
void differences_match_closed_forms(const Stack& stack, unsigned poses, double tolerance) {
  int compared = 0;
  for (unsigned seed = 1; seed <= poses; seed++) {
    SCOPED_TRACE("pose " + std::to_string(seed));
    Scene scene = stack.scene();
    if (!stack.pose(seed, scene)) continue;
    CollisionOperation collision(scene);
    if (!collision.is_closed_form() || !collision.is_steady()) continue;
    collision.set(Vector(collision.nz));
    const std::vector<ContactBar> bar =
        collision.contact_bar(wave(collision.base.size(), 0.1 * seed));
    const Vector3 pivot(collision.stage.d->contact[0].pos);
    const ModelImpl& impl = collision.stage.scene.model.impl();
    const int ncon = collision.stage.d->ncon;
    PairBar closed(pivot), differences(pivot);
    ASSERT_TRUE(closed_form_pullback(impl, 0, ncon, bar.data(), collision.stage.workspace, closed));
    differences_pullback(impl, 0, ncon, bar.data(), true, collision.stage.workspace, differences);
    compared++;
    for (size_t side = 0; side < 2; side++) {
      const double scale = closed.wrench[side].norm() + closed.size[side].norm();
      EXPECT_LT((closed.wrench[side] - differences.wrench[side]).norm(), tolerance * scale);
      EXPECT_LT((closed.size[side] - differences.size[side]).norm(), tolerance * scale);
    }
  }
  EXPECT_GE(2 * compared, static_cast<int>(poses));
}

TEST(Differences, MatchClosedFormsOfClippedFaces) {
  const auto match = [](const char* name, const std::string& below, const std::string& above,
                        const Options& options, unsigned poses, double tolerance) {
    SCOPED_TRACE(name);
    differences_match_closed_forms(Stack(below, above, options), poses, tolerance);
  };
  match("dome on dome", mesh("dome"), mesh("smalldome"), {.tilt = 0.03}, 60, 1e-5);
  match("box on dome", mesh("dome"), kBox, {.tilt = 0.03}, 30, 1e-5);
  match("hull on hull", mesh("hull"), mesh("smallhull"), {.tilt = 0.5}, 30, 1e-5);
  // measured 3.7e-5: rounding of the vertices turns the line by 1e-8, over steps of 1e-4
  match("capsule on prism", mesh("prism"), kCapsule, {.tilt = 0.002}, 20, 1e-4);
  match("cylinder on box", kBigBox, kLying, {.tilt = 0.01}, 20, 1e-2);
}

// The line of a capsule is clipped by a narrow facet up to the margin. Beyond it, within twice a
// step, one contact is left, with another normal.
TEST(Differences, KeepToLinesThatEndAtTheMargin) {
  const std::string margin = " margin='.001'";
  int compared = 0;
  for (const double tilt : {0.02, 0.04, 0.06}) {
    const Stack stack(mesh("tube") + " euler='90 0 0'" + margin,
                      "type='capsule' size='.009 .02' euler='0 90 0'" + margin,
                      {.tilt = tilt, .offset = 0.01, .depth = 5e-6 - 2e-3});
    for (unsigned seed = 1; seed <= 200; seed++) {
      SCOPED_TRACE("tilt " + std::to_string(tilt) + ", pose " + std::to_string(seed));
      Scene scene = stack.scene();
      if (!stack.pose(seed, scene)) continue;
      CollisionOperation collision(scene);
      if (collision.base.size() < 2 * kNumbers || collision.is_closed_form()) continue;
      if (!collision.is_steady()) continue;
      // measured 2.3e-3, where differences of steps so small see rounding of the vertices; a step
      // to the other contact is off by more than 0.1
      const auto result = check_pullback(collision.operation(), Vector(collision.nz), collision.nz,
                                         {.tolerance = 1e-2, .step = 1e-6, .directions = 3});
      if (std::string(result.message()).find("inconclusive") != std::string::npos) continue;
      compared++;
      EXPECT_TRUE(result);
    }
  }
  EXPECT_GE(compared, 500);
}

// next to the end of a case of the collider, where the number of contacts changes: a corner comes
// to an edge as geoms are shifted along each other, or they part
void differences_match_next_to_an_end(const Vector3& direction, double tolerance) {
  const Stack stack(mesh("prism"), mesh("smallprism"), {.offset = 0.06});
  int compared = 0;
  for (unsigned seed = 1; seed <= 60; seed++) {
    SCOPED_TRACE("pose " + std::to_string(seed));
    Scene scene = stack.scene();
    if (!stack.pose(seed, scene)) continue;
    CollisionOperation collision(scene);
    const int ncon = collision.stage.d->ncon;
    Vector3 along;
    mju_rotVecQuat(along.data(), direction.data(), scene.x.qpos.data() + 3);
    const auto shifted = [&](double x) {
      Vector z(collision.nz);
      for (int k = 0; k < 3; k++) z[6 + static_cast<size_t>(k)] = x * along[k];
      collision.set(z);
      return collision.stage.d->ncon;
    };
    double same = 0, other = 0.05;
    if (shifted(other) == ncon) continue;
    for (int i = 0; i < 60; i++) {
      const double middle = 0.5 * (same + other);
      (shifted(middle) == ncon ? same : other) = middle;
    }
    // the first step to be tried goes over the end
    shifted(same - 3e-8);
    const std::vector<ContactBar> bar = collision.contact_bar(wave(collision.base.size(), 0.2));
    const Vector3 pivot(collision.stage.d->contact[0].pos);
    const ModelImpl& impl = collision.stage.scene.model.impl();
    PairBar closed(pivot), differences(pivot);
    if (!closed_form_pullback(impl, 0, ncon, bar.data(), collision.stage.workspace, closed)) {
      continue;
    }
    differences_pullback(impl, 0, ncon, bar.data(), false, collision.stage.workspace, differences);
    compared++;
    EXPECT_LT((closed.wrench[1] - differences.wrench[1]).norm(),
              tolerance * closed.wrench[1].norm());
  }
  EXPECT_GE(compared, 4);
}

TEST(Differences, StayInsideACase) {
  differences_match_next_to_an_end(Vector3(1, 0.3, 0), 1e-4);
  // one side of the steps is left; normals of contacts that are 3e-8 m deep have a noise of 1e-9
  differences_match_next_to_an_end(Vector3(0, 0, 1), 0.1);
}

// A cylinder that is tilted by less than the collider's iteration tells is as one that is tilted
// by a little more.
TEST(Clipped, LinesNearlyAlongAFaceFollowTheLowerEnd) {
  int compared = 0;
  for (unsigned seed = 1; seed <= 24; seed++) {
    SCOPED_TRACE("pose " + std::to_string(seed));
    std::array<Vector6, 2> wrench;
    bool known = true;
    for (const size_t k : {0, 1}) {
      const Stack stack(mesh("hexagon"), kLying, {.tilt = k == 0 ? 3e-6 : 3e-5, .offset = 0.08});
      Scene scene = stack.scene();
      known = known && stack.pose(seed, scene);
      if (!known) break;
      CollisionOperation collision(scene);
      const int ncon = collision.stage.d->ncon;
      collision.set(Vector(collision.nz));
      // the same for both contacts, whose order may change
      Vector y_bar = wave(kNumbers, 0.2);
      y_bar.insert(y_bar.end(), y_bar.begin(), y_bar.begin() + kNumbers);
      y_bar.resize(collision.base.size());
      const std::vector<ContactBar> bar = collision.contact_bar(y_bar);
      PairBar out(Vector3(scene.x.qpos.data() + 7));
      known = ncon == 2 && closed_form_pullback(collision.stage.scene.model.impl(), 0, ncon,
                                                bar.data(), collision.stage.workspace, out);
      wrench[k] = out.wrench[1];
    }
    if (!known) continue;
    compared++;
    EXPECT_LT((wrench[0] - wrench[1]).norm(), 2e-3 * wrench[1].norm());
  }
  EXPECT_GE(compared, 6);
}

}  // namespace
}  // namespace diffmj
