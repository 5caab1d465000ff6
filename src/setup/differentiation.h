// The gradient paths: what each of them does (stages/differentiation.h).
#ifndef DIFFMJ_SETUP_DIFFERENTIATION_H_
#define DIFFMJ_SETUP_DIFFERENTIATION_H_

#include <string>

#include "stages/stage_model.h"

namespace diffmj {

Differentiation differentiation_by(GradientPath path, const mjModel* m);

// For errors where a model's path has no derivative of the field: what its steps are, and why, or
// what to use instead.
std::string differenced_steps(const StageModel& impl);

}  // namespace diffmj

#endif  // DIFFMJ_SETUP_DIFFERENTIATION_H_
