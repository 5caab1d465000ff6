// Options of diffmj's Runge-Kutta methods: step control, interpolation of controls, adjoints.
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
  double p = 0.2, i = 0.6, d = 0;  // PID coefficients
  double safety = 0.9;
  double shrink = 0.2, grow = 10;  // bounds of the ratio of two steps
  // [s] If a step of this size, or of 16 rounding errors of the time, is rejected, the rollout
  // fails.
  double min_step = 1e-12;
  double max_step = std::numeric_limits<double>::infinity();  // [s]
  long max_steps = 100000;                                    // of a rollout, rejected ones too
};

// How ctrl is defined between its rows.
enum class Control {
  kHold,    // the row of the interval, as MuJoCo does
  kLinear,  // linear from one row to the next; the last one is held
};

// How the steps of an interval are differentiated (docs/gradients.md).
enum class Adjoint {
  kDiscrete,      // the accepted steps reversed: exact for them
  kInterpolated,  // the adjoint equation, solved along the dense output of the steps
  kBacksolve,     // the same, with the states solved backwards together with it
};

struct AdaptiveOptions {
  StepControl stepping = {};
  // [s] Constant steps, as many as an interval needs, and no control of errors. None: adaptive.
  std::optional<double> step = {};
  // [s] Time between rows of the trajectory and of ctrl. None: the model's timestep.
  std::optional<double> interval = {};
  Control control = Control::kHold;
  // Whether steps end where a contact or limit becomes active, and adjoints include the term for
  // the jump of the forces there (docs/gradients.md).
  bool events = true;
  // [m or rad] Width over which contacts and limits set in, so that their forces do not jump and
  // there are no events. 0: they set in at once, as MuJoCo's do. For bodies at rest on default
  // contacts.
  double onset = 0;
  // None: kDiscrete of the explicit methods, kInterpolated of rodas4p and auto, which have no
  // other.
  std::optional<Adjoint> adjoint = {};
  // How many states inside the rollout may be kept for the backward pass; the others are
  // recomputed. None: every step is kept with its Runge-Kutta stages. kBacksolve keeps none.
  std::optional<int> checkpoints = {};
  // Tolerances of kInterpolated and kBacksolve; none: those of the steps.
  std::optional<double> adjoint_rtol = {}, adjoint_atol = {};
};

const char* control_name(Control control);  // "hold", "linear"
const char* adjoint_name(Adjoint adjoint);  // "discrete", "interpolated", "backsolve"
// The inverse; an InputError lists the valid names.
Control control_from_name(const std::string& name);
Adjoint adjoint_from_name(const std::string& name);

}  // namespace diffmj

#endif  // DIFFMJ_ADAPTIVE_H_
