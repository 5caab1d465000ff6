// Stages in units of mj_step of the same model, measured in turn in one run: MuJoCo's own functions
// forward, our pullback backward. Those of the smooth dynamics where no constraint acts, those of
// constraints where contacts do.
#include <benchmark/benchmark.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <span>
#include <string_view>

#include "harness/myo_models.h"
#include "harness/stage_fixture.h"
#include "integrate/metric.h"
#include "integrate/step.h"
#include "record/input.h"
#include "record/trajectory.h"
#include "setup/model_impl.h"
#include "stages/acceleration/actuation.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/inverse_dynamics.h"
#include "stages/analytic.h"
#include "stages/evaluate_stages.h"
#include "stages/position/collision.h"
#include "stages/position/constraint_rows.h"
#include "stages/position/transmission.h"
#include "stages/vector_field.h"
#include "stages/velocity/passive.h"

namespace diffmj {
namespace {

constexpr int kRepeat = 10;  // calls between two looks at the clock

// A scene after the stages of a step, and where its cotangents go.
struct Problem {
  explicit Problem(const Scene& from)
      : scene(from),
        impl(from.model.impl()),
        m(impl.mj()),
        trajectory(rollout(from.model, from.input(), 1)),
        in(step_input(trajectory, 0)),
        w(impl, impl.nplace()),
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
    prepare();
    for (int i = 0; i < d->ncon; i++) {
      contact_bar.push_back({.dist = 1, .pos = Vector3::Ones(), .frame = Eigen::Matrix3d::Ones()});
    }
  }

  // what pullbacks read
  void prepare() {
    vector_field_evaluate(impl, in, trajectory.qacc, in.nefc != 0, w);
    body_accelerations(m, d, in.qvel, trajectory.qacc, effective_gravity(m), s);
    s.clear();
    s.use(m, d, lambda, s.L);
    if (in.nefc == 0) return;
    s.use(m, d, trajectory.qacc, s.Q);
    constraint_force_pullback(m, d, lambda, {}, {}, w);
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
  std::vector<ContactBar> contact_bar;  // ncon
};

struct BenchStage {
  const char* name;
  void (*forward)(Problem&);
  void (*pullback)(Problem&);
};

constexpr BenchStage kStep = {  // all of them, with the stages of MuJoCo that they read
    "step",
    [](Problem& p) {
      write_input(p.m, p.d, p.in);
      mj_step(p.m, p.d);
    },
    [](Problem& p) {
      p.bar.x.setZero();
      step_pullback(p.impl, p.in, p.trajectory.qacc, p.bar, p.w);
    }};

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
                               p.w.actuation.y, p.qpos_bar, p.s, {});
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
    kStep,
};

constexpr BenchStage kConstraintStages[] = {
    {"collision", [](Problem& p) { mj_collision(p.m, p.d); },
     [](Problem& p) {
       for (int first = 0, n = 0; first < p.d->ncon; first += n) {
         const auto same = [&](int k) {
           return p.d->contact[k].geom[0] == p.d->contact[first].geom[0] &&
                  p.d->contact[k].geom[1] == p.d->contact[first].geom[1];
         };
         for (n = 1; first + n < p.d->ncon && same(first + n);) n++;
         collision_pullback(p.impl, first, n, &p.contact_bar[static_cast<size_t>(first)], {}, p.w);
       }
     }},
    // the pullback has that of collision in it
    {"constraint_rows", [](Problem& p) { mj_makeConstraint(p.m, p.d); },
     [](Problem& p) {
       constraint_force_pullback(p.m, p.d, p.lambda, {}, {}, p.w);
       constraint_rows_pullback(p.impl, p.qpos_bar, p.qvel_bar, {}, p.w);
     }},
    {"newton_factorize", [](Problem& p) { mj_fwdConstraint(p.m, p.d); },
     [](Problem& p) {
       newton_factorize(p.m, p.d, p.trajectory.qacc, p.w);
       newton_solve(p.w, p.lambda, p.mu);
     }},
    // what of the forward pass the pullback computes again, beside its own
    {"evaluate_stages", [](Problem& p) { mj_forward(p.m, p.d); },
     [](Problem& p) { evaluate_stages(p.impl, p.in, p.w); }},
    kStep,
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
    p.prepare();
    timed([&] { stage.pullback(p); }, pullback);
    benchmark::DoNotOptimize(p.qpos_bar.data());
  }
  mj_deleteData(d);
  state.counters["nv"] = scene.model.nv();
  state.counters["contacts"] = p.trajectory.steps[0].ncon;
  state.counters["forward"] = forward / step;
  state.counters["pullback"] = pullback / step;
  state.counters["step_us"] = 1e6 * step / kRepeat / static_cast<double>(state.iterations());
}

using Make = Scene (*)(const ModelOptions&);

void register_stages(std::span<const BenchStage> stages, std::initializer_list<Make> makers) {
  for (const BenchStage& stage : stages) {
    for (const Make make : makers) {
      const Scene scene = make({});
      benchmark::RegisterBenchmark(
          (std::string(stage.name) + "/" + scene.name).c_str(),
          [stage, scene](benchmark::State& state) { bench_stage(state, scene, stage); });
    }
  }
}

const bool kRegistered = [] {
  register_stages(kStages, {bench_arm, humanoid_in_air, tree_50});
  register_stages(kConstraintStages, {humanoid_on_floor, box_stack, hand_with_object});
  // 39 muscles
  const auto* actuation =
      std::ranges::find(kStages, std::string_view("actuation"), &BenchStage::name);
  if (has_myo_models()) {
    register_stages({actuation, 1},
                    {[](const ModelOptions& options) { return myo_scene("hand_balls", options); }});
  }
  return true;
}();

}  // namespace
}  // namespace diffmj
