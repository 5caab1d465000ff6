#include "check/directions.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>

#include "base/ridders.h"
#include "check/half_spaces.h"
#include "record/trajectory.h"

namespace diffmj {
namespace {

using Verdict = CheckDirection::Verdict;

Vector times(const Vector& u, double h) {
  Vector z = u;
  for (double& value : z) value *= h;
  return z;
}

void normalize(Vector& u) {
  const double length = std::sqrt(dot(u, u));
  for (double& value : u) value /= length;
}

std::string first_name(const RolloutFunction& function, const std::vector<Switch>& switches) {
  if (switches.empty()) return {};
  std::string out = function.survey().name(switches.front());
  if (switches.size() > 1) out += " (and " + std::to_string(switches.size() - 1) + " more)";
  return out;
}

// typical is what a random direction sees of the gradient, |gradient|/√n: a direction that is
// almost orthogonal to it has the rounding of the whole
//
// scatters: contacts are found by iteration. Their normals are off by 1e-8 to 1e-6 at any
// tolerance, and differences can tell no more than their error bar says; a wrong gradient is off by
// far more.
CheckDirection judge(const RiddersSides& sides, double adjoint, double typical, double tolerance,
                     bool scatters) {
  constexpr double kMostScatter = 1e-3;
  const auto compare = [&](const RiddersResult& numeric, CheckDirection::Method method) {
    CheckDirection out{.adjoint = adjoint,
                       .differences = numeric.derivative,
                       .error_bar = numeric.error_bar,
                       .method = method};
    const double scale =
        std::max({std::abs(adjoint), std::abs(numeric.derivative), typical, 1e-12});
    out.error = std::abs(adjoint - numeric.derivative) / scale;
    const double bar = out.error_bar / scale;
    // an error that the bar explains is no difference; NaN is not agreement
    const double known = tolerance + 4 * bar;
    if (bar <= (scatters ? kMostScatter : tolerance) &&
        out.error <= (scatters ? known : tolerance)) {
      out.verdict = Verdict::kAgrees;
    } else if (bar <= (scatters ? kMostScatter : tolerance) && out.error > known) {
      out.verdict = Verdict::kDiffers;
    } else {
      out.verdict = Verdict::kInconclusive;
    }
    return out;
  };
  using Method = CheckDirection::Method;
  const CheckDirection central = compare(sides.central, Method::kCentral),
                       plus = compare(sides.plus, Method::kOneSided),
                       minus = compare(sides.minus, Method::kOneSided);
  const bool corner = plus.verdict != Verdict::kInconclusive &&
                      minus.verdict != Verdict::kInconclusive &&
                      std::abs(plus.differences - minus.differences) >
                          4 * (plus.error_bar + minus.error_bar) +
                              tolerance * std::max({std::abs(adjoint), typical});
  if (!corner && central.verdict == Verdict::kAgrees) return central;
  // the adjoint is of one side of a corner; a base within rounding of one may be on the other side
  for (const RiddersResult* side :
       {&sides.plus, &sides.minus, &sides.plus_beyond, &sides.minus_beyond}) {
    const CheckDirection one = compare(*side, Method::kOneSided);
    if (one.verdict == Verdict::kAgrees) return one;
  }
  if (corner) {  // that no piece tells
    CheckDirection out = plus;
    out.error_bar = std::abs(plus.differences - minus.differences) / 2;
    out.verdict = Verdict::kInconclusive;
    return out;
  }
  for (const CheckDirection& one : {central, plus, minus}) {
    if (one.verdict == Verdict::kDiffers) return one;
  }
  const CheckDirection* best = &central;
  if (!(best->error_bar <= plus.error_bar)) best = &plus;
  if (!(best->error_bar <= minus.error_bar)) best = &minus;
  return *best;
}

double typical_of(const Vector& gradient) {
  return std::sqrt(dot(gradient, gradient) / static_cast<double>(gradient.size()));
}

// How much neighbouring values scatter along u: fourth differences of values at equal distances, of
// which a smooth function has next to none. MuJoCo's iterating colliders have normals that jump
// from pose to pose.
double noise_along(const RolloutFunction& function, const Vector& u) {
  constexpr double kDistance = 1e-7;
  constexpr int kValues = 8;
  double noise = 0;
  for (const double side : {1.0, -1.0}) {
    std::vector<double> values = {0};
    for (int i = 1; i < kValues; i++) {
      const RolloutFunction::Value value = function(times(u, side * kDistance * i));
      if (!value.ok || function.changes(value).step >= 0) break;
      values.push_back(value.sum);
    }
    if (values.size() < kValues) continue;
    for (int order = 0; order < 4; order++) {
      for (size_t i = 0; i + 1 < values.size(); i++) values[i] = values[i + 1] - values[i];
      values.pop_back();
    }
    // the variance of a fourth difference is that of 1, 4, 6, 4, 1
    noise =
        std::max(noise, std::sqrt(dot(values, values) / (70 * static_cast<double>(values.size()))));
    break;
  }
  return noise;
}

// Differences along u with the samples that are on the base's pieces.
CheckDirection compare_along(const RolloutFunction& function, const Vector& gradient,
                             const Vector& u, RiddersOptions options, double tolerance) {
  options.noise = noise_along(function, u);
  const double typical = typical_of(gradient), adjoint = dot(gradient, u);
  const auto sample = [&](double h) -> RiddersSample {
    const RolloutFunction::Value value = function(times(u, h));
    return {value.sum, value.ok && function.changes(value).step < 0};
  };
  // a tenth of the tolerance: errors of either side must be told apart from it
  const double enough = 0.1 * tolerance * std::max(std::abs(adjoint), typical);
  return judge(ridders_sides(sample, 0, enough, options), adjoint, typical, tolerance,
               function.iterated() != nullptr);
}

}  // namespace

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

CheckDirection check_rollout(const RolloutFunction& function, const Vector& gradient,
                             const Vector& u, double tolerance) {
  // differences with smaller steps would be of rounding
  constexpr double kUseful = 1e-6;
  CheckDirection at_kink{.adjoint = dot(gradient, u),
                         .differences = std::numeric_limits<double>::quiet_NaN(),
                         .error_bar = std::numeric_limits<double>::infinity(),
                         .error = std::numeric_limits<double>::quiet_NaN(),
                         .verdict = Verdict::kAtKink};
  for (const RolloutFunction::StepPieces& at : function.pieces()) {
    for (const PieceLaw& law : at.pieces.laws) {
      if (law.piece != PieceLaw::kCorner) continue;
      at_kink.step = at.step;
      at_kink.kink = "muscles are at rest at a bound";
      return at_kink;
    }
  }
  for (const double h : {kUseful, -kUseful}) {
    const RolloutFunction::Value value = function(times(u, h));
    if (!value.ok) continue;
    const RolloutFunction::Changes changes = function.changes(value);
    if (changes.step < 0) {
      return compare_along(function, gradient, u, {.step = 1e-3, .levels = 14}, tolerance);
    }
    at_kink.step = changes.step;
    at_kink.kink = first_name(function, changes.switches);
  }
  return at_kink;
}

StepwiseCheck::StepwiseCheck(const Model& model, const RolloutFunction& function, double tolerance)
    : model_(model),
      tolerance_(tolerance),
      has_stages_(model.is_adaptive() || model.integrator() == Integrator::kRk4) {
  const Trajectory& t = function.base();
  const auto nv = static_cast<size_t>(t.nv), na = static_cast<size_t>(t.na);
  steps_.reserve(static_cast<size_t>(t.nstep));
  for (int i = 0; i < t.nstep; i++) steps_.push_back({.function = function.step(i)});
  // p[i] = c[i] + the pullback of p[i+1]; c are the cotangents of the rows
  Vector p(2 * nv + na);
  for (int i = t.nstep; i >= 0; i--) {
    const auto add = [&](const Vector& bar, size_t width, size_t at) {
      const CVec from = row(bar, i, static_cast<int>(width));
      for (size_t k = 0; k < width; k++) p[at + k] += from[k];
    };
    add(function.qpos_bar, nv, 0);
    add(function.qvel_bar, nv, nv);
    add(function.act_bar, na, 2 * nv);
    if (i == 0) break;
    Step& step = steps_[static_cast<size_t>(i - 1)];
    RolloutFunction& f = step.function;
    std::copy_n(p.begin(), nv, f.qpos_bar.begin() + t.nv);
    std::copy_n(p.begin() + t.nv, nv, f.qvel_bar.begin() + t.nv);
    std::copy_n(p.begin() + 2 * t.nv, na, f.act_bar.begin() + t.na);
    step.gradient = f.gradient(model);
    std::copy_n(step.gradient.begin(), p.size(), p.begin());
  }
  chained_ = p;
}

const RolloutFunction& StepwiseCheck::step(int i) const {
  return steps_[static_cast<size_t>(i)].function;
}

double StepwiseCheck::distance(const Vector& gradient) const {
  double largest = 1e-12, difference = 0;
  const auto see = [&](double chained, double whole) {
    largest = std::max(largest, std::abs(whole));
    difference = std::max(difference, std::abs(chained - whole));
  };
  const size_t n = chained_.size();
  for (size_t i = 0; i < n; i++) see(chained_[i], gradient[i]);
  size_t at = n;
  for (const Step& step : steps_) {
    for (size_t k = n; k < step.gradient.size(); k++) see(step.gradient[k], gradient[at++]);
  }
  return difference / largest;
}

// By differences, where a switch is not a simple function of the inputs: near the base, or near z
// if it is defined there only. Of models with very many activations and controls in (q, v) alone.
void StepwiseCheck::find_slopes(Step& step, const std::vector<Switch>& switches, const Vector& z) {
  constexpr double kStep = 1e-7;
  constexpr size_t kMany = 400;
  const RolloutFunction& f = step.function;
  for (const bool at_base : {true, false}) {
    std::vector<Slope> fresh;
    for (const Switch& at : switches) {
      if (at.at_base != at_base || known_slope(step, at)) continue;
      const Slope direct{.at = at, .of = f.survey().slope(at)};
      if (direct.of.empty()) {
        fresh.push_back(direct);
      } else {
        step.slopes.push_back(direct);
      }
    }
    if (fresh.empty()) continue;
    const Vector from = at_base ? Vector(z.size(), 0.0) : z;
    const RolloutFunction::Value center = f(from);
    const size_t all = from.size() <= kMany ? from.size() : 2 * static_cast<size_t>(model_.nv());
    const size_t n = center.ok ? all : 0;
    for (size_t j = 0; j < n; j++) {
      Vector near = from;
      near[j] = from[j] + kStep;
      const RolloutFunction::Value up = f(near);
      near[j] = from[j] - kStep;
      const RolloutFunction::Value down = f(near);
      for (Slope& one : fresh) {
        const double here = one.at.value(center.pieces[one.at.evaluation].pieces);
        const auto rate = [&](const RolloutFunction::Value& moved, double h) {
          if (!moved.ok) return std::numeric_limits<double>::quiet_NaN();
          return (one.at.value(moved.pieces[one.at.evaluation].pieces) - here) / h;
        };
        // where it is not defined on one side, or clamped, the other one tells
        const double rates[] = {rate(up, kStep), rate(down, -kStep)};
        double steeper = 0;
        for (const double r : rates) {
          if (std::isfinite(r) && std::abs(r) > std::abs(steeper)) steeper = r;
        }
        if (steeper != 0) one.of.emplace_back(static_cast<int>(j), steeper);
      }
    }
    step.slopes.insert(step.slopes.end(), fresh.begin(), fresh.end());
  }
}

const StepwiseCheck::Slope* StepwiseCheck::known_slope(const Step& step, const Switch& at) {
  for (const Slope& known : step.slopes) {
    if (known.at == at) return &known;
  }
  return nullptr;
}

bool StepwiseCheck::lead_away(Step& step, double reach, std::mt19937& random, Vector& u,
                              std::vector<Switch>& in_the_way) {
  constexpr int kRounds = 12;
  const RolloutFunction& f = step.function;
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  std::vector<std::pair<size_t, double>> fixed;  // places of u that are 0, or have a sign
  for (const size_t place : step.blocked) fixed.emplace_back(place, 0.0);
  const auto corners = f.survey().corners(f.pieces().front().pieces, f.base().act);
  for (const PieceSurvey::Corner& corner : corners) {
    const bool moves_act = uniform(random) < 1;
    const auto act = static_cast<size_t>(corner.act), ctrl = static_cast<size_t>(corner.ctrl);
    fixed.emplace_back(moves_act ? ctrl : act, 0.0);
    fixed.emplace_back(moves_act ? act : ctrl, has_stages_ ? 0.0 : corner.inwards);
  }
  const auto fix = [&] {
    for (const auto& [place, sign] : fixed) u[place] = sign * std::abs(u[place]);
  };
  std::vector<HalfSpace> spaces;  // of the switches that were met
  for (int round = 0; round < kRounds; round++) {
    fix();
    if (dot(u, u) == 0) return false;
    normalize(u);
    const Vector z = times(u, reach);
    const RolloutFunction::Value value = f(z);
    if (!value.ok) return false;
    in_the_way = f.changes(value).switches;
    if (in_the_way.empty()) return true;
    if (round == 0 && corners.empty()) {
      const RolloutFunction::Value back = f(times(u, -reach));
      if (back.ok && f.changes(back).step < 0) {
        u = times(u, -1);
        return true;
      }
    }
    find_slopes(step, in_the_way, z);
    for (const Switch& at : in_the_way) {
      const auto known = std::find_if(spaces.begin(), spaces.end(),
                                      [&](const HalfSpace& h) { return h.at == at; });
      if (known != spaces.end()) {
        known->least *= 2;  // it bends
        continue;
      }
      HalfSpace fresh{.at = at, .slope = known_slope(step, at)->of};
      for (const auto& [place, slope] : fresh.slope) {
        fresh.length = std::hypot(fresh.length, slope);
      }
      if (fresh.length == 0) return false;
      fresh.least = 0.3 * uniform(random) * fresh.length / std::sqrt(static_cast<double>(u.size()));
      spaces.push_back(std::move(fresh));
    }
    if (!move_inside(spaces, fix, u)) return false;
  }
  return false;
}

// Positions and velocities that are at a kink whichever way they move, or that make the place of a
// contact jump, as under a cylinder that stands wherever it tilts to. Directions leave them out.
// False if there is none, or no other.
bool StepwiseCheck::block_places(Step& step, double reach) {
  const RolloutFunction& f = step.function;
  const auto n = 2 * static_cast<size_t>(model_.nv());
  for (size_t j = 0; j < n; j++) {
    bool free = false, jumps = false;
    for (const double h : {reach, -reach}) {
      Vector z(f.size(), 0.0);
      z[j] = h;
      const RolloutFunction::Value value = f(z);
      if (!value.ok) continue;
      const std::vector<Switch> switches = f.changes(value).switches;
      free |= switches.empty();
      jumps |= std::any_of(switches.begin(), switches.end(),
                           [](const Switch& at) { return at.of == Switch::kPlace; });
    }
    if (!free || jumps) step.blocked.push_back(j);
  }
  return !step.blocked.empty() && step.blocked.size() < n;
}

CheckDirection StepwiseCheck::check(int i, std::mt19937& random) {
  Step& step = steps_[static_cast<size_t>(i)];
  std::vector<Switch> in_the_way;
  // steps below 1e-7 are of rounding, and of thresholds in MuJoCo's colliders (3e-8 rad)
  struct Reach {
    double h;
    int levels;
  };
  const auto try_reaches =
      [&](std::initializer_list<Reach> reaches) -> std::optional<CheckDirection> {
    for (const Reach reach : reaches) {
      Vector u = random_vector(step.function.size(), 1, random);
      if (!lead_away(step, reach.h, random, u, in_the_way)) continue;
      CheckDirection out = compare_along(step.function, step.gradient, u,
                                         {.step = reach.h, .levels = reach.levels}, tolerance_);
      out.step = i;
      return out;
    }
    return {};
  };
  constexpr Reach kLong{1e-4, 10}, kMiddle{1e-5, 7}, kShort{1e-6, 4};
  std::optional<CheckDirection> out = try_reaches({kLong, kMiddle, kShort});
  // a place that jumps may look steady in one direction
  if ((!out || out->verdict != Verdict::kAgrees) && step.blocked.empty() &&
      block_places(step, kShort.h)) {
    out = try_reaches({kLong, kMiddle, kShort});
  }
  if (out) return *out;
  return {.adjoint = 0,
          .differences = std::numeric_limits<double>::quiet_NaN(),
          .error_bar = std::numeric_limits<double>::infinity(),
          .error = std::numeric_limits<double>::quiet_NaN(),
          .verdict = Verdict::kAtKink,
          .step = i,
          .kink = first_name(step.function, in_the_way)};
}

std::vector<std::string> StepwiseCheck::left_out() const {
  std::vector<std::string> out;
  std::set<size_t> places, inputs;
  for (const Step& step : steps_) {
    places.insert(step.blocked.begin(), step.blocked.end());
    const RolloutFunction& f = step.function;
    for (const auto& corner : f.survey().corners(f.pieces().front().pieces, f.base().act)) {
      if (has_stages_) inputs.insert(static_cast<size_t>(corner.act));
    }
  }
  if (!places.empty()) {
    const auto nv = static_cast<size_t>(model_.nv()), first = *places.begin();
    out.push_back(std::string("the check leaves out the ") +
                  (first < nv ? "position" : "velocity") + " of " +
                  model_.dof_name(static_cast<int>(first % nv)) +
                  (places.size() > 1 ? " and " + std::to_string(places.size() - 1) + " more" : "") +
                  ": whichever way it moves, a contact jumps or something switches");
  }
  if (!inputs.empty()) {
    out.push_back("the check leaves out activation and control of " +
                  std::to_string(inputs.size()) +
                  " muscles that rest at a bound: the stages of this integrator see both sides of "
                  "the corner there");
  }
  return out;
}

CheckDirection StepwiseCheck::direction(std::mt19937& random) {
  const auto rank = [](const CheckDirection& d) {
    switch (d.verdict) {
      case Verdict::kAgrees:
        return 0;
      case Verdict::kInconclusive:
        return 1;
      case Verdict::kAtKink:
        return 2;
      default:
        return 3;
    }
  };
  CheckDirection out{.method = CheckDirection::Method::kStepwise};
  int worst = -1;
  for (int i = 0; i < static_cast<int>(steps_.size()); i++) {
    const CheckDirection one = check(i, random);
    out.adjoint += one.adjoint;
    out.differences += one.differences;
    out.error_bar += one.error_bar;
    if (rank(one) < worst || (rank(one) == worst && !(one.error > out.error))) continue;
    worst = rank(one);
    out.error = one.error;
    out.verdict = one.verdict;
    out.step = one.step;
    out.kink = one.kink;
  }
  return out;
}

}  // namespace diffmj
