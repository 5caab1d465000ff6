// The term of an event: where a contact or limit becomes active the vector field jumps from F- to
// F+, and a perturbation of the state moves the moment at which it does,
//
//   δt = -∇φ · δx / (∇φ · F-),    δx+ = δx + (F- - F+) δt
//   x_bar- = x_bar+ + ∇φ s,       p_bar += ∂φ/∂p s,       s = (F+ - F-) · x_bar+ / (∇φ · F-)
//
// on top of what either side gives; φ is the violation, pos - margin. docs/derivations/jumps.md.
#ifndef DIFFMJ_ADJOINT_JUMP_H_
#define DIFFMJ_ADJOINT_JUMP_H_

#include "events/event_record.h"
#include "mj/view.h"
#include "model/parameters.h"
#include "setup/model_impl.h"
#include "setup/workspace_lease.h"

namespace diffmj {

// Adds to x_bar (rows: cotangents of x = (q, v, w) at the event) and, of one cotangent, to params.
// The velocities of contacts that became active together are averaged, as are their ∇φ. Throws
// UnsupportedError for parameters on the oracle path.
void jump_pullback(const ModelImpl& impl, const EventRecord& record, Matrix& x_bar,
                   const ParameterBar& params, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_ADJOINT_JUMP_H_
