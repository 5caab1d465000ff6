// diffmj plan: plans and executes a task, as its file says.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cfd.h"
#include "cli.h"
#include "output.h"
#include "task.h"

namespace diffmj::cli {
namespace {

struct PlanCommand {
  std::string task_file;
  std::string planner;
  std::string out;
  std::optional<unsigned> seed;
  bool film = true, resume = false, view = false;
};

constexpr const char* kCheckpoint = "run.checkpoint";
constexpr double kSaveEvery = 5;  // [s]

void show(const MpcPlan& plan, const MpcRun& run, int nstep) {
  std::fprintf(stderr, "plan %zu at %.3f s (step %d of %d): cost %.6g, %.3f s%s%s\n",
               run.plans.size(), plan.time, plan.step, nstep, plan.cost, plan.seconds,
               plan.ndiverged > 0 ? ", some rollouts diverged" : "", plan.late ? ", late" : "");
}

Json json_run(const Task& task, const Planner& planner, const MpcRun& run) {
  Json plans = Json::array();
  for (const MpcPlan& x : run.plans) {
    Json history = Json::array();
    for (const PlanIteration& i : x.history) {
      history.push_back({{"cost", i.cost}, {"latest", i.latest}, {"seconds", i.seconds}});
    }
    plans.push_back({{"step", x.step},
                     {"time", x.time},
                     {"cost", x.cost},
                     {"executed_cost", x.executed_cost},
                     {"seconds", x.seconds},
                     {"late", x.late},
                     {"rollouts", x.nrollout},
                     {"diverged", x.ndiverged},
                     {"message", x.message},
                     {"history", history}});
  }
  return {{"model", task.setup.model_file},
          {"start", task.setup.start},
          {"planner", plan_method_name(planner.options().method)},
          {"horizon", planner.options().horizon},
          {"timestep", planner.model().timestep()},
          {"terms", planner.cost().names()},
          {"seed", planner.options().seed},
          {"nstep", run.nstep},
          {"simulated", run.simulated},
          {"seconds", run.seconds},
          {"interrupted", run.interrupted},
          {"message", run.message},
          {"plans", plans}};
}

Recording recording_of(const MpcRun& run, const Model& model) {
  Recording out{
      .name = "run", .time = run.time, .qpos = run.qpos, .qvel = run.qvel, .act = run.act};
  out.ctrl = run.ctrl;
  out.ctrl.resize(out.time.size() * static_cast<size_t>(model.nu()),
                  std::numeric_limits<double>::quiet_NaN());
  return out;
}

// Runs Python's renderer on what is in the folder. Only where this program is part of a Python
// package, whose wrapper says which Python: MuJoCo has no renderer without a window otherwise.
bool make_film(const std::string& folder) {
  const char* python = std::getenv("DIFFMJ_PYTHON");
  if (!python) return false;
  const char* chosen = std::getenv("MUJOCO_GL");
  const std::vector<std::string> renderers =
      chosen ? std::vector<std::string>{chosen} : std::vector<std::string>{"egl", "osmesa"};
  for (const std::string& renderer : renderers) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("MUJOCO_GL", renderer.c_str(), 1);
      setenv("PYOPENGL_PLATFORM", renderer.c_str(), 1);
      if (!std::freopen("/dev/null", "w", stderr)) _exit(127);
      execl(python, python, "-m", "diffmj.film", folder.c_str(), nullptr);
      _exit(127);
    }
    int status = 0;
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) == 0) {
      return true;
    }
  }
  std::fprintf(stderr, "diffmj: no film was made, because no renderer of MuJoCo works here\n");
  return false;
}

