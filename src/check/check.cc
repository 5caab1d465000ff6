// check_gradient(): the adjoint against Ridders' differences of the steps that were made, with the
// evidence around it.
#include "diffmj/check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "base/text.h"
#include "check/blame.h"
#include "check/directions.h"
#include "check/kinks.h"
#include "check/rollout_function.h"
#include "check/survey.h"
#include "diffmj/error.h"
#include "diffmj/gradient.h"
#include "diffmj/state.h"
#include "mj/call.h"
#include "mj/callbacks.h"
#include "mj/collider.h"
#include "mj/handle.h"
#include "record/adaptive.h"
#include "record/input.h"
#include "record/solver_limit.h"
#include "record/tape.h"
#include "record/trajectory.h"
#include "setup/model_impl.h"
#include "setup/workspace_lease.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/noslip.h"
#include "stages/step_input.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

// residuals and kinks at the states of the user's own rollout, its solver as it is
void inspect_steps(const Model& model, const Trajectory& t, std::mt19937& random,
                   CheckReport& report) {
  const mjModel* m = model.mj();
  WorkspaceLease workspace(model.impl());
  mjData* d = workspace->data.get();
  reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
  Vector lambda(static_cast<size_t>(t.nv)), scratch;
  KinkSurvey kinks(model);
  for_each_step(model, t, [&](int i, const StepInput& in) {
    mj_call("mj_forward", [&] {
      write_input(m, d, in);
      mj_forward(CollidingModel(m), d);
    });
    Vector qacc(d->qacc, d->qacc + t.nv);
    solution_factorize(model.impl(), qacc, *workspace);
    if (has_noslip(m)) qacc = workspace->noslip.qacc;
    const SolverResidual left = solver_residual(m, d, qacc, scratch);
    report.solver_residual = std::max(report.solver_residual, left.residual / (1 + left.inertial));
    const Vector a_bar = random_vector(lambda.size(), 1, random);
    newton_solve(*workspace, a_bar, lambda);
    report.adjoint_residual =
        std::max(report.adjoint_residual, newton_residual(m, d, lambda, a_bar, *workspace));
    kinks.look(i, *workspace);
  });
  report.nearest_kink = kinks.nearest();
  report.kinks = kinks.constraints();
  if (std::string bounds = kinks.controls_at_bounds(); !bounds.empty()) {
    report.advice.push_back(std::move(bounds));
  }
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
  if (model.is_adaptive()) {
    // linearly implicit steps have no gradient of their own
    if (is_linearly_implicit(options.integrator)) options.integrator = Integrator::kTsit5;
    options.adaptive.adjoint = Adjoint::kDiscrete;
    options.adaptive.events = false;
  }
  return options;
}

// Tolerances at machine precision. MuJoCo's iterating colliders have normals that are off by the
// square root of theirs, and jump by that from pose to pose.
Model tight_model(const Model& user_model, const ModelOptions& exact, double ccd_tolerance,
                  int ccd_iterations) {
  const MjModelPtr copy(mj_copyModel(nullptr, user_model.impl().tight()));
  copy->opt.ccd_tolerance = ccd_tolerance;
  copy->opt.ccd_iterations = ccd_iterations;
  return Model::from_mjmodel(copy.get(), exact);
}
constexpr double kTightCollider = 1e-15;
constexpr int kTightIterations = 1000;

std::string model_pair(const Model& model, const PieceRow& row) {
  return model.element_name(mjOBJ_GEOM, row.first) + " and " +
         model.element_name(mjOBJ_GEOM, row.second);
}

// How far the gradient at MuJoCo's own ccd_tolerance is from that at the tight one.
void inspect_collider(const Model& user_model, const ModelOptions& exact,
                      const RolloutFunction& function, const Vector& gradient, double tolerance,
                      CheckReport& report) {
  const mjOption& opt = user_model.mj()->opt;
  if (user_model.is_adaptive() || opt.ccd_tolerance <= kTightCollider) return;
  const PieceRow* row = function.iterated();
  if (!row) return;
  const std::string contact = model_pair(user_model, *row);
  const Model own = tight_model(user_model, exact, opt.ccd_tolerance, opt.ccd_iterations);
  report.collider_difference = largest_difference(gradient, function.on(own).gradient(own));
  if (report.collider_difference <= tolerance) return;
  report.advice.push_back(
      "MuJoCo's collider finds the contact of " + contact + " by iteration, to ccd_tolerance " +
      number(opt.ccd_tolerance) + ": that alone moves the gradient by " +
      number(report.collider_difference) +
      " of its largest entry; the check compares contacts at machine precision, and a smaller "
      "ccd_tolerance makes both agree");
}

