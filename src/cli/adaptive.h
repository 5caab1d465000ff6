// Explicit Runge-Kutta methods on the command line: their options in results, and what they did.
#ifndef DIFFMJ_CLI_ADAPTIVE_H_
#define DIFFMJ_CLI_ADAPTIVE_H_

#include "cli.h"
#include "output.h"

namespace diffmj::cli {

// As the model uses them.
Json json_adaptive(const Model& model);
// Counts and sizes of the steps; of a rollout that failed also the state it ended at, beyond the
// last row.
Json json_integrator(const Trajectory& trajectory);
// What the backward pass did.
Json json_adjoint(const Model& model, const Gradient& gradient);

// A row per accepted step: interval,time,size. Of a rollout that failed also those after its last
// row.
void write_steps(const Trajectory& trajectory, Output& output);

}  // namespace diffmj::cli

#endif  // DIFFMJ_CLI_ADAPTIVE_H_
