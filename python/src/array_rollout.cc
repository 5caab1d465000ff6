#include "array_rollout.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "diffmj/error.h"
#include "diffmj/gradient.h"
#include "diffmj/observables.h"
#include "diffmj/rollout.h"
#include "diffmj/tape.h"
#include "interrupt_watch.h"

namespace diffmj::python {
namespace {

using Numbers = std::span<const double>;

size_t size(int n) { return static_cast<size_t>(n); }

size_t width_of(const Array& array) { return static_cast<size_t>(array.shape[array.rank - 1]); }

// rollouts of the batch that an array has rows for
size_t rows_of(const Array& array) {
  size_t n = 1;
  for (size_t k = 0; k + 1 < array.rank; k++) n *= static_cast<size_t>(array.shape[k]);
  return n;
}

// An input: the numbers of every rollout of a batch, in double precision.
class Rows {
 public:
  // batch: an array with the shape of the whole batch
  Rows(const Array& array, const Array& batch) : array_(array), batch_(batch) {
    if (array.type != ArrayType::kFloat32) return;
    const auto* from = static_cast<const float*>(array.data);
    converted_.assign(from, from + rows_of(array) * width_of(array));
  }
  bool is_shared() const { return rows_of(array_) == 1; }
  Numbers at(size_t i) const { return {numbers() + row(i) * width_of(array_), width_of(array_)}; }
  // of a tape: a double in every two numbers
  std::vector<double> doubles_at(size_t i) const {
    std::vector<double> out(width_of(array_) / 2);
    if (!out.empty()) {
      const auto* from = static_cast<const uint32_t*>(array_.data) + row(i) * width_of(array_);
      std::memcpy(out.data(), from, out.size() * sizeof(double));
    }
    return out;
  }

 private:
  const double* numbers() const {
    return converted_.empty() ? static_cast<const double*>(array_.data) : converted_.data();
  }
  // of rollout i, along whose dimensions of size 1 the array does not move
  size_t row(size_t i) const {
    size_t out = 0, stride = 1;
    for (size_t k = array_.rank - 1; k-- > 0;) {
      const auto n = static_cast<size_t>(batch_.shape[k]),
                 own = static_cast<size_t>(array_.shape[k]);
      if (own > 1) out += (i % n) * stride;
      stride *= own;
      i /= n;
    }
    return out;
  }

  Array array_, batch_;
  std::vector<double> converted_;
};

// writes row i of an output
void write(const Array& array, size_t i, Numbers from) {
  const size_t width = width_of(array);
  if (array.type == ArrayType::kFloat32) {
    auto* to = static_cast<float*>(array.data) + i * width;
    std::transform(from.begin(), from.end(), to, [](double x) { return static_cast<float>(x); });
  } else {
    std::copy(from.begin(), from.end(), static_cast<double*>(array.data) + i * width);
  }
}

void fill(const Array& array, size_t i, double value) {
  write(array, i, std::vector<double>(width_of(array), value));
}

bool all_finite(Numbers x) {
  // MuJoCo's own limit
  return std::all_of(x.begin(), x.end(),
                     [](double v) { return std::isfinite(v) && std::abs(v) <= 1e10; });
}

bool all_zero(Numbers x) {
  return std::all_of(x.begin(), x.end(), [](double v) { return v == 0; });
}

const char* failure_type(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNotFinite:
      return "DivergedError";
    case Outcome::kBudgetExhausted:
      return "StepBudgetError";
    case Outcome::kStepTooSmall:
      return "StepSizeError";
    default:
      return "RolloutError";
  }
}

std::string name_of(const char* who, size_t i, size_t nrollout) {
  return nrollout == 1 ? who : std::string(who) + " " + std::to_string(i) + " of the batch";
}

// The inputs of a call.
class Inputs {
 public:
  Inputs(const std::vector<std::string>& params, std::span<const Array> in, const Array& batch)
      : params_(params), nrollout_(rows_of(batch)) {
    for (const Array& array : in.first(kArrayInputCount + params.size())) {
      rows_.emplace_back(array, batch);
    }
    shared_ = std::all_of(rows_.begin() + kArrayInputCount, rows_.end(),
                          [](const Rows& x) { return x.is_shared(); });
  }
  size_t count() const { return nrollout_; }
  RolloutInput at(size_t i) const {
    return {.qpos = rows_[0].at(i),
            .qvel = rows_[1].at(i),
            .act = rows_[2].at(i),
            .ctrl = rows_[3].at(i),
            .qfrc_applied = rows_[4].at(i),
            .xfrc_applied = rows_[5].at(i),
            .mocap_pos = rows_[6].at(i),
            .mocap_quat = rows_[7].at(i),
            .qacc_warmstart = rows_[8].at(i)};
  }
  bool are_finite(size_t i) const {
    return std::all_of(rows_.begin(), rows_.end(),
                       [&](const Rows& x) { return all_finite(x.at(i)); });
  }
  // The model with the parameters of these rollouts: one for all of them, or one each.
  std::vector<Model> models(const Model& model, const std::vector<size_t>& rollouts) const {
    if (params_.empty() || rollouts.empty()) return {model};
    std::vector<Model> out;
    for (const size_t i : rollouts) {
      std::map<std::string, std::vector<double>> fields;
      for (size_t k = 0; k < params_.size(); k++) {
        const Numbers x = rows_[kArrayInputCount + k].at(i);
        fields[params_[k]].assign(x.begin(), x.end());
      }
      out.push_back(model.with_parameters(fields));
      if (shared_) break;
    }
    return out;
  }

