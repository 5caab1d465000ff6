// diffmj: the command line. Parses, runs one subcommand, turns every exception into one line.
#include <exception>
#include <memory>
#include <sstream>
#include <string>

#include "cli.h"
#include "output.h"

#ifndef DIFFMJ_BUILD_VERSION  // set for wheels
#define DIFFMJ_BUILD_VERSION DIFFMJ_VERSION
#endif

namespace diffmj::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  diffmj check humanoid.xml                     is the gradient of this model right?
  diffmj grad humanoid.xml --loss "qpos[2]"     gradient of the final height, as JSON
  diffmj rollout humanoid.xml --nstep 500       states, as CSV
  diffmj identify problem.toml                  parameters of a model from recordings, with a page
  diffmj plan task.toml                         controls for a task, planned and executed, with a page
  diffmj doctor                                 does this installation work? What a bug report needs
  diffmj completion bash                        completion of commands and options in the shell
  diffmj grad --help                            options of a subcommand)";

constexpr size_t kColumn = 28, kWidth = 118;  // of descriptions of options, and of a line

// Breaks the descriptions of options at words; CLI11 indents the lines.
class WrappingFormatter : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    std::istringstream words(CLI::Formatter::make_option_desc(option));
    std::string out, word;
    size_t column = kColumn;
    while (words >> word) {
      if (column > kColumn && column + 1 + word.size() > kWidth) {
        out += '\n';
        column = kColumn;
      } else if (column > kColumn) {
        out += ' ';
        column++;
      }
      out += word;
      column += word.size();
    }
    return out;
  }
};

std::string version_text() {
  return "diffmj " DIFFMJ_BUILD_VERSION " (MuJoCo compiled " + mujoco_version_compiled() +
         ", loaded " + mujoco_version_loaded() + ")";
}

// What the user wrote instead of a name that exists, and the nearest that does.
std::string unexpected(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen[0];
  const std::string called = chosen.empty() ? "diffmj" : "diffmj " + command.get_name();
  const std::vector<std::string> words = app.remaining(true);
  const std::string word = words.empty() ? "" : words[0].substr(0, words[0].find('='));
  std::vector<std::string> known;
  if (!word.starts_with('-')) {
    for (const CLI::App* sub : app.get_subcommands({})) known.push_back(sub->get_name());
    if (chosen.empty()) return unknown_name("subcommand", word, known) + " (see diffmj --help)";
    return called + ": unexpected argument '" + word + "' (see " + called + " --help)";
  }
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  return called + " has no option " + word + did_you_mean(word, known) + " (see " + called +
         " --help)";
}

int run(int argc, char** argv) {
  CLI::App app("Gradients of MuJoCo rollouts through contact", "diffmj");
  app.formatter(std::make_shared<WrappingFormatter>());  // which subcommands inherit
  app.set_version_flag("--version", version_text, "Print the versions of diffmj and MuJoCo");
  app.require_subcommand(0, 1);
  app.footer(kFooter);
  int exit_code = kExitOk;
  add_check(app, exit_code);
  add_completion(app, exit_code);
  add_doctor(app, exit_code);
  add_grad(app, exit_code);
  add_identify(app, exit_code);
  add_plan(app, exit_code);
  add_rollout(app, exit_code);
  for (CLI::App* command : app.get_subcommands({})) {
    command->get_formatter()->column_width(kColumn);
  }
  try {
    app.parse(argc, argv);
    // CLI11's own check would hide that a word is not a subcommand
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A subcommand");
  } catch (const CLI::ExtrasError&) {
    return report_error(kExitError, unexpected(app));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      return report_error(kExitError, std::string(error.what()) + " (see diffmj --help)");
    }
    // --help or --version
    std::ostringstream text;
    app.exit(error, text, text);
    Output output("");
    output.write(text.str());
    output.finish();
  }
  return exit_code;
}

}  // namespace
}  // namespace diffmj::cli

int main(int argc, char** argv) {
  using namespace diffmj::cli;
  handle_signals();
  try {
    return run(argc, argv);
  } catch (const diffmj::Interrupted& error) {
    return report_error(kExitInterrupted, error.what());
  } catch (const diffmj::RolloutError& error) {
    return report_error(kExitDiverged, error.what());
  } catch (const std::bad_alloc&) {
    return report_error(kExitError, "out of memory");
  } catch (const std::exception& error) {
    return report_error(kExitError, error.what());
  } catch (...) {
    return report_error(kExitError, "unknown exception");
  }
}
