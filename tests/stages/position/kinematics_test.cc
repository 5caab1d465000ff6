#include "stages/position/kinematics.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <memory>

#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

struct Pose {
  explicit Pose(const Scene& from)
      : scene(from), m(scene.model.mj()), d(mj_makeData(m), mj_deleteData), frames(m) {}
  void set(const Vector& dq) {
    std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
    mj_integratePos(m, d->qpos, dq.data(), 1);
    mj_kinematics(m, d.get());
    mj_comPos(m, d.get());
    joint_axes(m, d.get(), frames);
  }
  Scene scene;
  const mjModel* m;
  std::unique_ptr<mjData, void (*)(mjData*)> d;
  JointFrames frames;
};

class KinematicsZoo : public ::testing::TestWithParam<std::string> {};

// Σ S_j v_j over the path of a body is the velocity MuJoCo has for it
TEST_P(KinematicsZoo, AxesGiveMujocosVelocities) {
  Pose pose(zoo(GetParam()));
  const mjModel* m = pose.m;
  mjData* d = pose.d.get();
  pose.set(Vector(static_cast<size_t>(m->nv), 0.0));
  std::copy(pose.scene.x.qvel.begin(), pose.scene.x.qvel.end(), d->qvel);
  mj_comVel(m, d);
  std::vector<Vector6> V(pose.frames.parent.size());
  for (size_t j = 0; j < V.size(); j++) {
    const int parent = pose.frames.parent[j];
    V[j] = parent >= 0 ? V[static_cast<size_t>(parent)] : Vector6::Zero();
    for (int k = 0; k < dof_count(m->jnt_type[j]); k++) {
      const auto dof = static_cast<size_t>(m->jnt_dofadr[j] + k);
      V[j] += pose.frames.S[dof] * pose.scene.x.qvel[dof];
    }
  }
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    double expected[6];  // rotation, then velocity of the body's origin
    mj_objectVelocity(m, d, mjOBJ_XBODY, body, expected, 0);
    const int frame = pose.frames.body_frame[static_cast<size_t>(body)];
    const Vector6 motion = frame >= 0 ? V[static_cast<size_t>(frame)] : Vector6::Zero();
    const Vector3 w = motion.head<3>();
    const Vector3 v = motion.tail<3>() + w.cross(Vector3(d->xpos + 3 * body));
    EXPECT_LE((w - Vector3(expected)).norm(), tolerances().forward * (1 + w.norm()));
    EXPECT_LE((v - Vector3(expected + 3)).norm(), tolerances().forward * (1 + v.norm()));
  }
}

// forces at the bodies' origins pull back to the derivative of their positions
TEST_P(KinematicsZoo, PullbackMatchesDifferences) {
  const auto pose = std::make_shared<Pose>(zoo(GetParam()));
  const auto nv = static_cast<size_t>(pose->m->nv), nbody = static_cast<size_t>(pose->m->nbody);
  const Operation op = {
      .forward =
          [=](const Vector& dq) {
            pose->set(dq);
            return Vector(pose->d->xpos, pose->d->xpos + 3 * nbody);
          },
      .pullback =
          [=](const Vector& dq, const Vector& y_bar, Vector& qpos_bar) {
            pose->set(dq);
            std::vector<Vector6> W(pose->frames.parent.size(), Vector6::Zero());
            for (size_t body = 1; body < nbody; body++) {
              const int frame = pose->frames.body_frame[body];
              if (frame < 0) continue;
              W[static_cast<size_t>(frame)] +=
                  wrench_at(Vector3(pose->d->xpos + 3 * body), Vector3::Zero(),
                            Vector3(y_bar.data() + 3 * body));
            }
            kinematics_pullback(pose->m, pose->frames, W, qpos_bar);
          },
  };
  EXPECT_TRUE(
      check_pullback(op, Vector(nv, 0.0), nv, {.tolerance = tolerances().stage, .smallest = 1e-3}));
}

INSTANTIATE_TEST_SUITE_P(Zoo, KinematicsZoo, ::testing::ValuesIn(zoo_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace diffmj