// A window of MuJoCo's viewer, in a process of Python's that reads states from a pipe. Without it,
// or once it was closed, a plan goes on.
class View {
 public:
  explicit View(const std::string& model_file) {
    const char* python = std::getenv("DIFFMJ_PYTHON");
    if (!python) {
      throw InputError("--view needs the Python package; run the diffmj command that it installs");
    }
    int ends[2];
    if (pipe(ends) != 0) throw InputError("--view: a pipe cannot be created");
    child_ = fork();
    if (child_ == 0) {
      dup2(ends[0], STDIN_FILENO);
      close(ends[0]);
      close(ends[1]);
      // Ctrl-C is for the plan; the window closes with the pipe
      std::signal(SIGINT, SIG_IGN);
      execl(python, python, "-m", "diffmj.view", model_file.c_str(), nullptr);
      _exit(127);
    }
    close(ends[0]);
    out_ = fdopen(ends[1], "w");
    std::signal(SIGPIPE, SIG_IGN);
  }
  ~View() {
    if (out_) std::fclose(out_);
    if (child_ > 0) waitpid(child_, nullptr, 0);
    std::signal(SIGPIPE, SIG_DFL);
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  void show(const MpcRun& run, int nq) {
    for (; out_ && shown_ < run.time.size(); shown_++) {
      std::fprintf(out_, "%.17g", run.time[shown_]);
      for (int i = 0; i < nq; i++) {
        std::fprintf(out_, " %.17g",
                     run.qpos[shown_ * static_cast<size_t>(nq) + static_cast<size_t>(i)]);
      }
      std::fprintf(out_, "\n");
    }
    if (out_ && std::fflush(out_) != 0) {
      std::fprintf(stderr, "diffmj: the view was closed; planning continues\n");
      std::fclose(out_);
      out_ = nullptr;
    }
  }

 private:
  pid_t child_ = -1;
  std::FILE* out_ = nullptr;
  size_t shown_ = 0;
};

int run(const PlanCommand& command) {
  Task task = read_task(command.task_file);
  if (!command.out.empty()) task.out = command.out;
  if (!command.planner.empty()) task.plan.method = plan_method_from_name(command.planner);
  if (command.seed) task.plan.seed = *command.seed;
  std::error_code error;
  std::filesystem::create_directories(task.out, error);
  if (error)
    throw InputError("the folder '" + task.out + "' cannot be created: " + error.message());

  const bool needs_gradient = task.plan.method != PlanMethod::kSampling;
  Planner planner(task.setup.model, Cost(task.setup.model, task.cost, {}, needs_gradient),
                  task.plan);
  task.mpc.interrupted = interrupted;
  // whatever ends the process, the run can go on from a few seconds before
  const std::string checkpoint = task.out + "/" + kCheckpoint;
  MpcRun before;
  if (command.resume) {
    before = load_run(checkpoint);
    task.mpc.resume = &before;
  }
  std::optional<View> view;
  if (command.view) view.emplace(task.setup.model_file);
  auto saved = std::chrono::steady_clock::now();
  task.mpc.progress = [&](const MpcPlan& plan, const MpcRun& so_far) {
    show(plan, so_far, task.mpc.nstep);
    if (view) view->show(so_far, task.execution.nq());
    const auto now = std::chrono::steady_clock::now();
    if (std::chrono::duration<double>(now - saved).count() < kSaveEvery) return;
    save_run(checkpoint, so_far);
    saved = now;
  };
  const MpcRun result = run_mpc(planner, task.execution, task.setup.input(), task.mpc);
  CfdCounts counts;
  for (const MpcPlan& x : result.plans) counts += x.cfd;
  report_cfd(counts);
  // what was done is written, also after a Ctrl-C; a second one ends the process
  if (result.interrupted) forget_interrupt();
  if (result.plans.empty()) throw Interrupted("plan: interrupted before the first plan");

  const auto write = [&](const char* name, const std::string& text) {
    Output output(task.out + "/" + name);
    output.write(text);
    output.finish();
  };
  save_run(checkpoint, result);
  write("run.json", json_text(json_run(task, planner, result)));
  write_csv(recording_of(result, task.execution), task.out + "/states.csv");
  const bool has_film = command.film && make_film(task.out);
  write("report.html",
        mpc_report(planner, task.execution, result, {task.title, has_film ? "film.webp" : ""}));
  char text[256];
  std::snprintf(text, sizeof(text), "cost %.6g, from %.6g; %.4g s of motion, %.4g s of planning\n",
                result.plans.back().cost, result.plans.front().cost, result.simulated,
                result.seconds);
  Output output("");
  output.write(text + ("written to " + task.out + "/report.html, run.json and states.csv\n"));
  if (result.interrupted) {
    output.write("interrupted at step " + std::to_string(result.nstep) + " of " +
                 std::to_string(task.mpc.nstep) + "; continue with --resume\n");
  }
  output.finish();
  if (!result.message.empty()) return report_error(kExitDiverged, result.message);
  return result.interrupted ? kExitInterrupted : kExitOk;
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  CLI::App* sub = app.add_subcommand("plan", "Plans controls for a task, and executes them");
  auto command = std::make_shared<PlanCommand>();
  sub->add_option("TASK", command->task_file, "TOML file")->required()->option_text(" ");
  sub->add_option("--planner", command->planner,
                  "gradient, sampling, hybrid or ilqr; overrides the file")
      ->option_text("NAME");
  sub->add_option("--out", command->out, "folder for the results (default: that of the file)")
      ->option_text("FOLDER");
  sub->add_option("--seed", command->seed, "seed of the planner; overrides the file")
      ->option_text("N");
  sub->add_flag("--resume", command->resume,
                "continue the run in the folder, from its run.checkpoint");
  sub->add_flag("--view", command->view, "show the motion in MuJoCo's viewer");
  sub->add_flag("!--no-film", command->film, "do not make film.webp");
  sub->footer(kTaskExample);
  sub->callback([command, &exit_code] { exit_code = run(*command); });
}

}  // namespace diffmj::cli
