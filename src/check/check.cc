// check_gradient(): the adjoint against Ridders' differences of the steps that were made, with the
// evidence around it.
#include "diffmj/check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "base/ridders.h"
#include "check/kinks.h"
#include "check/survey.h"
#include "diffmj/error.h"
#include "diffmj/gradient.h"
#include "diffmj/state.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "record/adaptive.h"
#include "record/input.h"
#include "record/trajectory.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/step_input.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

using Vector = std::vector<double>;
constexpr RiddersOptions kRidders = {};

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += a[i] * b[i];
  return sum;
}

Vector random_vector(size_t n, double scale, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Vector x(n);
  for (double& value : x) value = scale * normal(random);
  return x;
}

Vector flat(const Gradient& g) {
  Vector out;
  for (const Vector* part : {&g.qpos_tangent, &g.qvel, &g.act, &g.ctrl}) {
    out.insert(out.end(), part->begin(), part->end());
  }
  return out;
}

// The rollout as a function of z = (tangent of the initial state, every control): the weighted sum
// of how far all its states move from those of the base rollout.
class RolloutFunction {
 public:
  RolloutFunction(const Model& model, const RolloutInput& input, const CheckOptions& options,
                  std::mt19937& random)
      : model_(model),
        input_(input),
        nstep_(options.nstep),
        options_{.interrupted = options.interrupted} {
    const State initial = default_state(model);
    const auto start = [](CVec given, const Vector& otherwise) {
      return given.empty() ? otherwise : Vector(given.begin(), given.end());
    };
    x_ = {.time = input.time,
          .qpos = start(input.qpos, initial.qpos),
          .qvel = start(input.qvel, initial.qvel),
          .act = start(input.act, initial.act)};
    const auto nu = static_cast<size_t>(model.nu());
    ctrl_.assign(static_cast<size_t>(nstep_) * nu, 0.0);
    for (int i = 0; i < nstep_; i++) {
      const CVec row = input_row(input.ctrl, i, model.nu());
      std::copy(row.begin(), row.end(), ctrl_.begin() + static_cast<ptrdiff_t>(nu) * i);
    }
    base_ = run(Vector(size(), 0.0));
    if (!base_.ok()) throw InputError("check: the rollout fails: " + base_.message);
    // losses are sums over states: keep the weight of each independent of their number
    const auto rows = static_cast<size_t>(nstep_ + 1);
    const double scale = 1 / std::sqrt(static_cast<double>(rows));
    qpos_bar = random_vector(rows * static_cast<size_t>(model.nv()), scale, random);
    qvel_bar = random_vector(rows * static_cast<size_t>(model.nv()), scale, random);
    act_bar = random_vector(rows * static_cast<size_t>(model.na()), scale, random);
  }

  // A control at its bound has a corner there: differences across it mean nothing. Sets what
  // belongs to such controls in a direction to zero and returns how many there are.
  int hold_controls_at_bounds(double step, Vector& u) const {
    const mjModel* m = model_.mj();
    if (m->opt.disableflags & mjDSBL_CLAMPCTRL) return 0;
    const auto nu = static_cast<size_t>(model_.nu());
    int held = 0;
    for (size_t i = 0; i < ctrl_.size(); i++) {
      const size_t j = i % nu;
      if (!m->actuator_ctrllimited[j]) continue;
      const double low = m->actuator_ctrlrange[2 * j], high = m->actuator_ctrlrange[2 * j + 1];
      if (std::min(std::abs(ctrl_[i] - low), std::abs(ctrl_[i] - high)) > step) continue;
      u[static_cast<size_t>(model_.ntangent()) + i] = 0;
      held += i < nu ? 1 : 0;
    }
    return held;
  }

  size_t size() const { return static_cast<size_t>(model_.ntangent()) + ctrl_.size(); }
  const Trajectory& base() const { return base_; }

  double operator()(const Vector& z) const {
    const Trajectory t = run(z);
    // a perturbed rollout that fails is no value at all; the error bar then says so
    if (!t.ok()) return std::numeric_limits<double>::quiet_NaN();
    Vector dq(static_cast<size_t>(t.nv));
    double sum = 0;
    for (int i = 0; i <= t.nstep; i++) {
      mj_call("mj_differentiatePos", [&] {
        mj_differentiatePos(model_.mj(), dq.data(), 1, row(base_.qpos, i, t.nq).data(),
                            row(t.qpos, i, t.nq).data());
      });
      const auto at = static_cast<size_t>(i) * dq.size();
      for (size_t k = 0; k < dq.size(); k++) {
        sum += qpos_bar[at + k] * dq[k] + qvel_bar[at + k] * (t.qvel[at + k] - base_.qvel[at + k]);
      }
    }
    for (size_t k = 0; k < act_bar.size(); k++) sum += act_bar[k] * (t.act[k] - base_.act[k]);
    return sum;
  }

