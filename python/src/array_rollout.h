// A rollout and its pullback as functions from arrays to arrays, for JAX and PyTorch.
#ifndef DIFFMJ_PYTHON_ARRAY_ROLLOUT_H_
#define DIFFMJ_PYTHON_ARRAY_ROLLOUT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "array_calls.h"
#include "diffmj/error.h"
#include "diffmj/model.h"
#include "diffmj/rollout.h"

namespace diffmj::python {

// A rollout that failed, with the name of Python's exception for it.
class FailedRollout : public Error {
 public:
  FailedRollout(const char* type, const std::string& text) : Error(text), type(type) {}
  const char* type;
};

struct ArrayRolloutOptions {
  // "qpos", "qvel", "act", "sensordata", observables, and "qacc_warmstart" of a next step
  std::vector<std::string> outputs;
  std::vector<std::string> params;  // fields of mjModel
  bool last = false;                // outputs of the last state alone
  bool raises = true;               // a rollout that fails is an error; else its numbers are NaN
  std::optional<int> nthread = {};
};

// The inputs, in this order; one without numbers takes its default. After them come the params.
inline constexpr const char* kArrayInputs[] = {
    "qpos",      "qvel",         "act",
    "ctrl",      "qfrc_applied", "xfrc_applied",  // with a gradient
    "mocap_pos", "mocap_quat",   "qacc_warmstart",
};
inline constexpr size_t kArrayInputCount = 9, kArrayGradientCount = 6;

// The trajectories of a call with all that they keep, for its pullback in place of a tape.
struct KeptRollouts {
  std::vector<Model> models;  // one for all, or one for each
  std::vector<Trajectory> trajectories;
};

class ArrayRollout {
 public:
  ArrayRollout(const Model& model, ArrayRolloutOptions options);

  // Numbers of one rollout: of an output, and of the tape that pullback takes, as pairs of uint32
  // (a framework without double precision must not round it).
  size_t output_size(const std::string& name, int nstep) const;
  size_t tape_size(int nstep) const;

  // in: inputs, params. out: outputs, whether the rollout succeeded (one bool), tape (or nothing).
  // interrupted: as of RolloutOptions; both functions throw Interrupted once it returns true. keep:
  // where the trajectories go; null: they are dropped.
  void rollout(int nstep, std::span<const Array> in, std::span<const Array> out,
               const std::function<bool()>& interrupted = {}, KeptRollouts* keep = nullptr) const;
  // in: inputs, params, tape (without numbers: the rollout is run again), cotangents of the outputs
  // (without numbers: 0). out: gradients of the inputs that have one (without numbers: not wanted),
  // then of the params. kept: what rollout() kept of a single rollout with the same inputs, which
  // is read instead of the tape.
  void pullback(int nstep, std::span<const Array> in, std::span<const Array> out,
                const std::function<bool()>& interrupted = {},
                const KeptRollouts* kept = nullptr) const;

 private:
  Model model_;
  ArrayRolloutOptions options_;
};

// An entry of the registry through which compiled functions find their rollout. It is there as long
// as this object is.
class ArrayHandle {
 public:
  explicit ArrayHandle(std::shared_ptr<const ArrayRollout> rollout);
  ~ArrayHandle();
  ArrayHandle(const ArrayHandle&) = delete;
  ArrayHandle& operator=(const ArrayHandle&) = delete;

  int64_t id() const { return id_; }
  const ArrayRollout& rollout() const { return *rollout_; }
  static size_t count();  // entries of the registry

 private:
  std::shared_ptr<const ArrayRollout> rollout_;
  int64_t id_;
};

const ArrayCalls& array_calls();

}  // namespace diffmj::python

#endif  // DIFFMJ_PYTHON_ARRAY_ROLLOUT_H_
