// diffmj rollout: the states of a rollout, as CSV or JSON.
#include <memory>
#include <optional>

#include "adaptive.h"
#include "cli.h"
#include "output.h"

namespace diffmj::cli {
namespace {

constexpr Defaults kDefaults{.nstep = 100, .settle = 0};

constexpr const char* kFooter =
    R"(Writes time, qpos, qvel and act of the start and after every step or interval.
A rollout that does not reach its end is written up to there; the exit code is then 4.

Examples:
  diffmj rollout humanoid.xml --nstep 500 > humanoid.csv
  diffmj rollout arm.xml --key home --ctrl "0.1 0 -0.2" --json
  diffmj rollout arm.xml --ctrl-file controls.csv --output states.csv
  diffmj rollout cube.xml --integrator tsit5 --interval 0.02 --steps-output steps.csv)";

struct RolloutCommand {
  CommonOptions common;
  std::string steps_output;  // empty: not wanted
  bool json = false;
};

struct Column {
  const char* name;
  const std::vector<double>& values;  // (nstep + 1) x width
  int width;
};

std::vector<Column> columns(const Trajectory& t) {
  return {{"qpos", t.qpos, t.nq}, {"qvel", t.qvel, t.nv}, {"act", t.act, t.na}};
}

void write_csv(const Trajectory& t, Output& output) {
  std::string header = "time";
  for (const Column& column : columns(t)) {
    for (int i = 0; i < column.width; i++) {
      header += std::string(",") + column.name + "[" + std::to_string(i) + "]";
    }
  }
  output.write(header + "\n");
  for (size_t row = 0; row < t.time.size(); row++) {
    std::string line = number_text(t.time[row]);
    for (const Column& column : columns(t)) {
      const auto width = static_cast<size_t>(column.width);
      for (size_t i = 0; i < width; i++) {
        line += "," + number_text(column.values[row * width + i]);
      }
    }
    output.write(line + "\n");
  }
}

void write_json(const Setup& setup, const Trajectory& t, Output& output) {
  Json result = json_header(setup);
  result["nstep"] = t.nstep;
  result["nstep_asked"] = t.nstep_asked;
  result["outcome"] = outcome_name(t.outcome);
  result["message"] = t.message;
  result["time"] = t.time;
  for (const Column& column : columns(t)) {
    result[column.name] = json_rows(column.values, t.time.size(), column.width);
  }
  if (setup.model.is_adaptive()) result["integrator"] = json_integrator(t);
  result["warnings"] = json_warnings(t.warnings);
  output.write(json_text(result));
}

int run(const RolloutCommand& command) {
  const Setup setup = read_setup(command.common, kDefaults);
  if (!command.steps_output.empty() && !setup.model.is_adaptive()) {
    throw InputError(
        std::string(
            "--steps-output is for diffmj's Runge-Kutta methods, but the integrator is ") +
        integrator_name(setup.model.integrator()));
  }
  Output output(command.common.output);
  std::optional<Output> steps_output;
  if (!command.steps_output.empty()) steps_output.emplace(command.steps_output);
  const Trajectory trajectory = run_rollout(setup);
  if (steps_output) {
    write_steps(trajectory, *steps_output);
    steps_output->finish();
  }
  if (command.json) {
    write_json(setup, trajectory, output);
  } else {
    write_csv(trajectory, output);
  }
  output.finish();
  if (!trajectory.ok()) return report_error(kExitDiverged, trajectory.message);
  if (!command.json) report_warnings(trajectory.warnings);
  return kExitOk;
}

}  // namespace

void add_rollout(CLI::App& app, int& exit_code) {
  CLI::App* sub = app.add_subcommand("rollout", "Simulate, and print every state");
  auto command = std::make_shared<RolloutCommand>();
  add_common_options(*sub, command->common, kDefaults);
  sub->add_option("--steps-output", command->steps_output,
                  "write interval, time and size of each adaptive step here")
      ->option_text("FILE.csv");
  sub->add_flag("--json", command->json, "JSON instead of CSV");
  sub->footer(kFooter);
  sub->callback([command, &exit_code] { exit_code = run(*command); });
}

}  // namespace diffmj::cli
