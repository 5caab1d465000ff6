// diffmj check: a certificate of the gradient of a model at a state, for people or as JSON.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli.h"
#include "entries.h"
#include "output.h"

namespace diffmj::cli {
namespace {

using Verdict = CheckDirection::Verdict;

constexpr Defaults kDefaults{.nstep = 10, .settle = 0.5};

constexpr const char* kFooter =
    R"(Compares the gradient of a rollout with differences of mj_step in random directions; with
adaptive steps the discrete adjoint with differences of the same steps.

Exit codes:
  0 agrees, 1 differs, 2 usage or input error, 3 inconclusive (differences cannot tell: the
  report names the contact, limit or clamp in the way), 4 the rollout did not reach its end

Examples:
  diffmj check humanoid.xml
  diffmj check arm.xml --key home --nstep 50 --ctrl "0.1 0 -0.2"
  diffmj check arm.xml --settle 2 --tolerance 1e-6 --json > certificate.json
  diffmj check arm.xml --integrator tsit5 --rtol 1e-8 --interval 0.02)";

struct CheckCommand {
  CommonOptions common;
  CheckOptions check;
  bool json = false;
};

// The numbers of the report that are derived from its directions.
struct Summary {
  int agree = 0, differ = 0, inconclusive = 0;
  double worst_error = 0;
  const char* verdict = "passed";
  ExitCode exit_code = kExitOk;
};

Summary summarize(const CheckReport& report) {
  Summary s;
  for (const CheckDirection& d : report.directions) {
    s.agree += d.verdict == Verdict::kAgrees;
    s.differ += d.verdict == Verdict::kDiffers;
    s.inconclusive += d.verdict == Verdict::kInconclusive || d.verdict == Verdict::kAtKink;
    // a NaN is the worst of all
    if (std::isnan(d.error) || d.error > s.worst_error) s.worst_error = d.error;
  }
  if (s.differ > 0) {
    s.verdict = "failed";
    s.exit_code = kExitDiffers;
  } else if (!report.passed) {
    s.verdict = "inconclusive";
    s.exit_code = kExitInconclusive;
  }
  return s;
}

Json json_kink(const Kink& kink) {
  if (kink.step < 0) return nullptr;
  return {
      {"what", kink.what}, {"step", kink.step}, {"distance", kink.distance}, {"unit", kink.unit}};
}

Json json_kinks(const std::vector<ConstraintKinks>& kinks) {
  Json out = Json::array();
  for (const ConstraintKinks& one : kinks) {
    out.push_back({{"constraint", one.constraint},
                   {"zone", json_kink(one.zone)},
                   {"activation", json_kink(one.activation)}});
  }
  return out;
}

std::string json_report(const Setup& setup, const CheckOptions& options,
                        const CheckReport& report) {
  const Summary summary = summarize(report);
  Json directions = Json::array();
  for (const CheckDirection& d : report.directions) {
    directions.push_back({{"adjoint", d.adjoint},
                          {"differences", d.differences},
                          {"error_bar", d.error_bar},
                          {"error", d.error},
                          {"verdict", verdict_name(d.verdict)},
                          {"method", method_name(d.method)},
                          {"step", d.step < 0 ? Json(nullptr) : Json(d.step)},
                          {"kink", d.kink.empty() ? Json(nullptr) : Json(d.kink)}});
  }
  Json result = json_header(setup);
  result["path"] = gradient_path_name(report.path);
  result["path_reason"] = report.path_reason;
  if (report.path == GradientPath::kAnalytic) {
    result["oracle_difference"] = report.oracle_difference;
  }
  if (report.collider_difference >= 0) {
    result["collider_difference"] = report.collider_difference;
  }
  if (report.jump_share >= 0) {
    result["events"] = report.nevent;
    result["jump_share"] = report.jump_share;
  }
  result["seed"] = options.seed;
  result["tolerance"] = options.tolerance;
  result["verdict"] = summary.verdict;
  result["passed"] = report.passed;
  result["reason"] = report.reason;
  result["worst_error"] = summary.worst_error;
  result["directions"] = directions;
  result["solver_residual"] = report.solver_residual;
  result["adjoint_residual"] = report.adjoint_residual;
  result["nearest_kink"] = json_kink(report.nearest_kink);
  result["kinks"] = json_kinks(report.kinks);
  result["features"] = report.features;
  result["advice"] = report.advice;
  result["warnings"] = json_warnings(report.warnings);
  return json_text(result);
}

const char* path_meaning(GradientPath path) {
  switch (path) {
    case GradientPath::kAnalytic:
      return "analytic: every stage has a pullback written by hand";
    case GradientPath::kOracle:
      return "oracle: differences of inverse dynamics at the solver's solution";
    default:
      return "differences of mj_step";
  }
}

std::string kink_text(const CheckReport& report) {
  const Kink& kink = report.nearest_kink;
  if (kink.step >= 0) {
    return line("%.2g ", kink.distance) + kink.unit + " away at step " + std::to_string(kink.step) +
           ": " + kink.what;
  }
  return report.path != GradientPath::kDifferences ? "none: the rollout meets no constraint"
                                                   : "not looked for on this gradient path";
}

// the nearest constraints, one line each
std::vector<std::string> kink_lines(const CheckReport& report) {
  constexpr size_t kMost = 5;
  std::vector<std::string> lines;
  for (const ConstraintKinks& one : report.kinks) {
    if (lines.size() == kMost) {
      lines.push_back(line("and %zu more, which --json lists", report.kinks.size() - kMost));
      break;
    }
    std::string text = one.constraint + ":";
    if (one.zone.step >= 0) {
      text += line(" %.2g of its force range from another zone at step %d", one.zone.distance,
                   one.zone.step);
    }
    if (one.activation.step >= 0) {
      text += one.zone.step >= 0 ? "," : "";
      text += line(" %.2g %s from switching at step %d", one.activation.distance,
                   one.activation.unit.c_str(), one.activation.step);
    }
    lines.push_back(text);
  }
  return lines;
}

// The answer, which everything below it explains.
std::string verdict_line(const Summary& s, int n) {
  if (s.exit_code == kExitOk) {
    return line("passed: the gradient is right here; %d of %d directions agree with differences\n",
                s.agree, n);
  }
  if (s.differ > 0) {
    return line("failed: the gradient is wrong in %d of %d directions; %d agree, %d inconclusive\n",
                s.differ, n, s.agree, s.inconclusive);
  }
  return line("inconclusive: differences cannot tell in %d of %d directions; %d agree\n",
              s.inconclusive, n, s.agree);
}

std::string text_report(const Setup& setup, const CheckOptions& options,
                        const CheckReport& report) {
  const Summary s = summarize(report);
  const int n = static_cast<int>(report.directions.size());
  std::string text = verdict_line(s, n);
  if (!report.reason.empty()) text += entry("because", report.reason);
  text += "\n" + entry("model", setup.model_file);
  text += entry("start", setup.start);
  text += entry("rollout",
                line("%d %s of %g s", setup.nstep,
                     setup.model.is_adaptive() ? "intervals" : "steps", setup.model.interval()));
  text += entries("uses", report.features);
  text += entry("gradient path", path_meaning(report.path));
  if (!report.path_reason.empty()) text += entry("  because", report.path_reason);
  if (report.path == GradientPath::kAnalytic) {
    text += entry("  and the oracle", line("differ by %.1e", report.oracle_difference));
  }
  if (report.collider_difference >= 0) {
    text += entry("  ccd_tolerance",
                  line("moves it by %.1e; the check compares contacts at machine precision",
                       report.collider_difference));
  }
  if (report.jump_share >= 0) {
    text += entry("events", line("%d; their jump terms are %.2g of the gradient", report.nevent,
                                 report.jump_share));
  }
  text += line("\n%9s %16s %16s %10s %10s  %-12s  %s\n", "direction", "adjoint", "differences",
               "error bar", "error", "verdict", "differences");
  for (int i = 0; i < n; i++) {
    const CheckDirection& d = report.directions[static_cast<size_t>(i)];
    text += line("%9d %16.9g %16.9g %10.1e %10.1e  %-12s  %s\n", i + 1, d.adjoint, d.differences,
                 d.error_bar, d.error, verdict_name(d.verdict), method_name(d.method));
  }
  text += "\n";
  text += entry("worst error", line("%.1e, tolerance %.1e", s.worst_error, options.tolerance));
  text += entry("solver residual", line("%.1e", report.solver_residual));
  if (report.path != GradientPath::kDifferences) {
    text += entry("adjoint residual", line("%.1e", report.adjoint_residual));
  }
  text += entry("nearest kink", kink_text(report));
  text += entries("by constraint", kink_lines(report));
  std::vector<std::string> warnings;
  for (const Warning& w : report.warnings) {
    warnings.push_back(w.text + line(" (first at step %d, %d times)", w.first_step, w.count));
  }
  text += entries("warnings", warnings);
  text += entries("advice", report.advice);
  return text;
}

void require_positive(const char* name, double value) {
  if (value > 0 && std::isfinite(value)) return;
  throw InputError(std::string(name) + line(" is %g, expected a number above 0", value));
}

int run(CheckCommand& command) {
  CheckOptions& options = command.check;
  // CLI::PositiveNumber lets a NaN through and prints the largest double in full
  require_positive("--directions", options.directions);
  require_positive("--tolerance", options.tolerance);
  const Setup setup = read_setup(command.common, kDefaults);
  require_positive("--nstep", setup.nstep);
  Output output(command.common.output);
  // the check throws InputError for a rollout that diverges: that is no error of the input
  const Trajectory trajectory = run_rollout(setup);
  if (!trajectory.ok()) throw RolloutError(trajectory.message);

  options.nstep = setup.nstep;
  options.interrupted = interrupted;
  CheckReport report;
  {
    Progress progress("checking");
    options.progress = [&progress](double share) { progress.show(share); };
    report = check_gradient(setup.model, setup.input(), options);
  }
  output.write(command.json ? json_report(setup, options, report)
                            : text_report(setup, options, report));
  output.finish();
  return summarize(report).exit_code;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  CLI::App* sub = app.add_subcommand("check", "Is the gradient of this model right? A certificate");
  auto command = std::make_shared<CheckCommand>();
  add_common_options(*sub, command->common, kDefaults);
  CheckOptions& check = command->check;
  sub->add_option("--directions", check.directions,
                  "number of random directions to compare (default " +
                      std::to_string(check.directions) + ")")
      ->option_text("N");
  sub->add_option("--seed", check.seed,
                  "seed of the directions (default " + std::to_string(check.seed) + ")")
      ->option_text("N");
  sub->add_option(
         "--tolerance", check.tolerance,
         "largest relative error that passes (default " + number_text(check.tolerance) + ")")
      ->option_text("X");
  sub->add_flag("--json", command->json, "JSON instead of text");
  sub->footer(kFooter);
  sub->callback([command, &exit_code] { exit_code = run(*command); });
}

}  // namespace diffmj::cli
