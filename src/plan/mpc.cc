#include "diffmj/mpc.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "base/text.h"
#include "diffmj/error.h"
#include "diffmj/state.h"
#include "mj/view.h"
#include "plan/noise.h"
#include "plan/objective.h"
#include "record/input.h"
#include "record/trajectory.h"

namespace diffmj {
namespace {

using Clock = std::chrono::steady_clock;
size_t at(int i) { return static_cast<size_t>(i); }

// times that differ by rounding are the same
constexpr double kSame = 1e-9;  // [s]
// In real time a plan is expected to take as long as the longest of this many plans. With three,
// one plan in four is late.
constexpr size_t kRemembered = 10;

void require_run(const Planner& planner, const Model& execution, const RolloutInput& start,
                 const MpcOptions& o) {
  const Model& m = planner.model();
  const auto fail = [](const std::string& what) { throw InputError("run_mpc: " + what); };
  for (const auto& [name, a, b] : {std::tuple{"nq", m.nq(), execution.nq()},
                                   {"nv", m.nv(), execution.nv()},
                                   {"na", m.na(), execution.na()},
                                   {"nu", m.nu(), execution.nu()},
                                   {"nbody", m.nbody(), execution.nbody()}}) {
    if (a == b) continue;
    fail(std::string("the execution model has ") + name + " = " + std::to_string(b) +
         ", but the planner's model has " + std::to_string(a));
  }
  if (!planner.options().controls) {
    fail("the planner does not decide controls, so there is nothing to execute; decide controls");
  }
  if (planner.options().velocity || planner.options().forces) {
    fail(
        "the planner decides forces or the initial velocity, which cannot be executed; decide "
        "controls only");
  }
  if (o.nstep < 0) fail("nstep is " + std::to_string(o.nstep) + ", expected a number ≥ 0");
  if (o.execute < 1) fail("execute is " + std::to_string(o.execute) + ", expected a number ≥ 1");
  const auto require_number = [&](const char* name, double x, bool zero) {
    if (std::isfinite(x) && (x > 0 || (zero && x == 0))) return;
    fail(std::string(name) + " is " + number(x) + ", expected a finite number " +
         (zero ? "≥ 0" : "> 0"));
  };
  require_number("latency", o.latency.value_or(0), true);
  require_number("plan_seconds", o.plan_seconds.value_or(1), false);
  require_number("predict_timestep", o.predict_timestep.value_or(1), false);
  require_number("ctrl_noise", o.ctrl_noise, true);
  if (o.predict_timestep && m.is_adaptive()) {
    fail(std::string("predict_timestep is unavailable with integrator ") +
         integrator_name(m.integrator()) + "; leave it out");
  }
  if (!o.disturbance.empty() && o.disturbance.size() != at(o.nstep) * at(6 * execution.nbody())) {
    fail("disturbance has " + std::to_string(o.disturbance.size()) + " numbers, expected " +
         std::to_string(o.nstep) + " x " + std::to_string(6 * execution.nbody()) +
         " (nstep x 6 nbody)");
  }
  if (o.resume) {
    const MpcRun& run = *o.resume;
    const auto rows = at(run.nstep) + 1;
    if (run.time.size() != rows || run.qpos.size() != rows * at(execution.nq()) ||
        run.qvel.size() != rows * at(execution.nv()) ||
        run.act.size() != rows * at(execution.na()) ||
        run.ctrl.size() != at(run.nstep) * at(execution.nu()) || run.memory.nstep > run.nstep ||
        at(run.memory.nplan) > run.plans.size()) {
      fail("the run to resume belongs to another model");
    }
  }
  if (start.ctrl.size() != at(m.nu())) {
    require_input("run_mpc", m, start, planner.options().horizon);
  }
}

// Controls over time: plans, each from the moment it takes over.
class Schedule {
 public:
  Schedule(const Model& planning, CVec first) : nu_(planning.nu()), step_(planning.interval()) {
    MpcMemory::Controls entry{
        -std::numeric_limits<double>::infinity(), 0, {first.begin(), first.end()}};
    // one row, or none, is held
    if (entry.ctrl.empty()) entry.ctrl.assign(at(nu_), 0.0);
    entries_.push_back(std::move(entry));
  }
  // from: when it takes over; begin: what its first row is for
  void add(double from, double begin, std::vector<double> ctrl) {
    while (entries_.size() > 1 && entries_.back().from >= from) entries_.pop_back();
    entries_.push_back({from, begin, std::move(ctrl)});
    // only the last two are ever asked for
    if (entries_.size() > 3) entries_.erase(entries_.begin());
  }
  CVec at_time(double time) const {
    size_t k = entries_.size() - 1;
    while (k > 0 && entries_[k].from > time + kSame) k--;
    const MpcMemory::Controls& x = entries_[k];
    const int rows = static_cast<int>(x.ctrl.size()) / std::max(nu_, 1);
    const int row = static_cast<int>(std::floor((time - x.begin + kSame) / step_));
    return CVec(x.ctrl).subspan(at(std::clamp(row, 0, rows - 1)) * at(nu_), at(nu_));
  }
  std::vector<double> rows(double time, double step, int n) const {
    std::vector<double> out;
    out.reserve(at(n) * at(nu_));
    for (int i = 0; i < n; i++) {
      const CVec row = at_time(time + i * step);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }
  const std::vector<MpcMemory::Controls>& entries() const { return entries_; }
  void restore(std::vector<MpcMemory::Controls> entries) { entries_ = std::move(entries); }

 private:
  int nu_;
  double step_;
  std::vector<MpcMemory::Controls> entries_;
};

class Loop {
 public:
  Loop(Planner& planner, const Model& execution, const RolloutInput& start, const MpcOptions& o)
      : planner_(planner),
        execution_(execution),
        predicting_(with_timestep(planner.model(), o.predict_timestep)),
        start_(start),
        o_(o),
        schedule_(planner.model(), start.ctrl),
        stop_(o.interrupted),
        expected_(
            o.latency.value_or(planner.next_effort() *
                               o.plan_seconds.value_or(planner.options().seconds.value_or(0)))) {
    if (o.resume) {
      go_on(*o.resume);
      return;
    }
    const State x = default_state(execution);
    const auto begin = [](CVec given, CVec otherwise, std::vector<double>& to) {
      const CVec from = given.empty() ? otherwise : given;
      to.assign(from.begin(), from.end());
    };
    begin(start.qpos, x.qpos, run_.qpos);
    begin(start.qvel, x.qvel, run_.qvel);
    begin(start.act, x.act, run_.act);
    run_.time = {start.time};
  }

