// The one home of tolerances. DIFFMJ_TOL_SCALE=0 makes every comparison fail and print its
// residual.
#ifndef DIFFMJ_TESTS_HARNESS_TOLERANCES_H_
#define DIFFMJ_TESTS_HARNESS_TOLERANCES_H_

#include <cstdlib>

namespace diffmj {

struct Tolerances {
  double forward = 1e-12;     // against MuJoCo's own numbers
  double stage = 1e-6;        // pullback of a stage against differences
  double smooth = 1e-7;       // analytic pullback of smooth stages against differences
  double step = 1e-6;         // pullback of a step
  double trajectory = 1e-6;   // gradient of a rollout
  double large_model = 1e-5;  // gradient of a rollout of the humanoid or of the muscle hand
};

inline Tolerances tolerances() {
  const char* text = std::getenv("DIFFMJ_TOL_SCALE");
  const double scale = text ? std::atof(text) : 1.0;
  Tolerances t;
  for (double* x : {&t.forward, &t.stage, &t.smooth, &t.step, &t.trajectory, &t.large_model})
    *x *= scale;
  return t;
}

}  // namespace diffmj

#endif  // DIFFMJ_TESTS_HARNESS_TOLERANCES_H_