  // by the model itself, or by another that differs in its path or adjoint only
  Vector gradient(const Model& by) const {
    Trajectory t = base_;
    t.model_id = by.impl().id;
    return flat(rollout_pullback(by, t, cotangents(), options_));
  }
  Cotangents cotangents() const {
    return {.qpos_tangent = qpos_bar, .qvel = qvel_bar, .act = act_bar};
  }

  Vector qpos_bar, qvel_bar, act_bar;

 private:
  Trajectory run(const Vector& z) const {
    const auto n = static_cast<size_t>(model_.ntangent());
    const State x = plus(model_, x_, CVec(z).first(n));
    Vector ctrl = ctrl_;
    for (size_t i = 0; i < ctrl.size(); i++) ctrl[i] += z[n + i];
    RolloutInput input = input_;
    input.qpos = x.qpos;
    input.qvel = x.qvel;
    input.act = x.act;
    input.ctrl = ctrl;
    RolloutOptions options = options_;
    // step sizes are not differentiated: they stay those of the base rollout
    if (model_.is_adaptive() && base_.nstep == nstep_) options.steps_of = &base_;
    Trajectory t = rollout(model_, input, nstep_, options);
    if (t.outcome == Outcome::kInterrupted) throw Interrupted("check: interrupted");
    return t;
  }

  const Model& model_;
  RolloutInput input_;
  int nstep_;
  RolloutOptions options_;
  State x_;
  Vector ctrl_;
  Trajectory base_;
};

// |M a - qfrc_smooth - Jᵀ f(y)| / (1 + |M a|): how far the solver stopped from its optimum. The
// stages and y must be those of qacc.
double solver_residual(const mjModel* m, const mjData* d, const Vector& qacc,
                       const Workspace& workspace) {
  Vector Ma(qacc.size()), f(workspace.y.size()), JTf(qacc.size());
  for (int i = 0; i < d->nefc; i += constraint_rows_at(d, i)) {
    constraint_force(d, workspace.zone[static_cast<size_t>(i)], workspace.y, i, f);
  }
  mj_call("mj_mulM", [&] {
    mj_mulM(m, d, Ma.data(), qacc.data());
    if (d->nefc > 0) mj_mulJacTVec(m, d, JTf.data(), f.data());
  });
  double residual = 0;
  for (size_t k = 0; k < qacc.size(); k++) {
    residual += std::pow(Ma[k] - d->qfrc_smooth[k] - JTf[k], 2);
  }
  return std::sqrt(residual) / (1 + std::sqrt(dot(Ma, Ma)));
}

// The states that steps began at, with the number of the step, or of the interval the step is in.
template <class Look>
void for_each_step(const Model& model, const Trajectory& t, Look&& look) {
  if (!model.is_adaptive()) {
    for (int i = 0; i < t.nstep; i++) look(i, step_input(t, i));
    return;
  }
  Vector ctrl(static_cast<size_t>(t.nu));
  const std::vector<int>& first = t.solver.first_step;
  for (int i = 0; i < t.nstep; i++) {
    const IntervalInput in = interval_input(model, t, i);
    for (int n = first[static_cast<size_t>(i)]; n < first[static_cast<size_t>(i) + 1]; n++) {
      const MadeStep step = kept_step(model, t, n);
      for (int j = 0; j < t.nu; j++) ctrl[static_cast<size_t>(j)] = in.control(step.time, j);
      look(i, {.time = step.time,
               .qpos = step.qpos,
               .qvel = step.qvel,
               .act = step.act,
               .qacc_warmstart = {},
               .ctrl = ctrl,
               .qfrc_applied = in.qfrc_applied,
               .xfrc_applied = in.xfrc_applied});
    }
  }
}

// residuals and kinks at the states of the user's own rollout, its solver as it is
void inspect_steps(const Model& model, const Trajectory& t, std::mt19937& random,
                   CheckReport& report) {
  const mjModel* m = model.mj();
  WorkspaceLease workspace(model.impl());
  mjData* d = workspace->data.get();
  reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
  Vector lambda(static_cast<size_t>(t.nv));
  KinkSurvey kinks(model);
  for_each_step(model, t, [&](int i, const StepInput& in) {
    mj_call("mj_forward", [&] {
      write_input(m, d, in);
      mj_forward(CollidingModel(m), d);
    });
    const Vector qacc(d->qacc, d->qacc + t.nv);
    newton_factorize(m, d, qacc, *workspace);
    report.solver_residual =
        std::max(report.solver_residual, solver_residual(m, d, qacc, *workspace));
    const Vector a_bar = random_vector(lambda.size(), 1, random);
    newton_solve(*workspace, a_bar, lambda);
    report.adjoint_residual =
        std::max(report.adjoint_residual, newton_residual(m, d, lambda, a_bar, *workspace));
    kinks.look(i, *workspace);
  });
  report.nearest_kink = kinks.nearest();
  report.kinks = kinks.constraints();
}

