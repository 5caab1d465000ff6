// Lengths and moments of every transmission: pullbacks against differences of mj_transmission.
#include "stages/position/transmission.h"

#include <gtest/gtest.h>

#include "harness/stage_fixture.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

// tendons and bodies are of another path
bool served(const mjModel* m, int actuator) {
  return m->actuator_trntype[actuator] != mjTRN_TENDON &&
         m->actuator_trntype[actuator] != mjTRN_BODY;
}

// (length, moment · y) with y = qacc, which is fixed; 0 of transmissions that are not served
Vector lengths_and_moments(Stage& stage) {
  const mjModel* m = stage.m;
  const auto nout = static_cast<size_t>(m->nout);
  mj_tendon(m, stage.d);
  mj_transmission(m, stage.d);
  Vector out(2 * nout);
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    if (!served(m, i)) continue;
    for (int k = m->actuator_outadr[i]; k < m->actuator_outadr[i] + m->actuator_outnum[i]; k++) {
      out[static_cast<size_t>(k)] = stage.d->actuator_length[k];
      out[nout + static_cast<size_t>(k)] = moment_dot(stage.d, k, stage.qacc);
    }
  }
  return out;
}

void pull(Stage& stage, CVec bar, const StageBar& to) {
  const mjModel* m = stage.m;
  const auto nout = static_cast<size_t>(m->nout), nv = static_cast<size_t>(m->nv);
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    if (!served(m, i)) continue;
    const auto begin = static_cast<size_t>(m->actuator_outadr[i]),
               size = static_cast<size_t>(m->actuator_outnum[i]);
    const Vec y = stage.workspace.actuation.y;
    for (size_t k = 0; k < size; k++) {
      eigen(y.subspan(k * nv, nv)) = bar[nout + begin + k] * eigen(CVec(stage.qacc));
    }
    transmission_pullback(m, stage.d, i, bar.subspan(begin, size), y, to.qpos, stage.sweep,
                          to.params);
  }
}

void matches_differences(const Scene& scene, bool gear = true) {
  EXPECT_TRUE(check_stage(scene, lengths_and_moments, pull)) << scene.name;
  std::vector<Parameter> parameters = {Parameter::kSitePos, Parameter::kBodyPos,
                                       Parameter::kJntAxis};
  if (gear) parameters.push_back(Parameter::kActuatorGear);
  EXPECT_TRUE(check_stage(scene, lengths_and_moments, pull, {.parameters = parameters}))
      << scene.name;
}

class TransmissionZoo : public ::testing::TestWithParam<std::string> {};

