// diffmj doctor: what this installation is made of, and whether it works.
#include <dlfcn.h>
#include <mujoco/mujoco.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>

#include "cli.h"
#include "entries.h"
#include "output.h"

#ifndef DIFFMJ_BUILD_VERSION  // set for wheels
#define DIFFMJ_BUILD_VERSION DIFFMJ_VERSION
#endif

namespace diffmj::cli {
namespace {

constexpr const char* kFooter =
    R"(Prints the versions of everything that matters and tests the installation for a few seconds.
Paste the whole output into a bug report.

Exit codes:
  0 everything works, 1 a self-test failed

Examples:
  diffmj doctor
  diffmj doctor > report.txt)";

// A body on a free joint with an arm: contacts, a limit, a servo, a filtered actuator, a sensor.
constexpr const char* kModel = R"(
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1"/>
    <body name="torso" pos="0 0 0.11" quat="1 0.05 0.1 0">
      <freejoint/>
      <geom type="box" size="0.1 0.08 0.05"/>
      <body name="arm" pos="0.1 0 0">
        <joint name="shoulder" axis="0 1 0" range="-60 30" damping="0.05"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 0.05" size="0.03"/>
        <site name="tip" pos="0.2 0 0.05"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="servo" joint="shoulder" kp="2"/>
    <general name="slow" joint="shoulder" dyntype="filter" dynprm="0.05" gear="0.2"/>
  </actuator>
  <sensor><accelerometer name="imu" site="tip"/></sensor>
</mujoco>)";

constexpr int kSteps = 40;

// States, controls and a fixed velocity to begin with.
struct Start {
  State state;
  std::vector<double> ctrl;

  explicit Start(const Model& model)
      : state(default_state(model)), ctrl(static_cast<size_t>(model.nu()), 0.3) {
    for (size_t i = 0; i < state.qvel.size(); i++) {
      state.qvel[i] = 0.4 - 0.15 * static_cast<double>(i);
    }
  }
  RolloutInput input() const {
    return {.qpos = state.qpos, .qvel = state.qvel, .act = state.act, .ctrl = ctrl};
  }
};

// Whether it worked, and what was seen.
struct Finding {
  bool ok = false;
  std::string text;
};

Finding test_forward() {
  const Model model = Model::from_xml(kModel);
  const Start start(model);
  const Trajectory trajectory = rollout(model, start.input(), kSteps);
  const mjModel* m = model.mj();
  const std::unique_ptr<mjData, decltype(&mj_deleteData)> data(mj_makeData(m), mj_deleteData);
  std::copy(start.state.qpos.begin(), start.state.qpos.end(), data->qpos);
  std::copy(start.state.qvel.begin(), start.state.qvel.end(), data->qvel);
  std::copy(start.ctrl.begin(), start.ctrl.end(), data->ctrl);
  for (int i = 0; i < kSteps; i++) mj_step(m, data.get());
  const bool same = trajectory.ok() && std::equal(data->qpos, data->qpos + model.nq(),
                                                  trajectory.qpos.end() - model.nq());
  return {same,
          line("a rollout of %d steps has %s bits of mj_step", kSteps, same ? "the" : "NOT the")};
}

Finding check(const ModelOptions& options, const char* what) {
  const Model model = Model::from_xml(kModel, options);
  const Start start(model);
  CheckOptions check;
  check.nstep = 10;
  check.directions = 4;
  check.interrupted = interrupted;
  const CheckReport report = check_gradient(model, start.input(), check);
  double worst = 0;
  for (const CheckDirection& x : report.directions) worst = std::max(worst, x.error);
  return {report.passed, line("%s agrees with differences to %.0e", what, worst) +
                             (report.passed ? "" : "; expected better: " + report.reason)};
}

Finding test_gradient() { return check({}, "the gradient through contact"); }

