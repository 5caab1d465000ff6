// Which method makes steps, by ModelOptions.
#ifndef DIFFMJ_SETUP_STEP_METHOD_H_
#define DIFFMJ_SETUP_STEP_METHOD_H_

#include "integrate/step_model.h"

namespace diffmj {

// Sets the integrator in the model's own options, too. The options are valid.
StepMethod choose_method(const ModelOptions& options, mjModel* m);

}  // namespace diffmj

#endif  // DIFFMJ_SETUP_STEP_METHOD_H_
