// The backward pass of iLQR: the quadratic program that a plan is to second order, solved from its
// last step to its first.
//
// Step i reads the knots W_i of the spline (for its own control, and for the one before where the
// cost is of its change). Of these, N_i are read for the first time; M_i are known from before, and
// belong to the state, as does x. With u_i = Σ w_k z_k over W_i,
//
//   Q_i(dx, dz_W) = cost_i(dx, du_i, du_i - du_(i-1)) + V_(i+1)(A dx + B du_i, dz_M(i+1))      (1)
//   V_i(dx, dz_M) = min over dz_N of Q_i,     low ≤ z + dz ≤ high                              (2)
//   dz_N = k + K (dx, dz_M),    rows of K are 0 where a bound holds                            (3)
//
// Without knots N_i is z_i, and without a cost of changes M_i is empty: the usual recursion
// ([Tassa14]; docs/derivations/ilqr.md).
#ifndef DIFFMJ_PLAN_RICCATI_H_
#define DIFFMJ_PLAN_RICCATI_H_

#include <vector>

#include "plan/box_qp.h"
#include "plan/gauss_newton.h"
#include "plan/variables.h"

namespace diffmj {

class Riccati {
 public:
  // change, sensors: the cost has terms of them.
  Riccati(const Model& model, const PlanVariables& variables, bool change, bool sensors);

  // A and B of every step, and the cost's expansions, at the plan z. regularization: share of the
  // mean diagonal of the Hessian in dz_N, in units of the variables' scale, that is added to it.
  // False if that Hessian is not positive definite at some step, or something is not finite.
  bool run(CVec A, CVec B, const std::vector<CostExpansion>& cost, CVec z, double regularization);

  // What the cost changes by, as the program has it, with α k for k: α first + α² second.
  double first() const { return first_; }
  double second() const { return second_; }

  // Writes the knots that step i is the first to read, of a rollout that is at dx from the plan z.
  void decide(int i, double alpha, CVec dx, CVec z, Vec to) const;
  // K of dx (nu x (2 nv + na)) at step i, which is the first to read exactly one knot.
  const Matrix& gain(int i) const { return stages_[static_cast<size_t>(i)].K; }

 private:
  struct Stage {
    int begin = 0, end = 0;              // W: knots from begin to end - 1
    int first_new = 0;                   // N: from here on
    std::vector<double> weight, before;  // of W in u_i and in u_(i-1)
    Eigen::VectorXd k;                   // of N
    Matrix K, K_memory;                  // of N in dx and in dz_M

    int nknot() const { return end - begin; }
    int nmemory() const { return first_new - begin; }
  };
  // Q or V: its variables are dx, and knots from begin on
  struct Quadratic {
    int begin = 0, count = 0;
    Eigen::VectorXd x, z;
    Matrix xx, zx, zz;

    void resize(int n, int nu, int from, int knots);
  };

  void last_value(const CostExpansion& cost);
  void expand(const Stage& stage, CVec A, CVec B, const CostExpansion& cost);
  bool minimize(CVec z, double regularization, Stage& stage);

  const PlanVariables& variables_;
  int n_, nu_;
  bool sensors_;
  std::vector<Stage> stages_;  // nstep, and one for the last state
  Quadratic Q_, V_;
  Matrix PA_, PB_, MB_, Su_x_, Suu_, H_, Kt_, ZK_, ZM_, VT_;  // scratch
  Eigen::VectorXd su_, low_, high_, g_;
  BoxQp qp_;
  double first_ = 0, second_ = 0;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_RICCATI_H_
