// Cost: the sum of its terms over trajectories, with cotangents.
#include "diffmj/cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "diffmj/error.h"
#include "diffmj/sensors.h"
#include "plan/bound.h"
#include "setup/model_impl.h"
#include "stages/sensors/sensors.h"

namespace diffmj {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// what kind of term it is, in the order of CostQuantity
constexpr const char* kKinds[] = {"Distance",      "Orientation",   "JointPosition",
                                  "JointVelocity", "FrameVelocity", "ControlEffort",
                                  "ControlRate",   "ForceEffort",   "SensorValue"};

std::string frame_text(const Frame& frame) {
  return frame.kind == Frame::Kind::kFixed ? "point" : frame.name;
}
std::string default_name(const CostQuantity& of) {
  const std::string kind = kKinds[of.index()];
  if (const auto* x = std::get_if<Distance>(&of)) {
    return kind + "(" + frame_text(x->from) + ", " + frame_text(x->to) + ")";
  }
  if (const auto* x = std::get_if<Orientation>(&of)) {
    return kind + "(" + frame_text(x->from) + ", " + frame_text(x->to) + ")";
  }
  if (const auto* x = std::get_if<FrameVelocity>(&of)) return kind + "(" + x->frame.name + ")";
  if (const auto* x = std::get_if<SensorValue>(&of)) return kind + "(" + x->sensor + ")";
  return kind;
}

}  // namespace

Cost::Cost(const Model& model, std::vector<CostTerm> terms, std::vector<OwnCost> own,
           bool gradient) {
  auto bound = std::make_shared<Bound>();
  if (terms.empty() && own.empty())
    throw InputError("Cost: the list of terms is empty; give at least one");
  for (size_t i = 0; i < terms.size(); i++) {
    CostTerm& term = terms[i];
    if (term.name.empty()) term.name = default_name(term.of);
    const std::string who = "Cost: term " + std::to_string(i) + ", " + term.name;
    for (const auto& [name, x] : {std::pair{"weight", term.weight}, {"terminal", term.terminal}}) {
      if (std::isfinite(x) && x >= 0) continue;
      throw InputError(who + ": " + name + " is " + std::to_string(x) +
                       ", expected a finite number ≥ 0");
    }
    if (term.norm != Norm::kSquared && !(std::isfinite(term.scale) && term.scale > 0)) {
      throw InputError(who + ": scale is " + std::to_string(term.scale) +
                       ", expected a finite number > 0");
    }
    Bound::Term x{term, make_residual(who, model, term.of)};
    if (x.residual->of_steps() && term.terminal != 0) {
      throw InputError(who + ": terminal is " + std::to_string(term.terminal) +
                       ", but the last state has no control; use weight");
    }
    for (const Observable* o : x.residual->observables()) bound->need(*o);
    for (const auto bar : x.residual->bars()) {
      if (std::find(bound->bars.begin(), bound->bars.end(), bar) == bound->bars.end()) {
        bound->bars.push_back(bar);
      }
    }
    bound->sensors = bound->sensors || x.residual->sensors();
    if (const auto* of = std::get_if<SensorValue>(&term.of); of && gradient) {
      const std::string why = sensor_obstacle(model.impl(), sensor_range(model, of->sensor).id);
      if (!why.empty()) {
        throw UnsupportedError(who + ": sensor '" + of->sensor + "' has no derivative: " + why +
                               "; use another, or plan by sampling");
      }
    }
    bound->largest = std::max(bound->largest, x.residual->size());
    bound->terms.push_back(std::move(x));
  }
  for (const OwnCost& x : own) {
    if (!x.function) throw InputError("Cost: own cost '" + x.name + "' has no function");
    for (const std::string& name : x.observables) bound->need(observable(name));
    bound->sensors = bound->sensors || x.sensors;
  }
  bound->own = std::move(own);
  bound_ = std::move(bound);
}

int Cost::nterm() const { return static_cast<int>(bound_->terms.size() + bound_->own.size()); }
bool Cost::has_own() const { return !bound_->own.empty(); }
const std::vector<std::string>& Cost::observables() const { return bound_->names; }
bool Cost::sensors() const { return bound_->sensors; }

std::vector<std::string> Cost::names() const {
  std::vector<std::string> out;
  for (const Bound::Term& x : bound_->terms) out.push_back(x.term.name);
  for (const OwnCost& x : bound_->own) out.push_back(x.name);
  return out;
}

Cotangents CostBars::view() const {
  Cotangents out{.qpos = qpos,
                 .qpos_tangent = qpos_tangent,
                 .qvel = qvel,
                 .act = act,
                 .sensordata = sensordata};
  for (const Observable& x : diffmj::observables()) out.*x.cotangent = poses.*x.values;
  return out;
}

void Cost::Bound::require_poses(const Poses& poses, const Model& model, int nstep) const {
  for (const Observable* x : observables) {
    if ((poses.*x->values).size() != at(nstep + 1) * at(x->size(model))) {
      throw InputError(
          std::string("Cost: ") + x->name +
          " was not recorded at every state; request Cost::observables() in the rollout");
    }
  }
}