 private:
  std::vector<std::string> params_;
  std::vector<Rows> rows_;
  size_t nrollout_;
  bool shared_ = true;
};

// one rollout with the messages of one, or a batch
std::vector<Trajectory> run(const std::vector<Model>& models,
                            const std::vector<RolloutInput>& inputs, int nstep,
                            const RolloutOptions& options) {
  if (inputs.size() == 1) {
    std::vector<Trajectory> out;
    out.push_back(rollout(models[0], inputs[0], nstep, options));
    if (out[0].outcome == Outcome::kInterrupted) throw Interrupted("rollout: interrupted");
    return out;
  }
  return models.size() == 1 ? rollout_batch(models[0], inputs, nstep, options)
                            : rollout_batch(models, inputs, nstep, options);
}

void require_arrays(const char* who, size_t nin, size_t expected_in, size_t nout,
                    size_t expected_out) {
  if (nin == expected_in && nout == expected_out) return;
  throw InputError(std::string(who) + ": " + std::to_string(nin) + " arrays in and " +
                   std::to_string(nout) + " out, expected " + std::to_string(expected_in) +
                   " and " + std::to_string(expected_out));
}

void require_width(const std::string& name, const Array& array, size_t expected) {
  if (width_of(array) == expected) return;
  throw InputError("the array of " + name + " has " + std::to_string(width_of(array)) +
                   " numbers per rollout, expected " + std::to_string(expected));
}

bool is_state(const std::string& name) {
  return name == "qpos" || name == "qvel" || name == "act" || name == "sensordata" ||
         name == "qacc_warmstart";
}

}  // namespace

ArrayRollout::ArrayRollout(const Model& model, ArrayRolloutOptions options)
    : model_(model), options_(std::move(options)) {
  for (const std::string& name : options_.outputs) (void)output_size(name, 1);
  for (const std::string& name : options_.params) (void)parameter_shape(model, name);
}

size_t ArrayRollout::output_size(const std::string& name, int nstep) const {
  if (name == "qacc_warmstart") return size(model_.nv());
  const int width = name == "qpos"         ? model_.nq()
                    : name == "qvel"       ? model_.nv()
                    : name == "act"        ? model_.na()
                    : name == "sensordata" ? model_.nsensordata()
                                           : observable(name).size(model_);
  return size(options_.last ? 1 : nstep + 1) * size(width);
}

size_t ArrayRollout::tape_size(int nstep) const {
  // explicit Runge-Kutta methods are run again
  return model_.is_adaptive() ? 0 : 2 * diffmj::tape_size(model_, nstep);
}

