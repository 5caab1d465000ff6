// Options of the explicit Runge-Kutta methods: step control, controls in time, adjoints of time.
#ifndef DIFFMJ_ADAPTIVE_H_
#define DIFFMJ_ADAPTIVE_H_

#include <limits>
#include <optional>
#include <string>

namespace diffmj {

// Tolerances and the PID controller of step sizes (docs/derivations/adaptive.md, eq. 3 to 5).
struct StepControl {
  double rtol = 1e-6;
  double atol = 1e-8;
  double p = 0.2, i = 0.4, d = 0;  // PID coefficients
  double safety = 0.9;
  double shrink = 0.2, grow = 10;  // bounds of the ratio of two steps
  // [s] A step that is rejected at min_step, or at 16 roundings of the time, is given up.
  double min_step = 1e-12;
  double max_step = std::numeric_limits<double>::infinity();  // [s]
  long max_steps = 100000;                                    // of a rollout, rejected ones too
};

// What ctrl is between its rows.
enum class Control {
  kHold,    // the row of the interval, as MuJoCo does
  kLinear,  // straight from a row to the next; the last one is held
};

// How a gradient goes back through the steps of an interval (docs/gradients.md).
enum class Adjoint {
  kDiscrete,      // the accepted steps reversed: exact for them
  kInterpolated,  // the adjoint equation, solved along the dense output of the steps
  kBacksolve,     // the same with the states solved backwards beside it
};

struct AdaptiveOptions {
  StepControl stepping = {};
  // [s] Constant steps, as many as an interval needs, and no control of errors. 0: adaptive.
  double step = 0;
  // [s] Between rows of the trajectory, which are also the rows of ctrl. 0: the model's timestep.
  double interval = 0;
  Control control = Control::kHold;
  // Whether steps end where a contact or limit becomes active, and adjoints have the term of the
  // jump that the forces make there (docs/gradients.md).
  bool events = true;
  Adjoint adjoint = Adjoint::kDiscrete;
  // How many states inside the rollout may be kept for the way back; the others are computed again.
  // None: every step is kept with its stages. kBacksolve keeps none.
  std::optional<int> checkpoints = {};
  // Of kInterpolated and kBacksolve; none: those of the steps.
  std::optional<double> adjoint_rtol = {}, adjoint_atol = {};
};

const char* control_name(Control control);  // "hold", "linear"
const char* adjoint_name(Adjoint adjoint);  // "discrete", "interpolated", "backsolve"
// The inverse; InputError lists the names there are.
Control control_from_name(const std::string& name);
Adjoint adjoint_from_name(const std::string& name);

}  // namespace diffmj

#endif  // DIFFMJ_ADAPTIVE_H_
