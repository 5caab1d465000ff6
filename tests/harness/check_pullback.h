// check_pullback(): the one place where tests take differences.
#ifndef DIFFMJ_TESTS_HARNESS_CHECK_PULLBACK_H_
#define DIFFMJ_TESTS_HARNESS_CHECK_PULLBACK_H_

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace diffmj {

using Vector = std::vector<double>;

struct Operation {  // what the harness sees of a stage, a step or a whole rollout
  std::function<Vector(const Vector& x)> forward;
  std::function<void(const Vector& x, const Vector& y_bar, Vector& x_bar)> pullback;  // adds
  std::function<Vector(const Vector& x, const Vector& dx)> plus = {};  // x ⊕ dx; empty: x + dx
  // y ⊖ y0 as a tangent; empty: y - y0. y_bar lives there.
  std::function<Vector(const Vector& y, const Vector& y0)> minus = {};
};

struct CheckPullbackOptions {
  double tolerance = 1e-6;  // relative to max(|adjoint|, |numeric|, |pullback|/√n, smallest)
  double smallest = 1e-12;  // derivatives below this size are zero
  double step = 1e-3;       // first step of Ridders' extrapolation
  // Halvings of it. Fewer, down to 5, for functions whose own noise smaller steps would measure.
  int levels = 14;
  int directions = 8;
  unsigned seed = 1;  // printed on failure
};

// ⟨pullback(ȳ), u⟩ against Ridders' differences of ⟨ȳ, f(x ⊕ h u)⟩ for random u and ȳ. Also demands
// that the pullback adds, is linear in ȳ, leaves its inputs alone and gives the same twice. If the
// error estimate of the differences exceeds the tolerance, or the slopes on the two sides differ
// (a kink, a change of the active set, a loose solver), the check fails as inconclusive.
// Success, or a failure naming the direction, both numbers and the error estimate.
::testing::AssertionResult check_pullback(const Operation& op, const Vector& x, size_t ntangent,
                                          CheckPullbackOptions options = {});

// Number of calls of operator new on this thread so far: a hot path makes none.
size_t allocations();

}  // namespace diffmj

#endif  // DIFFMJ_TESTS_HARNESS_CHECK_PULLBACK_H_