void ArrayRollout::rollout(int nstep, std::span<const Array> in, std::span<const Array> out,
                           const std::function<bool()>& interrupted, KeptRollouts* keep) const {
  const std::vector<std::string>& names = options_.outputs;
  require_arrays("rollout", in.size(), kArrayInputCount + options_.params.size(), out.size(),
                 names.size() + 2);
  for (size_t k = 0; k < names.size(); k++) {
    require_width(names[k], out[k], output_size(names[k], nstep));
  }
  const Array &succeeded = out[names.size()], &tape = out[names.size() + 1];
  if (width_of(tape) > 0) require_width("the tape", tape, tape_size(nstep));
  const Inputs inputs(options_.params, in, succeeded);

  // what is not finite already fails without being run
  std::vector<size_t> rollouts;
  std::vector<RolloutInput> each;
  for (size_t i = 0; i < inputs.count(); i++) {
    if (!options_.raises && !inputs.are_finite(i)) continue;
    rollouts.push_back(i);
    each.push_back(inputs.at(i));
  }
  std::vector<Poses> poses(rollouts.size());
  RolloutOptions options{
      .nthread = options_.nthread, .interrupted = interrupted, .keep_stages = keep != nullptr};
  for (const std::string& name : names) {
    if (name == "sensordata") options.sensors = true;
    if (!is_state(name)) options.observables.push_back(name);
  }
  options.poses = poses;
  std::vector<Model> models = inputs.models(model_, rollouts);
  std::vector<Trajectory> trajectories = run(models, each, nstep, options);

  const auto values = [&](const std::string& name, size_t k) -> const std::vector<double>& {
    const Trajectory& t = trajectories[k];
    return name == "qpos"             ? t.qpos
           : name == "qvel"           ? t.qvel
           : name == "act"            ? t.act
           : name == "sensordata"     ? t.sensordata
           : name == "qacc_warmstart" ? t.next_warmstart
                                      : poses[k].*observable(name).values;
  };
  std::vector<double> numbers(width_of(tape) > 0 ? diffmj::tape_size(model_, nstep) : 0);
  size_t k = 0;
  for (size_t i = 0; i < inputs.count(); i++) {
    const bool was_run = k < rollouts.size() && rollouts[k] == i;
    const bool ok = was_run && trajectories[k].ok();
    if (was_run && !ok && options_.raises) {
      throw FailedRollout(failure_type(trajectories[k].outcome),
                          name_of("rollout", i, inputs.count()) + ": " + trajectories[k].message);
    }
    static_cast<bool*>(succeeded.data)[i] = ok;
    for (size_t o = 0; o < names.size(); o++) {
      if (!ok) {
        fill(out[o], i, std::numeric_limits<double>::quiet_NaN());
      } else if (const Numbers all = values(names[o], k); all.empty()) {
        fill(out[o], i, 0);  // the warm start of methods that have none
      } else {
        write(out[o], i, all.last(width_of(out[o])));
      }
    }
    if (width_of(tape) > 0) {
      std::fill(numbers.begin(), numbers.end(), 0.0);
      if (was_run) write_tape(models[models.size() == 1 ? 0 : k], trajectories[k], numbers);
      std::memcpy(static_cast<uint32_t*>(tape.data) + i * width_of(tape), numbers.data(),
                  numbers.size() * sizeof(double));
    }
    if (was_run) k++;
  }
  if (keep) *keep = {std::move(models), std::move(trajectories)};
}

