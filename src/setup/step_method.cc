#include "setup/step_method.h"

#include <cmath>
#include <string>

#include "base/checkpoints.h"
#include "base/text.h"
#include "diffmj/error.h"
#include "integrate/step_controller.h"
#include "integrate/tableau.h"

namespace diffmj {
namespace {

int to_mujoco(Integrator integrator) { return static_cast<int>(integrator) - 1; }

}  // namespace

StepMethod choose_method(const ModelOptions& options, mjModel* m) {
  const Integrator asked = options.integrator;
  const Tableau* tableau = find_tableau(integrator_name(asked));
  StepMethod method{.tableau = tableau, .interval = m->opt.timestep};
  if (!tableau) {
    if (asked != Integrator::kModel) m->opt.integrator = to_mujoco(asked);
    return method;
  }
  // RK4 has no matrix of its own, so that the stages and their pullbacks are those of the field
  m->opt.integrator = mjINT_RK4;
  const AdaptiveOptions& o = options.adaptive;
  const auto require = [](const char* name, double value, const char* expected) {
    if (value >= 0 && std::isfinite(value)) return;
    throw InputError(std::string(name) + " is " + number(value) + ", expected " + expected);
  };
  require("interval", o.interval, "a time ≥ 0");
  require("step", o.step, "a time ≥ 0");
  if (o.interval > 0) method.interval = o.interval;
  if (o.step == 0 && tableau->embedded_order == 0) {
    throw InputError(std::string("integrator ") + tableau->name +
                     " has no estimate of its error: give it a constant step, or use tsit5");
  }
  if (o.step == 0) (void)StepController(o.stepping, tableau->embedded_order);  // checks
  if (o.checkpoints) (void)Checkpoints(*o.checkpoints);                        // checks
  const double rtol = o.adjoint_rtol.value_or(o.stepping.rtol),
               atol = o.adjoint_atol.value_or(o.stepping.atol);
  if (o.adjoint_rtol) require("adjoint_rtol", rtol, "a number ≥ 0");
  if (o.adjoint_atol) require("adjoint_atol", atol, "a number ≥ 0");
  if (o.step == 0 && o.adjoint != Adjoint::kDiscrete && rtol + atol == 0) {
    throw InputError("adjoint_rtol and adjoint_atol are 0, expected one of them > 0");
  }
  return method;
}

}  // namespace diffmj
