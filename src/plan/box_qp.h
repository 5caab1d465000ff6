// A small quadratic program with bounds:
//
//   min ½ xᵀ H x + gᵀ x,   low ≤ x ≤ high,   H positive definite
//
// by projected Newton steps: those of the free variables alone, clamped to the bounds, with
// Armijo's rule [Tassa14].
//
//   BoxQp qp;
//   if (qp.solve(H, g, low, high, x)) qp.solve_free(rhs);
#ifndef DIFFMJ_PLAN_BOX_QP_H_
#define DIFFMJ_PLAN_BOX_QP_H_

#include <Eigen/Core>
#include <vector>

#include "mj/view.h"

namespace diffmj {

class BoxQp {
 public:
  using MatrixIn = Eigen::Ref<const Matrix, 0, Eigen::OuterStride<>>;
  using VectorIn = Eigen::Ref<const Eigen::VectorXd>;

  // x is where the search starts; it need not be within the bounds, which may be infinite. False if
  // H of the free variables is not positive definite.
  bool solve(const MatrixIn& H, const VectorIn& g, const VectorIn& low, const VectorIn& high,
             Eigen::Ref<Eigen::VectorXd> x);

  // The variables that are not held by a bound at the solution.
  const std::vector<int>& free() const { return free_; }
  // Overwrites rhs (as many rows as free variables) with H_free⁻¹ rhs.
  void solve_free(Eigen::Ref<Matrix, 0, Eigen::OuterStride<>> rhs) const;

 private:
  bool factorize(const MatrixIn& H);

  std::vector<int> free_, next_free_;
  Eigen::MatrixXd factor_;  // lower triangle, of the free variables, in the upper left
  Eigen::VectorXd gradient_, search_, candidate_, Hx_;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_BOX_QP_H_
