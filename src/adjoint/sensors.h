// The sensors of one state, pulled back on their own: where they are not part of a step's pullback
// (integrate/step.h), that is of RK4, of adaptive steps, of the last state of a rollout, and where
// the field is differentiated by the oracle or by differences.
#ifndef DIFFMJ_ADJOINT_SENSORS_H_
#define DIFFMJ_ADJOINT_SENSORS_H_

#include "setup/model_impl.h"
#include "stages/vector_field.h"

namespace diffmj {

// a = F(x, u) is evaluated anew where sensors read it. Adds to bar, of one cotangent.
void state_sensors_pullback(const ModelImpl& impl, const StepInput& in, CVec sensordata_bar,
                            const VectorFieldBar& bar, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_ADJOINT_SENSORS_H_
