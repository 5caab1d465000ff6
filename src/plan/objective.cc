#include "plan/objective.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "base/parallel.h"
#include "base/require.h"
#include "diffmj/error.h"
#include "diffmj/gradient.h"
#include "record/input.h"
#include "record/rollout_into.h"

namespace diffmj {
namespace {

// MuJoCo takes others for 0
bool controls_are_good(const Trajectory& t) {
  return std::all_of(t.ctrl.begin(), t.ctrl.end(),
                     [](double u) { return std::isfinite(u) && std::abs(u) <= kMaxMagnitude; });
}

}  // namespace

Model with_timestep(const Model& model, std::optional<double> timestep) {
  if (!timestep || *timestep == model.timestep()) return model;
  mjModel numbers = *model.mj();  // of the pointers
  numbers.opt.timestep = *timestep;
  return model.with_numbers(&numbers);
}

PlanObjective::PlanObjective(const Model& model, Cost cost, const PlanOptions& options)
    : model_(model), cost_(std::move(cost)), options_(options), variables_(model, options) {}

void PlanObjective::set_start(const RolloutInput& start) {
  require_input("plan", model_, start, options_.horizon);
  const auto keep = [](CVec from, std::vector<double>& to) { to.assign(from.begin(), from.end()); };
  keep(start.qpos, qpos_);
  keep(start.qvel, qvel_);
  keep(start.act, act_);
  keep(start.ctrl, ctrl_);
  keep(start.qfrc_applied, qfrc_);
  keep(start.xfrc_applied, xfrc_);
  keep(start.mocap_pos, mocap_pos_);
  keep(start.mocap_quat, mocap_quat_);
  time_ = start.time;
}

RolloutInput PlanObjective::start() const {
  return {.qpos = qpos_,
          .qvel = qvel_,
          .act = act_,
          .ctrl = ctrl_,
          .qfrc_applied = qfrc_,
          .xfrc_applied = xfrc_,
          .mocap_pos = mocap_pos_,
          .mocap_quat = mocap_quat_,
          .time = time_};
}

void PlanObjective::evaluate(int n, const Fill& fill, bool gradient, std::vector<Value>& out,
                             const std::function<bool()>& interrupted) {
  out.resize(static_cast<size_t>(n));
  if (options_.evaluate) {
    evaluate_elsewhere(fill, gradient, out);
  } else {
    evaluate_here(n, fill, gradient, out, interrupted);
  }
}

void PlanObjective::evaluate_here(int n, const Fill& fill, bool gradient, std::span<Value> out,
                                  const std::function<bool()>& interrupted) {
  if (!gradient && !cost_.has_own()) {
    evaluate_values(n, fill, out, interrupted);
    return;
  }
  for (int begin = 0; begin < n; begin += kMost) {
    evaluate_chunk(begin, std::min(kMost, n - begin), fill, {}, gradient, gradient, out,
                   interrupted);
  }
}

void PlanObjective::evaluate_kept(int n, const Fill& fill, std::vector<Value>& out,
                                  const std::function<bool()>& interrupted) {
  out.resize(static_cast<size_t>(n));
  evaluate_chunk(0, n, fill, {}, false, true, out, interrupted);
}

void PlanObjective::differentiate_kept(std::span<const int> which, std::vector<Value>& out,
                                       const std::function<bool()>& interrupted) {
  each(
      which.size(),
      [&](size_t i) {
        const auto k = static_cast<size_t>(which[i]);
        cost_.evaluate(model_, {&trajectories_[k], 1}, {&poses_[k], 1}, true, {&evaluations_[k], 1},
                       1);
        pull_back(k, out[k], interrupted);
      },
      interrupted);
}

void PlanObjective::each(size_t n, const std::function<void(size_t)>& fn,
                         const std::function<bool()>& interrupted) const {
  StopSignal stop(interrupted);
  parallel_for(static_cast<int>(n), options_.nthread, stop,
               [&](int i, StopSignal&) { fn(static_cast<size_t>(i)); });
  if (stop.stopped()) throw Interrupted("plan: interrupted");
}

void PlanObjective::evaluate_elsewhere(const Fill& fill, bool gradient,
                                       std::span<Value> out) const {
  std::vector<std::vector<double>> z(out.size());
  for (size_t i = 0; i < z.size(); i++) fill(static_cast<int>(i), z[i]);
  options_.evaluate(start(), z, gradient, out);
  for (const Value& x : out) {
    if (!x.ok) continue;
    const auto size = [&](const char* name, size_t got, size_t expected) {
      require_size("PlanOptions::evaluate", name, got, expected, expected,
                   std::to_string(expected));
    };
    size("terms", x.terms.size(), static_cast<size_t>(cost_.nterm()));
    if (gradient) size("gradient", x.gradient.size(), variables_.size());
  }
}

void PlanObjective::evaluate_laws(int n, const Fill& fill, const Law& law, std::vector<Value>& out,
                                  const std::function<bool()>& interrupted) {
  out.resize(static_cast<size_t>(n));
  evaluate_chunk(0, n, fill, law, false, true, out, interrupted);
}

void PlanObjective::swap(int i, Rolled& x) {
  const auto k = static_cast<size_t>(i);
  std::swap(z_[k], x.z);
  std::swap(trajectories_[k], x.trajectory);
  std::swap(poses_[k], x.poses);
}

void PlanObjective::require_places(size_t n) {
  if (z_.size() >= n) return;
  z_.resize(n);
  trajectories_.resize(n);
  inputs_.resize(n);
  poses_.resize(n);
  evaluations_.resize(n);
}

// Of a rollout nothing but its value is kept: a thread makes the next one in the memory of the
// last, which its cache still holds.
void PlanObjective::evaluate_values(int n, const Fill& fill, std::span<Value> out,
                                    const std::function<bool()>& interrupted) {
  const auto count = static_cast<size_t>(thread_count(n, options_.nthread));
  require_places(count);
  std::mutex mutex;
  std::vector<size_t> free(count);
  std::iota(free.begin(), free.end(), size_t{0});
  const auto take = [&] {
    const std::lock_guard lock(mutex);
    const size_t k = free.back();
    free.pop_back();
    return k;
  };
  each(
      static_cast<size_t>(n),
      [&](size_t i) {
        const size_t k = take();
        fill(static_cast<int>(i), z_[k]);
        roll_out(k, {}, false, interrupted);
        cost_.evaluate(model_, {&trajectories_[k], 1}, {&poses_[k], 1}, false,
                       {&evaluations_[k], 1}, 1);
        finish(k, {}, false, out[i], interrupted);
        const std::lock_guard lock(mutex);
        free.push_back(k);
      },
      interrupted);
}

void PlanObjective::evaluate_chunk(int begin, int n, const Fill& fill, const Law& law,
                                   bool gradient, bool keep, std::span<Value> out,
                                   const std::function<bool()>& interrupted) {
  const auto count = static_cast<size_t>(n);
  require_places(count);
  const auto value_of = [&](size_t k) -> Value& { return out[static_cast<size_t>(begin) + k]; };
  // from decision variables to values in one go, and no thread waits for another; but own costs
  // take all trajectories at once
  const bool own = cost_.has_own();
  each(
      count,
      [&](size_t k) {
        fill(begin + static_cast<int>(k), z_[k]);
        roll_out(k, law, keep, interrupted);
        if (own) return;
        cost_.evaluate(model_, {&trajectories_[k], 1}, {&poses_[k], 1}, gradient,
                       {&evaluations_[k], 1}, 1);
        finish(k, law, gradient, value_of(k), interrupted);
      },
      interrupted);
  if (!own) return;
  cost_.evaluate(model_, std::span(trajectories_).first(count), std::span(poses_).first(count),
                 gradient, std::span(evaluations_).first(count), options_.nthread);
  each(
      count, [&](size_t k) { finish(k, law, gradient, value_of(k), interrupted); }, interrupted);
}

void PlanObjective::roll_out(size_t k, const Law& law, bool keep,
                             const std::function<bool()>& interrupted) {
  PlanInputs& of_plan = inputs_[k];
  variables_.inputs(z_[k], of_plan);
  RolloutInput input = start();
  if (options_.velocity) input.qvel = of_plan.qvel;
  if (options_.controls) input.ctrl = of_plan.ctrl;
  if (options_.forces) input.qfrc_applied = of_plan.qfrc_applied;
  BatchControlLaw follow;
  if (law) {
    follow = [&, k](int, const LawInput& in, Vec ctrl) {
      law(static_cast<int>(k), in, z_[k]);
      variables_.spline().row(z_[k], model_.nu(), in.step, ctrl);
    };
  }
  rollout_batch_into(model_, {&input, 1}, options_.horizon,
                     {.nthread = 1,
                      .interrupted = interrupted,
                      .sensors = cost_.sensors(),
                      .observables = cost_.observables(),
                      .poses = {&poses_[k], 1},
                      .keep_stages = keep},
                     {&trajectories_[k], 1}, follow);
}

void PlanObjective::finish(size_t k, const Law& law, bool gradient, Value& value,
                           const std::function<bool()>& interrupted) {
  const Trajectory& t = trajectories_[k];
  value.cost = evaluations_[k].total;
  value.cfd = {};
  value.terms = evaluations_[k].terms;
  value.ok = t.ok() && std::isfinite(value.cost);
  value.message = t.ok() ? (value.ok ? "" : "the cost is not finite") : t.message;
  if (law && value.ok && !controls_are_good(t)) {
    value.ok = false;
    value.message = "the feedback diverged: a control is not finite or exceeds 1e10";
  }
  if (gradient && value.ok) pull_back(k, value, interrupted);
}

void PlanObjective::pull_back(size_t k, Value& value, const std::function<bool()>& interrupted) {
  const CostBars& cost_bars = evaluations_[k].bars;
  const Cotangents cotangents = cost_bars.view();
  const Gradient gradient =
      std::move(rollout_pullback_batch(model_, {&trajectories_[k], 1}, {&cotangents, 1},
                                       {.nthread = 1, .interrupted = interrupted})[0]);
  const auto sum = [](const std::vector<double>& a, const std::vector<double>& b,
                      std::vector<double>& to) {
    to = a;
    for (size_t j = 0; j < b.size(); j++) to[j] += b[j];
  };
  PlanInputs bars;
  std::vector<double> scratch;
  sum(gradient.ctrl, cost_bars.ctrl, bars.ctrl);
  sum(gradient.qfrc_applied, cost_bars.qfrc_applied, bars.qfrc_applied);
  bars.qvel = gradient.qvel;
  value.cfd = gradient.cfd;
  value.gradient.assign(variables_.size(), 0.0);
  variables_.pullback(z_[k], bars, value.gradient, scratch);
  value.ok = gradient.message.empty() && std::all_of(value.gradient.begin(), value.gradient.end(),
                                                     [](double x) { return std::isfinite(x); });
  if (!value.ok) {
    value.message = gradient.message.empty() ? "the gradient is not finite" : gradient.message;
  }
}

}  // namespace diffmj
