#include "problem.h"

#include <algorithm>
#include <filesystem>

#include "toml_file.h"

namespace diffmj::cli {
namespace {

namespace fs = std::filesystem;

// * stands for any letters, ? for one
bool matches(const char* pattern, const char* text) {
  if (*pattern == '\0') return *text == '\0';
  if (*pattern == '*') {
    return matches(pattern + 1, text) || (*text != '\0' && matches(pattern, text + 1));
  }
  return *text != '\0' && (*pattern == '?' || *pattern == *text) && matches(pattern + 1, text + 1);
}

// A path, or the files of a folder that a last part with * and ? stands for, sorted.
std::vector<std::string> files(const std::string& where, const fs::path& folder,
                               const std::string& text) {
  const fs::path path = folder / text;
  const std::string pattern = path.filename().string();
  if (pattern.find_first_of("*?") == std::string::npos) return {path.string()};
  std::vector<std::string> out;
  std::error_code error;
  const fs::path parent = path.has_parent_path() ? path.parent_path() : ".";
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (matches(pattern.c_str(), name.c_str())) out.push_back(entry.path().string());
  }
  if (out.empty()) throw InputError(where + ": no file matches '" + text + "'");
  std::sort(out.begin(), out.end());
  return out;
}

// [parameters]: NAME = {}, NAME = start, NAME = { start = , bounds = [low, high] }
struct Parameters {
  std::vector<std::string> names;
  std::vector<std::optional<std::vector<double>>> start;
  std::vector<FitBounds> bounds;
};

Parameters read_parameters(Section section) {
  Parameters out;
  for (const std::string& name : section.keys()) {
    const Json value = section.take(name);
    Section one(section.where() + ", " + name,
                value.is_object() ? value : Json({{"start", value}}));
    out.names.push_back(name);
    out.start.push_back(std::nullopt);
    out.bounds.push_back({});
    if (one.has("start")) out.start.back() = one.numbers("start");
    if (one.has("bounds")) {
      const std::vector<double> limits = one.numbers("bounds");
      if (limits.size() != 2) {
        throw InputError(one.where() + ": bounds has " + std::to_string(limits.size()) +
                         " numbers, expected two: the lowest and the highest; inf is allowed");
      }
      out.bounds.back() = {limits[0], limits[1]};
    }
    one.finish();
  }
  if (out.names.empty()) {
    throw InputError(section.where() +
                     " names no parameter; write for example \"elbow/damping\" = 0.1");
  }
  return out;
}

// Numbers of an attribute: which entries of the family's start belong to each name.
void set_parameters(const std::string& where, const Parameters& parameters, Problem& problem) {
  const std::vector<std::string>& names = problem.family.names();
  problem.start = problem.family.start();
  problem.fit.bounds.assign(names.size(), {});
  for (size_t k = 0; k < parameters.names.size(); k++) {
    const std::string& name = parameters.names[k];
    std::vector<size_t> mine;
    for (size_t i = 0; i < names.size(); i++) {
      if (names[i] == name || names[i].starts_with(name + "[")) mine.push_back(i);
    }
    const auto& start = parameters.start[k];
    if (start && start->size() != 1 && start->size() != mine.size()) {
      throw InputError(where + ", " + name + ": start has " + std::to_string(start->size()) +
                       " numbers, expected 1 or " + std::to_string(mine.size()));
    }
    for (size_t i = 0; i < mine.size(); i++) {
      if (start) problem.start[mine[i]] = (*start)[start->size() == 1 ? 0 : i];
      problem.fit.bounds[mine[i]] = parameters.bounds[k];
    }
  }
}

// A number for all rows, or one per residual of a row.
void set_weights(Section section, std::vector<Recording>& recordings) {
  for (const std::string& name : section.keys()) {
    const std::vector<double> row = section.numbers(name);
    for (Recording& x : recordings) {
      std::vector<double>& to = x.weights[name];
      to.clear();
      for (int i = 0; i < (row.size() == 1 ? 1 : x.nrow()); i++) {
        to.insert(to.end(), row.begin(), row.end());
      }
    }
  }
}

SegmentOptions read_segments(Section& s) {
  const SegmentOptions defaults{.length = 4};
  SegmentOptions out{
      .length = s.get_or("length", defaults.length, &Section::integer),
      .stride = s.get_or("stride", defaults.stride, &Section::integer),
      .rule = segment_rule_from_name(
          s.get_or("rule", std::string(segment_rule_name(defaults.rule)), &Section::text)),
      .margin = s.get_or("margin", defaults.margin, &Section::number),
      .max_missing = s.get_or("max_missing", defaults.max_missing, &Section::number)};
  if (s.has("targets")) out.targets = s.texts("targets");
  return out;
}

FitOptions read_fit(Section s, ResidualLoss& loss) {
  FitOptions out;
  out.method = fit_method_from_name(
      s.get_or("method", std::string(fit_method_name(out.method)), &Section::text));
  out.iterations = s.get_or("iterations", out.iterations, &Section::integer);
  out.rate = s.get_or("rate", out.rate, &Section::number);
  if (s.has("betas")) {
    const std::vector<double> betas = s.numbers("betas");
    if (betas.size() != 2)
      throw InputError(s.where() + ": betas has " + std::to_string(betas.size()) +
                       " numbers, expected 2");
    out.beta1 = betas[0];
    out.beta2 = betas[1];
  }
  out.minibatch = s.get_or("minibatch", out.minibatch, &Section::integer);
  out.seed = s.get_or("seed", out.seed, &Section::integer);
  out.estimate_starts = s.get_or("estimate_starts", out.estimate_starts, &Section::flag);
  out.nthread = s.threads(out.nthread);
  loss.kind = residual_loss_from_name(
      s.get_or("loss", std::string(residual_loss_name(loss.kind)), &Section::text));
  loss.scale = s.get_or("loss_scale", loss.scale, &Section::number);
  s.finish();
  return out;
}

}  // namespace

