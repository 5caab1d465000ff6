// save_run(), load_run(): runs as files.
#include <string>

#include "base/exact_file.h"
#include "diffmj/mpc.h"

namespace diffmj {
namespace {

constexpr const char* kTitle = "diffmj run 3";

// a message is the rest of a line
std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

void write_plan(ExactWriter& file, const MpcPlan& x) {
  file.stream() << "plan " << x.step << " " << x.late << " " << x.nrollout << " " << x.ndiverged
                << " " << x.cfd.evaluations << " " << x.cfd.capped << "\n";
  file.numbers("numbers", std::vector{x.time, x.cost, x.executed_cost, x.seconds, x.expected});
  file.stream() << "message " << one_line(x.message) << "\niterations " << x.history.size() << "\n";
  for (const PlanIteration& i : x.history) {
    file.stream() << i.iteration << " " << i.nrollout << " " << i.ndiverged << " " << i.sampled
                  << " " << i.linearized << "\n";
    file.numbers("numbers", std::vector{i.cost, i.latest, i.seconds});
  }
}

MpcPlan read_plan(ExactReader& file) {
  MpcPlan out;
  file.expect("plan");
  out.step = file.count();
  out.late = file.count() != 0;
  out.nrollout = file.count();
  out.ndiverged = file.count();
  out.cfd.evaluations = file.count();
  out.cfd.capped = file.count();
  std::vector<double> x = file.numbers("numbers");
  if (x.size() != 5) file.fail("has a plan with " + std::to_string(x.size()) + " numbers");
  out.time = x[0];
  out.cost = x[1];
  out.executed_cost = x[2];
  out.seconds = x[3];
  out.expected = x[4];
  out.message = file.rest_of_line("message");
  const int n = file.count("iterations");
  for (int k = 0; k < n; k++) {
    PlanIteration i;
    i.iteration = file.count();
    i.nrollout = file.count();
    i.ndiverged = file.count();
    i.sampled = file.count() != 0;
    i.linearized = file.count() != 0;
    x = file.numbers("numbers");
    if (x.size() != 3) file.fail("has an iteration with " + std::to_string(x.size()) + " numbers");
    i.cost = x[0];
    i.latest = x[1];
    i.seconds = x[2];
    out.history.push_back(i);
  }
  return out;
}

void write_memory(ExactWriter& file, const MpcMemory& x) {
  file.stream() << "memory " << x.nstep << " " << x.nplan << " " << x.planner.count << "\n";
  file.stream() << "problem " << x.planner.problem << "\n";
  file.numbers("last", x.planner.last);
  file.stream() << "population " << x.planner.population.size() << "\n";
  for (const std::vector<double>& z : x.planner.population) file.numbers("z", z);
  file.stream() << "moments " << x.planner.moments.count << "\n";
  file.numbers("first", x.planner.moments.first);
  file.numbers("second", x.planner.moments.second);
  file.stream() << "controls " << x.controls.size() << "\n";
  for (const MpcMemory::Controls& c : x.controls) {
    file.numbers("times", std::vector{c.from, c.begin});
    file.numbers("ctrl", c.ctrl);
  }
  file.numbers("latencies", x.latencies);
  file.number("expected", x.expected);
}

MpcMemory read_memory(ExactReader& file) {
  MpcMemory out;
  file.expect("memory");
  out.nstep = file.count();
  out.nplan = file.count();
  out.planner.count = file.count();
  file.expect("problem");
  out.planner.problem = file.next();
  out.planner.last = file.numbers("last");
  int n = file.count("population");
  for (int i = 0; i < n; i++) out.planner.population.push_back(file.numbers("z"));
  out.planner.moments.count = file.count("moments");
  out.planner.moments.first = file.numbers("first");
  out.planner.moments.second = file.numbers("second");
  n = file.count("controls");
  for (int i = 0; i < n; i++) {
    const std::vector<double> times = file.numbers("times");
    if (times.size() != 2) file.fail("has controls without times");
    out.controls.push_back({times[0], times[1], file.numbers("ctrl")});
  }
  out.latencies = file.numbers("latencies");
  out.expected = file.number("expected");
  return out;
}

}  // namespace

void save_run(const std::string& path, const MpcRun& run) {
  ExactWriter file("run_mpc", path, kTitle);
  file.stream() << "nstep " << run.nstep << "\n";
  file.numbers("time", run.time);
  file.numbers("qpos", run.qpos);
  file.numbers("qvel", run.qvel);
  file.numbers("act", run.act);
  file.numbers("ctrl", run.ctrl);
  file.number("seconds", run.seconds);
  file.number("simulated", run.simulated);
  file.stream() << "ended " << run.interrupted << " " << run.done << "\n";
  file.stream() << "message " << one_line(run.message) << "\n";
  file.stream() << "plans " << run.plans.size() << "\n";
  for (const MpcPlan& plan : run.plans) write_plan(file, plan);
  write_memory(file, run.memory);
  file.finish();
}

MpcRun load_run(const std::string& path) {
  ExactReader file("run_mpc", path, kTitle, "a run");
  MpcRun run;
  run.nstep = file.count("nstep");
  run.time = file.numbers("time");
  run.qpos = file.numbers("qpos");
  run.qvel = file.numbers("qvel");
  run.act = file.numbers("act");
  run.ctrl = file.numbers("ctrl");
  run.seconds = file.number("seconds");
  run.simulated = file.number("simulated");
  run.interrupted = file.count("ended") != 0;
  run.done = file.count() != 0;
  run.message = file.rest_of_line("message");
  const int n = file.count("plans");
  for (int i = 0; i < n; i++) run.plans.push_back(read_plan(file));
  run.memory = read_memory(file);
  return run;
}

}  // namespace diffmj
