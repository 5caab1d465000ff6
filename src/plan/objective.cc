#include "plan/objective.h"

#include <algorithm>
#include <cmath>

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

void PlanObjective::evaluate(int n, const Fill& fill, bool gradient, std::vector<Value>& out,
                             const std::function<bool()>& interrupted) {
  out.resize(static_cast<size_t>(n));
  for (int begin = 0; begin < n; begin += kMost) {
    evaluate_chunk(begin, std::min(kMost, n - begin), fill, {}, gradient, out, interrupted);
  }
}

void PlanObjective::evaluate_laws(int n, const Fill& fill, const Law& law, std::vector<Value>& out,
                                  const std::function<bool()>& interrupted) {
  out.resize(static_cast<size_t>(n));
  evaluate_chunk(0, n, fill, law, false, out, interrupted);
}

void PlanObjective::swap(int i, Rolled& x) {
  const auto k = static_cast<size_t>(i);
  std::swap(z_[k], x.z);
  std::swap(trajectories_[k], x.trajectory);
  std::swap(poses_[k], x.poses);
}

void PlanObjective::evaluate_chunk(int begin, int n, const Fill& fill, const Law& law,
                                   bool gradient, std::vector<Value>& out,
                                   const std::function<bool()>& interrupted) {
  const auto count = static_cast<size_t>(n);
  if (z_.size() < count) {
    z_.resize(count);
    trajectories_.resize(count);
    inputs_.resize(count);
    poses_.resize(count);
    evaluations_.resize(count);
  }
  StopSignal never({});
  parallel_for(n, options_.nthread, never, [&](int i, StopSignal&) {
    const auto k = static_cast<size_t>(i);
    fill(begin + i, z_[k]);
    variables_.inputs(z_[k], inputs_[k]);
  });
  std::vector<RolloutInput> inputs;
  inputs.reserve(count);
  for (size_t k = 0; k < count; k++) {
    inputs.push_back({.qpos = qpos_,
                      .qvel = options_.velocity ? inputs_[k].qvel : qvel_,
                      .act = act_,
                      .ctrl = options_.controls ? inputs_[k].ctrl : ctrl_,
                      .qfrc_applied = options_.forces ? inputs_[k].qfrc_applied : qfrc_,
                      .xfrc_applied = xfrc_,
                      .mocap_pos = mocap_pos_,
                      .mocap_quat = mocap_quat_,
                      .time = time_});
  }
  const std::span<Trajectory> trajectories = std::span(trajectories_).first(count);
  BatchControlLaw follow;
  if (law) {
    follow = [&](int i, const LawInput& in, Vec ctrl) {
      std::vector<double>& z = z_[static_cast<size_t>(i)];
      law(i, in, z);
      variables_.spline().row(z, model_.nu(), in.step, ctrl);
    };
  }
  rollout_batch_into(model_, inputs, options_.horizon,
                     {.nthread = options_.nthread,
                      .interrupted = interrupted,
                      .sensors = cost_.sensors(),
                      .observables = cost_.observables(),
                      .poses = std::span(poses_).first(count),
                      .keep_stages = gradient || law},
                     trajectories, follow);
  cost_.evaluate(model_, trajectories, std::span(poses_).first(count), gradient,
                 std::span(evaluations_).first(count), options_.nthread);
  for (size_t k = 0; k < count; k++) {
    Value& value = out[static_cast<size_t>(begin) + k];
    value.cost = evaluations_[k].total;
    value.terms = evaluations_[k].terms;
    value.ok = trajectories[k].ok() && std::isfinite(value.cost);
    value.message =
        trajectories[k].ok() ? (value.ok ? "" : "the cost is not finite") : trajectories[k].message;
    if (law && value.ok && !controls_are_good(trajectories[k])) {
      value.ok = false;
      value.message = "the feedback diverged: a control is not finite or exceeds 1e10";
    }
  }
  if (gradient) pull_back(begin, trajectories, out, interrupted);
}

void PlanObjective::pull_back(int begin, std::span<Trajectory> trajectories,
                              std::vector<Value>& out, const std::function<bool()>& interrupted) {
  // those that are good, in front
  std::vector<size_t> good;
  std::vector<Cotangents> cotangents;
  for (size_t k = 0; k < trajectories.size(); k++) {
    if (!out[static_cast<size_t>(begin) + k].ok) continue;
    if (good.size() < k) trajectories[good.size()] = std::move(trajectories[k]);
    good.push_back(k);
    cotangents.push_back(evaluations_[k].bars.view());
  }
  const std::vector<Gradient> gradients =
      rollout_pullback_batch(model_, trajectories.first(good.size()), cotangents,
                             {.nthread = options_.nthread, .interrupted = interrupted});
  PlanInputs bars;
  std::vector<double> scratch;
  for (size_t i = 0; i < good.size(); i++) {
    const size_t k = good[i];
    Value& value = out[static_cast<size_t>(begin) + k];
    const auto sum = [](const std::vector<double>& a, const std::vector<double>& b,
                        std::vector<double>& to) {
      to = a;
      for (size_t j = 0; j < b.size(); j++) to[j] += b[j];
    };
    sum(gradients[i].ctrl, evaluations_[k].bars.ctrl, bars.ctrl);
    sum(gradients[i].qfrc_applied, evaluations_[k].bars.qfrc_applied, bars.qfrc_applied);
    bars.qvel = gradients[i].qvel;
    value.gradient.assign(variables_.size(), 0.0);
    variables_.pullback(z_[k], bars, value.gradient, scratch);
    value.ok =
        gradients[i].message.empty() && std::all_of(value.gradient.begin(), value.gradient.end(),
                                                    [](double x) { return std::isfinite(x); });
    if (!value.ok) {
      value.message =
          gradients[i].message.empty() ? "the gradient is not finite" : gradients[i].message;
    }
  }
}

}  // namespace diffmj
