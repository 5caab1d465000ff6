// States at the edge: the derivative is that of the side the state is on, and never nonsense.
// label: smoke
#include <gtest/gtest.h>

#include <Eigen/Core>

#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix transition(const Model& model, const RolloutInput& input) {
  const Linearization linear = linearize(model, input);
  return Eigen::Map<const Matrix>(linear.A.data(), model.ntangent(), model.ntangent());
}

Model falling(const std::string& geom, const std::string& more = "") {
  return Model::from_xml("<mujoco><option timestep='.002'" + more +
                         "/><worldbody><geom name='floor' type='plane' size='5 5 1'/><body>"
                         "<freejoint/><geom name='it' " +
                         geom + "/></body></worldbody></mujoco>");
}

// at distance zero there is no row: the motion is free, for both kinds of cones
TEST(AwkwardStates, ExactlyTouching) {
  for (const std::string cone : {" cone='pyramidal'", " cone='elliptic'"}) {
    for (const std::string geom : {"type='box' size='.1 .1 .1'", "size='.1'"}) {
      SCOPED_TRACE(geom + cone);
      const Model model = falling(geom, cone);
      const Vector touching = {0, 0, 0.1, 1, 0, 0, 0}, above = {0, 0, 0.2, 1, 0, 0, 0};
      const Matrix A = transition(model, {.qpos = touching});
      EXPECT_LE((A - transition(model, {.qpos = above})).norm(), 1e-6 * A.norm());
    }
  }
}

// a hair inside: the contact is there, and its stiffness with it
TEST(AwkwardStates, HairInside) {
  const Model model = falling("size='.1'").tightened();
  const Vector qvel = {0, 0, -0.5, 0, 0, 0};
  const auto at = [&](double depth) {
    const Vector qpos = {0, 0, 0.1 - depth, 1, 0, 0, 0};
    return transition(model, {.qpos = qpos, .qvel = qvel});
  };
  // the stiffness varies with the depth, but smoothly
  const Matrix reference = at(1e-6);
  EXPECT_LT(reference(8, 2), -4);
  for (double depth : {1e-7, 1e-8, 1e-10}) {
    EXPECT_LE((at(depth) - reference).norm(), 1e-2 * reference.norm()) << depth;
  }
}

// a box turned on a box: the collider lists its four contacts in another order for any small yaw
TEST(AwkwardStates, ContactsThatChangeTheirOrder) {
  for (const std::string cone : {"pyramidal", "elliptic"}) {
    SCOPED_TRACE(cone);
    const Model model =
        Model::from_xml("<mujoco><option timestep='.002' cone='" + cone +
                        "'/><default><geom solref='.02 1' solimp='.5 .95 .01'/></default>"
                        "<worldbody><geom type='box' size='.3 .3 .1'/><body pos='0 0 .198' "
                        "euler='0 0 45'><freejoint/><geom type='box' size='.1 .1 .1'/></body>"
                        "</worldbody></mujoco>");
    Scene scene{.name = "turned box", .model = model, .x = default_state(model)};
    scene.x.qvel = {0.05, 0.02, -0.1, 0.02, 0.03, 0.2};
    const size_t n = rollout_ntangent(scene, 1);
    // the order changes here, the motion does not: differences see nothing of it
    EXPECT_TRUE(check_pullback(rollout_operation(scene, 1), Vector(n, 0.0), n,
                               {.tolerance = 1e-4, .directions = 4}));
  }
}

TEST(AwkwardStates, ControlsAndActivationsAtTheirBounds) {
  // slope inside, on both gradient paths
  for (const GradientPath path : {GradientPath::kAnalytic, GradientPath::kDifferences}) {
    SCOPED_TRACE(gradient_path_name(path));
    const Model model = Model::from_xml(
        "<mujoco><option timestep='.01'/><worldbody><body><joint name='a' type='slide'/>"
        "<geom size='.1' mass='2'/></body><body>"
        "<joint name='b' type='slide'/><geom size='.1' mass='2' contype='0'/></body></worldbody>"
        "<actuator><motor joint='a' ctrllimited='true' ctrlrange='-1 1'/>"
        "<intvelocity joint='b' kp='3' actlimited='true' actrange='-1 1'/></actuator></mujoco>",
        {.gradient_path = path});
    const Vector bar = {0, 0, 1, 1};
    const auto gradient = [&](double u, double w) {
      const Vector ctrl = {u, 0}, act = {w};
      return rollout_pullback(model, rollout(model, {.act = act, .ctrl = ctrl}, 1), {.qvel = bar});
    };
    for (double u : {-1.0, 0.3, 1.0}) EXPECT_NEAR(gradient(u, 0).ctrl[0], 0.01 / 2, 1e-8) << u;
    for (double u : {-1.5, 1.5}) EXPECT_NEAR(gradient(u, 0).ctrl[0], 0, 1e-8) << u;
    const Vector act_bar = {0, 1};
    for (double w : {-1.0, 0.2, 1.0}) {
      const Vector act = {w};
      const Gradient g = rollout_pullback(model, rollout(model, {.act = act}, 1), {.act = act_bar});
      EXPECT_NEAR(g.act[0], 1, 1e-8) << w;
    }
  }
}

// a muscle clamps its control to [0, 1] by itself
TEST(AwkwardStates, MuscleWithoutControl) {
  const Model model = Model::from_xml(
      "<mujoco><worldbody><body><joint name='h' axis='0 1 0' range='-60 60' limited='true'/>"
      "<geom size='.1' pos='0 0 -.3'/></body></worldbody><actuator>"
      "<muscle joint='h' lengthrange='-1 1'/></actuator></mujoco>");
  const Vector act = {0.5}, act_bar = {0, 1};
  const auto slope = [&](double u) {
    const Vector ctrl = {u};
    return rollout_pullback(model, rollout(model, {.act = act, .ctrl = ctrl}, 1), {.act = act_bar})
        .ctrl[0];
  };
  EXPECT_GT(slope(0), 0.01);
  EXPECT_NEAR(slope(0), slope(1e-3), 1e-2 * slope(1e-3));
}

// far from the origin a step of 1e-7 would drown
TEST(AwkwardStates, FarFromTheOrigin) {
  const Model model = Model::from_xml(
      "<mujoco><worldbody><body><joint type='slide' stiffness='50' springref='99999'/>"
      "<geom size='.1' mass='1'/></body></worldbody></mujoco>");
  const Vector qpos = {1e5}, bar = {0, 1};
  const double h = model.timestep();
  const Gradient g = rollout_pullback(model, rollout(model, {.qpos = qpos}, 1), {.qvel = bar});
  EXPECT_NEAR(g.qpos[0], -50 * h, 1e-6 * 50 * h);
}

}  // namespace
}  // namespace diffmj
