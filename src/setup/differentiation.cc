#include "setup/differentiation.h"

#include "integrate/field_pullback.h"
#include "integrate/step.h"
#include "stages/analytic.h"
#include "stages/evaluate_stages.h"

namespace diffmj {
namespace {

constexpr Differentiation kAnalytic = {
    .path = GradientPath::kAnalytic,
    .of_field = true,
    .of_stages = true,
    .evaluate = evaluate_analytic,
    .field_pullback = analytic_point_pullback,
    .step_pullback = analytic_step_pullback,
};

// the oracle reads H, whether or not constraints act
constexpr Differentiation kOracle = {
    .path = GradientPath::kOracle,
    .of_field = true,
    .of_stages = false,
    .evaluate = [](const StageModel& impl, const StepInput& in, bool,
                   Workspace& workspace) { evaluate_stages(impl, in, workspace); },
    .field_pullback = oracle_point_pullback,
    .step_pullback = oracle_step_pullback,
};

constexpr Differentiation kDifferences = {
    .path = GradientPath::kDifferences,
    .of_field = false,
    .of_stages = false,
    .evaluate = nullptr,
    .field_pullback = nullptr,
    .step_pullback = differences_step_pullback,
};

}  // namespace

Differentiation differentiation_by(GradientPath path, const mjModel* m) {
  Differentiation out = path == GradientPath::kAnalytic ? kAnalytic
                        : path == GradientPath::kOracle ? kOracle
                                                        : kDifferences;
  // its Runge-Kutta stages are points of the field
  if (m->opt.integrator == mjINT_RK4 && out.of_field) out.step_pullback = rk4_step_pullback;
  return out;
}

std::string differenced_steps(const StageModel& impl) {
  return "steps that are differentiated by differences" +
         (impl.path_reason.empty() ? "; use gradient_path analytic or oracle"
                                   : ": " + impl.path_reason);
}

}  // namespace diffmj
