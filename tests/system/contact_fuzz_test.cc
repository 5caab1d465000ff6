// No NaN, ever: bodies of all shapes, touching in every awkward way. A gradient is finite, or an
// Error says which contact, geom or step is to blame.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <array>
#include <cmath>
#include <random>

#include "harness/models.h"

namespace diffmj {
namespace {

constexpr int kSteps = 3;

bool all_finite(const Vector& x) {
  for (double value : x) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

bool names_the_culprit(const std::string& message) {
  for (const char* word : {"contact", "geom", "step"}) {
    if (message.find(word) != std::string::npos) return true;
  }
  return false;
}

// Success if linearize() and rollout_pullback() are finite, or throw an Error that says where.
::testing::AssertionResult is_finite_or_explained(const Model& model, const RolloutInput& input) {
  const Vector bar((kSteps + 1) * static_cast<size_t>(model.nv()), 1.0);
  try {
    const Linearization linear = linearize(model, input);
    if (!all_finite(linear.A) || !all_finite(linear.B)) {
      return ::testing::AssertionFailure() << "linearize is not finite";
    }
    const Trajectory t = rollout(model, input, kSteps);
    if (!t.ok()) {
      if (names_the_culprit(t.message)) return ::testing::AssertionSuccess();
      return ::testing::AssertionFailure() << "rollout: " << t.message;
    }
    const Gradient g = rollout_pullback(model, t, {.qpos_tangent = bar, .qvel = bar});
    for (const Vector* part : {&g.qpos, &g.qpos_tangent, &g.qvel, &g.ctrl, &g.qfrc_applied}) {
      if (!all_finite(*part)) return ::testing::AssertionFailure() << "gradient is not finite";
    }
  } catch (const Error& error) {
    if (names_the_culprit(error.what())) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "unexplained: " << error.what();
  }
  return ::testing::AssertionSuccess();
}

struct FuzzBody {
  std::string geom;
  std::array<double, 7> pose = {0, 0, 0, 1, 0, 0, 0};
};

std::string fuzz_xml(const std::vector<FuzzBody>& bodies, const std::string& option,
                     const std::string& geoms) {
  std::string xml = "<mujoco><option timestep='.002' " + option + "/><default><geom " + geoms +
                    "/></default><asset><mesh name='stone' vertex='.1 0 0 -.1 0 0 0 .1 0 0 -.1 0 "
                    "0 0 .1 0 0 -.1'/></asset><worldbody>";
  for (const FuzzBody& body : bodies) {
    xml += "<body><freejoint/><geom " + body.geom + "/></body>";
  }
  return xml + "</worldbody></mujoco>";
}

// the pose of every body is its own
Vector poses_of(const std::vector<FuzzBody>& bodies) {
  Vector qpos;
  for (const FuzzBody& body : bodies) {
    Vector pose(body.pose.begin(), body.pose.end());
    mju_normalize4(&pose[3]);
    qpos.insert(qpos.end(), pose.begin(), pose.end());
  }
  return qpos;
}

const std::vector<std::string> kShapes = {"type='sphere' size='.1'",
                                          "type='capsule' size='.05 .1'",
                                          "type='ellipsoid' size='.1 .08 .12'",
                                          "type='cylinder' size='.1 .1'",
                                          "type='box' size='.1 .1 .1'",
                                          "type='mesh' mesh='stone'"};
const std::vector<std::string> kOptions = {
    "cone='pyramidal'", "cone='elliptic'",
    "cone='elliptic' impratio='10' integrator='implicitfast'", "cone='pyramidal' integrator='RK4'"};
const std::vector<std::string> kGeoms = {"condim='3'", "condim='1'", "condim='6'",
                                         "condim='3' friction='0 0 0'",
                                         "condim='4' friction='0 .01 0' margin='.01'"};

void expect_finite(const std::vector<FuzzBody>& bodies, const std::string& option,
                   const std::string& geoms, const Vector& qvel) {
  const std::string xml = fuzz_xml(bodies, option, geoms);
  const Vector qpos = poses_of(bodies);
  const Model model = Model::from_xml(xml);
  EXPECT_TRUE(is_finite_or_explained(model, {.qpos = qpos, .qvel = qvel}))
      << xml << "\nqpos " << ::testing::PrintToString(qpos) << "\nqvel "
      << ::testing::PrintToString(qvel);
}

// poses of a second body that meet a first one at the origin in a special way
std::vector<std::pair<const char*, std::array<double, 7>>> special_poses() {
  const double r = std::sqrt(0.5);
  return {
      {"identical", {0, 0, 0, 1, 0, 0, 0}},
      {"coincident centres, turned", {0, 0, 0, 0.8, 0.3, -0.4, 0.2}},
      {"a hair from identical", {1e-12, 0, 0, 1, 0, 0, 0}},
      {"flush above, touching", {0, 0, 0.2, 1, 0, 0, 0}},
      {"flush above, inside", {0, 0, 0.199, 1, 0, 0, 0}},
      {"flush beside, touching", {0.2, 0, 0, 1, 0, 0, 0}},
      {"flush beside, inside", {0.199, 0, 0, 1, 0, 0, 0}},
      {"half over the edge", {0.1, 0, 0.199, 1, 0, 0, 0}},
      {"edge on edge", {0.199, 0, 0.199, 1, 0, 0, 0}},
      {"corner on corner", {0.199, 0.199, 0.199, 1, 0, 0, 0}},
      {"end to end", {0, 0, 0.299, 1, 0, 0, 0}},
      {"end to end, touching", {0, 0, 0.3, 1, 0, 0, 0}},
      {"parallel axes", {0.099, 0, 0.02, 1, 0, 0, 0}},
      {"parallel axes, touching", {0.1, 0, 0, 1, 0, 0, 0}},
      {"crossed axes", {0, 0.099, 0, r, r, 0, 0}},
      {"crossed axes that meet", {0, 0, 0, r, 0, r, 0}},
      {"upside down", {0, 0, 0.199, 0, 1, 0, 0}},
      {"eighth of a turn", {0, 0, 0.199, std::cos(M_PI / 8), 0, 0, std::sin(M_PI / 8)}},
      {"on its edge",
       {0, 0, 0.1 + 0.1 * std::sqrt(2.0) - 1e-3, std::cos(M_PI / 8), 0, std::sin(M_PI / 8), 0}},
      {"just apart", {0, 0, 0.2 + 1e-10, 1, 0, 0, 0}},
  };
}

// every pair of shapes in every special pose, at rest
class ContactFuzzPairs : public ::testing::TestWithParam<size_t> {};

TEST_P(ContactFuzzPairs, SpecialPosesOfPairs) {
  const std::string& first = kShapes[GetParam()];
  size_t count = 0;
  for (const std::string& second : kShapes) {
    for (const auto& [name, pose] : special_poses()) {
      SCOPED_TRACE(first + " and " + second + ": " + name);
      // options take turns, so that every pair of shapes meets each of them
      const std::vector<FuzzBody> bodies = {{first}, {second, pose}};
      expect_finite(bodies, kOptions[count % kOptions.size()], kGeoms[count % kGeoms.size()], {});
      count++;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, ContactFuzzPairs, ::testing::Range<size_t>(0, kShapes.size()));

// each shape on a plane, in the poses of its symmetries
TEST(ContactFuzz, SpecialPosesOnAPlane) {
  size_t count = 0;
  for (const std::string& shape : kShapes) {
    for (const auto& [name, pose] : special_poses()) {
      for (const double height : {0.0, 0.05, 0.0999, 0.1, 0.1499, 0.15}) {
        SCOPED_TRACE(shape + ": " + name);
        const Model model = Model::from_xml(
            "<mujoco><option " + kOptions[count % kOptions.size()] + "/><default><geom " +
            kGeoms[count % kGeoms.size()] +
            "/></default><asset><mesh name='stone' vertex='.1 0 0 -.1 0 0 0 .1 0 0 -.1 0 0 0 .1 0 "
            "0 -.1'/></asset><worldbody><geom type='plane' size='1 1 1'/><body><freejoint/><geom " +
            shape + "/></body></worldbody></mujoco>");
        Vector qpos(pose.begin(), pose.end());
        qpos[2] = height;
        mju_normalize4(&qpos[3]);
        EXPECT_TRUE(is_finite_or_explained(model, {.qpos = qpos})) << height;
        count++;
      }
    }
  }
}

// 2 to 5 bodies, at rest or not, some of them at special poses
TEST(ContactFuzz, RandomScenes) {
  int contacts = 0;
  for (unsigned seed = 1; seed <= 120; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    const auto pick = [&](size_t n) { return random() % n; };
    std::vector<FuzzBody> bodies;
    const size_t nbody = 2 + pick(4);
    const auto special = special_poses();
    for (size_t i = 0; i < nbody; i++) {
      FuzzBody body{.geom = kShapes[pick(kShapes.size())]};
      switch (pick(3)) {
        case 0:
          body.pose = special[pick(special.size())].second;
          break;
        case 1:  // as another one, or at its place
          if (i > 0) body.pose = bodies[pick(i)].pose;
          if (i > 0 && pick(2) == 0) body.pose[2] += 0.199;
          break;
        default:
          for (size_t k = 0; k < 7; k++)
            body.pose[k] = k < 3 ? 0.1 * normal(random) : normal(random);
      }
      bodies.push_back(body);
    }
    Vector qvel(6 * nbody);
    if (pick(2) == 0) {
      for (double& v : qvel) v = normal(random);
    }
    const std::string &option = kOptions[pick(kOptions.size())],
                      &geoms = kGeoms[pick(kGeoms.size())];
    expect_finite(bodies, option, geoms, qvel);
    const Vector qpos = poses_of(bodies);
    contacts +=
        rollout(Model::from_xml(fuzz_xml(bodies, option, geoms)), {.qpos = qpos}, 1).steps[0].ncon;
  }
  EXPECT_GT(contacts, 120) << "hardly any scene has contacts";
}

}  // namespace
}  // namespace diffmj
