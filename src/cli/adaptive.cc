#include "adaptive.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

namespace diffmj::cli {
namespace {

constexpr Integrator kMethods[] = {
    Integrator::kTsit5, Integrator::kDopri5,   Integrator::kDopri8,  Integrator::kBosh3,
    Integrator::kHeun,  Integrator::kMidpoint, Integrator::kRalston, Integrator::kExplicitEuler};

void require_positive(const char* name, const std::optional<double>& value) {
  if (!value || *value > 0) return;
  throw InputError(std::string(name) + " is " + number_text(*value) + ", expected a time above 0");
}

}  // namespace

std::string method_names() {
  std::string names;
  for (const Integrator method : kMethods) {
    names += (names.empty() ? "" : ", ") + std::string(integrator_name(method));
  }
  return names;
}

void add_adaptive_options(CLI::App& command, AdaptiveArguments& a) {
  const auto add = [&](const char* name, auto& value, const char* what, const char* help) {
    command.add_option(name, value, help)
        ->option_text(what)
        ->group("Options of --integrator " + method_names());
  };
  add("--rtol", a.rtol, "X", "relative tolerance on the error of a step (default 1e-6)");
  add("--atol", a.atol, "X", "absolute tolerance (default 1e-8)");
  add("--max-steps", a.max_steps, "N", "accepted and rejected steps of a rollout (default 100000)");
  add("--min-step", a.min_step, "SECONDS",
      "a step that is rejected at this size is given up (default 1e-12)");
  add("--max-step", a.max_step, "SECONDS", "no step is larger (default: the interval)");
  add("--pid", a.pid, "P I D", "coefficients of the step controller (default 0.2 0.4 0)");
  add("--safety", a.safety, "X", "share of the step that would just do (default 0.9)");
  add("--step-ratio", a.step_ratio, "MIN MAX", "of a step to the one before (default 0.2 10)");
  add("--step", a.step, "SECONDS", "constant steps of this size or a little less, no tolerance");
  add("--interval", a.interval, "SECONDS",
      "between rows of states and of controls (default: the model's timestep)");
  add("--control", a.control, "hold|linear", "controls between their rows (default hold)");
  add("--events", a.events, "BOOL",
      "steps end where contacts and limits become active, with the term of the jump (default "
      "true)");
  add("--adjoint", a.adjoint, "NAME",
      "discrete, interpolated or backsolve, of the gradient (default discrete)");
  add("--checkpoints", a.checkpoints, "N",
      "states kept for the way back, others are made again (default: all)");
  add("--adjoint-rtol", a.adjoint_rtol, "X",
      "of interpolated and backsolve (default: that of the steps)");
  add("--adjoint-atol", a.adjoint_atol, "X",
      "of interpolated and backsolve (default: that of the steps)");
}

AdaptiveOptions read_adaptive_options(Integrator integrator, const AdaptiveArguments& a) {
  const bool is_method =
      std::find(std::begin(kMethods), std::end(kMethods), integrator) != std::end(kMethods);
  AdaptiveOptions o;
  const auto read = [&](const char* name, const auto& from, auto&& set) {
    if (!from) return;
    if (!is_method) {
      throw InputError(std::string(name) + " is for the explicit Runge-Kutta methods (" +
                       method_names() + "), but --integrator is " + integrator_name(integrator));
    }
    set(*from);
  };
  read("--rtol", a.rtol, [&](double x) { o.stepping.rtol = x; });
  read("--atol", a.atol, [&](double x) { o.stepping.atol = x; });
  read("--max-steps", a.max_steps, [&](long x) { o.stepping.max_steps = x; });
  read("--min-step", a.min_step, [&](double x) { o.stepping.min_step = x; });
  read("--max-step", a.max_step, [&](double x) { o.stepping.max_step = x; });
  read("--pid", a.pid, [&](const std::array<double, 3>& x) {
    o.stepping.p = x[0];
    o.stepping.i = x[1];
    o.stepping.d = x[2];
  });
  read("--safety", a.safety, [&](double x) { o.stepping.safety = x; });
  read("--step-ratio", a.step_ratio, [&](const std::array<double, 2>& x) {
    o.stepping.shrink = x[0];
    o.stepping.grow = x[1];
  });
  read("--step", a.step, [&](double x) { o.step = x; });
  read("--interval", a.interval, [&](double x) { o.interval = x; });
  read("--control", a.control, [&](const std::string& x) { o.control = control_from_name(x); });
  read("--events", a.events, [&](bool x) { o.events = x; });
  read("--adjoint", a.adjoint, [&](const std::string& x) { o.adjoint = adjoint_from_name(x); });
  read("--checkpoints", a.checkpoints, [&](int x) { o.checkpoints = x; });
  read("--adjoint-rtol", a.adjoint_rtol, [&](double x) { o.adjoint_rtol = x; });
  read("--adjoint-atol", a.adjoint_atol, [&](double x) { o.adjoint_atol = x; });
  // the library takes 0 for the default
  require_positive("--step", a.step);
  require_positive("--interval", a.interval);
  return o;
}

Json json_adaptive(const Model& model) {
  const AdaptiveOptions& o = model.options().adaptive;
  Json out = Json::object();
  if (o.step > 0) {
    out["step"] = o.step;
  } else {
    out["rtol"] = o.stepping.rtol;
    out["atol"] = o.stepping.atol;
    out["max_steps"] = o.stepping.max_steps;
    out["min_step"] = o.stepping.min_step;
    if (std::isfinite(o.stepping.max_step)) out["max_step"] = o.stepping.max_step;
    out["pid"] = {o.stepping.p, o.stepping.i, o.stepping.d};
    out["safety"] = o.stepping.safety;
    out["step_ratio"] = {o.stepping.shrink, o.stepping.grow};
  }
  out["interval"] = model.interval();
  out["control"] = control_name(o.control);
  out["events"] = o.events;
  out["adjoint"] = adjoint_name(o.adjoint);
  if (o.checkpoints) out["checkpoints"] = *o.checkpoints;
  if (o.adjoint != Adjoint::kDiscrete && o.step == 0) {
    out["adjoint_rtol"] = o.adjoint_rtol.value_or(o.stepping.rtol);
    out["adjoint_atol"] = o.adjoint_atol.value_or(o.stepping.atol);
  }
  return out;
}

Json json_integrator(const Trajectory& t) {
  const IntegratorRecord& s = t.integrator;
  Json out = {{"accepted", s.naccepted},        {"rejected", s.nrejected},
              {"evaluations", s.nevaluation},   {"smallest_step", s.smallest_step},
              {"largest_step", s.largest_step}, {"end_time", s.end_time}};
  out["events"] = Json::array();
  for (const Event& e : s.events) {
    out["events"].push_back({{"time", e.time},
                             {"what", e.what},
                             {"count", e.count},
                             {"release", e.release},
                             {"rate", e.rate},
                             {"jump", e.jump},
                             {"grazing", e.grazing},
                             {"at_rest", e.at_rest}});
  }
  if (!t.ok()) {
    out["end_qpos"] = s.end_qpos;
    out["end_qvel"] = s.end_qvel;
    out["end_act"] = s.end_act;
  }
  return out;
}

Json json_adjoint(const Model& model, const Gradient& gradient) {
  const Adjoint adjoint = model.options().adaptive.adjoint;
  Json out = {{"name", adjoint_name(adjoint)}, {"recomputed", gradient.nrecomputed}};
  if (adjoint != Adjoint::kDiscrete) {
    out["accepted"] = gradient.naccepted;
    out["rejected"] = gradient.nrejected;
    out["evaluations"] = gradient.nevaluation;
  }
  return out;
}

void write_steps(const Trajectory& t, Output& output) {
  const IntegratorRecord& s = t.integrator;
  output.write(csv_row({"interval", "time", "size"}));
  size_t interval = 0;
  for (size_t n = 0; n + 1 < s.time.size(); n++) {
    while (interval + 1 < s.first_step.size() &&
           static_cast<size_t>(s.first_step[interval + 1]) <= n) {
      interval++;
    }
    output.write(csv_row({std::to_string(interval), number_text(s.time[n]),
                          number_text(s.time[n + 1] - s.time[n])}));
  }
}

}  // namespace diffmj::cli
