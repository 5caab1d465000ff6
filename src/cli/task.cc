#include "task.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "toml_file.h"

namespace diffmj::cli {
namespace {

namespace fs = std::filesystem;

template <size_t N>
std::array<double, N> fixed(Section& s, const std::string& key, std::array<double, N> otherwise) {
  if (!s.has(key)) return otherwise;
  const std::vector<double> numbers = s.numbers(key);
  if (numbers.size() != N) {
    throw InputError(s.where() + ": " + key + " has " + std::to_string(numbers.size()) +
                     " numbers, expected " + std::to_string(N));
  }
  std::array<double, N> out{};
  std::copy(numbers.begin(), numbers.end(), out.begin());
  return out;
}

std::vector<double> numbers(Section& s, const std::string& key) {
  return s.has(key) ? s.numbers(key) : std::vector<double>();
}

// Of a CSV file: the time first, then the numbers of a row; a first line with names is skipped.
Reference read_reference(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(path + ": cannot be opened; a reference is read from it");
  Reference out;
  std::string line;
  for (int number = 1; std::getline(file, line); number++) {
    for (char& c : line) {
      if (c == ',' || c == ';' || c == '\r') c = ' ';
    }
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string where = path + ", line " + std::to_string(number);
    if (number == 1 && line.find_first_not_of(" \t+-.0123456789eE") != std::string::npos) continue;
    const std::vector<double> row = parse_numbers(line, where);
    const size_t width = out.time.empty() ? row.size() : 1 + out.values.size() / out.time.size();
    if (row.size() < 2 || row.size() != width) {
      throw InputError(where + ": there are " + std::to_string(row.size()) +
                       " numbers, expected a time and " +
                       (out.time.empty() ? "at least one more" : std::to_string(width - 1)));
    }
    out.time.push_back(row[0]);
    out.values.insert(out.values.end(), row.begin() + 1, row.end());
  }
  if (out.time.empty()) throw InputError(path + ": there are no rows of numbers");
  return out;
}

// {time = [...], values = [[...], ...]} or {file = "NAME.csv"}
Reference reference(const std::string& where, const fs::path& folder, const Json& value) {
  Section s(where, value);
  if (s.has("file")) {
    const Reference out = read_reference((folder / s.text("file")).string());
    s.finish();
    return out;
  }
  Reference out{.time = s.numbers("time"), .values = {}};
  const Json rows = s.take("values");
  bool good = rows.is_array() && rows.size() == out.time.size();
  for (const Json& row : rows) {
    const Json list = row.is_array() ? row : Json::array({row});
    for (const Json& x : list) {
      good = good && x.is_number();
      if (good) out.values.push_back(x.get<double>());
    }
  }
  if (!good) throw InputError(where + ": values is not an array of numbers for each time");
  s.finish();
  return out;
}
bool is_reference(Section& s, const std::string& key) {
  return s.has(key) && s.peek(key).is_object();
}

// a target, constant or over time
struct TargetEntry {
  std::vector<double> target = {};
  Reference over_time = {};
};
TargetEntry target(Section& s, const fs::path& folder) {
  if (!is_reference(s, "target")) return {.target = numbers(s, "target")};
  return {.over_time = reference(s.where() + ", target", folder, s.take("target"))};
}
std::vector<std::string> texts(Section& s, const std::string& key) {
  return s.has(key) ? s.texts(key) : std::vector<std::string>();
}

// "site:tip", "body:box", "geom:bob", "com:torso", or numbers: a point, or a quaternion
Frame frame(Section& s, const fs::path& folder, const std::string& key) {
  const Json value = s.take(key);
  Frame out;
  if (value.is_object()) {
    const Reference moving = reference(s.where() + ", " + key, folder, value);
    const bool turns = moving.values.size() == 4 * moving.time.size();
    (turns ? out.quat_over_time : out.pos_over_time) = moving;
    return out;
  }
  if (value.is_array() && (value.size() == 3 || value.size() == 4)) {
    for (const Json& x : value) {
      if (!x.is_number())
        throw InputError(s.where() + ": " + key + " has an entry that is not a number");
    }
    if (value.size() == 3) out.pos = value.get<std::array<double, 3>>();
    if (value.size() == 4) out.quat = value.get<std::array<double, 4>>();
    return out;
  }
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  constexpr std::pair<const char*, Frame::Kind> kKinds[] = {{"site", Frame::Kind::kSite},
                                                            {"body", Frame::Kind::kBody},
                                                            {"geom", Frame::Kind::kGeom},
                                                            {"com", Frame::Kind::kSubtree}};
  for (const auto& [name, k] : kKinds) {
    if (colon == std::string::npos || kind != name) continue;
    out.kind = k;
    out.name = text.substr(colon + 1);
    const std::string pos = key + "_pos";
    if (is_reference(s, pos)) {
      out.pos_over_time = reference(s.where() + ", " + pos, folder, s.take(pos));
    } else {
      out.pos = fixed<3>(s, pos, out.pos);
    }
    return out;
  }
  throw InputError(
      s.where() + ": " + key + " is " + value.dump() +
      ", expected \"site:NAME\", \"body:NAME\", \"geom:NAME\", \"com:NAME\", a point or a "
      "quaternion");
}

CostTerm read_term(const fs::path& folder, Section s) {
  CostTerm out;
  const std::string term = s.text("term");
  if (term == "distance") {
    out.of =
        Distance{frame(s, folder, "of"), frame(s, folder, "to"), fixed<3>(s, "axes", {1, 1, 1})};
  } else if (term == "orientation") {
    out.of = Orientation{frame(s, folder, "of"), frame(s, folder, "to")};
  } else if (term == "joint_position") {
    const TargetEntry to = target(s, folder);
    out.of = JointPosition{texts(s, "joints"), to.target, to.over_time};
  } else if (term == "joint_velocity") {
    const TargetEntry to = target(s, folder);
    out.of = JointVelocity{texts(s, "joints"), to.target, to.over_time};
  } else if (term == "velocity") {
    FrameVelocity of{frame(s, folder, "of"), s.get_or("angular", false, &Section::flag)};
    if (is_reference(s, "target")) {
      of.reference = target(s, folder).over_time;
    } else {
      of.target = fixed<3>(s, "target", of.target);
    }
    out.of = of;
  } else if (term == "control_effort") {
    const TargetEntry to = target(s, folder);
    out.of = ControlEffort{texts(s, "actuators"), to.target, to.over_time};
  } else if (term == "control_rate") {
    out.of = ControlRate{texts(s, "actuators")};
  } else if (term == "force_effort") {
    out.of = ForceEffort{};
  } else if (term == "sensor") {
    const TargetEntry to = target(s, folder);
    out.of = SensorValue{s.text("sensor"), to.target, to.over_time};
  } else {
    const std::vector<std::string> known = {"distance",       "orientation",  "joint_position",
                                            "joint_velocity", "velocity",     "control_effort",
                                            "control_rate",   "force_effort", "sensor"};
    throw InputError(s.where() + ": " + unknown_name("term", term, known));
  }
  out.norm = norm_from_name(s.get_or("norm", std::string(norm_name(out.norm)), &Section::text));
  out.scale = s.get_or("scale", out.scale, &Section::number);
  out.weight = s.get_or("weight", out.weight, &Section::number);
  out.terminal = s.get_or("terminal", out.terminal, &Section::number);
  out.name = s.get_or("name", std::string(), &Section::text);
  s.finish();
  return out;
}

PlanOptions read_plan(Section s) {
  PlanOptions o;
  o.method = plan_method_from_name(
      s.get_or("method", std::string(plan_method_name(o.method)), &Section::text));
  o.horizon = s.get_or("horizon", o.horizon, &Section::integer);
  o.timestep = s.get_or("timestep", o.timestep, &Section::number);
  o.knots = s.get_or("knots", o.knots, &Section::integer);
  o.interpolation = interpolation_from_name(
      s.get_or("interpolation", std::string(interpolation_name(o.interpolation)), &Section::text));
  o.iterations = s.get_or("iterations", o.iterations, &Section::integer);
  o.rounds = s.get_or("rounds", o.rounds, &Section::integer);
  o.seconds = s.get_or("seconds", o.seconds, &Section::number);
  o.first_effort = s.get_or("first_effort", o.first_effort, &Section::number);
  o.rate = s.get_or("rate", o.rate, &Section::number);
  const std::array<double, 2> betas = fixed<2>(s, "betas", {o.beta1, o.beta2});
  o.beta1 = betas[0];
  o.beta2 = betas[1];
  o.keep_moments = s.get_or("keep_moments", o.keep_moments, &Section::flag);
  o.clip = s.get_or("clip", o.clip, &Section::number);
  o.starts = s.get_or("starts", o.starts, &Section::integer);
  o.rate_factor = s.get_or("rate_factor", o.rate_factor, &Section::number);
  o.regularization = s.get_or("regularization", o.regularization, &Section::number);
  o.samples = s.get_or("samples", o.samples, &Section::integer);
  o.noise = noise_from_name(s.get_or("noise", std::string(noise_name(o.noise)), &Section::text));
  o.sigma = s.get_or("sigma", o.sigma, &Section::number);
  o.elites = s.get_or("elites", o.elites, &Section::integer);
  o.refined = s.get_or("refined", o.refined, &Section::integer);
  o.forces = s.get_or("forces", o.forces, &Section::flag);
  o.force_scale = s.get_or("force_scale", o.force_scale, &Section::number);
  o.force_limit = s.get_or("force_limit", o.force_limit, &Section::number);
  o.seed = s.get_or("seed", o.seed, &Section::integer);
  o.nthread = s.threads(o.nthread);
  s.finish();
  return o;
}

}  // namespace

const char* const kTaskExample = R"(Examples:
  diffmj plan task.toml
  diffmj plan task.toml --planner ilqr --out run/ --no-film
  diffmj plan task.toml --resume

A task file. Only model and one [[cost]] are required:

  model = "arm.xml"                # paths are relative to this file
  out = "run"                      # folder for report.html, run.json, states.csv and run.checkpoint
  title = "Reach"

  [start]
  key = "home"                     # a keyframe; settle = 0.5 simulates half a second first

  [[cost]]                         # weight * mean over steps of norm(r) + terminal * norm(r at the end)
  term = "distance"                # also orientation, velocity
  of = "site:hand"                 # site:, body:, geom:, com: (centre of mass), or a point [x, y, z]
  to = "site:goal"                 # to_pos = [x, y, z] is a point in its frame. Points and targets over time:
                                   # {time = [0.0, 1.0], values = [[...], [...]]} or {file = "NAME.csv"}
  norm = "squared"                 # or l2, huber or cosh, which have a scale
  weight = 1.0
  terminal = 0.0

  [[cost]]
  term = "control_effort"          # also control_rate, joint_position, joint_velocity, sensor, force_effort
  weight = 0.001

  [planner]
  method = "hybrid"                # or gradient, sampling, ilqr
  horizon = 100                    # steps of the planning model; its timestep = 0.01
  knots = 10                       # of a spline; without it, one value per step. interpolation = "cubic"
  iterations = 8                   # of Adam (rate, betas, keep_moments, clip, starts, rate_factor)
                                   # or of iLQR (regularization)
  samples = 64                     # in each round (noise, sigma, elites, refined, rounds)
  seconds = 0.02                   # time budget of a plan; without it, none
  first_effort = 1.0               # the first plan has this times the iterations (hybrid: rounds)
  seed = 0                         # threads = 2; without it, one per core