double compare_with_oracle(const Model& model, const RolloutFunction& function,
                           const Vector& gradient) {
  ModelOptions options = model.options();
  options.gradient_path = GradientPath::kOracle;
  return largest_difference(function.gradient(Model::from_mjmodel(model.mj(), options)), gradient);
}

// Says that the check compares the exact gradient, and how far the smooth one is from it.
std::string compare_with_smooth(const Model& model, const CollisionOptions& collisions,
                                const RolloutFunction& function, const Vector& gradient) {
  ModelOptions options = model.options();
  options.collisions = collisions;
  const double difference =
      largest_difference(gradient, function.gradient(Model::from_mjmodel(model.mj(), options)));
  return std::string("collisions ") + collisions_name(collisions.mode) +
         " is a surrogate: the check compares the exact gradient, and the smooth one differs from "
         "that "
         "by " +
         text("%.1e", difference) + " of the largest entry";
}

// What the terms of events add to the gradient of a rollout as the user would make it.
void inspect_events(const Model& user_model, const RolloutInput& input, const CheckOptions& options,
                    const RolloutFunction& function, CheckReport& report) {
  ModelOptions exact = user_model.options();
  exact.muscle_smoothing = 0;
  exact.cfd = {};
  if (exact.collisions.mode != Collisions::kSmooth) exact.collisions = {};
  const Model model = Model::from_mjmodel(user_model.mj(), exact);
  const Trajectory t =
      rollout(model, input, function.nstep(), {.interrupted = options.interrupted});
  if (t.outcome == Outcome::kInterrupted) throw Interrupted("check: interrupted");
  if (!t.ok()) throw InputError("check: the rollout with events fails: " + t.message);
  report.nevent = static_cast<int>(t.integrator.events.size());
  const auto gradient = [&](const Trajectory& of) {
    return flat(
        rollout_pullback(model, of, function.cotangents(), {.interrupted = options.interrupted}));
  };
  const Vector whole = gradient(t);
  // without the jumps there is nothing to add
  Vector rest = gradient(without_jumps(t));
  for (size_t i = 0; i < rest.size(); i++) rest[i] = whole[i] - rest[i];
  const double size = std::sqrt(dot(whole, whole));
  report.jump_share = size == 0 ? 0 : std::sqrt(dot(rest, rest)) / size;
  for (const Warning& warning : t.warnings) {
    // of the gradient with events; others are in the report already
    const bool known = std::any_of(report.warnings.begin(), report.warnings.end(),
                                   [&](const Warning& x) { return x.kind == warning.kind; });
    if (warning.kind != WarningKind::kMujoco && !known) report.warnings.push_back(warning);
  }
}

// Says that the check compares the discrete adjoint, and how far the requested one is from it.
std::string compare_with_continuous(const Model& model, Adjoint adjoint,
                                    const RolloutFunction& function, const Vector& gradient) {
  const std::string what = std::string("adjoint ") + adjoint_name(adjoint);
  ModelOptions options = model.options();
  options.adaptive.adjoint = adjoint;
  try {
    const double difference =
        largest_difference(gradient, function.gradient(Model::from_mjmodel(model.mj(), options)));
    return what + " has an error of its own: the check compares the discrete adjoint, and " + what +
           " differs from that by " + text("%.1e", difference) + " of the largest entry";
  } catch (const RolloutError& error) {
    return "the check compares the discrete adjoint; " + std::string(error.what());
  }
}

using Verdict = CheckDirection::Verdict;

// Of the directions with this verdict: how many, and the one with the largest error.
struct Tally {
  int count = 0;
  const CheckDirection* worst = nullptr;
};
Tally tally(const CheckReport& report, Verdict verdict) {
  Tally out;
  for (const CheckDirection& d : report.directions) {
    if (d.verdict != verdict) continue;
    out.count++;
    if (!out.worst || d.error > out.worst->error) out.worst = &d;
  }
  return out;
}

