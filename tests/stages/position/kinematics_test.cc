// Motions of bodies against MuJoCo's Jacobians; the pullback of poses against differences of
// mj_kinematics.
#include "stages/position/kinematics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/stage_fixture.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

// all observables of poses(), one after another
Vector poses(Stage& stage) {
  const mjModel* m = stage.m;
  mjData* d = stage.d;
  mj_comVel(m, d);
  Vector y;
  const auto add = [&](const mjtNum* x, auto n) { y.insert(y.end(), x, x + n); };
  add(d->xpos, 3 * m->nbody);
  add(d->xquat, 4 * m->nbody);
  add(d->xmat, 9 * m->nbody);
  add(d->site_xpos, 3 * m->nsite);
  add(d->site_xmat, 9 * m->nsite);
  add(d->geom_xpos, 3 * m->ngeom);
  add(d->geom_xmat, 9 * m->ngeom);
  add(d->subtree_com, 3 * m->nbody);
  const auto add_velocities = [&](int type, int n, int half) {
    for (int i = 0; i < n; i++) {
      mjtNum velocity[6];  // angular, linear
      mj_objectVelocity(m, d, type, i, velocity, 0);
      add(velocity + 3 * half, 3);
    }
  };
  for (const int half : {1, 0}) add_velocities(mjOBJ_XBODY, static_cast<int>(m->nbody), half);
  for (const int half : {1, 0}) add_velocities(mjOBJ_SITE, static_cast<int>(m->nsite), half);
  return y;
}

void pull_poses(Stage& stage, CVec y_bar, const StageBar& bar) {
  const mjModel* m = stage.m;
  const auto part = [&](auto n) {
    const CVec out = y_bar.first(static_cast<size_t>(n));
    y_bar = y_bar.subspan(static_cast<size_t>(n));
    return out;
  };
  poses_pullback(m, stage.d,
                 {.xpos = part(3 * m->nbody),
                  .xquat = part(4 * m->nbody),
                  .xmat = part(9 * m->nbody),
                  .site_xpos = part(3 * m->nsite),
                  .site_xmat = part(9 * m->nsite),
                  .geom_xpos = part(3 * m->ngeom),
                  .geom_xmat = part(9 * m->ngeom),
                  .subtree_com = part(3 * m->nbody),
                  .body_linvel = part(3 * m->nbody),
                  .body_angvel = part(3 * m->nbody),
                  .site_linvel = part(3 * m->nsite),
                  .site_angvel = part(3 * m->nsite)},
                 stage.sweep, bar.params);
}

const std::vector<Parameter> kFrames = {
    Parameter::kBodyPos,  Parameter::kBodyQuat, Parameter::kBodyIpos,
    Parameter::kBodyMass, Parameter::kJntPos,   Parameter::kJntAxis,
    Parameter::kSitePos,  Parameter::kGeomPos,  Parameter::kGeomQuat};

// X_b(y) is J_b y of every body's origin
void motions_are_jacobians(const Scene& scene) {
  Stage stage(scene);
  stage.set(Vector(stage.size()));
  const mjModel* m = stage.m;
  const mjData* d = stage.d;
  const auto nv = static_cast<Eigen::Index>(m->nv);
  const Vector y = wave(static_cast<size_t>(nv), 0.9);
  std::vector<Vector6> X(static_cast<size_t>(m->nbody));
  body_motions(m, d, y, X);
  Matrix J(6, nv);
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    mj_jacBody(m, d, J.data(), J.data() + 3 * nv, body);
    const Vector6 expected = J * eigen(CVec(y));
    const Vector6& motion = X[static_cast<size_t>(body)];
    Vector6 got;
    got << velocity_at(motion, from_origin(m, d, body, d->xpos + 3 * body)), motion.head<3>();
    EXPECT_LE((got - expected).norm(), tolerances().forward * (1 + expected.norm())) << body;
  }
}

// cotangents of qpos from that of one body's position
Vector position_pullback(Stage& stage, int body, const Vector3& F) {
  const auto nv = static_cast<size_t>(stage.m->nv);
  Vector xpos_bar(3 * static_cast<size_t>(stage.m->nbody)), qpos_bar(nv), qvel_bar(nv);
  for (int k = 0; k < 3; k++) xpos_bar[static_cast<size_t>(3 * body + k)] = F[k];
  stage.begin_sweep();
  PoseBar bar;
  bar.xpos = xpos_bar;
  poses_pullback(stage.m, stage.d, bar, stage.sweep, {});
  kinematics_pullback(stage.m, stage.d, stage.sweep, qpos_bar, qvel_bar, {});
  for (double value : qvel_bar) EXPECT_EQ(value, 0);
  return qpos_bar;
}

class KinematicsZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(KinematicsZoo, MotionsAreJacobians) { motions_are_jacobians(zoo(GetParam())); }

TEST_P(KinematicsZoo, PullbackMatchesDifferences) {
  EXPECT_TRUE(check_stage(zoo(GetParam()), poses, pull_poses));
  EXPECT_TRUE(check_stage(zoo(GetParam()), poses, pull_poses, {.parameters = kFrames}));
}

INSTANTIATE_TEST_SUITE_P(Zoo, KinematicsZoo, ::testing::ValuesIn(zoo_names()),
                         [](const auto& info) { return info.param; });

TEST(KinematicsTrees, MotionsAreJacobians) {
  for (unsigned seed = 1; seed <= 20; seed++) {
    SCOPED_TRACE(seed);
    motions_are_jacobians(random_tree(seed));
  }
}

TEST(KinematicsTrees, PullbackMatchesDifferences) {
  for (unsigned seed = 1; seed <= 40; seed++) {
    SCOPED_TRACE(seed);
    const Scene scene = random_tree(seed);
    EXPECT_TRUE(check_stage(scene, poses, pull_poses));
    EXPECT_TRUE(check_stage(scene, poses, pull_poses, {.parameters = kFrames}));
  }
}

// a hinge about y with its anchor at (0, 0, 0.2): the origin of the body is at 0.2 (-sin q, 0, -cos
// q) from it
TEST(Kinematics, HingeWithAnchor) {
  Scene scene = scene_from_xml(
      "<mujoco><worldbody><body pos='1 2 3'><joint axis='0 1 0' pos='0 0 .2'/><geom "
      "size='.1'/></body>"
      "</worldbody></mujoco>");
  scene.x.qpos = {0.4};
  Stage stage(scene);
  stage.set(Vector(stage.size()));
  const double c = std::cos(0.4), s = std::sin(0.4);
  EXPECT_NEAR(stage.d->xpos[3], 1 - 0.2 * s, 1e-14);
  const Vector3 F(0.3, -0.5, 0.8);
  EXPECT_NEAR(position_pullback(stage, 1, F)[0], 0.2 * (-c * F[0] + s * F[2]), 1e-14);
}

// a slide moves along its axis in the frame of its body, wherever its anchor and the joints before
// it are
TEST(Kinematics, SlideInARotatedFrame) {
  Scene scene = scene_from_xml(
      "<mujoco><compiler angle='radian'/><worldbody><body pos='.5 -1 2' euler='.3 -.6 1'>"
      "<joint axis='0 0 1' pos='.3 .1 0'/><joint type='slide' axis='1 2 -1' pos='.2 -.3 .1' "
      "ref='.1'/>"
      "<geom size='.1'/></body></worldbody></mujoco>");
  Stage stage(scene);
  stage.set(Vector(stage.size()));
  const Vector3 F(0.3, -0.5, 0.8), axis = Vector3(1, 2, -1).normalized();
  // joints act in their order, so that the slide's axis turns with the hinge before it
  EXPECT_NEAR(position_pullback(stage, 1, F)[1], F.dot(Rotation(stage.d->xmat + 9) * axis), 1e-14);
}

// nothing comes to qpos from bodies that qpos does not move
TEST(Kinematics, StaticAndMocapBodiesReceiveNothing) {
  Scene scene = scene_from_xml(
      "<mujoco><worldbody><body pos='1 0 0'><geom size='.1'/><body pos='0 1 0'><geom "
      "size='.1'/></body></body>"
      "<body mocap='true' pos='0 0 2'><geom size='.1'/><body pos='0 1 0'><geom "
      "size='.1'/></body></body>"
      "<body><freejoint/><geom size='.1'/></body></worldbody></mujoco>");
  Stage stage(scene);
  stage.set(Vector(stage.size()));
  for (int body = 1; body <= 4; body++) {
    for (double value : position_pullback(stage, body, Vector3(0.3, -0.5, 0.8)))
      EXPECT_EQ(value, 0) << body;
  }
  EXPECT_EQ(position_pullback(stage, 5, Vector3(0.3, -0.5, 0.8))[1], -0.5);
}

// com = Σ mass xipos / Σ mass of a subtree without mass is not 0/0: MuJoCo takes the body's own
// centre
TEST(Kinematics, CentreOfASubtreeWithoutMass) {
  const Scene scene = scene_from_xml(
      "<mujoco><worldbody><site name='s'/><body><joint/><geom size='.1' pos='.1 0 0'/>"
      "<body pos='.3 0 .1'><body pos='.2 .1 0'/></body></body></worldbody></mujoco>");
  ASSERT_EQ(scene.model.mj()->body_subtreemass[2], 0);
  EXPECT_TRUE(check_stage(scene, poses, pull_poses));
}

}  // namespace
}  // namespace diffmj