  MpcRun run() {
    try {
      while (run_.nstep < o_.nstep && run_.message.empty()) {
        remember();
        if (stop_.poll()) throw Interrupted("run_mpc: interrupted");
        const int next = plan();
        execute(next);
        if (o_.progress) o_.progress(run_.plans.back(), run_);
        if (o_.done && o_.done(run_)) {
          run_.done = true;
          break;
        }
        if (plan_interrupted_) throw Interrupted("run_mpc: interrupted");
      }
      if (run_.message.empty() && !cut_) remember();
    } catch (const Interrupted&) {
      run_.interrupted = true;
    } catch (const RolloutError& error) {
      run_.message = error.what();
    }
    run_.simulated = run_.time.back() - run_.time.front();
    return std::move(run_);
  }

 private:
  void remember() {
    run_.memory = {.nstep = run_.nstep,
                   .nplan = static_cast<int>(run_.plans.size()),
                   .planner = planner_.memory(),
                   .controls = schedule_.entries(),
                   .latencies = latencies_,
                   .expected = expected_};
  }
  // Begins where the run's memory is; what it has after that is done again.
  void go_on(const MpcRun& run) {
    run_ = run;
    run_.interrupted = run_.done = false;
    run_.message.clear();
    planner_.restore(run.memory.planner);
    // it was over, at a step that need not be the end of a plan
    if (run.nstep >= o_.nstep && !run.interrupted && run.message.empty()) return;
    const MpcMemory& memory = run.memory;
    const auto rows = [&](std::vector<double>& x, int extra, int width) {
      x.resize(at(memory.nstep + extra) * at(width));
    };
    run_.nstep = memory.nstep;
    rows(run_.time, 1, 1);
    rows(run_.qpos, 1, execution_.nq());
    rows(run_.qvel, 1, execution_.nv());
    rows(run_.act, 1, execution_.na());
    rows(run_.ctrl, 0, execution_.nu());
    run_.plans.resize(at(memory.nplan));
    run_.seconds = 0;
    for (const MpcPlan& x : run_.plans) run_.seconds += x.seconds;
    if (!memory.controls.empty()) schedule_.restore(memory.controls);
    latencies_ = memory.latencies;
    expected_ = memory.expected;
  }

  double now() const { return run_.time.back(); }
  RolloutInput state(const RolloutInput& like) const {
    RolloutInput in = like;
    const auto last = [](const std::vector<double>& x, int i, int width) {
      return CVec(x).subspan(at(i) * at(width), at(width));
    };
    in.qpos = last(run_.qpos, run_.nstep, execution_.nq());
    in.qvel = last(run_.qvel, run_.nstep, execution_.nv());
    in.act = last(run_.act, run_.nstep, execution_.na());
    in.ctrl = {};
    in.time = now();
    return in;
  }

