#include "setup/step_method.h"

#include "integrate/tableau.h"

namespace diffmj {
namespace {

int to_mujoco(Integrator integrator) { return static_cast<int>(integrator) - 1; }

}  // namespace

StepMethod choose_method(const ModelOptions& options, mjModel* m) {
  const Integrator asked = options.integrator;
  const Tableau* tableau = find_tableau(integrator_name(asked));
  StepMethod method{.tableau = tableau, .interval = m->opt.timestep};
  if (asked == Integrator::kAuto) {
    method.tableau = &kTsit5;
    method.stiff_tableau = &kRodas4p;
  }
  if (!method.tableau) {
    if (asked != Integrator::kModel) m->opt.integrator = to_mujoco(asked);
    return method;
  }
  // RK4 has no matrix of its own, so that the stages and their pullbacks are those of the field
  m->opt.integrator = mjINT_RK4;
  // where contacts set in over a width, what islands have of R would be of before
  if (options.adaptive.onset > 0) m->opt.disableflags |= mjDSBL_ISLAND;
  if (options.adaptive.interval) method.interval = *options.adaptive.interval;
  return method;
}

}  // namespace diffmj