const char* const kProblemExample =
    R"(Examples:
  diffmj identify problem.toml
  diffmj identify problem.toml --out fit/ --iterations 100
  diffmj identify problem.toml --resume

A problem file; only model, recordings and [parameters] are needed:

  model = "arm.xml"                # paths are relative to this file
  recordings = ["logs/*.csv"]      # time, qpos[0], qvel_JOINT, ctrl_ACTUATOR, sensor:NAME[0], ...
  out = "fit"                      # a folder; fit.json, fitted.xml, report.html, checkpoint.txt
  title = "Arm"

  [parameters]                     # attributes of elements of the MJCF
  "elbow/damping" = 0.1            # where to start; {}: at what the MJCF says
  "hand/mass" = { start = 0.5, bounds = [0, inf] }
  "default.geom/friction[0]" = { bounds = [0.05, 2] }

  [segments]
  length = 10                      # recorded intervals; each segment starts at a recorded state
  stride = 10                      # rows from one start to the next
  rule = "all"                     # or "contact"
  targets = ["qpos", "body_mat:hand"]  # what is compared; default: all that is recorded
  bodies = ["hand"]                # poses that the recorded qpos gives, for targets
  velocities = "backward"          # estimate those that are missing; or "central"
  interval = 0.01                  # resample to this [s]
  held_out = 0.2                   # share of the recordings that is kept for judging the fit
  max_missing = 0.5                # margin: [m] of rule "contact"

  [weights]                        # of squared residuals; a number, or one per residual of a row
  qpos = [400, 400, 400, 1, 1, 1]

  [fit]
  method = "lm"                    # or "adam", with rate, betas, minibatch, seed
  iterations = 50
  estimate_starts = false          # threads = 2; without it, one per core
  loss = "linear"                  # least squares; or soft_l1, huber, cauchy: residuals (times roots
  loss_scale = 3                   # of weights) beyond this scale count less

  [simulator]                      # options as on the command line: integrator, rtol, cfd, ...
  integrator = "implicitfast")";

Problem read_problem(const std::string& path) {
  Section file(path, read_toml(path));
  const fs::path folder = fs::path(path).parent_path();
  const std::string model_file = (folder / file.text("model")).string();
  const std::string title =
      file.get_or("title", "Fit of " + fs::path(model_file).filename().string(), &Section::text);
  const std::string out =
      (folder / file.get_or("out", std::string("fit"), &Section::text)).string();
  const std::vector<std::string> patterns = file.texts("recordings");
  const Parameters parameters = read_parameters(file.section("parameters"));
  Section simulator = file.section("simulator");
  CommonOptions common;
  read_model_options(simulator, common);
  Problem problem{.title = title,
                  .model_file = model_file,
                  .out = out,
                  .family = ParametricModel::from_attributes(model_file, parameters.names,
                                                             model_options(common)),
                  .start = {},
                  .recordings = {},
                  .split = {},
                  .segments = {},
                  .fit = {},
                  .loss = {}};
  problem.fit = read_fit(file.section("fit"), problem.loss);
  set_parameters(path + ", [parameters]", parameters, problem);

  const Model model = problem.family.at(problem.start);
  Section cut = file.section("segments");
  problem.segments = read_segments(cut);
  const std::vector<std::string> bodies =
      cut.has("bodies") ? cut.texts("bodies") : std::vector<std::string>();
  const std::string velocities = cut.get_or("velocities", std::string(), &Section::text);
  const double interval = cut.get_or("interval", 0.0, &Section::number);
  const double held_out = cut.get_or("held_out", 0.0, &Section::number);
  cut.finish();
  for (const std::string& pattern : patterns) {
    for (const std::string& name : files(path, folder, pattern)) {
      Recording x = read_csv(model, name);
      if (interval > 0) x = resample(model, x, interval);
      if (!velocities.empty()) {
        x = estimate_velocities(model, std::move(x), difference_from_name(velocities));
      }
      if (!bodies.empty()) x = with_bodies(model, std::move(x), bodies);
      problem.recordings.push_back(std::move(x));
    }
  }
  set_weights(file.section("weights"), problem.recordings);
  problem.split = split(static_cast<int>(problem.recordings.size()), held_out, problem.fit.seed);
  file.finish();
  return problem;
}

}  // namespace diffmj::cli