  [execution]
  seconds = 2.0                    # or nstep
  execute = 16                     # steps between two plans
  realtime = false                 # if true, the execution continues while a plan is computed:
                                   # latency = 0.05 is the expected time of the first plan,
                                   # plan_seconds = 0.04 replaces the clock,
                                   # predict_timestep = 0.002 is that of the prediction
  ctrl_noise = 0.0                 # noise on executed controls, with seed = 0
                                   # model = "other.xml" is executed instead of the planning model

  [simulator]                      # options as on the command line: integrator, rtol, cfd, ...
  cfd = "0.1")";

Task read_task(const std::string& path) {
  Section file(path, read_toml(path));
  const fs::path folder = fs::path(path).parent_path();
  CommonOptions common;
  Section simulator = file.section("simulator");
  read_model_options(simulator, common);
  common.model_file = (folder / file.text("model")).string();
  Section start = file.section("start");
  common.key = start.get_or("key", std::string(), &Section::text);
  if (start.has("settle")) common.settle = start.number("settle");
  for (const double x : numbers(start, "ctrl")) common.ctrl += number_text(x) + " ";
  start.finish();
  Setup setup = read_setup(common, {});
  Section run = file.section("execution");
  Model execution = setup.model;
  if (run.has("model")) {
    execution = Model::from_file((folder / run.text("model")).string(), model_options(common));
  }
  Task task{
      .title = file.get_or("title", "Plans for " + fs::path(common.model_file).filename().string(),
                           &Section::text),
      .out = (folder / file.get_or("out", std::string("run"), &Section::text)).string(),
      .setup = std::move(setup),
      .execution = execution,
      .cost = {},
      .plan = read_plan(file.section("planner")),
      .mpc = {}};
  const Json terms = file.take("cost");
  if (!terms.is_array() || terms.empty()) {
    throw InputError(path + ": [[cost]] is missing; give at least one term");
  }
  for (size_t i = 0; i < terms.size(); i++) {
    task.cost.push_back(
        read_term(folder, Section(path + ", [[cost]] " + std::to_string(i + 1), terms[i])));
  }
  task.mpc.execute = run.get_or("execute", task.mpc.execute, &Section::integer);
  task.mpc.nstep = run.get_or("nstep", task.mpc.nstep, &Section::integer);
  if (run.has("seconds")) {
    task.mpc.nstep =
        static_cast<int>(std::round(run.number("seconds") / task.execution.interval()));
  }
  task.mpc.realtime = run.get_or("realtime", task.mpc.realtime, &Section::flag);
  task.mpc.latency = run.get_or("latency", task.mpc.latency, &Section::number);
  task.mpc.plan_seconds = run.get_or("plan_seconds", task.mpc.plan_seconds, &Section::number);
  task.mpc.predict_timestep =
      run.get_or("predict_timestep", task.mpc.predict_timestep, &Section::number);
  task.mpc.ctrl_noise = run.get_or("ctrl_noise", task.mpc.ctrl_noise, &Section::number);
  task.mpc.seed = run.get_or("seed", task.mpc.seed, &Section::integer);
  run.finish();
  file.finish();
  return task;
}

}  // namespace diffmj::cli
