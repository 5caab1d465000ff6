// Errors. Wrong input throws. How a rollout ended is a value (Outcome), so that its record is kept.
#ifndef DIFFMJ_ERROR_H_
#define DIFFMJ_ERROR_H_

#include <stdexcept>

namespace diffmj {

// Base of every exception this library throws.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An argument is wrong: the message names it, its value and what was expected.
class InputError : public Error {
  using Error::Error;
};

// The model uses a feature without a derivative: the message names the element.
class UnsupportedError : public Error {
  using Error::Error;
};

// MuJoCo itself reported an error (its text is in the message).
class MujocoError : public Error {
  using Error::Error;
};

// A rollout or its derivative could not be completed: a rollout that the caller depends on diverged
// (settling, planning, identification), a recorded step cannot be recomputed, a continuous adjoint
// cannot be solved, or a gradient or tangent is not finite. The message names the step or the time.
class RolloutError : public Error {
  using Error::Error;
};

// RolloutOptions::interrupted returned true.
class Interrupted : public Error {
  using Error::Error;
};

// There is not enough memory for the result; the message says how much was requested.
class MemoryError : public Error {
  using Error::Error;
};

}  // namespace diffmj

#endif  // DIFFMJ_ERROR_H_