Finding test_adaptive() {
  ModelOptions options;
  options.integrator = Integrator::kTsit5;
  options.adaptive.interval = 0.01;
  return check(options, "the gradient of adaptive steps");
}

Finding test_threads() {
  const Model model = Model::from_xml(kModel);
  const Start start(model);
  std::vector<RolloutInput> inputs(64, start.input());
  const auto seconds = [&](int nthread, std::vector<Trajectory>& out) {
    const auto begin = std::chrono::steady_clock::now();
    out = rollout_batch(model, inputs, 4 * kSteps, {.nthread = nthread});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<Trajectory> one, all;
  const double alone = seconds(1, one), together = seconds(cores, all);
  bool same = true;
  for (size_t i = 0; i < one.size(); i++) same = same && one[i].qpos == all[i].qpos;
  return {same, line("64 rollouts on %d threads have %s bits of one thread, in %.2f of its time",
                     cores, same ? "the" : "NOT the", together / alone)};
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "g++ " __VERSION__;
#else
  return "unknown";
#endif
}

std::string build() {
#ifdef NDEBUG
  return ", optimised";
#else
  return ", with assertions";
#endif
}

// The file of the MuJoCo that this process uses.
std::string mujoco_file() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&mj_version), &info) == 0 || !info.dli_fname) return "?";
  return info.dli_fname;
}

std::string system_text() {
  utsname name;
  if (uname(&name) != 0) return "?";
  return std::string(name.sysname) + " " + name.release + ", " + name.machine;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string text; std::getline(file, text);) {
    if (!text.starts_with("model name")) continue;
    const size_t colon = text.find(": ");
    if (colon != std::string::npos) return text.substr(colon + 2) + ", ";
  }
  return "";
}

// Lines "name=value" that the Python package left for us; none, if this program runs by itself.
std::string python_entries() {
  const char* text = std::getenv("DIFFMJ_PYTHON_INFO");
  if (!text) return entry("Python", "not used: this program was not started by the Python package");
  std::istringstream stream(text);
  std::string out;
  for (std::string pair; std::getline(stream, pair);) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) continue;
    out += entry(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return out;
}

std::string installation() {
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  const double gigabytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                           static_cast<double>(sysconf(_SC_PAGE_SIZE)) / 1e9;
  return entry("diffmj", DIFFMJ_BUILD_VERSION) +
         entry("MuJoCo", mujoco_version_loaded() + " from " + mujoco_file() + ", compiled for " +
                             mujoco_version_compiled()) +
         entry("compiler", compiler() + build()) + python_entries() +
         entry("system", system_text()) +
         entry("processor", processor() + line("%u threads", cores)) +
         entry("memory", line("%.1f GB", gigabytes));
}

int run() {
  const std::pair<const char*, std::function<Finding()>> tests[] = {
      {"forward", test_forward},
      {"gradient", test_gradient},
      {"adaptive", test_adaptive},
      {"threads", test_threads},
  };
  int failed = 0;
  std::string findings;
  for (const auto& [name, test] : tests) {
    const auto begin = std::chrono::steady_clock::now();
    Finding finding;
    try {
      finding = test();
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      finding.text = error.what();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    failed += finding.ok ? 0 : 1;
    findings +=
        entry(std::string("test ") + name, (finding.ok ? "ok: " : "FAILED: ") + finding.text +
                                               line(" (%.1f s)", seconds.count()));
  }
  Output output("");
  output.write(failed == 0 ? "works: all self-tests passed\n\n"
                           : line("broken: %d of %zu self-tests failed; please report this output "
                                  "as a bug\n\n",
                                  failed, std::size(tests)));
  output.write(installation() + findings);
  output.finish();
  return failed == 0 ? kExitOk : kExitDiffers;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  CLI::App* sub =
      app.add_subcommand("doctor", "Does this installation work? What a bug report needs");
  sub->footer(kFooter);
  sub->callback([&exit_code] { exit_code = run(); });
}

}  // namespace diffmj::cli