// orientations have no gear
TEST_P(TransmissionZoo, PullbackMatchesDifferences) {
  const std::string name = GetParam();
  matches_differences(zoo(name), name.find("servo") == std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Zoo, TransmissionZoo,
                         ::testing::Values("act_basic", "act_general", "act_servo",
                                           "act_servo_clamp", "act_transmission", "springs_poly",
                                           "humanoid"),
                         [](const auto& info) { return info.param; });

TEST(TransmissionTrees, PullbackMatchesDifferences) {
  for (unsigned seed = 1; seed <= 60; seed++) matches_differences(random_tree(seed));
}

// two trees; in the first, sites before and behind a joint they have in common
Scene with_actuator(const std::string& actuator) {
  return scene_from_xml(
      "<mujoco><compiler angle='radian'/><worldbody>"
      "<site name='world' pos='.1 -.2 .3' euler='.3 .2 -.4'/>"
      "<body pos='.2 .1 1'><joint name='free' type='free'/><geom size='.1' pos='.05 0 0'/>"
      "<site name='base' pos='.1 .05 0' euler='.5 -.2 .1'/>"
      "<body pos='.3 0 .1'><joint name='hinge' axis='0 1 .3' pos='.1 0 0'/><geom size='.08'/>"
      "<site name='near' pos='0 .1 .2' euler='-.4 .3 .2'/>"
      "<body pos='0 .2 .1'><joint name='slide' type='slide' axis='1 .4 0'/>"
      "<joint name='turn' axis='0 0 1' pos='0 .1 .1'/><geom size='.07'/>"
      "<site name='far' pos='.1 0 .1' euler='.2 .6 -.3'/></body>"
      "<body pos='-.2 0 .1'><joint name='ball' type='ball' pos='.05 0 0'/><geom size='.06' pos='.1 "
      "0 0'/>"
      "<site name='side' pos='.1 .1 0' euler='.1 -.5 .2'/></body></body></body>"
      "<body pos='-1 0 1'><joint name='other' axis='1 0 .2'/><geom size='.1' pos='0 .1 0'/>"
      "<site name='apart' pos='.1 .2 0' euler='.3 .3 .3'/></body></worldbody>"
      "<actuator>" +
      actuator + "</actuator></mujoco>");
}

struct Case {
  const char *name, *mjcf;
};
class Transmission : public ::testing::TestWithParam<Case> {};

TEST_P(Transmission, PullbackMatchesDifferences) {
  const std::string mjcf = GetParam().mjcf;
  matches_differences(with_actuator(mjcf), mjcf.find("orientation") == std::string::npos);
}

constexpr Case kCases[] = {
    {"hinge", "<motor joint='hinge' gear='1.3'/>"},
    {"slide", "<motor joint='slide' gear='-.7'/>"},
    {"ball", "<motor joint='ball' gear='.4 -.8 .5'/>"},
    {"free", "<motor joint='free' gear='.4 -.8 .5 .3 .6 -.2'/>"},
    {"hinge_in_parent", "<motor jointinparent='hinge' gear='1.3'/>"},
    {"ball_in_parent", "<motor jointinparent='ball' gear='.4 -.8 .5'/>"},
    {"free_in_parent", "<motor jointinparent='free' gear='.4 -.8 .5 .3 .6 -.2'/>"},
    {"site", "<motor site='far' gear='.4 -.8 .5 .3 .6 -.2'/>"},
    {"refsite_translation", "<motor site='far' refsite='apart' gear='.4 -.8 .5 0 0 0'/>"},
    {"refsite_rotation", "<motor site='far' refsite='apart' gear='0 0 0 .3 .6 -.2'/>"},
    {"refsite_both", "<motor site='far' refsite='apart' gear='.4 -.8 .5 .3 .6 -.2'/>"},
    {"refsite_world", "<motor site='far' refsite='world' gear='.4 -.8 .5 .3 .6 -.2'/>"},
    {"refsite_above", "<motor site='far' refsite='base' gear='.4 -.8 .5 .3 .6 -.2'/>"},
    {"refsite_below", "<motor site='base' refsite='far' gear='.4 -.8 .5 .3 .6 -.2'/>"},
    {"refsite_branch", "<motor site='far' refsite='side' gear='.4 -.8 .5 .3 .6 -.2'/>"},
    {"refsite_same_body", "<motor site='near' refsite='near' gear='.4 -.8 .5 0 0 0'/>"},
    {"crank", "<motor cranksite='far' slidersite='apart' cranklength='4' gear='1.5'/>"},
    {"crank_world", "<motor cranksite='far' slidersite='world' cranklength='4' gear='1.5'/>"},
    {"crank_same_tree", "<motor cranksite='far' slidersite='base' cranklength='3' gear='.6'/>"},
    {"crank_too_short", "<motor cranksite='far' slidersite='apart' cranklength='.01' gear='1.5'/>"},
    {"orientation_ball", "<orientation joint='ball' kp='2' kv='.1'/>"},
    {"orientation_world", "<orientation site='far' refsite='world' kp='2' kv='.1'/>"},
    {"orientation_branch", "<orientation site='far' refsite='side' kp='2' kv='.1'/>"},
    {"orientation_apart", "<orientation site='far' refsite='apart' kp='2' kv='.1'/>"},
};
INSTANTIATE_TEST_SUITE_P(Kinds, Transmission, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// length = gear q: length_bar comes back times gear, and q to the gear
TEST(TransmissionClosedForm, Hinge) {
  const Scene scene = with_actuator(kCases[0].mjcf);
  Stage stage(scene, {Parameter::kActuatorGear});
  stage.set(Vector(stage.size()));
  Vector z_bar(stage.size());
  const StageBar bar(stage, z_bar);
  const Vector y_bar = {0.7, 0.4};
  stage.begin_sweep();
  pull(stage, y_bar, bar);
  EXPECT_NEAR(bar.qpos[6], 0.7 * 1.3, 1e-15);
  EXPECT_NEAR(bar.params[Parameter::kActuatorGear][0], 0.7 * scene.x.qpos[7] + 0.4 * stage.qacc[6],
              1e-15);
}

}  // namespace
}  // namespace diffmj
