// The cost along a trajectory to second order, by Gauss-Newton. A term adds, at a state or step,
//
//   c ρ(r + J d) ≈ c (ρ(r) + ρ'(r) J d + ½ dᵀ Jᵀ H J d),     d = (dx, du)
//
// with the norm's curvature H ≥ 0 (norm_curvature) and without the curvature of r itself. The first
// order is the cost's own gradient.
#ifndef DIFFMJ_PLAN_GAUSS_NEWTON_H_
#define DIFFMJ_PLAN_GAUSS_NEWTON_H_

#include <optional>
#include <vector>

#include "base/parallel.h"
#include "diffmj/cost.h"
#include "mj/view.h"

namespace diffmj {

// At one state and the control of the step that begins there; of the last state, that of the last
// step, which sensors there read.
struct CostExpansion {
  Eigen::VectorXd x, u;  // gradient: 2 nv + na, nu
  Matrix xx;             // Hessian
  Eigen::VectorXd uu;    // its diagonal in u
  // Of sensors; empty where the cost has none.
  Matrix uu_rest;  // nu x nu: beside the diagonal
  Matrix ux;       // nu x (2 nv + na)
  // Of the change of u from the step before: gradient, and the Hessian, which is diagonal.
  Eigen::VectorXd change, change_change;
};

// Whether a term of the cost is of the change of controls.
bool has_change(const Cost& cost);

// out: nstep + 1, whose memory is used again. The trajectory came to its end; poses are those the
// cost asks for, and sensordata is recorded if it asks for that. Own costs are not part of it.
void expand_cost(const Model& model, const Cost& cost, const Trajectory& trajectory,
                 const Poses& poses, std::optional<int> nthread, StopSignal& stop,
                 std::vector<CostExpansion>& out);

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_GAUSS_NEWTON_H_
