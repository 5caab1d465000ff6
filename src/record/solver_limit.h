// Steps whose constraint solver stopped at opt.iterations before it had converged. The gradient is
// that of the converged solution (docs/gradients.md), so that it is not that of such steps.
#ifndef DIFFMJ_RECORD_SOLVER_LIMIT_H_
#define DIFFMJ_RECORD_SOLVER_LIMIT_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "diffmj/rollout.h"
#include "mj/view.h"

namespace diffmj {

// How far a = qacc is from the optimum of the constraint solver, y = J a - aref; and what it may be
// compared with. Norms of nv numbers.
struct SolverResidual {
  double residual = 0;     // |M a - qfrc_smooth - Jᵀ f(y)|
  double inertial = 0;     // |M a|
  double constraints = 0;  // |Jᵀ f(y)|
};
// d must hold the stages that the solver read.
SolverResidual solver_residual(const mjModel* m, const mjData* d, CVec qacc,
                               std::vector<double>& scratch);

class SolverLimit {
 public:
  // Of step i, which d has just made.
  void look(const mjModel* m, const mjData* d, int i);
  // Nothing, or one warning about the rollout of nstep steps.
  void warn(const mjModel* m, int nstep, std::vector<Warning>& warnings) const;

 private:
  int first_ = -1, count_ = 0, worst_step_ = -1;
  double worst_ = 0;  // residual, in units of the constraint forces
  std::vector<double> scratch_;
};

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_SOLVER_LIMIT_H_
