// The linear systems of linearly implicit steps and of their adjoints, x = (q, v, w):
//
//   (κ - W) x = r   and   (κ - W)ᵀ x = r,
//
//       | -ω v^   1     0   |     rotations: q' = v - ω v × q, ω = ½ in the chart of a step's start,
//   W = |  a_q   a_v   a_w  |     1 in that of the motion itself; elsewhere q' = v
//       |  w_q   w_v   w_w  |
//
// q and w are eliminated, which leaves one system of size nv, docs/derivations/stiff.md, eq. 4.
#ifndef DIFFMJ_INTEGRATE_IMPLICIT_SYSTEM_H_
#define DIFFMJ_INTEGRATE_IMPLICIT_SYSTEM_H_

#include <Eigen/Core>
#include <Eigen/LU>
#include <vector>

#include "base/rotation.h"
#include "integrate/field_jacobian.h"

namespace diffmj {

class ImplicitSystem {
 public:
  explicit ImplicitSystem(const StepModel& impl);

  // False if the matrix is singular or not finite.
  bool factorize(const FieldJacobian& jacobian, CVec qvel, double chart, double kappa);
  // x: 2 nv + na, r before.
  void solve(Eigen::Ref<Eigen::VectorXd> x);
  void solve_transposed(Eigen::Ref<Eigen::VectorXd> x);

 private:
  void turn(Eigen::Ref<Eigen::VectorXd> q, bool transposed) const;
  void divide(Eigen::Ref<Eigen::VectorXd> w, bool transposed);

  const int nv_, na_;
  std::vector<int> rotations_;           // first dofs
  std::vector<Eigen::Matrix3d> turned_;  // (κ + ω v^)⁻¹ of each
  double kappa_ = 1;
  const FieldJacobian* jacobian_ = nullptr;
  Matrix q_columns_;  // nv x nv: a_q (κ + ω v^)⁻¹
  Matrix w_rows_;     // na x nv: w_q (κ + ω v^)⁻¹ + w_v
  Eigen::VectorXd w_diagonal_;
  Eigen::MatrixXd S_;
  Eigen::PartialPivLU<Eigen::MatrixXd> lu_, w_lu_;
  Eigen::VectorXd v_, w_;
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_IMPLICIT_SYSTEM_H_
