// label: smoke
// What RK4's evaluations found, kept from the forward pass or found by the same step again.
#include "integrate/rk4_recorder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "mj/handle.h"
#include "record/tape.h"

namespace diffmj {
namespace {

constexpr int kSteps = 5;

template <class Change>
Scene changed(const Scene& scene, Change&& change) {
  const MjModelPtr copy(mj_copyModel(nullptr, scene.model.mj()));
  change(copy->opt);
  Scene out = scene;
  out.model = Model::from_mjmodel(copy.get());
  return out;
}

Scene with_rk4(const Scene& scene) {
  return changed(scene, [](mjOption& o) { o.integrator = mjINT_RK4; });
}

std::vector<Scene> scenes() {
  return {zoo("rk4_mixed"),
          zoo("act_muscle"),
          zoo("tendon_wrap"),
          changed(zoo("rk4_mixed"), [](mjOption& o) { o.disableflags |= mjDSBL_WARMSTART; }),
          with_rk4(zoo("hand")),
          with_rk4(humanoid_on_floor({})),
          with_rk4(box_stack({}))};
}

// v' = v + h Σ b_i a_i
TEST(Rk4Recorder, AccelerationsAddUpToTheStep) {
  for (const Scene& scene : scenes()) {
    SCOPED_TRACE(scene.name);
    const auto nv = static_cast<size_t>(scene.model.nv());
    const Trajectory t = rollout(scene.model, scene.input(), kSteps);
    const double h = scene.model.timestep();
    for (size_t i = 0; i < kSteps; i++) {
      for (size_t k = 0; k < nv; k++) {
        const auto a = [&](size_t stage) { return t.tape->rk4.qacc[(4 * i + stage) * nv + k]; };
        const double step = h / 6 * (a(0) + 2 * a(1) + 2 * a(2) + a(3));
        EXPECT_NEAR(t.qvel[(i + 1) * nv + k] - t.qvel[i * nv + k], step,
                    1e-12 * (1 + std::abs(t.qvel[i * nv + k]) + std::abs(step)));
      }
    }
  }
}

TEST(Rk4Recorder, GradientsMatchDifferences) {
  for (const Scene& scene : {zoo("rk4_mixed"), zoo("act_muscle"), zoo("tendon_wrap")}) {
    SCOPED_TRACE(scene.name);
    const size_t n = rollout_ntangent(scene, kSteps);
    EXPECT_TRUE(check_pullback(rollout_operation(scene, kSteps), Vector(n, 0.0), n,
                               {.tolerance = tolerances().trajectory}));
  }
}

TEST(Rk4Recorder, KeptEvaluationsGiveTheSameGradient) {
  for (const Scene& scene : scenes()) {
    SCOPED_TRACE(scene.name);
    const Trajectory kept = rollout(scene.model, scene.input(), kSteps);
    ASSERT_EQ(kept.tape->rk4.nefc.size(), 4U * kSteps);
    ASSERT_EQ(kept.tape->rk4.qacc.size(), 4U * kSteps * static_cast<size_t>(scene.model.nv()));
    const Trajectory found = rollout(scene.model, scene.input(), kSteps, {.keep_stages = false});
    ASSERT_TRUE(found.tape->rk4.empty());
    EXPECT_EQ(kept.qpos, found.qpos);
    const Vector bar((kSteps + 1) * static_cast<size_t>(scene.model.nv()), 1.0);
    const Cotangents losses{.qpos_tangent = bar, .params = {"dof_armature"}};
    const Gradient a = rollout_pullback(scene.model, kept, losses),
                   b = rollout_pullback(scene.model, found, losses);
    EXPECT_EQ(a.qpos_tangent, b.qpos_tangent);
    EXPECT_EQ(a.qvel, b.qvel);
    EXPECT_EQ(a.act, b.act);
    EXPECT_EQ(a.ctrl, b.ctrl);
    EXPECT_EQ(a.params, b.params);
  }
}

// the record may not change the motion
TEST(Rk4Recorder, RolloutsHaveTheBitsOfMjStep) {
  for (const Scene& scene : scenes()) {
    SCOPED_TRACE(scene.name);
    const mjModel* m = scene.model.mj();
    const Trajectory t = rollout(scene.model, scene.input(), kSteps);
    const MjDataPtr d(mj_makeData(m));
    std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
    std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
    std::copy(scene.x.act.begin(), scene.x.act.end(), d->act);
    std::copy(scene.ctrl.begin(), scene.ctrl.end(), d->ctrl);
    for (int i = 0; i < kSteps; i++) mj_step(m, d.get());
    const auto last = t.qpos.end() - m->nq;
    EXPECT_EQ(Vector(last, t.qpos.end()), Vector(d->qpos, d->qpos + m->nq));
  }
}

TEST(Rk4Recorder, ForgetsAStepThatWasNotCompleted) {
  const Scene scene = zoo("rk4_mixed");
  Vector qvel(scene.x.qvel.size(), 0.0);
  qvel[0] = 1e9;  // diverges
  RolloutInput input = scene.input();
  input.qvel = qvel;
  const Trajectory t = rollout(scene.model, input, 1000);
  ASSERT_FALSE(t.ok());
  EXPECT_EQ(t.tape->rk4.nefc.size(), 4U * static_cast<size_t>(t.nstep));
  EXPECT_EQ(t.tape->rk4.qacc.size(),
            4U * static_cast<size_t>(t.nstep) * static_cast<size_t>(scene.model.nv()));
}

// MuJoCo does not call back there
TEST(Rk4Recorder, WithoutActuationTheStagesRunAgain) {
  const Scene scene =
      changed(zoo("rk4_mixed"), [](mjOption& o) { o.disableflags |= mjDSBL_ACTUATION; });
  EXPECT_TRUE(rollout(scene.model, scene.input(), kSteps).tape->rk4.empty());
  const size_t n = rollout_ntangent(scene, kSteps);
  EXPECT_TRUE(check_pullback(rollout_operation(scene, kSteps), Vector(n, 0.0), n));
}

}  // namespace
}  // namespace diffmj