void ArrayRollout::pullback(int nstep, std::span<const Array> in, std::span<const Array> out,
                            const std::function<bool()>& interrupted,
                            const KeptRollouts* kept) const {
  const std::vector<std::string>&names = options_.outputs, &params = options_.params;
  const size_t ninput = kArrayInputCount + params.size();
  require_arrays("rollout_pullback", in.size(), ninput + 1 + names.size(), out.size(),
                 kArrayGradientCount + params.size());
  const Inputs inputs(params, in, out[0]);
  const bool has_tape = width_of(in[ninput]) > 0;
  if (has_tape) require_width("the tape", in[ninput], tape_size(nstep));
  const Rows tape(in[ninput], out[0]);
  std::vector<Rows> bars;
  for (size_t o = 0; o < names.size(); o++) {
    const Array& bar = in[ninput + 1 + o];
    if (width_of(bar) > 0) {
      require_width("the cotangent of " + names[o], bar, output_size(names[o], nstep));
    }
    bars.emplace_back(bar, out[0]);
  }
  const auto fill_all = [&](size_t i, double value) {
    for (const Array& array : out) fill(array, i, value);
  };

  // Of rollouts that may fail: a loss that does not depend on one has the gradient 0 there, and a
  // cotangent that is not finite gives one that is not.
  std::vector<size_t> rollouts;
  for (size_t i = 0; i < inputs.count(); i++) {
    const auto every = [&](bool (*test)(Numbers)) {
      return std::all_of(bars.begin(), bars.end(), [&](const Rows& x) { return test(x.at(i)); });
    };
    if (!options_.raises && every(all_zero)) {
      fill_all(i, 0);
    } else if (!options_.raises && !(inputs.are_finite(i) && every([](Numbers x) {
                                       return std::all_of(x.begin(), x.end(), [](double v) {
                                         return std::isfinite(v);
                                       });
                                     }))) {
      fill_all(i, std::numeric_limits<double>::quiet_NaN());
    } else {
      rollouts.push_back(i);
    }
  }
  if (rollouts.empty()) return;

  const RolloutOptions options{.nthread = options_.nthread, .interrupted = interrupted};
  KeptRollouts again;
  if (!kept) {
    again.models = inputs.models(model_, rollouts);
    std::vector<RolloutInput> each;
    for (const size_t i : rollouts) each.push_back(inputs.at(i));
    if (!has_tape) again.trajectories = run(again.models, each, nstep, options);
    for (size_t k = 0; k < rollouts.size() && has_tape; k++) {
      RolloutInput input = each[k];
      input.qpos = input.qvel = input.act = input.qacc_warmstart = {};
      again.trajectories.push_back(
          trajectory_from_tape(again.models[again.models.size() == 1 ? 0 : k], input, nstep,
                               tape.doubles_at(rollouts[k])));
    }
  }
  const std::vector<Model>& models = kept ? kept->models : again.models;
  const std::vector<Trajectory>& trajectories = kept ? kept->trajectories : again.trajectories;
  if (trajectories.size() != rollouts.size()) {
    throw InputError("rollout_pullback: what was kept is of " +
                     std::to_string(trajectories.size()) + " rollouts, expected " +
                     std::to_string(rollouts.size()));
  }
  std::vector<std::string> wanted;
  for (size_t o = kArrayGradientCount; o < out.size(); o++) {
    if (width_of(out[o]) > 0) wanted.push_back(params[o - kArrayGradientCount]);
  }
  std::vector<Cotangents> cotangents(rollouts.size());
  for (size_t k = 0; k < rollouts.size(); k++) {
    Cotangents& c = cotangents[k];
    c.final_row = options_.last;
    c.params = wanted;
    for (size_t o = 0; o < names.size(); o++) {
      const Numbers bar = bars[o].at(rollouts[k]);
      if (names[o] == "qpos") {
        c.qpos = bar;
      } else if (names[o] == "qvel") {
        c.qvel = bar;
      } else if (names[o] == "act") {
        c.act = bar;
      } else if (names[o] == "sensordata") {
        c.sensordata = bar;
      } else if (names[o] != "qacc_warmstart") {
        // gradient: what the solver starts from does not move its solution
        c.*observable(names[o]).cotangent = bar;
      }
    }
  }
  std::vector<Gradient> gradients;
  if (options_.raises && rollouts.size() == 1) {
    gradients.push_back(rollout_pullback(models[0], trajectories[0], cotangents[0], options));
  } else {
    gradients = models.size() == 1
                    ? rollout_pullback_batch(models[0], trajectories, cotangents, options)
                    : rollout_pullback_batch(models, trajectories, cotangents, options);
  }
  for (size_t k = 0; k < rollouts.size(); k++) {
    const size_t i = rollouts[k];
    const Gradient& g = gradients[k];
    if (options_.raises && !g.message.empty()) {
      throw FailedRollout("RolloutError", name_of("rollout_pullback, rollout", i, inputs.count()) +
                                              ": " + g.message);
    }
    const std::vector<double>* const fields[] = {&g.qpos, &g.qvel,         &g.act,
                                                 &g.ctrl, &g.qfrc_applied, &g.xfrc_applied};
    for (size_t o = 0; o < out.size(); o++) {
      if (width_of(out[o]) == 0) continue;
      const std::vector<double>& from =
          o < kArrayGradientCount ? *fields[o] : g.params.at(params[o - kArrayGradientCount]);
      require_width("a gradient", out[o], from.size());
      write(out[o], i, from);
    }
  }
}

