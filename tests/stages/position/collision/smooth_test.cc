// Smooth colliders: what MuJoCo calls through them is differentiable where MuJoCo's own colliders
// jump or kink, converges to MuJoCo's, and has the derivative that the pullback says.
#include "stages/position/collision/smooth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <utility>

#include "harness/collision_paths.h"
#include "harness/models.h"
#include "harness/tolerances.h"
#include "setup/model_impl.h"

namespace diffmj {
namespace {

const char* const kCapsule = "type='capsule' size='.07 .12'";
const char* const kCylinder = "type='cylinder' size='.09 .12'";
const char* const kLong = "type='capsule' size='.04 .1'";
const char* const kBox = "type='box' size='.08 .11 .13'";
const char* const kSphere = "type='sphere' size='.05'";

std::vector<Path> sweeps() {
  const double pi = std::numbers::pi;
  const Vector3 x = Vector3::UnitX(), y = Vector3::UnitY();
  return {
      {"cylinder through its flat face", plane_xml(kCylinder),
       [=](double s) { return pose(0, 0, .115, y, s); }, -.11, .11},
      {"cylinder through its side, deep", plane_xml(kCylinder),
       [=](double s) { return pose(0, 0, -.06, y, pi / 2 + s); }, -.11, .11},
      {"box through an edge, deep", plane_xml(kBox),
       [=](double s) { return pose(0, 0, -.02, y, std::atan2(.13, .08) + s); }, -.11, .11},
      {"capsule through upright", plane_xml(kCapsule),
       [=](double s) { return pose(0, 0, .185, y, s); }, -.11, .11, false},
      {"sphere along a capsule over its end", pair_xml(kSphere, kCapsule),
       [=](double s) { return pose(.1, 0, s); }, .07, .17},
      {"capsules through parallel", pair_xml(kCapsule, kCapsule),
       [=](double s) { return pose(.13, 0, .03, x, s); }, -.11, .11},
      {"capsules along each other over an end", pair_xml(kCapsule, kCapsule),
       [=](double s) { return pose(.12, s, .02, x, 1.2); }, .04, .16},
      {"sphere on a box over an edge", pair_xml(kSphere, kBox),
       [=](double s) { return pose(.12, .02, s); }, .08, .155},
      {"sphere on a box over a corner", pair_xml(kSphere, kBox),
       [=](double s) { return pose(.1, .09 + .4 * s, s); }, .08, .15},
      {"sphere inside a box", pair_xml(kSphere, kBox),
       [=](double s) { return pose(-.03 - s, .02, .081); }, -.025, .025},
      {"sphere into a box", pair_xml(kSphere, kBox),
       [=](double s) { return pose(.08 + s, .02, .03); }, -.02, .02, false},
      {"capsule on a box's face through parallel", pair_xml(kBox, kLong),
       [=](double s) { return pose(.02, .01, .168, y, pi / 2 + s); }, -.11, .11},
      {"capsule on a box's face, its end over an edge", pair_xml(kBox, kLong),
       [=](double s) { return pose(s, .01, .169, y, pi / 2 + .01); }, -.15, .05},
      {"capsule across a box's edge", pair_xml(kBox, kLong),
       [=](double s) { return pose(.09, .03, .155, y, pi / 2 + s); }, -.5, .5},
      {"capsule along a box's edge", pair_xml(kBox, kLong),
       [=](double s) { return pose(s, .01, .165, x, pi / 2 + .004); }, .06, .095},
      {"capsule's end over a box's corner", pair_xml(kBox, kLong),
       [=](double s) { return pose(.08 + s, .1 + s, .24, Vector3(-1, .8, .1), .3); }, -.04, .03},
      {"sphere on a cylinder over its rim", pair_xml(kSphere, kCylinder),
       [=](double s) { return pose(.12, .02, s); }, .09, .15},
      {"sphere inside a cylinder", pair_xml(kSphere, kCylinder),
       [=](double s) { return pose(.05, .01, .085 + s); }, -.03, .03},
  };
}

TEST(SmoothCollision, SlopesDoNotJumpWhereMujocosDo) { expect_smooth(sweeps(), 2.5e-6); }

TEST(SmoothCollision, PullbackMatchesDifferences) { expect_pullbacks(sweeps()); }

// ---- convergence

// How far contacts of one list are from the nearest of another, in dist, place and normal.
double apart(const mjData* from, const mjData* to) {
  double largest = 0;
  for (int i = 0; i < from->ncon; i++) {
    const mjContact& x = from->contact[i];
    double nearest = INFINITY;
    for (int j = 0; j < to->ncon; j++) {
      const mjContact& y = to->contact[j];
      nearest = std::min(nearest, std::abs(x.dist - y.dist) + mju_dist3(x.pos, y.pos) +
                                      mju_dist3(x.frame, y.frame));
    }
    largest = std::max(largest, nearest);
  }
  return largest;
}

// Lists, not sums: MuJoCo gives a contact of capsule and box twice at times.
TEST(SmoothCollision, ConvergesToMujocoAsWidthGoesToZero) {
  for (const Path& sweep : sweeps()) {
    SCOPED_TRACE(sweep.name);
    Contacts exact(Model::from_xml(sweep.xml)), ours(Model::from_xml(sweep.xml, smooth(1e-9)));
    int contacts = 0;
    double largest = 0;
    for (int i = 0; i < 37; i++) {
      const Vector qpos = sweep.qpos(sweep.from + (sweep.to - sweep.from) * (i + .4321) / 37);
      exact(qpos);
      ours(qpos);
      contacts += exact.data()->ncon;
      largest = std::max(largest, apart(exact.data(), ours.data()));
      // of a capsule whose axis is in the box MuJoCo gives only the end that is in it
      const bool deep = ours.data()->ncon > 1 && std::string(sweep.name).starts_with("capsule") &&
                        ours.data()->contact[0].dist < -.04;
      if (!deep) largest = std::max(largest, apart(ours.data(), exact.data()));
    }
    EXPECT_GE(contacts, 30);
    EXPECT_LT(largest, 1e-6);
  }
}

// away from the ends of cases there is nothing to converge: contacts are MuJoCo's own
TEST(SmoothCollision, IsMujocosAwayFromTransitions) {
  const Model exact = Model::from_xml(pair_xml(kSphere, kBox)),
              ours = Model::from_xml(pair_xml(kSphere, kBox), smooth(1e-3));
  const Vector a = Contacts(exact)(pose(.12, .02, .05)), b = Contacts(ours)(pose(.12, .02, .05));
  for (size_t k = 0; k < a.size(); k++) EXPECT_NEAR(a[k], b[k], 1e-16);
}

// ---- derivatives of the smooth colliders, contacts of MuJoCo's

Gradient gradient_of(const Model& model, const State& x, int nstep) {
  const RolloutInput input{.qpos = x.qpos,
                           .qvel = x.qvel,
                           .act = {},
                           .ctrl = {},
                           .qfrc_applied = {},
                           .xfrc_applied = {},
                           .mocap_pos = {},
                           .mocap_quat = {}};
  const Trajectory t = rollout(model, input, nstep);
  Vector bar(static_cast<size_t>((nstep + 1) * model.nv()));
  for (size_t k = bar.size() - static_cast<size_t>(model.nv()); k < bar.size(); k++) bar[k] = 1;
  return rollout_pullback(model, t, {.qpos_tangent = bar});
}

TEST(SmoothCollision, BackwardConvergesToTheExactGradient) {
  // a sphere that rolls over the edge of a box, by less than a millimetre
  const std::string xml = pair_xml(kBox, kSphere);
  Scene scene{.name = "", .model = Model::from_xml(xml), .x = {}};
  scene.x = default_state(scene.model);
  scene.x.qpos = pose(.0805, .02, .1785);
  const Vector exact = gradient_of(scene.model, scene.x, 20).qpos_tangent;
  double last = INFINITY;
  for (const double width : {1e-2, 1e-3, 1e-4}) {
    const Model model = Model::from_xml(xml, smooth(width, Collisions::kSmoothBackward));
    const double now = difference(exact, gradient_of(model, scene.x, 20).qpos_tangent);
    EXPECT_LT(now, last);
    last = now;
  }
  EXPECT_LT(last, 1e-9);
}

// at a width that no pose of the paths is near a transition for
TEST(SmoothCollision, BackwardIsExactAwayFromTransitions) {
  for (const Path& path : sweeps()) {
    SCOPED_TRACE(path.name);
    const Model exact = Model::from_xml(path.xml);
    constexpr int kPoses = 15;
    for (int i = 0; i < kPoses; i++) {
      std::mt19937 random(static_cast<unsigned>(i));
      const Vector qpos = pose_near(path, static_cast<double>(i) / (kPoses - 1), random);
      EXPECT_LT(backward_difference(exact, path.xml, 1e-8, qpos, random), 1e-4) << "pose " << i;
    }
  }
}

// Capsule and box in random poses, half of them with the capsule nearly along a side of the box,
// where MuJoCo decides by signs of tiny numbers whether there is a second contact: one of MuJoCo's
// has the derivative of a smooth one at its own place or, without such, its exact derivative.
TEST(SmoothCollision, BackwardMatchesContactsByPlace) {
  const std::string xml = pair_xml(kBox, kLong);
  const Model exact = Model::from_xml(xml);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(-1, 1);
  const auto vector = [&](auto& distribution) {
    const double x = distribution(random), y = distribution(random);
    return Vector3(x, y, distribution(random));
  };
  int poses = 0, same = 0;
  for (int i = 0; i < 4000; i++) {
    const Vector3 at = .25 * vector(uniform), turn = vector(normal);
    const bool aligned = i % 2 == 0;
    const Vector qpos =
        aligned
            ? pose(at[0], at[1], at[2], Vector3::Unit(i / 2 % 3) + .02 * turn, std::numbers::pi / 2)
            : pose(at[0], at[1], at[2], turn, std::numbers::pi * uniform(random));
    const double depth = [&] {
      Contacts contacts(exact);
      contacts(qpos);
      const mjData* d = contacts.data();
      double deepest = 0;
      for (int k = 0; k < d->ncon; k++) deepest = std::max(deepest, -d->contact[k].dist);
      return deepest;
    }();
    if (depth == 0 || depth > .03) continue;  // the axis may be in the box
    poses++;
    same += backward_difference(exact, xml, 1e-8, qpos, random) < 1e-4;
  }
  EXPECT_GT(poses, 500);
  // but for capsules that are parallel to a face within 1e-6: a transition even at this width
  EXPECT_GE(same, poses - 2) << poses;
}

// How far a smooth contact may be from MuJoCo's goes with the capsule's half length. At the ends of
// what lies over the box they are half a width apart: more than the radius, or another geom's size,
// would allow.
TEST(SmoothCollision, BackwardMatchesWithinTheCapsulesLength) {
  constexpr double kWide = .01;
  // a sphere before the capsule, so that the sizes before its own are 0
  const std::string xml =
      pair_xml("type='box' size='.08 .11 .13'/><geom size='.01' contype='0' conaffinity='0'",
               "type='capsule' size='.00005 .3'", "0.02");
  const Vector qpos = pose(0, .01, .131, Vector3::UnitY(), std::numbers::pi / 2);
  const Model model = Model::from_xml(xml, smooth(kWide, Collisions::kSmoothBackward));
  Contacts contacts(model), ours(Model::from_xml(xml, smooth(kWide)));
  contacts(qpos);
  ours(qpos);
  const mjData* d = contacts.data();
  ASSERT_EQ(d->ncon, 2);
  double farthest = 0;
  for (int i = 0; i < 2; i++) {
    double nearest = INFINITY;
    for (int k = 0; k < ours.data()->ncon; k++) {
      nearest = std::min(nearest, mju_dist3(d->contact[i].pos, ours.data()->contact[k].pos));
    }
    farthest = std::max(farthest, nearest);
  }
  EXPECT_GT(farthest, .5 * std::sqrt(kWide * .00005));
  EXPECT_LT(farthest, .5 * std::sqrt(kWide * .3));
  std::vector<ContactBar> bar(2, {.dist = 1, .pos = Vector3::Ones()});
  PairBar out(Vector3::Zero());
  EXPECT_EQ(smooth_backward_pullback(model.impl().smooth_collider(), model.mj(), d, 0, 2,
                                     bar.data(), false, out),
            0);
}

// Boxes a centimetre deep in each other, one turned so that a corner is just beyond a side of the
// other: the smooth contacts where its edges cross that side are leaving, MuJoCo's are there with
// their force. The derivative of a distance is that of the faces, without the leaving.
TEST(SmoothCollision, BackwardDoesNotLeave) {
  const Model model =
      Model::from_xml(pair_xml(kBox, kBox), smooth(.01, Collisions::kSmoothBackward));
  Contacts contacts(model);
  contacts(pose(-.0266, 0, .25, Vector3::UnitZ(), .3));
  const mjData* d = contacts.data();
  const int n = d->ncon;
  ASSERT_GE(n, 5);
  std::vector<ContactBar> bar(static_cast<size_t>(n), {.dist = 1, .pos = Vector3::Zero()});
  PairBar out(Vector3::Zero());
  ASSERT_EQ(smooth_backward_pullback(model.impl().smooth_collider(), model.mj(), d, 0, n,
                                     bar.data(), false, out),
            0);
  EXPECT_LT((out.wrench[1].tail<3>() - n * Vector3::UnitZ()).norm(), 1e-12);
}

TEST(SmoothCollision, BackwardLeavesRolloutsAlone) {
  for (const Path& sweep : sweeps()) {
    SCOPED_TRACE(sweep.name);
    const Vector qpos = sweep.qpos(0.3 * sweep.from + 0.7 * sweep.to), qvel(6, 0.1);
    const RolloutInput input{.qpos = qpos,
                             .qvel = qvel,
                             .act = {},
                             .ctrl = {},
                             .qfrc_applied = {},
                             .xfrc_applied = {},
                             .mocap_pos = {},
                             .mocap_quat = {}};
    const Trajectory a = rollout(Model::from_xml(sweep.xml), input, 50),
                     b = rollout(
                         Model::from_xml(sweep.xml, smooth(.01, Collisions::kSmoothBackward)),
                         input, 50);
    EXPECT_EQ(a.qpos, b.qpos);
    EXPECT_EQ(a.qvel, b.qvel);
  }
}

// a cylinder that all but stands: its triangle turns by a radian per 1e-6 of tilt
TEST(SmoothCollision, BackwardIsBoundedWhereACylinderStands) {
  const std::string xml = plane_xml(kCylinder);
  Scene scene{.name = "", .model = Model::from_xml(xml), .x = {}};
  scene.x = default_state(scene.model);
  scene.x.qpos = pose(0, 0, .1199, Vector3(.3, 1, 0), 1e-6);
  scene.x.qvel = {.3, .1, 0, 0, 0, 1};
  const auto largest = [&](const ModelOptions& options) {
    const Vector g = gradient_of(Model::from_xml(xml, options), scene.x, 1).qpos_tangent;
    double out = 0;
    for (const double value : g) out = std::max(out, std::abs(value));
    return out;
  };
  EXPECT_GT(largest({}), 30 * largest(smooth(1e-3, Collisions::kSmoothBackward)));
}

TEST(SmoothCollision, NamesPairsWithoutASmoothCollider) {
  // MuJoCo's calls must see the type of a geom with fluid forces
  std::string xml =
      pair_xml("name='a' type='box' size='.1 .1 .1'", "name='b' type='cylinder' size='.1 .1'");
  EXPECT_EQ(Model::from_xml(xml, smooth(1e-3)).collisions_notice(), "");
  xml.insert(xml.find("<geom name='b'") + 5, " fluidshape='ellipsoid'");
  EXPECT_EQ(Model::from_xml(xml).collisions_notice(), "");
  EXPECT_EQ(Model::from_xml(xml, smooth(1e-3)).collisions_notice(),
            "cylinder and box (geom 'b', geom 'a'), because of fluid forces on geom 'b'");
  const std::string hill =
      "<mujoco><asset><hfield name='h' nrow='2' ncol='2' size='1 1 1 1'/></asset><worldbody><geom "
      "name='hill' type='hfield' hfield='h'/><body><freejoint/><geom name='b' type='box' size='.1 "
      ".1 .1'/></body></worldbody></mujoco>";
  EXPECT_EQ(Model::from_xml(hill, smooth(1e-3)).collisions_notice(),
            "hfield and box (geom 'hill', geom 'b')");
  // MuJoCo does not let two bodies without degrees of freedom collide
  std::string still = hill;
  still.replace(still.find("<body><freejoint/>"), 18,
                "<body><freejoint/><geom size='.1' contype='0' conaffinity='0'/></body>"
                "<body mocap='true'>");
  EXPECT_EQ(Model::from_xml(still, smooth(1e-3)).collisions_notice(), "");
  ModelOptions strict = smooth(1e-3);
  strict.fallback = false;
  EXPECT_THROW((void)Model::from_xml(xml, strict), UnsupportedError);
  EXPECT_THROW((void)Model::from_xml(xml, smooth(0)), InputError);
  EXPECT_THROW((void)Model::from_xml(xml, smooth(NAN)), InputError);
  ModelOptions oracle = smooth(1e-3, Collisions::kSmoothBackward);
  oracle.gradient_path = GradientPath::kOracle;
  EXPECT_THROW((void)Model::from_xml(xml, oracle), UnsupportedError);
}

// where MuJoCo must see a geom's type, its general collider stays, with its closed forms
TEST(SmoothCollision, FluidForcesKeepMujocosGeneralCollider) {
  std::string xml = pair_xml(kBox, kCylinder);
  xml.insert(xml.find("type='cylinder'"), "fluidshape='ellipsoid' ");
  const Model exact = Model::from_xml(xml), ours = Model::from_xml(xml, smooth(1e-3));
  EXPECT_NE(ours.collisions_notice(), "");
  const Vector qpos = pose(.02, .01, .249, Vector3::UnitX(), .01);
  const Vector a = Contacts(exact)(qpos), b = Contacts(ours)(qpos);
  ASSERT_GT(a[0], 0);
  EXPECT_EQ(a, b);
  Scene scene{.name = "", .model = ours, .x = default_state(exact)};
  scene.x.qpos = qpos;
  EXPECT_EQ(gradient_of(ours, scene.x, 3).qpos_tangent,
            gradient_of(exact, scene.x, 3).qpos_tangent);
}

// pairs without a smooth collider have MuJoCo's contacts, in whichever order their geoms come
TEST(SmoothCollision, HeightFieldsHaveMujocosContacts) {
  for (const bool hill_first : {true, false}) {
    const std::string hill = "<body><geom type='hfield' hfield='h'/></body>",
                      box =
                          "<body pos='.02 .03 .12' euler='20 10 30'><freejoint/><geom type='box' "
                          "size='.1 .1 .1'/></body>";
    const std::string xml =
        "<mujoco><asset><hfield name='h' nrow='5' ncol='5' size='.5 .5 .1 .1' elevation='0 1 0 1 0 "
        "1 0 1 0 1 0 .5 0 .2 0 1 0 1 0 1 0 1 0 1 0'/></asset><worldbody>" +
        (hill_first ? hill + box : box + hill) + "</worldbody></mujoco>";
    const Model exact = Model::from_xml(xml), ours = Model::from_xml(xml, smooth(1e-3));
    const Vector qpos = default_state(exact).qpos;
    Vector a = Contacts(exact)(qpos), b = Contacts(ours)(qpos);
    ASSERT_GT(a[0], 0);
    // the normal is from the geom that comes first, and so does its sign
    for (size_t k = 0; k < a.size(); k++) EXPECT_NEAR(std::abs(a[k]), std::abs(b[k]), 1e-12) << k;
    Scene scene{.name = "", .model = ours, .x = default_state(exact)};
    const Vector g = gradient_of(ours, scene.x, 3).qpos_tangent,
                 exact_g = gradient_of(exact, scene.x, 3).qpos_tangent;
    EXPECT_LT(difference(exact_g, g), 1e-3);
  }
}

}  // namespace
}  // namespace diffmj
