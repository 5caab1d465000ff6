// What the subcommands share: exit codes, the options for model, state and control, interruption.
#ifndef DIFFMJ_CLI_CLI_H_
#define DIFFMJ_CLI_CLI_H_

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diffmj/diffmj.h"
#include "listed_options.h"

namespace diffmj::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitDiffers = 1,       // check: the gradient disagrees with differences
  kExitError = 2,         // usage, input or output
  kExitInconclusive = 3,  // check: differences are not good enough to tell
  kExitDiverged = 4,      // the rollout did not reach its last step
  kExitInterrupted = 130,
};

// Of contacts from distance (cfd.h).
struct CfdArguments {
  std::string law;  // empty: none
  std::vector<std::string> geoms, pairs;
  OptionWords options;
};

// What every subcommand takes.
struct CommonOptions {
  std::string model_file;
  OptionWords model;  // of ModelOptions
  CfdArguments cfd;
  std::string key;               // name or number; empty: the default state
  std::optional<double> settle;  // [s]
  std::optional<int> nstep;
  std::string ctrl;       // nu numbers, held
  std::string ctrl_file;  // one row per step
  std::string output;     // file; empty: standard output
};

// Used where the command line is silent.
struct Defaults {
  int nstep = 100;
  double settle = 0;  // [s], only without a keyframe
};

// A model, the state a rollout starts from and its controls.
struct Setup {
  std::string model_file;
  Model model;
  State state;
  std::string start;                                    // how the state came about, in words
  std::vector<double> ctrl = {};                        // nstep x nu, or nu to hold, or empty
  std::vector<double> mocap_pos = {}, mocap_quat = {};  // empty: the model's
  int nstep = 0;

  RolloutInput input() const;  // looks into this Setup
};

// A number, whatever the locale; where names the text in messages.
double parse_number(const std::string& word, const std::string& where);
// Numbers separated by blanks or commas.
std::vector<double> parse_numbers(const std::string& text, const std::string& where);

// Those of them that say how a model is simulated and differentiated.
void add_model_options(CLI::App& command, CommonOptions& options);
ModelOptions model_options(const CommonOptions& options);
// All of them.
void add_common_options(CLI::App& command, CommonOptions& options, const Defaults& defaults);

// Reads the model and the controls, takes the keyframe, settles. Throws RolloutError if settling
// diverges, Interrupted, and what the library throws.
Setup read_setup(const CommonOptions& options, const Defaults& defaults);

// A percentage on stderr, if that is a terminal and the work takes longer than a second; gone when
// the work is done.
class Progress {
 public:
  explicit Progress(const char* what) : what_(what) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(double share);

 private:
  const char* what_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int percent_ = -1;
};

// Polls for Ctrl-C and shows progress.
RolloutOptions rollout_options(Progress& progress);

// rollout() that polls for Ctrl-C and throws Interrupted; a divergence stays in the outcome.
Trajectory run_rollout(const Setup& setup);

// From here on the first Ctrl-C sets a flag, the second ends the process; a closed pipe ends it
// quietly, as it does other tools.
void handle_signals();
bool interrupted();
// After a Ctrl-C that ended some work: what was reached can be written, until the next one.
void forget_interrupt();

// "; did you mean '--nstep'?" at the end of an error, or empty if no known name is similar.
std::string did_you_mean(const std::string& name, std::span<const std::string> known);

// "diffmj: error: ..." on one line of stderr, whatever the message holds; returns code.
int report_error(ExitCode code, const std::string& message);
void report_warnings(const std::vector<Warning>& warnings);

// Each adds its subcommand, which sets exit_code when it runs.
void add_check(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_grad(CLI::App& app, int& exit_code);
void add_identify(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_rollout(CLI::App& app, int& exit_code);

}  // namespace diffmj::cli

#endif  // DIFFMJ_CLI_CLI_H_