// zeros in the cotangents that terms add to; own costs may add to all of states and controls
void Cost::Bound::prepare(const Model& model, const Trajectory& t, Evaluation& out) const {
  const auto zero = [&](std::vector<double>& x, int rows, int width) {
    x.assign(at(rows) * at(width), 0.0);
  };
  const auto used = [&](std::vector<double> CostBars::*bar) {
    return !own.empty() || std::find(bars.begin(), bars.end(), bar) != bars.end();
  };
  const int n = t.nstep + 1;
  CostBars& b = out.bars;
  if (!own.empty()) zero(b.qpos, n, t.nq);
  if (used(&CostBars::qpos_tangent)) zero(b.qpos_tangent, n, t.nv);
  if (used(&CostBars::qvel)) zero(b.qvel, n, t.nv);
  if (used(&CostBars::act)) zero(b.act, n, t.na);
  if (sensors) zero(b.sensordata, n, model.nsensordata());
  if (used(&CostBars::ctrl)) zero(b.ctrl, t.nstep, t.nu);
  if (used(&CostBars::qfrc_applied)) zero(b.qfrc_applied, t.nstep, t.nv);
  for (const Observable* x : observables) zero(b.poses.*x->values, n, x->size(model));
}

void Cost::Bound::evaluate(const Model& model, const Trajectory& t, const Poses& poses,
                           bool gradient, Evaluation& out) const {
  require_poses(poses, model, t.nstep);
  if (gradient) prepare(model, t, out);
  out.r.resize(at(largest));
  out.r_bar.resize(at(largest));
  for (size_t k = 0; k < terms.size(); k++) {
    const CostTerm& term = terms[k].term;
    const Residual& residual = *terms[k].residual;
    const Vec r = Vec(out.r).first(at(residual.size())),
              r_bar = Vec(out.r_bar).first(at(residual.size()));
    const int end = residual.of_steps() ? t.nstep : t.nstep + 1;
    double sum = 0;
    for (int i = term.weight > 0 ? residual.first() : std::max(residual.first(), end - 1); i < end;
         i++) {
      double factor = t.nstep > 0 ? term.weight / t.nstep : 0;
      if (i == end - 1) factor += term.terminal;
      if (factor == 0) continue;
      residual.value(model, t, poses, i, r);
      if (!gradient) {
        sum += factor * norm_value(term.norm, term.scale, r);
        continue;
      }
      sum += factor * norm_pullback(term.norm, term.scale, r, r_bar);
      for (double& x : r_bar) x *= factor;
      residual.pullback(model, t, poses, i, r, r_bar, out.bars);
    }
    out.terms[k] = sum;
  }
}

void Cost::evaluate(const Model& model, std::span<const Trajectory> trajectories,
                    std::span<const Poses> poses, bool gradient, std::span<Evaluation> out,
                    std::optional<int> nthread) const {
  const Poses none;
  if (out.size() != trajectories.size() ||
      (!observables().empty() && poses.size() != trajectories.size())) {
    throw InputError("Cost: got " + std::to_string(trajectories.size()) + " trajectories, " +
                     std::to_string(poses.size()) + " poses and " + std::to_string(out.size()) +
                     " evaluations, expected the same number of each");
  }
  const auto poses_of = [&](size_t i) -> const Poses& {
    return observables().empty() ? none : poses[i];
  };
  const auto evaluate_one = [&](size_t i) {
    out[i].terms.assign(at(nterm()),
                        trajectories[i].ok() ? 0.0 : std::numeric_limits<double>::quiet_NaN());
    if (!trajectories[i].ok()) return;
    if (bound_->sensors && model.nsensordata() > 0 && trajectories[i].sensordata.empty()) {
      throw InputError(
          "Cost: a term reads sensors, which the rollout did not record; set "
          "RolloutOptions::sensors");
    }
    bound_->evaluate(model, trajectories[i], poses_of(i), gradient, out[i]);
  };
  StopSignal never({});
  parallel_for(static_cast<int>(out.size()), nthread, never,
               [&](int i, StopSignal&) { evaluate_one(at(i)); });

  for (size_t k = 0; k < bound_->own.size(); k++) {
    std::vector<const Trajectory*> good;
    std::vector<const Poses*> good_poses;
    std::vector<double*> values;
    std::vector<CostBars*> bars;
    for (size_t i = 0; i < out.size(); i++) {
      if (!trajectories[i].ok()) continue;
      good.push_back(&trajectories[i]);
      good_poses.push_back(&poses_of(i));
      values.push_back(&out[i].terms[bound_->terms.size() + k]);
      if (gradient) bars.push_back(&out[i].bars);
    }
    if (!good.empty()) {
      bound_->own[k].function({.model = model,
                               .trajectories = good,
                               .poses = good_poses,
                               .values = values,
                               .bars = bars});
    }
  }
  for (Evaluation& x : out) {
    x.total = 0;
    for (const double term : x.terms) x.total += term;
  }
}

Cost::Evaluation Cost::evaluate(const Model& model, const Trajectory& trajectory,
                                bool gradient) const {
  Evaluation out;
  const Poses p = poses(model, trajectory, observables());
  const std::span<const Trajectory> one(&trajectory, 1);
  const std::span<const Poses> one_poses(&p, 1);
  if (sensors() && trajectory.sensordata.empty() && trajectory.ok()) {
    Trajectory sensed = trajectory;
    sensed.sensordata = sensordata(model, trajectory);
    evaluate(model, std::span<const Trajectory>(&sensed, 1), one_poses, gradient,
             std::span<Evaluation>(&out, 1), 1);
  } else {
    evaluate(model, one, one_poses, gradient, std::span<Evaluation>(&out, 1), 1);
  }
  return out;
}

}  // namespace diffmj