std::string share(int count, const CheckReport& report) {
  return std::to_string(count) + " of " + std::to_string(report.directions.size()) + " directions ";
}

// How many steps the inputs with one row per step are for; 10 if there is none. Whether all agree
// is for require_input to say.
int rows_of(const Model& model, const RolloutInput& input) {
  constexpr int kOtherwise = 10;
  const std::pair<CVec, int> inputs[] = {{input.ctrl, model.nu()},
                                         {input.qfrc_applied, model.nv()},
                                         {input.xfrc_applied, 6 * model.nbody()}};
  for (const auto& [x, width] : inputs) {
    const auto w = static_cast<size_t>(width);
    if (w > 0 && x.size() > w && x.size() % w == 0) return static_cast<int>(x.size() / w);
  }
  return kOtherwise;
}

// Random directions, over the whole rollout where it stays on its pieces, else step by step.
void check_directions(const Model& model, const RolloutFunction& function, const Vector& gradient,
                      const CheckOptions& options, std::mt19937& random, CheckReport& report) {
  std::optional<StepwiseCheck> steps;
  CheckDirection worst;  // of the steps that differ
  for (int i = 0; i < options.directions; i++) {
    if (options.interrupted && options.interrupted()) throw Interrupted("check: interrupted");
    if (options.progress) options.progress(static_cast<double>(i) / options.directions);
    Vector u = random_vector(function.size(), 1, random);
    const double length = std::sqrt(dot(u, u));
    for (double& value : u) value /= length;
    CheckDirection found = check_rollout(function, gradient, u, options.tolerance);
    if (found.verdict != Verdict::kAgrees) {
      if (!steps) steps.emplace(model, function, options.tolerance);
      const CheckDirection stepwise = steps->direction(random);
      if (stepwise.verdict == Verdict::kDiffers &&
          (worst.step < 0 || stepwise.error > worst.error)) {
        worst = stepwise;
      }
      // what the whole rollout says stands, if it says anything
      if (found.verdict != Verdict::kDiffers) found = stepwise;
    }
    report.directions.push_back(found);
  }
  report.passed = std::all_of(report.directions.begin(), report.directions.end(),
                              [](const auto& d) { return d.verdict == Verdict::kAgrees; });
  double known = 0;  // the largest error bar of directions that agree within it
  for (const CheckDirection& d : report.directions) {
    const double scale = std::max(std::abs(d.adjoint), std::abs(d.differences));
    if (d.verdict == Verdict::kAgrees && d.error > options.tolerance && scale > 0) {
      known = std::max(known, d.error);
    }
  }
  if (const PieceRow* row = function.iterated(); row && known > 0) {
    report.advice.push_back("MuJoCo's collider finds the contact of " + model_pair(model, *row) +
                            " by iteration, and its normals scatter even at machine precision: "
                            "directions agree within what differences can tell, which is " +
                            number(known) + " here");
  }
  if (!steps) return;
  for (std::string& omitted : steps->left_out()) report.advice.push_back(std::move(omitted));

  if (const Tally differ = tally(report, Verdict::kDiffers); differ.count > 0) {
    report.reason = share(differ.count, report) + "differ, by up to " + number(differ.worst->error);
    if (worst.step >= 0) {
      report.reason += "; most at step " + std::to_string(worst.step) + ", and it comes from " +
                       responsible(model, steps->step(worst.step), options.tolerance);
    } else {
      report.reason +=
          "; every step by itself agrees, and the chain of their adjoints differs from "
          "the gradient of the rollout by " +
          number(steps->distance(gradient)) + " of its largest entry";
    }
    return;
  }
  for (const Verdict verdict : {Verdict::kAtKink, Verdict::kInconclusive}) {
    const Tally undecided = tally(report, verdict);
    if (undecided.count == 0) continue;
    const CheckDirection& one = *undecided.worst;
    report.reason = share(undecided.count, report) + "are undecided, at step " +
                    std::to_string(one.step) + ": ";
    if (!one.kink.empty()) {
      report.reason += one.kink;
    } else {
      report.reason += "differences do not converge; " + unsteady(model, steps->step(one.step));
    }
    return;
  }
}

}  // namespace

