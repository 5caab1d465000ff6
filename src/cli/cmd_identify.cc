// diffmj identify: parameters of a model from recordings, as a problem file says.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "cfd.h"
#include "cli.h"
#include "output.h"
#include "problem.h"

namespace diffmj::cli {
namespace {

struct IdentifyCommand {
  std::string problem_file;
  std::string out;
  std::optional<int> iterations;
  bool resume = false;
};

// A line per iteration on a terminal, which the next one overwrites.
void show(const FitStep& step, int iterations) {
  if (!isatty(STDERR_FILENO)) return;
  std::fprintf(stderr, "\riteration %d of %d, loss %.6g, %.1f s   ", step.iteration, iterations,
               step.loss, step.seconds);
  std::fflush(stderr);
}

void write_file(const std::string& path, const std::string& text) {
  Output output(path);
  output.write(text);
  output.finish();
}

Objective objective(const Problem& problem, const std::vector<int>& which) {
  std::vector<Recording> some;
  for (const int i : which) some.push_back(problem.recordings[static_cast<size_t>(i)]);
  return {problem.family, segments(problem.family.at(problem.start), some, problem.segments),
          problem.loss};
}

// Combinations of parameters that the data do not determine, in words.
std::vector<std::string> notes(const Problem& problem, const Uncertainty& uncertainty) {
  std::vector<std::string> out;
  for (const std::vector<double>& x : uncertainty.undetermined) {
    std::string words;
    for (size_t i = 0; i < x.size(); i++) {
      if (std::abs(x[i]) < 1e-3) continue;
      char term[32];
      std::snprintf(term, sizeof(term), "%+.2g ", x[i]);
      words += (words.empty() ? "" : " ") + std::string(term) + problem.family.names()[i];
    }
    out.push_back("the recordings do not determine " + words +
                  " (relative to their sizes); leave one of them out, or record a motion in which "
                  "it matters");
  }
  return out;
}

Json json_fit(const Problem& problem, const FitResult& result, const Uncertainty& uncertainty,
              const std::optional<std::pair<double, double>>& held_out) {
  const std::vector<std::string>& names = problem.family.names();
  Json parameters = Json::object();
  for (size_t i = 0; i < names.size(); i++) {
    parameters[names[i]] = {
        {"start", problem.start[i]}, {"value", result.theta[i]}, {"error", uncertainty.error[i]}};
  }
  Json history = Json::array();
  for (const FitStep& x : result.history) {
    history.push_back({{"iteration", x.iteration},
                       {"loss", x.loss},
                       {"seconds", x.seconds},
                       {"failed", x.nfailed},
                       {"values", x.theta}});
  }
  Json out = {{"model", problem.model_file},
              {"parameters", parameters},
              {"loss", result.loss},
              {"converged", result.converged},
              {"interrupted", result.interrupted},
              {"message", result.message},
              {"warning", result.warning},
              {"undetermined", uncertainty.undetermined},
              {"correlation",
               json_rows(uncertainty.correlation, names.size(), static_cast<int>(names.size()))},
              {"history", history}};
  if (held_out) out["held_out"] = {{"before", held_out->first}, {"after", held_out->second}};
  return out;
}

void print(const Problem& problem, const FitResult& result, const Uncertainty& uncertainty,
           const std::optional<std::pair<double, double>>& held_out) {
  std::string text;
  char line[512];
  for (size_t i = 0; i < result.theta.size(); i++) {
    std::snprintf(line, sizeof(line), "%-32s %12.6g +- %-10.2g (from %g)\n",
                  problem.family.names()[i].c_str(), result.theta[i], uncertainty.error[i],
                  problem.start[i]);
    text += line;
  }
  std::snprintf(line, sizeof(line), "loss %.6g, from %.6g, after %d iterations and %.3g s\n",
                result.loss, result.history[0].loss, result.history.back().iteration,
                result.history.back().seconds);
  text += line;
  if (held_out) {
    std::snprintf(line, sizeof(line), "loss on recordings held out %.6g, from %.6g\n",
                  held_out->second, held_out->first);
    text += line;
  }
  Output output("");
  output.write(text + "written to " + problem.out + "/report.html, fit.json and fitted.xml\n");
  output.finish();
}

int run(const IdentifyCommand& command) {
  Problem problem = read_problem(command.problem_file);
  if (!command.out.empty()) problem.out = command.out;
  if (command.iterations) problem.fit.iterations = *command.iterations;
  std::error_code error;
  std::filesystem::create_directories(problem.out, error);
  if (error)
    throw InputError("the folder '" + problem.out + "' cannot be created: " + error.message());

  const Objective training = objective(problem, problem.split.training);
  std::optional<Objective> held_out;
  if (!problem.split.held_out.empty()) held_out.emplace(objective(problem, problem.split.held_out));
  problem.fit.interrupted = interrupted;
  problem.fit.progress = [&](const FitStep& step) { show(step, problem.fit.iterations); };
  problem.fit.checkpoint = problem.out + "/checkpoint.txt";
  problem.fit.resume = command.resume;
  const FitResult result = fit(training, problem.start, problem.fit);
  if (isatty(STDERR_FILENO)) std::fprintf(stderr, "\r\033[K");
  if (result.history.empty()) throw Interrupted("identify: interrupted before the first iteration");
  if (!result.message.empty()) {
    std::fprintf(stderr, "diffmj: warning: the fit ended early: %s\n", result.message.c_str());
  }
  if (!result.warning.empty()) {
    std::fprintf(stderr, "diffmj: warning: %s\n", result.warning.c_str());
  }
  report_cfd(result.cfd);

  // what was reached is written, also after a Ctrl-C; a second one ends the process
  if (result.interrupted) forget_interrupt();
  const RolloutOptions options{.nthread = problem.fit.nthread, .interrupted = interrupted};
  const Uncertainty known = uncertainty(training, result.theta, options, result.moves);
  std::optional<std::pair<double, double>> test;
  if (held_out) {
    test = {held_out->evaluate(problem.start, false, {}, options).loss,
            held_out->evaluate(result.theta, false, {}, options).loss};
  }
  const std::vector<std::string> words = notes(problem, known);
  for (const std::string& x : words) std::fprintf(stderr, "diffmj: warning: %s\n", x.c_str());
  const std::string mjcf = problem.family.mjcf(result.theta);
  const std::string summary = std::to_string(problem.start.size()) + " parameters of " +
                              std::filesystem::path(problem.model_file).filename().string() + ", " +
                              std::to_string(problem.split.training.size()) + " recordings in " +
                              std::to_string(training.nsegment()) + " segments of " +
                              std::to_string(problem.segments.length) + " intervals.";
  const auto in_folder = [&](const char* name) { return problem.out + "/" + name; };
  write_file(in_folder("fitted.xml"), mjcf);
  write_file(in_folder("fit.json"), json_text(json_fit(problem, result, known, test)));
  write_file(in_folder("report.html"), fit_report(training, held_out ? &*held_out : nullptr,
                                                  problem.start, problem.fit.bounds, result, known,
                                                  {problem.title, summary, words, mjcf}, options));
  print(problem, result, known, test);
  return result.interrupted ? kExitInterrupted : kExitOk;
}

}  // namespace

void add_identify(CLI::App& app, int& exit_code) {
  CLI::App* sub = app.add_subcommand("identify", "Parameters of a model from recordings");
  auto command = std::make_shared<IdentifyCommand>();
  sub->add_option("PROBLEM", command->problem_file, "TOML file")->required()->option_text(" ");
  sub->add_option("--out", command->out, "folder for the results (default: that of the file)")
      ->option_text("FOLDER");
  sub->add_option("--iterations", command->iterations, "number of iterations; overrides the file")
      ->option_text("N");
  sub->add_flag("--resume", command->resume, "continue from checkpoint.txt in that folder");
  sub->footer(kProblemExample);
  sub->callback([command, &exit_code] { exit_code = run(*command); });
}

}  // namespace diffmj::cli
