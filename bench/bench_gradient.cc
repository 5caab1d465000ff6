// Forward and backward of a rollout in units of mj_step: the ratio is measured in one run, pass by
// pass in turn, so that a noisy machine disturbs both.
#include <benchmark/benchmark.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>

#include "harness/models.h"
#include "harness/myo_models.h"
#include "record/tape.h"

namespace diffmj {
namespace {

constexpr int kSteps = 20;

double seconds(const std::chrono::steady_clock::time_point& since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

struct Options {
  std::vector<std::string> params = {};
  int nstep = kSteps;
  bool differences = false;  // mjd_transitionFD at the same states, for comparison
};

// A, B of every step by mjd_transitionFD, forward differences: what a gradient takes without us.
// Seconds of one step, measured at every stride-th state.
double transition_fd(const Scene& scene, const Trajectory& t, int stride, mjData* d) {
  const mjModel* m = scene.model.mj();
  const auto n = static_cast<size_t>(scene.model.ntangent());
  Vector A(n * n), B(n * static_cast<size_t>(m->nu));
  double total = 0;
  int count = 0;
  for (int i = 0; i < t.nstep; i += stride, count++) {
    const auto at = [i](const Vector& x, int width) {
      return x.data() + static_cast<ptrdiff_t>(i) * width;
    };
    std::copy_n(at(t.qpos, t.nq), t.nq, d->qpos);
    std::copy_n(at(t.qvel, t.nv), t.nv, d->qvel);
    std::copy_n(at(t.act, t.na), t.na, d->act);
    std::copy_n(at(t.tape->qacc_warmstart, t.nv), t.nv, d->qacc_warmstart);
    const auto start = std::chrono::steady_clock::now();
    mjd_transitionFD(m, d, 1e-6, 0, A.data(), B.data(), nullptr, nullptr);
    total += seconds(start);
  }
  return total / count;
}

// counters: forward = rollout()/loop of mj_step, backward = rollout_pullback()/loop of mj_step,
// total their sum; contacts = mean number of them in a step; fd = mjd_transitionFD/mj_step
void bench_gradient(benchmark::State& state, const Scene& scene, const Options& options = {}) {
  const mjModel* m = scene.model.mj();
  mjData* d = mj_makeData(m);
  const int nstep = options.nstep;
  const Vector bar(static_cast<size_t>(nstep + 1) * static_cast<size_t>(scene.model.nv()), 1.0);
  double loop = 0, forward = 0, backward = 0, contacts = 0, differences = 0;
  for (auto _ : state) {
    auto start = std::chrono::steady_clock::now();
    mj_resetData(m, d);
    std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
    std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
    std::copy(scene.x.act.begin(), scene.x.act.end(), d->act);
    std::copy(scene.ctrl.begin(), scene.ctrl.end(), d->ctrl);
    for (int i = 0; i < nstep; i++) mj_step(m, d);
    loop += seconds(start);

    start = std::chrono::steady_clock::now();
    const Trajectory t = rollout(scene.model, scene.input(), nstep);
    forward += seconds(start);

    start = std::chrono::steady_clock::now();
    const Gradient g =
        rollout_pullback(scene.model, t, {.qpos_tangent = bar, .params = options.params});
    benchmark::DoNotOptimize(g.qvel.data());
    backward += seconds(start);
    for (const StepRecord& step : t.steps) contacts += step.ncon;
    if (options.differences) differences += transition_fd(scene, t, nstep / 4, d);
  }
  mj_deleteData(d);
  state.counters["nv"] = scene.model.nv();
  state.counters["contacts"] = contacts / nstep / static_cast<double>(state.iterations());
  state.counters["forward"] = forward / loop;
  state.counters["backward"] = backward / loop;
  state.counters["total"] = (forward + backward) / loop;
  if (options.differences) state.counters["fd"] = differences * nstep / loop;
  state.counters["step_us"] = 1e6 * loop / nstep / static_cast<double>(state.iterations());
}

// Forward and backward with a loss on an IMU and on every hinge's sensors, in units of those of a
// loss on the states, in turn, the best of each in seconds of this process. counters: ratio
void bench_sensors(benchmark::State& state, const Scene& scene) {
  const int nstep = 100;
  const auto rows = static_cast<size_t>(nstep + 1);
  const auto width = static_cast<size_t>(scene.model.nsensordata());
  const Vector qvel_bar(rows * static_cast<size_t>(scene.model.nv()), 1.0);
  Vector sensor_bar(rows * width, 1.0);
  for (const char* touch : {"left", "right"}) {
    const auto adr = static_cast<size_t>(sensor_range(scene.model, touch).adr);
    for (size_t row = 0; row < rows; row++) sensor_bar[row * width + adr] = 0;
  }
  double without = std::numeric_limits<double>::infinity(), with = without;
  for (auto _ : state) {
    const auto best = [&](bool sensors, double& least) {
      const std::clock_t start = std::clock();
      const Trajectory t = rollout(scene.model, scene.input(), nstep, {.sensors = sensors});
      const Gradient g = rollout_pullback(
          scene.model, t,
          sensors ? Cotangents{.sensordata = sensor_bar} : Cotangents{.qvel = qvel_bar});
      least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
      benchmark::DoNotOptimize(g.qvel.data());
    };
    best(false, without);
    best(true, with);
  }
  state.counters["nsensordata"] = scene.model.nsensordata();
  state.counters["plain_us"] = 1e6 * without / nstep;
  state.counters["sensors_us"] = 1e6 * with / nstep;
  state.counters["ratio"] = with / without;
}

// A backward pass with contacts from distance in units of one without, in turn, the best of each in
// seconds of this process. counters: share of states at which max_contacts bit; ratio
void bench_cfd(benchmark::State& state, const std::string& name, const Cfd& cfd, int nstep) {
  const Scene plain = myo_scene(name), far = myo_scene(name, {.cfd = cfd});
  const Vector bar(static_cast<size_t>(nstep + 1) * static_cast<size_t>(plain.model.nv()), 1.0);
  const Trajectory t = rollout(plain.model, plain.input(), nstep),
                   t_cfd = rollout(far.model, far.input(), nstep);
  double without = std::numeric_limits<double>::infinity(), with = without, capped = 0;
  for (auto _ : state) {
    const auto best = [&](const Scene& scene, const Trajectory& trajectory, double& least) {
      const std::clock_t start = std::clock();
      const Gradient g = rollout_pullback(scene.model, trajectory, {.qpos_tangent = bar});
      least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
      capped = static_cast<double>(g.cfd.capped);
    };
    best(plain, t, without);
    best(far, t_cfd, with);
  }
  state.counters["width"] = cfd.law->width;
  state.counters["capped"] = capped / nstep;
  state.counters["plain_us"] = 1e6 * without / nstep;
  state.counters["cfd_us"] = 1e6 * with / nstep;
  state.counters["ratio"] = with / without;
}

const bool kRegistered = [] {
  for (const char* name : {"spin_free", "contact_plane", "contact_plane_ell", "act_muscle",
                           "tendon_wrap", "rk4_mixed", "hand", "humanoid"}) {
    benchmark::RegisterBenchmark(
        (std::string("gradient/") + name).c_str(),
        [name](benchmark::State& state) { bench_gradient(state, zoo(name)); });
  }
  // where no constraint acts, and where contacts do
  for (const auto make :
       {bench_arm, humanoid_in_air, tree_50, humanoid_on_floor, box_stack, hand_with_object}) {
    const Scene scene = make({});
    benchmark::RegisterBenchmark(
        ("gradient/" + scene.name).c_str(),
        [scene](benchmark::State& state) { bench_gradient(state, scene); });
  }
  // with a no-slip pass
  for (const auto make : {humanoid_on_floor, box_stack, hand_with_object}) {
    const Scene scene = with_noslip(make({}), 5);
    benchmark::RegisterBenchmark(
        ("gradient/" + scene.name).c_str(),
        [scene](benchmark::State& state) { bench_gradient(state, scene); });
  }
  // with gradients in what contacts are made of
  benchmark::RegisterBenchmark(
      "gradient/humanoid_on_floor_contact_parameters", [](benchmark::State& state) {
        bench_gradient(state, humanoid_on_floor(),
                       {.params = {"geom_friction", "geom_solref", "geom_solimp", "geom_margin"}});
      });
  benchmark::RegisterBenchmark("sensors/humanoid", [](benchmark::State& state) {
    bench_sensors(state, humanoid_with_sensors());
  });
  if (!has_myo_models()) return true;
  for (const std::string& name : myo_names()) {
    benchmark::RegisterBenchmark(("gradient/myo_" + name).c_str(), [name](benchmark::State& state) {
      bench_gradient(state, myo_scene(name), {.nstep = 256, .differences = true});
    });
  }
  // the law of the paper's hand, and a narrower one
  for (const double width : {1.0, 0.1}) {
    const Cfd cfd{.law = CfdLaw{.width = width, .d_0 = 0.1, .power = 4}};
    benchmark::RegisterBenchmark(
        ("cfd/myo_hand_balls/" + std::to_string(width).substr(0, 3)).c_str(),
        [cfd](benchmark::State& state) { bench_cfd(state, "hand_balls", cfd, 256); });
  }
  return true;
}();

}  // namespace
}  // namespace diffmj
