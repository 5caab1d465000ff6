// Rollouts by explicit Runge-Kutta methods and their gradients: time in units of the evaluations of
// MuJoCo's forward dynamics that the rollout makes, timed in the same run; and memory with
// checkpoints, as the number of steps grows.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <mujoco/mujoco.h>

#include <chrono>
#include <fstream>
#include <string>

#include "harness/models.h"

namespace diffmj {
namespace {

double seconds(const std::chrono::steady_clock::time_point& since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

Gradient gradient(const Model& model, const Trajectory& t) {
  const Vector bar(static_cast<size_t>(t.nstep + 1) * static_cast<size_t>(model.nv()), 1.0);
  return rollout_pullback(model, t, {.qpos_tangent = bar});
}

// counters: forward = rollout()/its evaluations by mj_forward, backward = rollout_pullback()/the
// same, per_step = evaluations for each accepted step, rejected ones included
void bench_adjoint(benchmark::State& state, const Scene& scene, int nstep) {
  const mjModel* m = scene.model.mj();
  mjData* d = mj_makeData(m);
  double evaluation = 0, forward = 0, backward = 0, accepted = 0, evaluations = 0;
  for (auto _ : state) {
    auto start = std::chrono::steady_clock::now();
    const Trajectory t = rollout(scene.model, scene.input(), nstep);
    forward += seconds(start);
    start = std::chrono::steady_clock::now();
    const Gradient g = gradient(scene.model, t);
    benchmark::DoNotOptimize(g.qvel.data());
    backward += seconds(start);

    // mj_forward at the rows of the trajectory, as often as the rollout called it
    const long repeat = std::max(1L, t.integrator.nevaluation / (t.nstep + 1));
    double at_rows = 0;
    for (int i = 0; i <= t.nstep; i++) {
      std::copy_n(t.qpos.data() + static_cast<ptrdiff_t>(i) * t.nq, t.nq, d->qpos);
      std::copy_n(t.qvel.data() + static_cast<ptrdiff_t>(i) * t.nv, t.nv, d->qvel);
      std::copy_n(t.act.data() + static_cast<ptrdiff_t>(i) * t.na, t.na, d->act);
      std::copy(scene.ctrl.begin(), scene.ctrl.end(), d->ctrl);
      mj_forward(m, d);
      std::copy_n(d->qacc, m->nv, d->qacc_warmstart);
      start = std::chrono::steady_clock::now();
      for (long k = 0; k < repeat; k++) mj_forward(m, d);
      at_rows += seconds(start);
    }
    evaluation += at_rows / static_cast<double>(repeat * (t.nstep + 1)) *
                  static_cast<double>(t.integrator.nevaluation);
    accepted += static_cast<double>(t.integrator.naccepted);
    evaluations += static_cast<double>(t.integrator.nevaluation);
  }
  mj_deleteData(d);
  state.counters["nv"] = scene.model.nv();
  state.counters["steps"] = accepted / static_cast<double>(state.iterations());
  state.counters["per_step"] = evaluations / accepted;
  state.counters["forward"] = forward / evaluation;
  state.counters["backward"] = backward / evaluation;
  state.counters["total"] = (forward + backward) / evaluation;
}

// What it costs to watch for events where there are none. counters: watching = rollout() with
// events / without; alternating, the fastest of each
void bench_events(benchmark::State& state, Scene (*make)(const ModelOptions&)) {
  ModelOptions o{.integrator = Integrator::kTsit5};
  const Scene with = make(o);
  o.adaptive.events = false;
  const Scene without = make(o);
  double fastest[2] = {1e9, 1e9};
  size_t nevent = 0;
  for (auto _ : state) {
    for (const int side : {0, 1}) {
      const Scene& scene = side == 0 ? with : without;
      const auto start = std::chrono::steady_clock::now();
      const Trajectory t = rollout(scene.model, scene.input(), 20);
      fastest[side] = std::min(fastest[side], seconds(start));
      nevent += t.integrator.events.size();
    }
  }
  state.counters["watching"] = fastest[0] / fastest[1];
  state.counters["events"] = static_cast<double>(nevent);
}

// [kB] of /proc/self/status, 0 where there is none
double memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stod(line.substr(key.size() + 1));
  }
  return 0;
}

// Peak memory of a rollout and its gradient above what the process had before. counters: kept_MB
// with every step kept, checkpoints_MB with 64 states, recomputed = steps made again for each step,
// times = run time of the gradient with checkpoints over that without
void bench_memory(benchmark::State& state) {
  const int nstep = static_cast<int>(state.range(0));
  double peak[2] = {0, 0}, time[2] = {0, 0}, recomputed = 0;
  for (auto _ : state) {
    for (const int side : {0, 1}) {
      ModelOptions o{.integrator = Integrator::kBosh3};
      o.adaptive.step = 1e-4;
      o.adaptive.interval = 1e-4 * nstep;
      if (side == 1) o.adaptive.checkpoints = 64;
      const Scene scene = bench_arm(o);
      { const Trajectory warm = rollout(scene.model, scene.input(), 0); }
      malloc_trim(0);
      std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts from here
      const double before = memory("VmRSS");
      const auto start = std::chrono::steady_clock::now();
      const Trajectory t = rollout(scene.model, scene.input(), 1);
      const Gradient g = gradient(scene.model, t);
      time[side] += seconds(start);
      peak[side] = std::max(peak[side], (memory("VmHWM") - before) / 1024);
      recomputed = static_cast<double>(g.nrecomputed) / nstep;
    }
  }
  state.counters["kept_MB"] = peak[0];
  state.counters["checkpoints_MB"] = peak[1];
  state.counters["recomputed"] = recomputed;
  state.counters["times"] = time[1] / time[0];
}

void register_scene(Scene (*make)(const ModelOptions&), Adjoint adjoint) {
  ModelOptions o{.integrator = Integrator::kTsit5};
  o.adaptive.adjoint = adjoint;
  const Scene scene = make(o);
  benchmark::RegisterBenchmark(
      ("adaptive/" + scene.name + "/" + adjoint_name(adjoint)).c_str(),
      [scene](benchmark::State& state) { bench_adjoint(state, scene, 20); });
}

const bool kRegistered = [] {
  for (const auto make : {bench_arm, humanoid_in_air, humanoid_on_floor, hand_with_object}) {
    register_scene(make, Adjoint::kDiscrete);
  }
  for (const auto make : {bench_arm, humanoid_in_air}) {
    register_scene(make, Adjoint::kInterpolated);
    register_scene(make, Adjoint::kBacksolve);
  }
  for (const auto make : {bench_arm, humanoid_in_air}) {
    benchmark::RegisterBenchmark(("events/" + make({}).name).c_str(), bench_events, make);
  }
  benchmark::RegisterBenchmark("checkpoints", bench_memory)
      ->Arg(1000)
      ->Arg(10000)
      ->Arg(100000)
      ->Iterations(1)
      ->ArgName("steps");
  return true;
}();

}  // namespace
}  // namespace diffmj
