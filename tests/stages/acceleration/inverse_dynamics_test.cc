#include "stages/acceleration/inverse_dynamics.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>
#include <memory>

#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

Vector wave(int n, double offset) {
  Vector x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); i++) x[i] = std::sin(offset + 1.7 * static_cast<double>(i));
  return x;
}

// φ as a function of (tangent of q, v), a and λ fixed
struct Phi {
  explicit Phi(const Scene& from)
      : scene(from),
        m(scene.model.mj()),
        d(mj_makeData(m), mj_deleteData),
        frames(m),
        scratch(m),
        qacc(wave(scene.model.nv(), 0.3)),
        lambda(wave(scene.model.nv(), 2.0)) {}

  double at(const Vector& z) {
    const auto nv = static_cast<size_t>(scene.model.nv());
    std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
    mj_integratePos(m, d->qpos, z.data(), 1);
    qvel = scene.x.qvel;
    for (size_t i = 0; i < nv; i++) qvel[i] += z[nv + i];
    mj_kinematics(m, d.get());
    joint_axes(m, d.get(), frames);
    return inverse_dynamics(m, d.get(), frames, input(), scratch);
  }
  InverseDynamicsIn input() const {
    return {.qvel = qvel, .qacc = qacc, .lambda = lambda, .gravity = Vector3(m->opt.gravity)};
  }

  Scene scene;
  const mjModel* m;
  std::unique_ptr<mjData, void (*)(mjData*)> d;
  JointFrames frames;
  InverseDynamicsScratch scratch;
  Vector qvel, qacc, lambda;
};

class InverseDynamicsZoo : public ::testing::TestWithParam<std::string> {};

// λᵀ (M a + c) with MuJoCo's own M and c; tendon armature is a stage of its own
TEST_P(InverseDynamicsZoo, ForwardMatchesMujoco) {
  Phi phi(zoo(GetParam()));
  const mjModel* m = phi.m;
  mjData* d = phi.d.get();
  const int nv = phi.scene.model.nv();
  const double value = phi.at(Vector(2 * static_cast<size_t>(nv), 0.0));
  std::copy(phi.qvel.begin(), phi.qvel.end(), d->qvel);
  mj_fwdPosition(m, d);
  mj_fwdVelocity(m, d);
  Vector force(phi.qacc.size());
  std::copy(phi.qacc.begin(), phi.qacc.end(), d->qacc);
  mj_rne(m, d, 1, force.data());
  double expected = 0, size = 0;
  for (size_t i = 0; i < force.size(); i++) {
    force[i] += m->dof_armature[i] * phi.qacc[i];
    expected += phi.lambda[i] * force[i];
    size += std::abs(phi.lambda[i] * force[i]);
  }
  EXPECT_NEAR(value, expected, tolerances().forward * (1 + size));

  // and its derivative in λ is M a + c itself
  std::vector<Vector6> W(static_cast<size_t>(m->njnt), Vector6::Zero());
  Vector qvel_bar(force.size()), lambda_bar(force.size());
  inverse_dynamics_pullback(m, d, phi.frames, phi.input(), 1, phi.scratch, W, qvel_bar, lambda_bar);
  for (size_t i = 0; i < force.size(); i++) {
    EXPECT_NEAR(lambda_bar[i], force[i], tolerances().forward * (1 + size));
  }
}

TEST_P(InverseDynamicsZoo, PullbackMatchesDifferences) {
  const auto phi = std::make_shared<Phi>(zoo(GetParam()));
  const auto nv = static_cast<size_t>(phi->scene.model.nv());
  const Operation op = {
      .forward = [=](const Vector& z) { return Vector{phi->at(z)}; },
      .pullback =
          [=](const Vector& z, const Vector& y_bar, Vector& z_bar) {
            (void)phi->at(z);
            std::vector<Vector6> W(phi->frames.parent.size(), Vector6::Zero());
            inverse_dynamics_pullback(phi->m, phi->d.get(), phi->frames, phi->input(), y_bar[0],
                                      phi->scratch, W, Vec(z_bar).subspan(nv), {});
            kinematics_pullback(phi->m, phi->frames, W, Vec(z_bar).first(nv));
          },
  };
  EXPECT_TRUE(check_pullback(op, Vector(2 * nv, 0.0), 2 * nv,
                             {.tolerance = tolerances().stage, .smallest = 1e-3}));
}

INSTANTIATE_TEST_SUITE_P(Zoo, InverseDynamicsZoo, ::testing::ValuesIn(zoo_names()),
                         [](const auto& info) { return info.param; });

// a pendulum: φ = λ (m l² a + m g l sin q), so dφ/dq = λ m g l cos q
TEST(InverseDynamics, Pendulum) {
  const Model model = Model::from_xml(
      "<mujoco><compiler angle='radian'/><worldbody><body><joint axis='0 1 0'/>"
      "<inertial pos='0 0 -0.5' mass='2' diaginertia='1e-9 1e-9 1e-9'/></body></worldbody>"
      "</mujoco>");
  const mjModel* m = model.mj();
  mjData* d = mj_makeData(m);
  d->qpos[0] = 0.4;
  mj_kinematics(m, d);
  JointFrames frames(m);
  joint_axes(m, d, frames);
  InverseDynamicsScratch scratch(m);
  const Vector qvel = {0.7}, qacc = {1.3}, lambda = {0.9};
  const InverseDynamicsIn in{
      .qvel = qvel, .qacc = qacc, .lambda = lambda, .gravity = Vector3(m->opt.gravity)};
  const double mgl = 2 * 9.81 * 0.5;
  EXPECT_NEAR(inverse_dynamics(m, d, frames, in, scratch),
              0.9 * (2 * 0.25 * 1.3 + mgl * std::sin(0.4)), 1e-8);
  std::vector<Vector6> W(1, Vector6::Zero());
  Vector qvel_bar(1), qpos_bar(1);
  inverse_dynamics_pullback(m, d, frames, in, 1, scratch, W, qvel_bar, {});
  kinematics_pullback(m, frames, W, qpos_bar);
  EXPECT_NEAR(qpos_bar[0], 0.9 * mgl * std::cos(0.4), 1e-8);
  EXPECT_NEAR(qvel_bar[0], 0, 1e-12);
  mj_deleteData(d);
}

}  // namespace
}  // namespace diffmj
