// run_mpc(): what is executed is what was planned, at the time it was planned for.
#include "diffmj/mpc.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include "harness/models.h"

namespace diffmj {
namespace {

constexpr const char* kArm = R"(<mujoco><option timestep="0.005"/><worldbody>
  <body pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping="0.5"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4" mass="1"/>
    <body pos="0 0 -0.4"><joint name="elbow" axis="0 1 0" damping="0.3"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4" mass="0.5"/>
      <site name="tip" pos="0 0 -0.4"/></body></body>
  <site name="goal" pos="0.5 0 1"/></worldbody>
  <actuator><motor joint="shoulder" ctrllimited="true" ctrlrange="-12 12"/>
    <motor joint="elbow" ctrllimited="true" ctrlrange="-6 6"/></actuator></mujoco>)";

Cost reach(const Model& m) {
  return {m,
          {{.of = Distance{{.kind = Frame::Kind::kSite, .name = "tip"},
                           {.kind = Frame::Kind::kSite, .name = "goal"}}},
           {.of = JointVelocity{}, .weight = 1e-3}}};
}
PlanOptions options(int iterations = 6) {
  return {.horizon = 60, .knots = 12, .iterations = iterations, .rate = 0.1};
}

double distance_at_end(const Model& m, const MpcRun& run) {
  Trajectory t = rollout(m, {}, 0);
  t.qpos.assign(run.qpos.end() - m.nq(), run.qpos.end());
  const Vector p = poses(m, t, {"site_xpos"}).site_xpos;
  return std::hypot(p[0] - p[3], p[1] - p[4], p[2] - p[5]);
}

TEST(RunMpc, ReachesTheGoal) {
  const Model m = Model::from_xml(kArm);
  Planner planner(m, reach(m), options());
  int plans = 0;
  const MpcRun run = run_mpc(
      planner, m, {},
      {.nstep = 320, .execute = 16, .progress = [&](const MpcPlan&, const MpcRun&) { plans++; }});
  EXPECT_LT(distance_at_end(m, run), 0.03);
  EXPECT_EQ(run.nstep, 320);
  EXPECT_EQ(run.plans.size(), 20U);
  EXPECT_EQ(plans, 20);
  EXPECT_EQ(run.plans[3].step, 48);
  EXPECT_NEAR(run.plans[3].time, 48 * 0.005, 1e-12);
  EXPECT_LT(run.plans.back().executed_cost, 0.1 * run.plans[0].executed_cost);
  EXPECT_NEAR(run.simulated, 1.6, 1e-9);
  EXPECT_EQ(run.qpos.size(), 321U * 2U);
  EXPECT_EQ(run.ctrl.size(), 320U * 2U);
  // what was executed is what is recorded
  const Trajectory again =
      rollout(m, {.ctrl = Vector(run.ctrl.begin(), run.ctrl.begin() + 32)}, 16);
  for (size_t i = 0; i < again.qpos.size(); i++) EXPECT_EQ(again.qpos[i], run.qpos[i]);
}

TEST(RunMpc, ExecutesOnAnotherModelWithNoiseAndDisturbance) {
  const Model m = Model::from_xml(kArm);
  // half the timestep, more damping
  Vector damping(m.mj()->dof_damping, m.mj()->dof_damping + 2);
  for (double& x : damping) x *= 1.3;
  std::string fine = kArm;
  fine.replace(fine.find("0.005"), 5, "0.0025");
  const Model execution = Model::from_xml(fine).with_parameters({{"dof_damping", damping}});
  Vector push(static_cast<size_t>(640 * 6 * m.nbody()), 0.0);
  for (size_t i = 200; i < 240; i++) push[i * 18 + 12] = 5;  // the forearm, along x
  std::vector<MpcRun> runs;
  for (const int nthread : {1, 2}) {
    PlanOptions o = options();
    o.starts = 2;
    o.nthread = nthread;
    Planner planner(m, reach(m), o);
    runs.push_back(
        run_mpc(planner, execution, {},
                {.nstep = 640, .execute = 32, .ctrl_noise = 0.02, .seed = 3, .disturbance = push}));
  }
  EXPECT_LT(distance_at_end(execution, runs[0]), 0.06);
  EXPECT_NEAR(runs[0].simulated, 1.6, 1e-9);
  EXPECT_NEAR(runs[0].plans[1].time, 0.08, 1e-12);
  EXPECT_EQ(runs[0].qpos, runs[1].qpos);
}

TEST(RunMpc, InRealTimePlansFromWhereTheStateWillBe) {
  const Model m = Model::from_xml(kArm);
  Planner planner(m, reach(m), options(2));
  const MpcRun run = run_mpc(planner, m, {.ctrl = Vector{1, 0.5}},
                             {.nstep = 200, .execute = 4, .realtime = true, .latency = 0.05});
  EXPECT_EQ(run.nstep, 200);
  ASSERT_GE(run.plans.size(), 2U);
  EXPECT_NEAR(run.plans[0].time, 0.05, 1e-12);
  EXPECT_EQ(run.plans[0].expected, 0.05);
  // until a plan is ready, and its time has come, the given control is held
  double ready = 1;
  for (const MpcPlan& x : run.plans) {
    ready = std::min(ready, std::max(x.step * 0.005 + x.seconds, x.time));
  }
  EXPECT_GE(ready, 0.02);
  for (int i = 0; i < 200 && i * 0.005 < ready - 1e-9; i++) {
    EXPECT_EQ(run.ctrl[static_cast<size_t>(2 * i)], 1) << i;
  }
  EXPECT_NE(run.ctrl.back(), 0.5);
  for (size_t k = 0; k + 1 < run.plans.size(); k++) {
    const MpcPlan &a = run.plans[k], &b = run.plans[k + 1];
    // planning goes on as soon as the plan is ready, but not before `execute` steps are over
    const int busy = static_cast<int>(std::ceil(a.seconds / 0.005 - 1e-9));
    EXPECT_EQ(b.step, std::min(200, a.step + std::max(4, busy)));
    EXPECT_GE(b.time, b.step * 0.005 - 1e-9);
    EXPECT_EQ(a.late, a.step * 0.005 + a.seconds > a.time + 1e-9);
  }
}

// The prediction has a timestep of its own: that of the execution leads exactly to where the plan
// begins, that of the coarse planning model does not.
TEST(RunMpc, PredictsWithATimestepOfItsOwn) {
  const Model m = Model::from_xml(kArm);
  for (const std::optional<double> timestep :
       {std::optional<double>(), std::optional<double>(0.005)}) {
    SCOPED_TRACE(timestep.value_or(0));
    PlanOptions o = options(2);
    o.timestep = 0.02;
    o.horizon = 15;
    Planner planner(m, reach(m), o);
    const MpcRun run = run_mpc(planner, m, {.qpos = Vector{0.3, 0.2}, .ctrl = Vector{1, 0.5}},
                               {.nstep = 24,
                                .execute = 12,
                                .realtime = true,
                                .plan_seconds = 0.06,
                                .predict_timestep = timestep});
    ASSERT_EQ(run.plans.size(), 2U);
    EXPECT_NEAR(run.plans[0].time, 0.06, 1e-12);
    // the plan's cost is that of a plan from the state that was reached then
    const Vector qpos(&run.qpos[12 * 2], &run.qpos[13 * 2]),
        qvel(&run.qvel[12 * 2], &run.qvel[13 * 2]);
    Planner again(m, reach(m), o);
    const double cost =
        again.plan({.qpos = qpos, .qvel = qvel, .ctrl = Vector{1, 0.5}, .time = 0.06}).cost;
    if (timestep) {
      EXPECT_EQ(run.plans[0].cost, cost);
    } else {
      EXPECT_NE(run.plans[0].cost, cost);
    }
  }
  Planner planner(m, reach(m), options(2));
  EXPECT_THROW((void)run_mpc(planner, m, {}, {.nstep = 8, .predict_timestep = 0}), InputError);
}

TEST(RunMpc, KeepsWhatWasDoneWhenInterruptedAndGoesOn) {
  const Model m = Model::from_xml(kArm);
  Planner planner(m, reach(m), options());
  int plans = 0;
  const MpcRun first = run_mpc(planner, m, {},
                               {.nstep = 100000,
                                .interrupted = [&] { return plans >= 5; },
                                .progress = [&](const MpcPlan&, const MpcRun&) { plans++; }});
  EXPECT_TRUE(first.interrupted);
  EXPECT_GE(first.nstep, 5 * 16);
  EXPECT_EQ(first.time.size(), static_cast<size_t>(first.nstep + 1));
  const Vector qpos(first.qpos.end() - 2, first.qpos.end()),
      qvel(first.qvel.end() - 2, first.qvel.end());
  const MpcRun second =
      run_mpc(planner, m, {.qpos = qpos, .qvel = qvel, .time = first.time.back()},
              {.nstep = 320, .done = [](const MpcRun& run) { return run.nstep >= 160; }});
  EXPECT_TRUE(second.done);
  EXPECT_EQ(second.nstep, 160);
  EXPECT_EQ(second.time[0], first.time.back());
}

// Real time with a fixed planning time, noise, and a planner with a population.
MpcOptions reproducible(int nstep) {
  return {.nstep = nstep,
          .execute = 6,
          .realtime = true,
          .plan_seconds = 0.042,
          .ctrl_noise = 0.02,
          .seed = 5};
}
PlanOptions small_hybrid() {
  PlanOptions o = options(2);
  o.method = PlanMethod::kHybrid;
  o.samples = 6;
  o.refined = 2;
  o.seed = 4;
  return o;
}

TEST(RunMpc, AFixedPlanningTimeGivesTheSameBits) {
  const Model m = Model::from_xml(kArm);
  std::vector<MpcRun> runs;
  for (const int nthread : {1, 2, 5}) {
    PlanOptions o = small_hybrid();
    o.nthread = nthread;
    Planner planner(m, reach(m), o);
    runs.push_back(run_mpc(planner, m, {}, reproducible(200)));
  }
  EXPECT_EQ(runs[0].qpos, runs[1].qpos);
  EXPECT_EQ(runs[0].qpos, runs[2].qpos);
  // 42 ms are 9 steps of 5 ms: planning goes on when they are over, from where they lead
  EXPECT_EQ(runs[0].plans[1].step, 9);
  EXPECT_NEAR(runs[0].plans[1].time, 18 * 0.005, 1e-9);
  EXPECT_EQ(runs[0].plans[1].expected, 0.042);
  for (const MpcPlan& x : runs[0].plans) EXPECT_FALSE(x.late);
}

TEST(RunMpc, ExpectsTheFirstPlanToTakeLonger) {
  const Model m = Model::from_xml(kArm);
  PlanOptions o = options(2);
  o.first_effort = 5;
  Planner planner(m, reach(m), o);
  const MpcRun run =
      run_mpc(planner, m, {}, {.nstep = 60, .execute = 1, .realtime = true, .plan_seconds = 0.02});
  ASSERT_GE(run.plans.size(), 3u);
  EXPECT_NEAR(run.plans[0].expected, 0.1, 1e-12);
  EXPECT_NEAR(run.plans[0].time, 0.1, 1e-9);
  EXPECT_EQ(run.plans[1].step, 20);
  for (size_t i = 1; i < run.plans.size(); i++) {
    EXPECT_NEAR(run.plans[i].expected, 0.02, 1e-12);
    EXPECT_FALSE(run.plans[i].late);
  }
}

// The first plan is expected to take 0.2 s and takes 0.02 s: until it begins, later plans improve
// it and begin at the same state.
TEST(RunMpc, NoPlanBeginsBeforeTheOneBeforeIt) {
  const Model m = Model::from_xml(kArm);
  Planner planner(m, reach(m), options(2));
  const MpcRun run =
      run_mpc(planner, m, {},
              {.nstep = 80, .execute = 1, .realtime = true, .latency = 0.2, .plan_seconds = 0.02});
  ASSERT_GE(run.plans.size(), 15u);
  for (size_t i = 1; i < run.plans.size(); i++) {
    const MpcPlan &before = run.plans[i - 1], &plan = run.plans[i];
    EXPECT_EQ(plan.step, before.step + 4);
    EXPECT_NEAR(plan.expected, 0.02, 1e-12);
    EXPECT_NEAR(plan.time, std::max(0.2, plan.step * 0.005 + 0.02), 1e-9);
    if (plan.time == before.time) {
      EXPECT_LE(plan.cost, before.cost);
    }
    EXPECT_FALSE(plan.late);
  }
  EXPECT_LT(run.plans[8].cost, run.plans[0].cost);
}

TEST(RunMpc, ResumesWithTheBitsOfOneRun) {
  const Model m = Model::from_xml(kArm);
  Planner planner(m, reach(m), small_hybrid());
  const MpcRun whole = run_mpc(planner, m, {}, reproducible(200));
  // to a step within a plan, interrupted, and by Ctrl-C within a plan or after it
  for (const int polls : {0, 1, 2, 3, 4, 5, 6, 7}) {
    SCOPED_TRACE(polls);
    Planner first(m, reach(m), small_hybrid());
    MpcOptions o = reproducible(polls == 0 ? 103 : 200);
    int left = polls, plans = 0;
    if (polls > 0) {
      o.progress = [&](const MpcPlan&, const MpcRun&) { plans++; };
      o.interrupted = [&] { return plans > 3 && --left <= 0; };
    }
    const MpcRun part = run_mpc(first, m, {}, o);
    EXPECT_EQ(part.interrupted, polls > 0);
    const std::string path = ::testing::TempDir() + "run.checkpoint";
    save_run(path, part);
    const MpcRun read = load_run(path);
    // another process: nothing but the file
    Planner second(m, reach(m), small_hybrid());
    MpcOptions rest = reproducible(200);
    rest.resume = &read;
    const MpcRun run = run_mpc(second, m, {}, rest);
    EXPECT_EQ(run.nstep, 200);
    EXPECT_FALSE(run.interrupted);
    EXPECT_EQ(run.time, whole.time);
    EXPECT_EQ(run.qpos, whole.qpos);
    EXPECT_EQ(run.ctrl, whole.ctrl);
    ASSERT_EQ(run.plans.size(), whole.plans.size());
    for (size_t i = 0; i < run.plans.size(); i++) {
      EXPECT_EQ(run.plans[i].cost, whole.plans[i].cost) << i;
      EXPECT_EQ(run.plans[i].executed_cost, whole.plans[i].executed_cost) << i;
      ASSERT_EQ(run.plans[i].history.size(), whole.plans[i].history.size());
      EXPECT_EQ(run.plans[i].history.back().cost, whole.plans[i].history.back().cost);
    }
  }
}

TEST(RunMpc, ResumesNothingElse) {
  const Model m = Model::from_xml(kArm);
  Planner planner(m, reach(m), small_hybrid());
  const MpcRun run = run_mpc(planner, m, {}, reproducible(40));
  MpcOptions o = reproducible(80);
  o.resume = &run;
  PlanOptions other = small_hybrid();
  other.sigma = 0.1;
  Planner another(m, reach(m), other);
  EXPECT_THROW((void)run_mpc(another, m, {}, o), InputError);
  MpcRun cut = run;
  cut.qpos.pop_back();
  o.resume = &cut;
  EXPECT_THROW((void)run_mpc(planner, m, {}, o), InputError);

  const std::string path = ::testing::TempDir() + "wrong.checkpoint";
  save_run(path, run);
  std::string text;
  {
    std::ifstream file(path);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  for (const size_t end : {size_t{0}, size_t{5}, text.size() / 2}) {
    std::ofstream(path) << text.substr(0, end);
    EXPECT_THROW((void)load_run(path), InputError) << end;
  }
  EXPECT_THROW((void)load_run(path + ".none"), InputError);
  EXPECT_THROW(save_run("/no/such/folder/run.checkpoint", run), InputError);
}

TEST(RunMpc, EndsWhereTheExecutionDiverges) {
  const Model m = Model::from_xml(kArm);
  const Model wild =
      m.with_parameters({{"actuator_gear", Vector{1e14, 0, 0, 0, 0, 0, 1e14, 0, 0, 0, 0, 0}}});
  Planner planner(m, reach(m), options());
  const MpcRun run = run_mpc(planner, wild, {}, {.nstep = 320});
  EXPECT_LT(run.nstep, 320);
  EXPECT_NE(run.message.find("execution diverged"), std::string::npos) << run.message;
  EXPECT_EQ(run.time.size(), static_cast<size_t>(run.nstep + 1));
}

TEST(RunMpc, RefusesWhatCannotBeExecuted) {
  const Model m = Model::from_xml(kArm);
  Planner planner(m, reach(m), options());
  EXPECT_THROW((void)run_mpc(planner, zoo("humanoid").model, {}), InputError);
  EXPECT_THROW((void)run_mpc(planner, m, {}, {.execute = 0}), InputError);
  EXPECT_THROW((void)run_mpc(planner, m, {}, {.latency = -1}), InputError);
  EXPECT_THROW((void)run_mpc(planner, m, {}, {.plan_seconds = 0}), InputError);
  EXPECT_THROW((void)run_mpc(planner, m, {}, {.disturbance = Vector{1, 2}}), InputError);
  PlanOptions o = options();
  o.velocity = true;
  Planner thrower(m, reach(m), o);
  EXPECT_THROW((void)run_mpc(thrower, m, {}), InputError);
}

}  // namespace
}  // namespace diffmj
