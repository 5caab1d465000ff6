// Derivatives of steps as matrices in units of mj_step, beside MuJoCo's mjd_transitionFD: all in
// one run, in turn, the best of each in seconds of this process.
#include <benchmark/benchmark.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "harness/models.h"
#include "harness/myo_models.h"

namespace diffmj {
namespace {

constexpr int kSteps = 20;

// counters: matrices = A and B of all steps of a rollout / the loop of mj_step, also with the
// tangents of 20 parameters pushed through it (tangents); fd = centred mjd_transitionFD / mj_step
void bench_linearize(benchmark::State& state, const Scene& scene) {
  const Model& model = scene.model;
  const mjModel* m = model.mj();
  mjData* d = mj_makeData(m);
  const auto n = static_cast<size_t>(model.ntangent()), nv = static_cast<size_t>(model.nv());
  Vector A(n * n), B(n * static_cast<size_t>(model.nu())), qvel(20 * nv, 1.0);
  const Trajectory t = rollout(model, scene.input(), kSteps);
  double loop = std::numeric_limits<double>::infinity(), matrices = loop, tangents = loop,
         differences = loop;
  const auto best = [](double& least, int count, auto&& run) {
    const std::clock_t start = std::clock();
    run();
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / count);
  };
  const auto reset = [&] {
    mj_resetData(m, d);
    std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
    std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
    std::copy(scene.x.act.begin(), scene.x.act.end(), d->act);
    std::copy(scene.ctrl.begin(), scene.ctrl.end(), d->ctrl);
  };
  for (auto _ : state) {
    best(loop, kSteps, [&] {
      reset();
      for (int i = 0; i < kSteps; i++) mj_step(m, d);
    });
    best(matrices, kSteps, [&] {
      const TrajectoryLinearization out = linearize(model, t, {.nthread = 1});
      benchmark::DoNotOptimize(out.A.data());
    });
    best(tangents, kSteps, [&] {
      const TrajectoryTangents out =
          rollout_pushforward(model, t, {.count = 20, .qvel = qvel}, {.nthread = 1});
      benchmark::DoNotOptimize(out.qvel.data());
    });
    best(differences, 2, [&] {
      reset();
      for (int i = 0; i < 2; i++) {
        mjd_transitionFD(m, d, 1e-6, 1, A.data(), B.data(), nullptr, nullptr);
      }
    });
  }
  mj_deleteData(d);
  state.counters["nv"] = model.nv();
  state.counters["step_us"] = 1e6 * loop;
  state.counters["matrices"] = matrices / loop;
  state.counters["tangents"] = tangents / loop;
  state.counters["fd"] = differences / loop;
}

const bool kRegistered = [] {
  for (const Scene& scene : {bench_arm(), humanoid_in_air(), humanoid_on_floor(), box_stack(),
                             hand_with_object(), tree_50(), zoo("spin_free"), zoo("eq_connect")}) {
    benchmark::RegisterBenchmark(
        ("linearize/" + scene.name).c_str(),
        [scene](benchmark::State& state) { bench_linearize(state, scene); });
  }
  const ModelOptions rk4{.integrator = Integrator::kRk4};
  for (const Scene& scene : {bench_arm(rk4), humanoid_on_floor(rk4), zoo("act_muscle", rk4)}) {
    benchmark::RegisterBenchmark(
        ("linearize/" + scene.name + "_rk4").c_str(),
        [scene](benchmark::State& state) { bench_linearize(state, scene); });
  }
  if (!has_myo_models()) return true;
  for (const std::string& name : myo_names()) {
    benchmark::RegisterBenchmark(
        ("linearize/myo_" + name).c_str(),
        [name](benchmark::State& state) { bench_linearize(state, myo_scene(name)); });
  }
  return true;
}();

}  // namespace
}  // namespace diffmj
