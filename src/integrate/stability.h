// The step up to which a method is stable, estimated along the way.
//
// With J = ∂F/∂x at the start of a step and λ its eigenvalues, the step must stay below
//
//   h ≤ 0.9 min_λ limit(λ) / |λ|
//
// (integrate/stability_polynomial.h; docs/derivations/adaptive.md, eq. 12 and 13). The error of a
// step does not tell: where nothing moves it is 0, and where a stiff part rests what moves beside
// it hides it. The eigenvalues that count are those of a Krylov space of J, from products J ξ that
// are differences of inverse dynamics (stages/oracle.h): each costs less than an evaluation of F,
// and is as good at rest. The space starts with the direction that was found last, beside a random
// one. Exact filters are left out.
//
// gradient: the estimate decides on step sizes alone, which are not differentiated.
#ifndef DIFFMJ_INTEGRATE_STABILITY_H_
#define DIFFMJ_INTEGRATE_STABILITY_H_

#include <Eigen/Core>
#include <complex>
#include <limits>
#include <random>
#include <vector>

#include "integrate/runge_kutta.h"
#include "integrate/stability_polynomial.h"
#include "stages/workspace.h"

namespace diffmj {

class Stability {
 public:
  Stability(const StepModel& impl, Workspace& workspace);

  // Whether an estimate should come before a step of this size [s].
  bool due(double h, const StepStart& start) const;
  // The estimate. The rates at the start must be known. Uses the workspace's mjData.
  void look(double h, const StepStart& start, const IntervalInput& in);
  // [s] Steps should not be longer.
  double limit() const { return kSafety * bound_; }
  // A step was made.
  void follow() { since_++; }
  // ln of what a step of this size adds to a perturbation beyond what the motion does; at least 0.
  double growth(double h) const;

  // Of the last look: the eigenvalue that sets the limit, and the direction of the state that
  // belongs to it (2 nv + na), its largest entry 1; Re of it where it is complex.
  std::complex<double> eigenvalue() const { return eigenvalue_; }
  CVec direction() const { return {direction_.data(), static_cast<size_t>(direction_.size())}; }

 private:
  static constexpr double kSafety = 0.9;
  static constexpr int kMost = 20;  // products of a look

  OracleProblem problem() const;
  void product(Eigen::Ref<const Eigen::VectorXd> x, Eigen::Ref<Eigen::VectorXd> y);
  void evaluate(const StepStart& start, const IntervalInput& in);
  double inward(Eigen::Ref<const Eigen::VectorXd> act_dot) const;
  void field_difference(CVec x_dot);
  void find_scales();
  void set_scale();
  void add_random(Eigen::Index first, Eigen::Index n, double size);
  // The bound from the Ritz values of the first m columns, or less than it where it is far above h.
  // rest: what a product of the last column has outside of them. True if it is well known.
  bool find_bound(int m, double rest, double h);
  bool is_rough() const { return margin_ != 0; }
  bool is_new(const StepStart& start) const;

  const StepModel& impl_;
  Workspace& workspace_;
  const StabilityPolynomial polynomial_;
  const double smallest_radius_;
  const Eigen::Index n_;
  Workspace::Stage at_, moved_;
  StepInput input_;
  std::vector<bool> left_out_;  // na: exact filters
  std::minstd_rand random_;

  // The norm: sqrt(M0) s q, sqrt(M0) v, kappa w. In it J is nearly normal.
  Eigen::VectorXd scale_;  // n
  double s_ = 1, kappa_ = 1;
  Eigen::VectorXd direction_, x_dot_;
  std::vector<double> a_dot_, act_dot_dot_;
  Eigen::MatrixXd space_;  // n x (kMost + 1)
  using Small = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, kMost + 1, kMost + 1>;
  Small projected_ = Small::Zero(kMost + 1, kMost + 1);
  Eigen::Matrix<double, Eigen::Dynamic, 1, 0, kMost, 1> ritz_;

  bool looked_ = false;
  bool exact_ = false;  // bound_ is the limit, not something below it
  double margin_ = 0;   // good enough for steps so many times shorter than the bound; 0: for all
  double bound_ = std::numeric_limits<double>::infinity();
  std::complex<double> eigenvalue_ = 0;
  int since_ = 0, patience_ = 4;  // steps since the last look, until the next
  int nefc_ = 0;
  size_t active_ = 0;
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_STABILITY_H_
