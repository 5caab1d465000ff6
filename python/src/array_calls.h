// Rollouts and pullbacks on plain arrays, as a table of C functions. The module of a framework
// (_diffmj_jax) is compiled with the framework's headers alone and calls diffmj through it: it
// links neither diffmj nor MuJoCo, of which a process must have one copy.
#ifndef DIFFMJ_PYTHON_ARRAY_CALLS_H_
#define DIFFMJ_PYTHON_ARRAY_CALLS_H_

#include <cstddef>
#include <cstdint>

namespace diffmj::python {

enum class ArrayType { kFloat32, kFloat64, kUint32, kBool };

// Row-major; the last dimension holds the numbers of one rollout, those before it are the batch.
// Along a dimension of size 1 an input is shared.
struct Array {
  void* data;
  ArrayType type;
  const int64_t* shape;
  size_t rank;  // >= 1, the same for all arrays of a call
};

struct ArrayMessage {
  char text[2048];  // "diffmj.InputError: ..."
};

// Both return true, or false with a message. handle: of an ArrayRollout, which says what the arrays
// are. They may be called from any thread, and do not touch Python.
struct ArrayCalls {
  bool (*rollout)(int64_t handle, int64_t nstep, const Array* in, size_t nin, const Array* out,
                  size_t nout, ArrayMessage* message);
  bool (*pullback)(int64_t handle, int64_t nstep, const Array* in, size_t nin, const Array* out,
                   size_t nout, ArrayMessage* message);
};

// Of the capsule that _diffmj.array_calls() returns; another layout needs another name.
inline constexpr const char* kArrayCallsName = "diffmj.array_calls.1";

}  // namespace diffmj::python

#endif  // DIFFMJ_PYTHON_ARRAY_CALLS_H_
