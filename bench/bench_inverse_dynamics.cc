// λᵀ(M a + c) and its reverse sweep, in units of mj_step of the same model in the same run.
#include <benchmark/benchmark.h>
#include <mujoco/mujoco.h>

#include <chrono>

#include "harness/models.h"
#include "stages/acceleration/inverse_dynamics.h"

namespace diffmj {
namespace {

void bench_inverse_dynamics(benchmark::State& state, const Scene& scene) {
  const mjModel* m = scene.model.mj();
  mjData* d = mj_makeData(m);
  const auto load = [&] {
    std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
    std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
    std::copy(scene.ctrl.begin(), scene.ctrl.end(), d->ctrl);
  };
  const auto nv = static_cast<size_t>(m->nv);
  JointFrames frames(m);
  InverseDynamicsScratch scratch(m);
  std::vector<Vector6> W(frames.parent.size());
  const Vector qacc(nv, 0.3), lambda(nv, 0.7);
  Vector qpos_bar(nv), qvel_bar(nv);
  double step = 0, sweep = 0;
  for (auto _ : state) {
    load();
    const auto start = std::chrono::steady_clock::now();
    mj_step(m, d);
    const auto middle = std::chrono::steady_clock::now();
    const InverseDynamicsIn in{
        .qvel = scene.x.qvel, .qacc = qacc, .lambda = lambda, .gravity = Vector3(m->opt.gravity)};
    joint_axes(m, d, frames);
    benchmark::DoNotOptimize(inverse_dynamics(m, d, frames, in, scratch));
    std::fill(W.begin(), W.end(), Vector6::Zero());
    inverse_dynamics_pullback(m, d, frames, in, 1, scratch, W, qvel_bar, {});
    kinematics_pullback(m, frames, W, qpos_bar);
    benchmark::DoNotOptimize(qpos_bar.data());
    step += std::chrono::duration<double>(middle - start).count();
    sweep += std::chrono::duration<double>(std::chrono::steady_clock::now() - middle).count();
  }
  mj_deleteData(d);
  state.counters["nv"] = scene.model.nv();
  state.counters["sweep"] = sweep / step;
}

const bool kRegistered = [] {
  for (const char* name : {"joints_order", "joints_ball", "humanoid"}) {
    benchmark::RegisterBenchmark(
        (std::string("inverse_dynamics/") + name).c_str(),
        [name](benchmark::State& state) { bench_inverse_dynamics(state, zoo(name)); });
  }
  benchmark::RegisterBenchmark("inverse_dynamics/muscle_hand", [](benchmark::State& state) {
    bench_inverse_dynamics(state, muscle_hand());
  });
  return true;
}();

}  // namespace
}  // namespace diffmj