const char* verdict_name(CheckDirection::Verdict verdict) {
  return verdict == Verdict::kAgrees    ? "agrees"
         : verdict == Verdict::kDiffers ? "differs"
         : verdict == Verdict::kAtKink  ? "at a kink"
                                        : "inconclusive";
}

const char* method_name(CheckDirection::Method method) {
  using Method = CheckDirection::Method;
  return method == Method::kCentral    ? "central"
         : method == Method::kOneSided ? "one-sided"
                                       : "stepwise";
}

CheckReport check_gradient(const Model& user_model, const RolloutInput& input,
                           const CheckOptions& options) {
  require_no_callbacks("check");
  const auto require_count = [](const char* name, int value) {
    if (value >= 1) return;
    throw InputError(std::string("check: ") + name + " is " + std::to_string(value) +
                     ", expected at least 1");
  };
  const int nstep = options.nstep.value_or(rows_of(user_model, input));
  require_count("nstep", nstep);
  require_count("directions", options.directions);
  if (!(options.tolerance > 0) || !std::isfinite(options.tolerance)) {
    throw InputError("check: tolerance is " + number(options.tolerance) +
                     ", expected a number above 0");
  }
  require_input("check", user_model, input, nstep);
  const ModelOptions exact = exact_options(user_model);
  const Model model = tight_model(user_model, exact, kTightCollider, kTightIterations);
  std::mt19937 random(options.seed);
  RolloutFunction function(model, input, nstep, options.interrupted);
  // losses are sums over states: keep the weight of each independent of their number
  const double weight = 1 / std::sqrt(static_cast<double>(nstep + 1));
  for (Vector* bar : {&function.qpos_bar, &function.qvel_bar, &function.act_bar}) {
    *bar = random_vector(bar->size(), weight, random);
  }
  const Vector gradient = function.gradient(model);

  CheckReport report;
  report.nstep = nstep;
  report.path = user_model.gradient_path();
  report.path_reason = user_model.gradient_path_reason();
  if (user_model.impl().differentiation.of_stages) {
    report.oracle_difference = compare_with_oracle(model, function, gradient);
  }
  report.features = model_features(user_model);
  report.advice = model_advice(user_model);
  inspect_collider(user_model, exact, function, gradient, options.tolerance, report);
  if (user_model.muscle_smoothing() > 0) {
    report.advice.push_back(
        "muscle_smoothing gives a surrogate; the check compares the gradient without it");
  }
  if (user_model.options().cfd) {
    report.advice.push_back(
        "contacts from distance (cfd) give a surrogate; the check compares the gradient without "
        "them");
  }
  const CollisionOptions& collisions = user_model.options().collisions;
  if (collisions.mode != Collisions::kMujoco && collisions.mode != Collisions::kSmooth) {
    report.advice.push_back(compare_with_smooth(model, collisions, function, gradient));
  }
  if (!user_model.collisions_notice().empty()) {
    report.advice.push_back("MuJoCo's own colliders are used, without smoothing, for " +
                            user_model.collisions_notice());
  }
  const Adjoint adjoint = user_model.options().adjoint();
  if (user_model.is_adaptive() && adjoint != Adjoint::kDiscrete) {
    report.advice.push_back(compare_with_continuous(model, adjoint, function, gradient));
  }
  report.warnings = function.base().warnings;
  if (user_model.is_adaptive() && user_model.options().adaptive.events) {
    report.advice.push_back(
        "steps end at events, and gradients include their jump terms; the check compares the steps "
        "without events");
    inspect_events(user_model, input, options, function, report);
  }
  ModelOptions keep_all = exact;
  keep_all.adaptive.checkpoints.reset();
  const Model own_model = Model::from_mjmodel(user_model.mj(), keep_all);
  const Trajectory own = rollout(own_model, input, nstep, {.interrupted = options.interrupted});
  if (own.outcome == Outcome::kInterrupted) throw Interrupted("check: interrupted");
  if (!own.ok()) throw InputError("check: the rollout fails: " + own.message);
  inspect_steps(own_model, own, random, report);

  check_directions(model, function, gradient, options, random, report);
  if (options.progress) options.progress(1);
  return report;
}

}  // namespace diffmj
