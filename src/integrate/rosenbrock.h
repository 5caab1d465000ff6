// What a linearly implicit step has beyond an explicit one: the derivative W of the field at its
// start, one factorisation of 1/(gamma h) - W, and a solve for the increment of every stage,
//
//   (1/gamma - h W) k_i = F(t + c_i h, x_i) + Σ_j<i C_ij k_j + gamma_i h ∂F/∂t
//
// in the chart of positions at the start: q = q0 ⊕ u, u' = dexpinv(u) v. Exact filters follow their
// own solution, so that F depends on time through them, as through controls that vary.
// docs/derivations/stiff.md, eq. 1 to 4.
#ifndef DIFFMJ_INTEGRATE_ROSENBROCK_H_
#define DIFFMJ_INTEGRATE_ROSENBROCK_H_

#include <Eigen/Core>
#include <vector>

#include "integrate/field_jacobian.h"
#include "integrate/implicit_system.h"
#include "integrate/tableau.h"
#include "stages/workspace.h"

namespace diffmj {

class Rosenbrock {
 public:
  using Stage = Workspace::Stage;

  Rosenbrock(const StepModel& impl, Workspace& workspace);

  // A step of size h from stage 0, whose rates are known; in is its input there, and ctrl_rate the
  // slope of the controls in time (nu; empty: 0). W is kept where the start is that of the step
  // before. False if the matrix cannot be factorised.
  bool begin(const Tableau& tableau, const StepInput& in, CVec ctrl_rate, double h);
  // The increment of stage i from its rates and the increments before it.
  void solve(size_t i);
  // [1/s] |λ| of the largest eigenvalue of W, by a few steps of the power method.
  double fastest_rate();

 private:
  bool is_known(const StepInput& in, CVec ctrl_rate) const;
  void remember(const StepInput& in, CVec ctrl_rate);
  void differentiate(const StepInput& in, CVec ctrl_rate);

  const StepModel& impl_;
  Workspace& workspace_;
  const Tableau* tableau_ = nullptr;
  double h_ = 0;
  std::vector<bool> exact_, held_;  // na: exact filters; those that do not move
  FieldJacobian jacobian_;
  ImplicitSystem system_;
  Eigen::VectorXd by_time_, rhs_;  // 2 nv + na: ∂F/∂t
  Eigen::VectorXd mode_, moved_;   // of fastest_rate(), from one call to the next
  std::vector<double> start_;      // of jacobian_: time, qpos, qvel, act, qacc, ctrl, ctrl_rate
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_ROSENBROCK_H_
