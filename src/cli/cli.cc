#include "cli.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <limits>
#include <utility>

#include "cfd.h"

namespace diffmj::cli {
namespace {

// a signal handler can reach nothing but a global
volatile std::sig_atomic_t interrupt_flag = 0;

void set_interrupt_flag(int /*signal*/) { interrupt_flag = 1; }

void require_nu(const Model& model, const std::string& where, size_t count) {
  if (count == static_cast<size_t>(model.nu())) return;
  throw InputError(where + " has " + std::to_string(count) + " numbers, expected " +
                   std::to_string(model.nu()) + " (nu, one per control)");
}

std::vector<double> read_ctrl(const Model& model, const std::string& text) {
  std::vector<double> ctrl = parse_numbers(text, "--ctrl");
  require_nu(model, "--ctrl", ctrl.size());
  return ctrl;
}

// Rows of nu numbers; empty lines and lines that begin with # are skipped.
std::vector<double> read_ctrl_file(const Model& model, const std::string& path) {
  std::ifstream file(path);
  std::vector<double> ctrl;
  std::string line;
  for (int number = 1; std::getline(file, line); number++) {
    const std::string where = "--ctrl-file " + path + ", line " + std::to_string(number);
    if (line.starts_with('#')) continue;
    const std::vector<double> row = parse_numbers(line, where);
    if (row.empty()) continue;
    require_nu(model, where, row.size());
    ctrl.insert(ctrl.end(), row.begin(), row.end());
  }
  if (!file.eof()) throw InputError("--ctrl-file " + path + " cannot be read");
  if (ctrl.empty()) throw InputError("--ctrl-file " + path + " contains no numbers");
  return ctrl;
}

Keyframe read_keyframe(const Model& model, const std::string& key) {
  int index = 0;
  const char* last = key.c_str() + key.size();
  const auto [stop, status] = std::from_chars(key.c_str(), last, index);
  const bool is_number = status == std::errc() && stop == last;
  return load_keyframe(model, is_number ? index : model.keyframe(key));
}

int steps_in(const Model& model, double seconds) {
  const double steps = std::round(seconds / model.interval());
  if (steps >= 0 && steps <= std::numeric_limits<int>::max()) return static_cast<int>(steps);
  throw InputError("--settle is " + std::to_string(seconds) +
                   " s, expected 0 or more, and at most " +
                   std::to_string(std::numeric_limits<int>::max()) + " steps");
}

// Replaces the state by the one after some steps under the first row of the controls.
void settle(int nstep, Setup& setup) {
  Setup before = setup;
  before.nstep = nstep;
  before.ctrl.resize(std::min(setup.ctrl.size(), static_cast<size_t>(setup.model.nu())));
  const Trajectory t = run_rollout(before);
  if (!t.ok()) throw RolloutError("while settling: " + t.message);
  const auto last_row = [](const std::vector<double>& x, int width) {
    return std::vector<double>(x.end() - width, x.end());
  };
  setup.state = {.time = t.time.back(),
                 .qpos = last_row(t.qpos, t.nq),
                 .qvel = last_row(t.qvel, t.nv),
                 .act = last_row(t.act, t.na)};
}

std::string describe_start(const CommonOptions& options, const Model& model, int settle_steps) {
  char settled[64] = "";
  if (settle_steps > 0) {
    std::snprintf(settled, sizeof(settled), ", settled for %g s", settle_steps * model.interval());
  }
  return (options.key.empty() ? "default state" : "keyframe " + options.key) + settled;
}

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

double parse_number(const std::string& word, const std::string& where) {
  // from_chars ignores the locale, but knows no plus sign
  const char* first = word.c_str() + (word.size() > 1 && word[0] == '+' ? 1 : 0);
  const char* last = word.c_str() + word.size();
  double value = 0;
  const auto [stop, status] = std::from_chars(first, last, value);
  if (status == std::errc() && stop == last) return value;
  throw InputError(where + ": '" + word + "' is not a number");
}

std::vector<double> parse_numbers(const std::string& text, const std::string& where) {
  constexpr const char* kSeparators = " \t\r,";
  std::vector<double> numbers;
  size_t begin = text.find_first_not_of(kSeparators);
  while (begin != std::string::npos) {
    const size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    numbers.push_back(parse_number(text.substr(begin, end - begin), where));
    begin = text.find_first_not_of(kSeparators, end);
  }
  return numbers;
}

RolloutInput Setup::input() const {
  return {.qpos = state.qpos,
          .qvel = state.qvel,
          .act = state.act,
          .ctrl = ctrl,
          .qfrc_applied = {},
          .xfrc_applied = {},
          .mocap_pos = mocap_pos,
          .mocap_quat = mocap_quat,
          .time = state.time};
}

void add_model_options(CLI::App& command, CommonOptions& options) {
  for (const OptionInfo& info : model_option_list()) {
    CLI::Option* option = add_listed_option(command, info, "--", options.model);
    if (info.runge_kutta) option->group("Options of diffmj's Runge-Kutta methods");
  }
  add_cfd_options(command, options.cfd);
}

ModelOptions model_options(const CommonOptions& options) {
  ModelOptions out =
      model_options_by_name(read_listed_options(model_option_list(), "--", options.model));
  out.cfd = read_cfd_options(options.cfd);
  return out;
}

void add_common_options(CLI::App& command, CommonOptions& options, const Defaults& defaults) {
  char settle_text[160];
  std::snprintf(settle_text, sizeof(settle_text),
                "simulate for this time first, under the first row of controls (default %g%s)",
                defaults.settle, defaults.settle > 0 ? "; 0 with --key" : "");
  command.add_option("MODEL", options.model_file, "MJCF, URDF or MJB file")
      ->required()
      ->option_text(" ");
  command
      .add_option("--key", options.key,
                  "start from this keyframe, with its controls and mocap poses")
      ->option_text("NAME|INDEX");
  command.add_option("--settle", options.settle, settle_text)->option_text("SECONDS");
  command
      .add_option("--nstep", options.nstep,
                  "number of steps or intervals of the rollout (default " +
                      std::to_string(defaults.nstep) + ", or the rows of --ctrl-file)")
      ->option_text("N");
  CLI::Option* ctrl = command
                          .add_option("--ctrl", options.ctrl,
                                      "constant controls (default: those of the keyframe, or 0)")
                          ->option_text("\"U0 U1 ...\"");
  command
      .add_option("--ctrl-file", options.ctrl_file,
                  "controls, one row per step, or a single row that is held")
      ->option_text("FILE.csv")
      ->excludes(ctrl);
  command
      .add_option("--output", options.output, "write the result to this file, when it is complete")
      ->option_text("FILE");
  add_model_options(command, options);
}

Setup read_setup(const CommonOptions& options, const Defaults& defaults) {
  const Model model = Model::from_file(options.model_file, model_options(options));
  if (!model.collisions_notice().empty()) {
    std::fprintf(stderr,
                 "diffmj: warning: MuJoCo's own colliders are used, without smoothing, for %s\n",
                 one_line(model.collisions_notice()).c_str());
  }
  const bool has_key = !options.key.empty();
  const int settle_steps = steps_in(model, options.settle.value_or(has_key ? 0 : defaults.settle));
  Setup setup{.model_file = options.model_file,
              .model = model,
              .state = default_state(model),
              .start = describe_start(options, model, settle_steps),
              .nstep = options.nstep.value_or(defaults.nstep)};
  if (has_key) {
    Keyframe key = read_keyframe(model, options.key);
    setup.state = std::move(key.state);
    setup.ctrl = std::move(key.ctrl);
    setup.mocap_pos = std::move(key.mocap_pos);
    setup.mocap_quat = std::move(key.mocap_quat);
  }
  if (!options.ctrl.empty()) {
    setup.ctrl = read_ctrl(model, options.ctrl);
  } else if (!options.ctrl_file.empty()) {
    setup.ctrl = read_ctrl_file(model, options.ctrl_file);
    const int rows = static_cast<int>(setup.ctrl.size()) / model.nu();
    if (!options.nstep) setup.nstep = rows;
    if (rows != 1 && rows != setup.nstep) {
      throw InputError("--ctrl-file " + options.ctrl_file + " has " + std::to_string(rows) +
                       " rows, expected " + std::to_string(setup.nstep) + " (--nstep) or 1");
    }
  }
  if (settle_steps > 0) settle(settle_steps, setup);
  return setup;
}

Progress::~Progress() {
  if (percent_ >= 0) std::fprintf(stderr, "\r\033[K");
}

void Progress::show(double share) {
  const int percent = static_cast<int>(100 * share);
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  if (elapsed < std::chrono::seconds(1) || percent == percent_ || !isatty(STDERR_FILENO)) return;
  percent_ = percent;
  std::fprintf(stderr, "\r%s: %3d %%", what_, percent);
  std::fflush(stderr);
}

RolloutOptions rollout_options(Progress& progress) {
  return {.interrupted = interrupted,
          .progress = [&progress](double share) { progress.show(share); }};
}

Trajectory run_rollout(const Setup& setup) {
  Progress progress("rollout");
  Trajectory trajectory =
      rollout(setup.model, setup.input(), setup.nstep, rollout_options(progress));
  if (trajectory.outcome == Outcome::kInterrupted) throw Interrupted(trajectory.message);
  return trajectory;
}

void handle_signals() {
  struct sigaction action = {};
  action.sa_handler = set_interrupt_flag;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  // a parent may have told us to ignore it
  std::signal(SIGPIPE, SIG_DFL);
}

bool interrupted() { return interrupt_flag != 0; }

void forget_interrupt() {
  interrupt_flag = 0;
  handle_signals();
}

std::string did_you_mean(const std::string& name, std::span<const std::string> known) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

int report_error(ExitCode code, const std::string& message) {
  std::fprintf(stderr, "diffmj: error: %s\n", one_line(message).c_str());
  return code;
}

void report_warnings(const std::vector<Warning>& warnings) {
  for (const Warning& w : warnings) {
    std::fprintf(stderr, "diffmj: warning: %s (first at step %d, %d times)\n",
                 one_line(w.text).c_str(), w.first_step, w.count);
  }
}

}  // namespace diffmj::cli
