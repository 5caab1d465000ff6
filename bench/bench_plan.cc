// Planners in units of mj_step: ratios are measured in one run, in turn, in seconds of this
// process, so that a noisy machine disturbs both.
#include <benchmark/benchmark.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>

#include "diffmj/plan.h"
#include "harness/models.h"
#include "harness/myo_models.h"
#include "mj/handle.h"

namespace diffmj {
namespace {

// Seconds of this process, all its threads: other processes do not count.
double seconds(std::clock_t since) {
  return static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC;
}

double median(Vector x) {
  std::nth_element(x.begin(), x.begin() + static_cast<ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

// A distance of two bodies, velocities and effort.
Cost cost_of(const Model& model) {
  const mjModel* m = model.mj();
  const char* last = mj_id2name(m, mjOBJ_BODY, model.nbody() - 1);
  std::vector<CostTerm> terms = {{.of = JointVelocity{}, .weight = 0.01}};
  if (model.nu() > 0) terms.push_back({.of = ControlEffort{}, .weight = 0.01});
  if (last && *last) {
    terms.push_back({.of = Distance{{.kind = Frame::Kind::kBody, .name = last}, {}}});
  }
  return {model, terms};
}

// A bare loop of mj_step over the same steps, on the same threads: each has its own data.
double bare_loops(const Scene& scene, const Vector& ctrl, int nsample, int nstep, int nthread,
                  std::vector<MjDataPtr>& data) {
  const mjModel* m = scene.model.mj();
  const auto nu = static_cast<size_t>(scene.model.nu());
  std::atomic<int> next{0};
  const auto work = [&](mjData* d) {
    while (next++ < nsample) {
      mj_resetData(m, d);
      std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
      std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
      std::copy(scene.x.act.begin(), scene.x.act.end(), d->act);
      for (int i = 0; i < nstep; i++) {
        std::copy_n(&ctrl[static_cast<size_t>(i) * nu], nu, d->ctrl);
        mj_step(m, d);
      }
    }
  };
  const auto start = std::clock();
  std::vector<std::thread> threads;
  for (int t = 0; t < nthread; t++) threads.emplace_back(work, data[static_cast<size_t>(t)].get());
  for (std::thread& t : threads) t.join();
  return seconds(start);
}

// counters: throughput = rollouts per second of the sampling planner, which are its samples and the
// nominal plan, over those of bare loops of mj_step with the nominal controls, the median of turns
void bench_sampling(benchmark::State& state, const Scene& scene, Noise noise) {
  const int nthread = static_cast<int>(std::thread::hardware_concurrency()), nstep = 100,
            nsample = 32;
  std::vector<MjDataPtr> data;
  for (int t = 0; t < nthread; t++) data.emplace_back(mj_makeData(scene.model.mj()));
  Vector ctrl;
  for (int i = 0; i < nstep; i++) ctrl.insert(ctrl.end(), scene.ctrl.begin(), scene.ctrl.end());
  // little noise: the samples move as the nominal plan does
  Planner planner(scene.model, cost_of(scene.model),
                  {.method = PlanMethod::kSampling,
                   .horizon = nstep,
                   .iterations = 1,
                   .samples = nsample,
                   .noise = noise,
                   .sigma = 1e-6});
  Vector ratios;
  for (auto _ : state) {
    const double bare = bare_loops(scene, ctrl, nsample, nstep, nthread, data);
    planner.reset();
    const auto start = std::clock();
    const Plan plan = planner.plan(scene.input());
    const double each = seconds(start) / static_cast<double>(plan.nrollout);
    ratios.push_back(bare / nsample / each);
    benchmark::DoNotOptimize(plan.cost);
  }
  state.counters["throughput"] = median(ratios);
}

// of one, the mean of several
double seconds_of_rollout(const Scene& scene, int nstep, int count) {
  const auto start = std::clock();
  for (int i = 0; i < count; i++) {
    const Trajectory t = rollout(scene.model, scene.input(), nstep);
    benchmark::DoNotOptimize(t.qpos.data());
  }
  return seconds(start) / count;
}

// counters: iteration = an iteration of the gradient planner over its rollout alone, on one thread
void bench_gradient_iteration(benchmark::State& state, const Scene& scene) {
  const int nstep = 100, iterations = 4;
  Planner planner(scene.model, cost_of(scene.model),
                  {.horizon = nstep, .iterations = iterations, .rate = 1e-9, .nthread = 1});
  Vector ratios;
  for (auto _ : state) {
    const double roll = seconds_of_rollout(scene, nstep, iterations + 1);
    planner.reset();
    const auto start = std::clock();
    const Plan plan = planner.plan(scene.input());
    // the last iterate is rolled out without a gradient
    ratios.push_back((seconds(start) - roll) / iterations / roll);
    benchmark::DoNotOptimize(plan.cost);
  }
  state.counters["iteration"] = median(ratios);
}

// counters: iteration = an iteration of iLQR over a rollout, on one thread; of it `searched` are
// rollouts of the line search
void bench_ilqr_iteration(benchmark::State& state, const Scene& scene) {
  const int nstep = 100, iterations = 3;
  Planner planner(
      scene.model, cost_of(scene.model),
      {.method = PlanMethod::kIlqr, .horizon = nstep, .iterations = iterations, .nthread = 1});
  Vector ratios;
  double searched = 0;
  for (auto _ : state) {
    const double roll = seconds_of_rollout(scene, nstep, iterations + 1);
    planner.reset();
    const auto start = std::clock();
    const Plan plan = planner.plan(scene.input());
    // the first is the rollout of the start
    const auto n = static_cast<double>(plan.history.size() - 1);
    if (n == 0) continue;
    ratios.push_back((seconds(start) - roll) / n / roll);
    searched = static_cast<double>(plan.nrollout - 1) / n;
  }
  if (ratios.empty()) return;
  state.counters["iteration"] = median(ratios);
  state.counters["searched"] = searched;
}

const bool kRegistered = [] {
  std::vector<Scene> scenes;
  for (const auto make : {bench_arm, humanoid_in_air, humanoid_on_floor, hand_with_object}) {
    scenes.push_back(make({}));
  }
  if (has_myo_models()) scenes.push_back(myo_scene("hand_balls"));
  for (const Scene& scene : scenes) {
    for (const Noise noise : {Noise::kWhite, Noise::kPink, Noise::kBrown}) {
      benchmark::RegisterBenchmark(
          ("plan/sampling/" + scene.name + "/" + noise_name(noise)).c_str(),
          [scene, noise](benchmark::State& state) { bench_sampling(state, scene, noise); })
          ->UseRealTime();
    }
    benchmark::RegisterBenchmark(
        ("plan/gradient/" + scene.name).c_str(),
        [scene](benchmark::State& state) { bench_gradient_iteration(state, scene); })
        ->UseRealTime();
    if (scene.model.nu() == 0) continue;
    benchmark::RegisterBenchmark(("plan/ilqr/" + scene.name).c_str(), [scene](
                                                                          benchmark::State& state) {
      bench_ilqr_iteration(state, scene);
    })->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace diffmj
