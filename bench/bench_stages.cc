// Stages of the smooth dynamics in units of mj_step of the same model, measured in turn in one run:
// MuJoCo's own functions forward, our pullback backward.
#include <benchmark/benchmark.h>
#include <mujoco/mujoco.h>

#include <chrono>
#include <functional>

#include "harness/stage_fixture.h"
#include "integrate/metric.h"
#include "integrate/step.h"
#include "record/input.h"
#include "record/trajectory.h"
#include "stages/acceleration/actuation.h"
#include "stages/acceleration/inverse_dynamics.h"
#include "stages/analytic.h"
#include "stages/position/transmission.h"
#include "stages/velocity/passive.h"

namespace diffmj {
namespace {

constexpr int kRepeat = 10;  // calls between two looks at the clock

// A scene after the stages of a step that no constraint acts on, and where its cotangents go.
struct Problem {
  explicit Problem(const Scene& from)
      : scene(from),
        impl(from.model.impl()),
        m(impl.mj()),
        trajectory(rollout(from.model, from.input(), 1)),
        in(step_input(trajectory, 0)),
        w(impl),
        d(w.data.get()),
        s(w.sweep),
        lambda(wave(static_cast<size_t>(impl.nv), 0.4)),
        mu(lambda.size()),
        qpos_bar(lambda.size()),
        qvel_bar(lambda.size()),
        act_bar(static_cast<size_t>(impl.na)),
        ctrl_bar(static_cast<size_t>(impl.nu)),
        length_bar(wave(static_cast<size_t>(m->nout), 0.4)) {
    bar.resize(impl, 1, false);
    bar.next.setOnes();
    evaluate_smooth(impl, in, w);
    body_accelerations(m, d, in.qvel, trajectory.qacc, effective_gravity(m), s);
    s.clear();
  }

  Scene scene;
  const ModelImpl& impl;
  const mjModel* m;
  Trajectory trajectory;
  StepInput in;
  Workspace w;
  mjData* d;
  Sweep& s;
  Vector lambda, mu, qpos_bar, qvel_bar, act_bar, ctrl_bar, length_bar;
  StepBar bar;
};

struct BenchStage {
  const char* name;
  void (*forward)(Problem&);
  void (*pullback)(Problem&);
};

constexpr BenchStage kStages[] = {
    {"kinematics",
     [](Problem& p) {
       mj_kinematics(p.m, p.d);
       mj_comPos(p.m, p.d);
     },
     [](Problem& p) {
       p.s.clear();
       p.s.use(p.m, p.d, p.lambda, p.s.L);
       kinematics_pullback(p.m, p.d, p.s, p.qpos_bar, p.qvel_bar, {});
     }},
    {"inverse_dynamics",
     [](Problem& p) {
       mj_comVel(p.m, p.d);
       mj_rne(p.m, p.d, 1, p.mu.data());
       mj_makeM(p.m, p.d);
     },
     [](Problem& p) {
       body_accelerations(p.m, p.d, p.in.qvel, p.trajectory.qacc, effective_gravity(p.m), p.s);
       p.s.clear();
       p.s.use(p.m, p.d, p.lambda, p.s.L);
       inverse_dynamics_pullback(p.m, p.d, -1, p.s, {});
     }},
    {"passive", [](Problem& p) { mj_passive(p.m, p.d); },
     [](Problem& p) {
       spring_pullback(p.m, p.d, p.lambda, p.qpos_bar, {});
       damper_pullback(p.m, p.lambda, p.in.qvel, 0, {}, {}, p.qvel_bar, {});
       gravcomp_pullback(p.m, p.d, p.s.L, p.s, {});
       fluid_pullback(p.m, p.d, p.s.L, p.s);
     }},
    {"transmission", [](Problem& p) { mj_transmission(p.m, p.d); },
     [](Problem& p) {
       for (int i = 0; i < static_cast<int>(p.m->nactuator); i++) {
         const auto begin = static_cast<size_t>(p.m->actuator_outadr[i]),
                    size = static_cast<size_t>(p.m->actuator_outnum[i]);
         transmission_pullback(p.m, p.d, i, CVec(p.length_bar).subspan(begin, size),
                               p.w.actuation_y, p.qpos_bar, p.s, {});
       }
     }},
    {"actuation", [](Problem& p) { mj_fwdActuation(p.m, p.d); },
     [](Problem& p) {
       const ActuationIn in{.in = &p.in,
                            .lambda = p.lambda,
                            .act_dot_bar = {},
                            .act_next_bar = {},
                            .act_from = {},
                            .act_dot_from = {},
                            .h = 0,
                            .mu = {},
                            .b = {}};
       actuation_pullback(
           p.impl, in,
           {.qpos = p.qpos_bar, .qvel = p.qvel_bar, .act = p.act_bar, .ctrl = p.ctrl_bar}, p.s, {},
           p.w);
     }},
    {"metric",
     [](Problem& p) {
       write_input(p.m, p.d, p.in);
       p.impl.advance == Advance::kImplicit ? mj_implicit(p.m, p.d) : mj_Euler(p.m, p.d);
       write_input(p.m, p.d, p.in);
     },
     [](Problem& p) {
       metric_factorize(p.impl, p.w);
       metric_solve_transposed(p.impl, p.lambda, p.mu, p.w);
     }},
    // all of them, with the stages of MuJoCo that they read
    {"step",
     [](Problem& p) {
       write_input(p.m, p.d, p.in);
       mj_step(p.m, p.d);
     },
     [](Problem& p) {
       p.bar.x.setZero();
       step_pullback(p.impl, p.in, p.trajectory.qacc, p.bar, p.w);
     }},
};

// counters: forward and pullback in units of mj_step
void bench_stage(benchmark::State& state, const Scene& scene, const BenchStage& stage) {
  Problem p(scene);
  mjData* d = mj_makeData(p.m);
  double step = 0, forward = 0, pullback = 0;
  const auto timed = [&](auto&& fn, double& sum) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRepeat; i++) fn();
    sum += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (auto _ : state) {
    timed(
        [&] {
          write_input(p.m, d, p.in);
          mj_step(p.m, d);
        },
        step);
    timed([&] { stage.forward(p); }, forward);
    // what the forward pass of this stage overwrote
    evaluate_smooth(p.impl, p.in, p.w);
    body_accelerations(p.m, p.d, p.in.qvel, p.trajectory.qacc, effective_gravity(p.m), p.s);
    p.s.clear();
    p.s.use(p.m, p.d, p.lambda, p.s.L);
    timed([&] { stage.pullback(p); }, pullback);
    benchmark::DoNotOptimize(p.qpos_bar.data());
  }
  mj_deleteData(d);
  state.counters["nv"] = scene.model.nv();
  state.counters["forward"] = forward / step;
  state.counters["pullback"] = pullback / step;
  state.counters["step_us"] = 1e6 * step / kRepeat / static_cast<double>(state.iterations());
}

const bool kRegistered = [] {
  for (const BenchStage& stage : kStages) {
    for (const auto make : {bench_arm, humanoid_in_air, tree_50}) {
      const Scene scene = make({});
      benchmark::RegisterBenchmark(
          (std::string(stage.name) + "/" + scene.name).c_str(),
          [stage, scene](benchmark::State& state) { bench_stage(state, scene, stage); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace diffmj
