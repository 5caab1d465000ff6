// Mhat, the matrix that turns forces into MuJoCo's velocity increments (docs/derivations/steps.md,
// eq. 1):
//
//   M                 explicit
//   M + h diag(B)     Euler with damping
//   M - h D           implicit, implicitfast (with the gyroscopic part of free bodies that stand
//   alone)
//
// Factorised within the sparsity of the tree, leaves first: no fill-in.
#ifndef DIFFMJ_INTEGRATE_METRIC_H_
#define DIFFMJ_INTEGRATE_METRIC_H_

#include "integrate/step_model.h"
#include "mj/view.h"
#include "stages/workspace.h"

namespace diffmj {

// d must hold M, and for implicit integrators the velocities. Overwrites qLD or
// workspace.step.response.
void metric_factorize(const StepModel& impl, Workspace& workspace);
// Mhatᵀ mu = b_bar
void metric_solve_transposed(const StepModel& impl, CVec b_bar, Vec mu, Workspace& workspace);

// Mhat X = X of many right-hand sides, the columns of X (nv rows), in place; on its own, without
// metric_factorize. Overwrites workspace.newton.H or workspace.step.response.
void metric_solve_columns(const StepModel& impl, Matrix& X, Workspace& workspace);
// to = M X
void mass_multiply_columns(const mjModel* m, const mjData* d, const Matrix& X, Matrix& to);

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_METRIC_H_
