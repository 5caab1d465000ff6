// fit(): what all methods share.
#include "diffmj/fit.h"

#include <filesystem>

#include "base/fingerprint.h"
#include "base/names.h"
#include "diffmj/error.h"
#include "identify/fit_run.h"

namespace diffmj {
namespace {

constexpr std::pair<FitMethod, const char*> kMethods[] = {{FitMethod::kAdam, "adam"},
                                                          {FitMethod::kLevenbergMarquardt, "lm"}};

void require(bool good, const std::string& what) {
  if (!good) throw InputError("fit: " + what);
}

std::string size_text(size_t n) { return std::to_string(n) + " numbers"; }

void require_options(const Objective& objective, std::span<const double> start,
                     const FitOptions& x) {
  const auto p = static_cast<size_t>(objective.family().size());
  const bool is_adam = x.method == FitMethod::kAdam;
  require(start.size() == p,
          "start has " + size_text(start.size()) + ", expected " + std::to_string(p));
  require(x.iterations >= 0,
          "iterations is " + std::to_string(x.iterations) + ", expected at least 0");
  require(x.rate > 0, "rate is " + std::to_string(x.rate) + ", expected more than 0");
  require(x.beta1 >= 0 && x.beta1 < 1 && x.beta2 >= 0 && x.beta2 < 1,
          "beta1 and beta2 are " + std::to_string(x.beta1) + " and " + std::to_string(x.beta2) +
              ", expected from 0 to less than 1");
  require(x.minibatch.value_or(1) >= 1,
          "minibatch is " + std::to_string(x.minibatch.value_or(1)) +
              ", expected at least 1 segment; leave it out for all of them");
  require(is_adam || !x.minibatch,
          "Levenberg-Marquardt takes all segments in every iteration; leave minibatch out, or use "
          "adam");
  require(!is_adam || !x.estimate_starts,
          "estimate_starts needs Levenberg-Marquardt; use method lm");
}

// All that changes the way of a fit, but for its number of iterations.
std::string fingerprint(const Objective& objective, std::span<const double> start,
                        const FitOptions& x) {
  Fingerprint out;
  out.add(start);
  for (const FitBounds& b : x.bounds) {
    out.add(b.low);
    out.add(b.high);
  }
  for (const double y : {static_cast<double>(x.method), x.rate, x.beta1, x.beta2,
                         static_cast<double>(x.minibatch.value_or(0)), static_cast<double>(x.seed),
                         static_cast<double>(x.estimate_starts),
                         static_cast<double>(objective.loss().kind), objective.loss().scale}) {
    out.add(y);
  }
  for (const Segment& segment : objective.segments()) {
    out.add(segment.start.qpos);
    out.add(segment.start.qvel);
    out.add(segment.ctrl);
    for (const Target& target : segment.targets) {
      out.add(target.values);
      out.add(target.weights);
    }
  }
  return out.digits();
}

}  // namespace

const char* fit_method_name(FitMethod method) { return name_of(kMethods, method); }
FitMethod fit_method_from_name(const std::string& name) {
  return value_of("fit: method", kMethods, name);
}

FitRun::FitRun(const Objective& objective, std::span<const double> start, const FitOptions& options)
    : objective_(objective),
      options_(options),
      variables_(start, options.bounds, objective.family().names()) {
  state_.z.resize(start.size());
  state_.theta.assign(start.begin(), start.end());
  if (options.checkpoint.empty()) {
    require(!options.resume, "resume needs a checkpoint: name the file");
    return;
  }
  problem_ = fingerprint(objective, start, options);
  if (!options.resume || !std::filesystem::exists(options.checkpoint)) return;
  state_ = read_checkpoint(options.checkpoint, problem_);
  // the last evaluation of a fit that came to its end is repeated
  while (!state_.history.empty() && state_.history.back().iteration >= state_.iteration) {
    state_.history.pop_back();
  }
  if (!state_.history.empty()) seconds_before_ = state_.history.back().seconds;
}

void FitRun::save() {
  if (options_.checkpoint.empty()) return;
  write_checkpoint(options_.checkpoint, problem_, state_);
  saved_ = std::chrono::steady_clock::now();
}

RolloutOptions FitRun::rollout() const {
  return {.nthread = options_.nthread, .interrupted = options_.interrupted};
}

bool FitRun::record(FitStep step, bool best) {
  step.seconds = seconds_before_ +
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  if (best) {
    state_.theta = step.theta;
    state_.loss = step.loss;
  }
  state_.history.push_back(std::move(step));
  if (options_.progress) options_.progress(state_.history.back());
  if (std::chrono::steady_clock::now() - saved_ > std::chrono::seconds(1)) save();
  if (options_.interrupted && options_.interrupted()) result_.interrupted = true;
  return !result_.interrupted;
}

FitResult fit(const Objective& objective, std::span<const double> start,
              const FitOptions& options) {
  require_options(objective, start, options);
  FitRun run(objective, start, options);
  const size_t before = run.state().history.size();
  try {
    options.method == FitMethod::kAdam ? adam(run) : levenberg_marquardt(run);
  } catch (const Interrupted&) {
    run.result().interrupted = true;
  } catch (const Error& error) {
    if (run.state().history.size() == before) throw;
    run.result().message = error.what();
  }
  run.save();
  FitResult& out = run.result();
  FitState& state = run.state();
  out.theta = std::move(state.theta);
  out.loss = state.loss;
  out.moves = std::move(state.moves);
  out.history = std::move(state.history);
  return out;
}

}  // namespace diffmj