  // Makes a plan and puts it into the schedule; the step at which the next is due.
  int plan() {
    const auto clock = Clock::now();
    const Model& m = predicting_;
    MpcPlan record{.step = run_.nstep, .expected = o_.realtime ? expected_ : 0};
    RolloutInput from = state(start_);
    // the state at which the plan will be ready. If the plan before was ready early and has not
    // begun, this one begins at the same state and continues its search.
    double wait = o_.realtime ? expected_ : 0;
    if (o_.realtime && !run_.plans.empty()) wait = std::max(wait, run_.plans.back().time - now());
    const int ahead = static_cast<int>(std::ceil(wait / m.interval() - kSame));
    Trajectory predicted;
    if (ahead > 0) {
      const std::vector<double> ctrl = schedule_.rows(now(), m.interval(), ahead);
      from.ctrl = ctrl;
      predicted = rollout(m, from, ahead, {.interrupted = o_.interrupted});
      if (predicted.outcome == Outcome::kInterrupted) throw Interrupted(predicted.message);
      if (!predicted.ok()) {
        throw RolloutError("run_mpc: the prediction diverged: " + predicted.message);
      }
      from.qpos = row(predicted.qpos, ahead, m.nq());
      from.qvel = row(predicted.qvel, ahead, m.nv());
      from.act = row(predicted.act, ahead, m.na());
      from.time = predicted.time.back();
    }
    record.time = from.time;
    if (!run_.plans.empty()) planner_.shift(record.time - run_.plans.back().time);
    from.ctrl = run_.plans.empty() ? start_.ctrl : CVec();
    const double effort = planner_.next_effort();
    Plan plan = planner_.plan(from, {.interrupted = o_.interrupted});
    plan_interrupted_ = plan.interrupted;
    record.seconds = std::chrono::duration<double>(Clock::now() - clock).count();
    record.cost = plan.cost;
    record.executed_cost = std::numeric_limits<double>::quiet_NaN();
    record.history = std::move(plan.history);
    record.nrollout = plan.nrollout;
    record.ndiverged = plan.ndiverged;
    record.cfd = plan.cfd;
    record.message = plan.message;
    run_.seconds += record.seconds;

    double ready = now();
    if (o_.realtime) {
      const double took = o_.plan_seconds ? effort * *o_.plan_seconds : record.seconds;
      ready += took;
      record.late = ready > record.time + kSame;
      // the first plan, which may be the longest, says what a usual one takes
      latencies_.push_back(took / effort);
      if (latencies_.size() > kRemembered) latencies_.erase(latencies_.begin());
      expected_ = *std::max_element(latencies_.begin(), latencies_.end());
    }
    schedule_.add(std::max(ready, record.time), record.time, std::move(plan.ctrl));
    const double step = execution_.interval();
    const int busy = static_cast<int>(std::ceil((ready - now()) / step - kSame));
    run_.plans.push_back(std::move(record));
    const int next = run_.nstep + std::max(o_.execute, busy);
    cut_ = next > o_.nstep;
    return std::min(o_.nstep, next);
  }

  void execute(int next) {
    const int n = next - run_.nstep, nbody6 = 6 * execution_.nbody();
    std::vector<double> ctrl = schedule_.rows(now(), execution_.interval(), n);
    if (o_.ctrl_noise > 0) add_noise(ctrl);
    RolloutInput in = state(start_);
    in.ctrl = ctrl;
    if (!o_.disturbance.empty()) {
      in.xfrc_applied = o_.disturbance.subspan(at(run_.nstep) * at(nbody6), at(n) * at(nbody6));
    }
    const Cost& cost = planner_.cost();
    Trajectory t =
        rollout(execution_, in, n,
                {.interrupted = o_.interrupted, .sensors = cost.sensors(), .keep_stages = false});
    const auto append = [&](const std::vector<double>& from, int width, std::vector<double>& to) {
      to.insert(to.end(), from.begin() + width, from.end());
    };
    append(t.time, 1, run_.time);
    append(t.qpos, t.nq, run_.qpos);
    append(t.qvel, t.nv, run_.qvel);
    append(t.act, t.na, run_.act);
    run_.ctrl.insert(run_.ctrl.end(), ctrl.begin(),
                     ctrl.begin() + static_cast<ptrdiff_t>(t.nstep) * t.nu);
    run_.nstep += t.nstep;
    if (t.outcome == Outcome::kInterrupted) throw Interrupted(t.message);
    if (!t.ok()) {
      run_.message = "run_mpc: the execution diverged: " + t.message;
      return;
    }
    run_.plans.back().executed_cost = cost.evaluate(execution_, t).total;
  }

  void add_noise(std::vector<double>& ctrl) const {
    const mjModel* m = execution_.mj();
    for (size_t i = 0; i < ctrl.size(); i++) {
      const size_t j = i % at(execution_.nu());
      const double* range = m->actuator_ctrlrange + 2 * j;
      const bool limited = m->actuator_ctrllimited[j];
      RandomNormal random({o_.seed, static_cast<std::uint64_t>(run_.nstep), i});
      ctrl[i] += o_.ctrl_noise * (limited ? 0.5 * (range[1] - range[0]) : 1) * random.next();
      if (limited) ctrl[i] = std::clamp(ctrl[i], range[0], range[1]);
    }
  }

  Planner& planner_;
  const Model& execution_;
  Model predicting_;
  const RolloutInput& start_;
  const MpcOptions& o_;
  Schedule schedule_;
  StopSignal stop_;
  double expected_;  // [s] of the next plan
  std::vector<double> latencies_;
  bool plan_interrupted_ = false;
  bool cut_ = false;  // the last plan ended with the run, not with its own steps
  MpcRun run_;
};

}  // namespace

MpcRun run_mpc(Planner& planner, const Model& execution, const RolloutInput& start,
               const MpcOptions& options) {
  require_run(planner, execution, start, options);
  return Loop(planner, execution, start, options).run();
}

}  // namespace diffmj
