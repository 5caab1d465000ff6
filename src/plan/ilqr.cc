#include "plan/ilqr.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/require.h"
#include "diffmj/error.h"
#include "diffmj/sensors.h"
#include "linearize/jacobians.h"
#include "plan/bound.h"
#include "record/trajectory.h"
#include "setup/model_impl.h"
#include "stages/sensors/sensors.h"

namespace diffmj {
namespace {

// Lengths of the step that are rolled out: those of a batch at once, the next only if none of the
// batch before lowered the cost.
constexpr int kBatch = 4;
constexpr std::array<double, 8> kAlphas = {1, 0.5, 0.25, 0.1, 0.03, 0.01, 3e-3, 1e-3};
// Of the expected decrease, the share that a step must bring.
constexpr double kAccept = 1e-4;
// A decrease below this share of the cost is rounding.
constexpr double kRounding = 1e-12;
// Regularization: where it begins to count, its largest, and how it grows and falls, faster and
// faster ([Tassa12], with a factor of 2 that takes more refused steps).
constexpr double kLeast = 1e-8, kMost = 1e8, kFactor = 4;
// From this length on, the step was good, and regularization falls; below the other it was not.
constexpr double kGood = 0.5, kPoor = 0.25;

void require(bool good, const std::string& what) {
  if (!good) throw InputError("Planner: method ilqr " + what);
}

}  // namespace

bool Ilqr::is_available(const PlanObjective& objective, const PlanOptions& o) {
  return o.controls && !o.forces && !o.velocity && objective.model().nu() > 0 &&
         (!o.knots || o.interpolation != Interpolation::kCubic) &&
         o.starts < PlanObjective::kMost && !objective.model().is_adaptive() &&
         objective.cost().bound().own.empty();
}

Ilqr::Ilqr(PlanObjective& objective, const PlanOptions& o)
    : objective_(objective),
      options_(o),
      per_step_(objective.variables().spline().knots() == o.horizon),
      riccati_(objective.model(), objective.variables(), has_change(objective.cost()),
               objective.cost().sensors()) {
  const Model& model = objective.model();
  require(!o.forces && !o.velocity, std::string("decides controls only, not ") +
                                        (o.forces ? "forces" : "velocity") +
                                        "; leave that out, or use method gradient");
  require(o.controls && model.nu() > 0,
          "decides controls, but the model has none; add actuators, or use method gradient "
          "with forces or velocity");
  require(!o.knots || o.interpolation != Interpolation::kCubic,
          "does not support cubic splines, because their controls are clipped between knots; use "
          "interpolation linear or zero");
  require(o.starts < PlanObjective::kMost,
          "supports at most " + std::to_string(PlanObjective::kMost - 1) +
              " starts, but starts is " + std::to_string(o.starts) + "; use fewer");
  require(!model.is_adaptive() || model.options().adaptive.control == Control::kHold,
          "needs controls that are held between rows, but AdaptiveOptions::control is linear; use "
          "hold, or method gradient");
  require(
      !model.is_adaptive() || model.options().adaptive.adjoint != Adjoint::kBacksolve,
      "needs the steps of rollouts, which adjoint backsolve does not keep; use adjoint discrete "
      "or interpolated");
  if (const auto& own = objective.cost().bound().own; !own.empty()) {
    throw UnsupportedError("Planner: method ilqr needs residuals, but own cost '" + own[0].name +
                           "' has none; use terms instead, or method gradient or hybrid");
  }
  for (const Cost::Bound::Term& x : objective.cost().bound().terms) {
    const auto* of = std::get_if<SensorValue>(&x.term.of);
    if (!of) continue;
    const std::string why = sensor_obstacle(model.impl(), sensor_range(model, of->sensor).id);
    if (why.empty()) continue;
    throw UnsupportedError("Planner: sensor '" + of->sensor + "' has no derivative: " + why +
                           "; use another, or method sampling");
  }
  const auto n = static_cast<double>(model.ntangent()), nu = static_cast<double>(model.nu());
  require_memory("Planner", 8.0 * o.horizon * (n * (2 * n + 3 * nu) + nu * nu));
  dx_.resize(kBatch, std::vector<double>(static_cast<size_t>(model.ntangent())));
}

void Ilqr::raise() {
  factor_ = std::max(kFactor, factor_ * kFactor);
  mu_ = std::max(kLeast, mu_ * factor_);
}
void Ilqr::lower() {
  factor_ = std::min(1 / kFactor, factor_ / kFactor);
  mu_ *= factor_;
  if (mu_ < kLeast) mu_ = 0;
}

// false: all diverged
bool Ilqr::start(const std::vector<std::vector<double>>& starts, const Hooks& hooks) {
  const auto fill = [&](int i, std::vector<double>& z) { z = starts[static_cast<size_t>(i)]; };
  objective_.evaluate_laws(
      static_cast<int>(starts.size()), fill, [](int, const LawInput&, Vec) {}, values_,
      hooks.interrupted);
  int best = -1;
  for (int i = 0; i < static_cast<int>(values_.size()); i++) {
    const PlanObjective::Value& x = values_[static_cast<size_t>(i)];
    if (!x.ok || (best >= 0 && !(x.cost < cost_))) continue;
    best = i;
    cost_ = x.cost;
  }
  if (best >= 0) objective_.swap(best, nominal_);
  hooks.record(values_, fill);
  expanded_ = false;
  return best >= 0;
}

// A and B of every step, and the cost to second order
void Ilqr::expand(const Hooks& hooks) {
  const Model& model = objective_.model();
  const Trajectory& t = nominal_.trajectory;
  const auto nstep = static_cast<size_t>(t.nstep), n = static_cast<size_t>(model.ntangent()),
             nu = static_cast<size_t>(model.nu());
  A_.resize(nstep * n * n);
  B_.resize(nstep * n * nu);
  StopSignal stop(hooks.interrupted);
  for_each_jacobian(model, t, {}, {.applied = false}, options_.nthread, stop,
                    [&](int i, const StepJacobian& jacobian) {
                      const auto k = static_cast<size_t>(i);
                      std::copy_n(jacobian.A.data(), n * n, &A_[k * n * n]);
                      std::copy_n(jacobian.B.data(), n * nu, &B_[k * n * nu]);
                    });
  if (!stop.stopped()) {
    expand_cost(model, objective_.cost(), t, nominal_.poses, options_.nthread, stop, expansions_);
  }
  if (stop.stopped()) throw Interrupted("plan: interrupted");
}

// rolls out these lengths; true if the best of them was taken
bool Ilqr::search(int begin, int end, const Hooks& hooks) {
  const mjModel* m = objective_.model().mj();
  const Trajectory& t = nominal_.trajectory;
  const auto nv = static_cast<size_t>(t.nv);
  const auto law = [&](int i, const LawInput& in, Vec z) {
    std::vector<double>& dx = dx_[static_cast<size_t>(i)];
    mj_differentiatePos(m, dx.data(), 1, row(t.qpos, in.step, t.nq).data(), in.qpos.data());
    const CVec qvel = row(t.qvel, in.step, t.nv), act = row(t.act, in.step, t.na);
    for (size_t k = 0; k < nv; k++) dx[nv + k] = in.qvel[k] - qvel[k];
    for (size_t k = 0; k < act.size(); k++) dx[2 * nv + k] = in.act[k] - act[k];
    riccati_.decide(in.step, kAlphas[static_cast<size_t>(begin + i)], dx, nominal_.z, z);
  };
  objective_.evaluate_laws(
      end - begin, [&](int, std::vector<double>& z) { z = nominal_.z; }, law, values_,
      hooks.interrupted);
  int best = -1;
  double least = cost_;
  for (int i = 0; i < end - begin; i++) {
    const PlanObjective::Value& x = values_[static_cast<size_t>(i)];
    const double alpha = kAlphas[static_cast<size_t>(begin + i)],
                 expected = -alpha * (riccati_.first() + alpha * riccati_.second());
    all_.push_back(x);
    tried_.push_back(objective_.z(i));
    if (!x.ok || !(x.cost < least) || cost_ - x.cost < kAccept * expected) continue;
    best = i;
    least = x.cost;
  }
  if (best < 0) return false;
  alpha_ = kAlphas[static_cast<size_t>(begin + best)];
  cost_ = least;
  objective_.swap(best, nominal_);
  return true;
}

Ilqr::Step Ilqr::iterate(const Hooks& hooks) {
  if (!expanded_) expand(hooks);
  expanded_ = true;
  while (!riccati_.run(A_, B_, expansions_, nominal_.z, mu_)) {
    raise();
    if (mu_ > kMost) return Step::kConverged;
  }
  const double expected = -(riccati_.first() + riccati_.second());
  if (!(expected > kRounding * std::abs(cost_))) return Step::kConverged;
  all_.clear();
  tried_.clear();
  bool taken = false;
  for (int begin = 0; begin < static_cast<int>(kAlphas.size()) && !taken; begin += kBatch) {
    taken = search(begin, std::min(begin + kBatch, static_cast<int>(kAlphas.size())), hooks);
  }
  if (taken) keep_gains();
  hooks.record(all_, [&](int i, std::vector<double>& z) { z = tried_[static_cast<size_t>(i)]; });
  if (!taken) {
    raise();
    return mu_ > kMost ? Step::kConverged : Step::kRefused;
  }
  expanded_ = false;
  if (alpha_ >= kGood) lower();
  if (alpha_ < kPoor) raise();
  return Step::kTaken;
}

void Ilqr::keep_gains() {
  if (!per_step_) return;
  gains_.clear();
  for (int i = 0; i < options_.horizon; i++) {
    const Matrix& K = riccati_.gain(i);
    gains_.insert(gains_.end(), K.data(), K.data() + K.size());
  }
}

void Ilqr::run(const std::vector<std::vector<double>>& starts, int iterations, const Hooks& hooks) {
  gains_.clear();
  mu_ = options_.regularization;
  factor_ = 1;
  if (!start(starts, hooks)) return;
  for (int i = 0; i < iterations && !hooks.time_is_up(); i++) {
    if (iterate(hooks) == Step::kConverged) break;
  }
}

}  // namespace diffmj