namespace {

struct Registry {
  std::mutex mutex;
  int64_t next = 1;
  std::map<int64_t, std::weak_ptr<const ArrayRollout>> entries;
};

// never destroyed: a framework's threads may outlive the module
Registry& registry() {
  static Registry* const out = new Registry;
  return *out;
}

std::shared_ptr<const ArrayRollout> find(int64_t handle) {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const auto found = r.entries.find(handle);
  std::shared_ptr<const ArrayRollout> out;
  if (found != r.entries.end()) out = found->second.lock();
  if (!out) {
    throw InputError("the Rollout or Step number " + std::to_string(handle) +
                     " that this compiled function calls no longer exists; keep it alive as long "
                     "as the function");
  }
  return out;
}

// errors as texts: an exception must not cross into another library
template <class Fn>
bool guarded(ArrayMessage* message, Fn&& fn) {
  const auto fail = [&](const char* type, const char* text) {
    std::snprintf(message->text, sizeof(message->text), "diffmj.%s: %s", type, text);
    return false;
  };
  try {
    fn();
    return true;
  } catch (const Interrupted& error) {
    return fail("KeyboardInterrupt", error.what());
  } catch (const FailedRollout& error) {
    return fail(error.type, error.what());
  } catch (const InputError& error) {
    return fail("InputError", error.what());
  } catch (const UnsupportedError& error) {
    return fail("UnsupportedError", error.what());
  } catch (const MujocoError& error) {
    return fail("MujocoError", error.what());
  } catch (const RolloutError& error) {
    return fail("RolloutError", error.what());
  } catch (const MemoryError& error) {
    return fail("OutOfMemoryError", error.what());
  } catch (const std::bad_alloc&) {
    return fail("OutOfMemoryError", "no memory for the rollouts");
  } catch (const std::exception& error) {
    return fail("Error", error.what());
  }
}

bool call_rollout(int64_t handle, int64_t nstep, const Array* in, size_t nin, const Array* out,
                  size_t nout, ArrayMessage* message) {
  return guarded(message, [&] {
    InterruptWatch watch;
    find(handle)->rollout(static_cast<int>(nstep), {in, nin}, {out, nout},
                          [&] { return watch.interrupted(); });
  });
}

bool call_pullback(int64_t handle, int64_t nstep, const Array* in, size_t nin, const Array* out,
                   size_t nout, ArrayMessage* message) {
  return guarded(message, [&] {
    InterruptWatch watch;
    find(handle)->pullback(static_cast<int>(nstep), {in, nin}, {out, nout},
                           [&] { return watch.interrupted(); });
  });
}

}  // namespace

ArrayHandle::ArrayHandle(std::shared_ptr<const ArrayRollout> rollout)
    : rollout_(std::move(rollout)) {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  id_ = r.next++;
  r.entries[id_] = rollout_;
}

ArrayHandle::~ArrayHandle() {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  r.entries.erase(id_);
}

size_t ArrayHandle::count() {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  return r.entries.size();
}

const ArrayCalls& array_calls() {
  static constexpr ArrayCalls kCalls{&call_rollout, &call_pullback};
  return kCalls;
}

}  // namespace diffmj::python