// typical is what a random direction sees of the gradient, |gradient|/√n: a direction that is
// almost orthogonal to it has the rounding of the whole
CheckDirection compare(double adjoint, const RiddersResult& numeric, double typical,
                       double tolerance) {
  CheckDirection out{.adjoint = adjoint,
                     .differences = numeric.derivative,
                     .error_bar = std::max(numeric.error_bar, numeric.corner)};
  const double scale = std::max({std::abs(adjoint), std::abs(numeric.derivative), typical, 1e-12});
  out.error = std::abs(adjoint - numeric.derivative) / scale;
  using Verdict = CheckDirection::Verdict;
  if (!(out.error_bar <= tolerance * scale)) {  // NaN is not agreement
    out.verdict = Verdict::kInconclusive;
  } else {
    out.verdict = out.error <= tolerance ? Verdict::kAgrees : Verdict::kDiffers;
  }
  return out;
}

// The largest difference of two gradients, relative to the largest entry of the first.
double largest_difference(const Vector& a, const Vector& b) {
  double largest = 1e-12, difference = 0;
  for (size_t i = 0; i < a.size(); i++) {
    largest = std::max(largest, std::abs(a[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference / largest;
}

// What is certified: the exact gradient of the steps. Terms of events are of steps that move.
ModelOptions exact_options(const Model& model) {
  ModelOptions options = model.options();
  options.muscle_smoothing = 0;
  options.cfd = {};
  if (options.collisions.mode != Collisions::kSmooth) options.collisions = {};
  options.adaptive.adjoint = Adjoint::kDiscrete;
  options.adaptive.events = false;
  return options;
}

double compare_with_oracle(const Model& model, const RolloutFunction& function,
                           const Vector& gradient) {
  ModelOptions options = model.options();
  options.path = GradientPath::kOracle;
  return largest_difference(function.gradient(Model::from_mjmodel(model.mj(), options)), gradient);
}

// That the check is of the exact gradient, and how far the smooth one is from it.
std::string compare_with_smooth(const Model& model, const CollisionOptions& collisions,
                                const RolloutFunction& function, const Vector& gradient) {
  ModelOptions options = model.options();
  options.collisions = collisions;
  const double difference =
      largest_difference(gradient, function.gradient(Model::from_mjmodel(model.mj(), options)));
  char text[32];
  std::snprintf(text, sizeof(text), "%.1e", difference);
  return std::string("collisions ") + collisions_name(collisions.mode) +
         " is a surrogate: the check is of the exact gradient, and the smooth one differs from "
         "that "
         "by " +
         text + " of the largest entry";
}

// What the terms of events add to the gradient of a rollout as the user would make it.
void inspect_events(const Model& user_model, const RolloutInput& input, const CheckOptions& options,
                    const RolloutFunction& function, CheckReport& report) {
  ModelOptions exact = user_model.options();
  exact.muscle_smoothing = 0;
  exact.cfd = {};
  if (exact.collisions.mode != Collisions::kSmooth) exact.collisions = {};
  const Model model = Model::from_mjmodel(user_model.mj(), exact);
  Trajectory t = rollout(model, input, options.nstep, {.interrupted = options.interrupted});
  if (t.outcome == Outcome::kInterrupted) throw Interrupted("check: interrupted");
  if (!t.ok()) throw InputError("check: the rollout with events fails: " + t.message);
  report.nevent = static_cast<int>(t.solver.events.size());
  const auto gradient = [&] {
    return flat(
        rollout_pullback(model, t, function.cotangents(), {.interrupted = options.interrupted}));
  };
  const Vector whole = gradient();
  // without the jumps there is nothing to add
  for (SolverEvent& event : t.solver.events) event.qacc_after = event.qacc_before;
  Vector rest = gradient();
  for (size_t i = 0; i < rest.size(); i++) rest[i] = whole[i] - rest[i];
  const double size = std::sqrt(dot(whole, whole));
  report.jump_share = size == 0 ? 0 : std::sqrt(dot(rest, rest)) / size;
  for (const Warning& warning : t.warnings) {
    if (warning.text.starts_with("grazing")) report.warnings.push_back(warning);
  }
}

// That the check is of the discrete adjoint, and how far the one that was asked for is from it.
std::string compare_with_continuous(const Model& model, Adjoint adjoint,
                                    const RolloutFunction& function, const Vector& gradient) {
  const std::string what = std::string("adjoint ") + adjoint_name(adjoint);
  ModelOptions options = model.options();
  options.adaptive.adjoint = adjoint;
  try {
    const double difference =
        largest_difference(gradient, function.gradient(Model::from_mjmodel(model.mj(), options)));
    char text[32];
    std::snprintf(text, sizeof(text), "%.1e", difference);
    return what + " has an error of its own: the check is of the discrete adjoint, and " + what +
           " differs from that by " + text + " of the largest entry";
  } catch (const RolloutError& error) {
    return "the check is of the discrete adjoint; " + std::string(error.what());
  }
}

}  // namespace

const char* verdict_name(CheckDirection::Verdict verdict) {
  using Verdict = CheckDirection::Verdict;
  return verdict == Verdict::kAgrees    ? "agrees"
         : verdict == Verdict::kDiffers ? "differs"
                                        : "inconclusive";
}

CheckReport check_gradient(const Model& user_model, const RolloutInput& input,
                           const CheckOptions& options) {
  require_no_callbacks("check");
  if (options.nstep < 1 || options.directions < 1) {
    throw InputError("check: nstep is " + std::to_string(options.nstep) + " and directions is " +
                     std::to_string(options.directions) + ", expected at least 1");
  }
  require_input("check", user_model, input, options.nstep);
  const ModelOptions exact = exact_options(user_model);
  const Model model = Model::from_mjmodel(user_model.mj(), exact).tightened();
  std::mt19937 random(options.seed);
  const RolloutFunction function(model, input, options, random);
  const Vector gradient = function.gradient(model);
  const double typical = std::sqrt(dot(gradient, gradient) / static_cast<double>(gradient.size()));

  CheckReport report;
  report.path = user_model.gradient_path();
  report.path_reason = user_model.gradient_path_reason();
  if (report.path == GradientPath::kAnalytic) {
    report.oracle_difference = compare_with_oracle(model, function, gradient);
  }
  report.features = model_features(user_model);
  report.advice = model_advice(user_model);
  if (user_model.muscle_smoothing() > 0) {
    report.advice.push_back(
        "muscle_smoothing is a surrogate: the check is of the gradient without it");
  }
  if (user_model.options().cfd) {
    report.advice.push_back(
        "contacts from distance (cfd) are a surrogate: the check is of the gradient without them");
  }
  const CollisionOptions& collisions = user_model.options().collisions;
  if (collisions.mode != Collisions::kMujoco && collisions.mode != Collisions::kSmooth) {
    report.advice.push_back(compare_with_smooth(model, collisions, function, gradient));
  }
  if (!user_model.collisions_notice().empty()) {
    report.advice.push_back("MuJoCo's own colliders are used, unsmoothed, for " +
                            user_model.collisions_notice());
  }
  const Adjoint adjoint = user_model.options().adaptive.adjoint;
  if (user_model.is_adaptive() && adjoint != Adjoint::kDiscrete) {
    report.advice.push_back(compare_with_continuous(model, adjoint, function, gradient));
  }
  report.warnings = function.base().warnings;
  if (user_model.is_adaptive() && user_model.options().adaptive.events) {
    report.advice.push_back(
        "steps end at events, and gradients have their terms: the check is of the steps without "
        "events");
    inspect_events(user_model, input, options, function, report);
  }
  ModelOptions keep_all = exact;
  keep_all.adaptive.checkpoints.reset();
  const Model own_model = Model::from_mjmodel(user_model.mj(), keep_all);
  const Trajectory own =
      rollout(own_model, input, options.nstep, {.interrupted = options.interrupted});
  if (own.outcome == Outcome::kInterrupted) throw Interrupted("check: interrupted");
  if (!own.ok()) throw InputError("check: the rollout fails: " + own.message);
  inspect_steps(own_model, own, random, report);

  report.passed = true;
  for (int i = 0; i < options.directions; i++) {
    if (options.interrupted && options.interrupted()) throw Interrupted("check: interrupted");
    if (options.progress) options.progress(static_cast<double>(i) / options.directions);
    Vector u = random_vector(function.size(), 1, random);
    const int held = function.hold_controls_at_bounds(kRidders.step, u);
    if (i == 0 && held > 0) {
      report.advice.push_back(
          std::to_string(held) +
          " controls are at their bounds: their gradient is that of the inside, "
          "and the check leaves them out, for differences see half of it");
    }
    const double length = std::sqrt(dot(u, u));
    for (double& value : u) value /= length;
    const RiddersResult numeric = ridders(
        [&](double h) {
          Vector z = u;
          for (double& value : z) value *= h;
          return function(z);
        },
        kRidders);
    report.directions.push_back(compare(dot(gradient, u), numeric, typical, options.tolerance));
    report.passed &= report.directions.back().verdict == CheckDirection::Verdict::kAgrees;
  }
  if (options.progress) options.progress(1);
  return report;
}

}  // namespace diffmj
