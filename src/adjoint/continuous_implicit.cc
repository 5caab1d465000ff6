// Linearly implicit steps of the adjoint equation, back in time along one such step of the rollout.
//
//   p' = -Wᵀ p,   W = ∂F/∂x at x(t):   (1/gamma + h W0ᵀ) k_i = -W(t_i)ᵀ p_i + Σ_j C_ij k_j
//                                                                + gamma_i h ∂(-Wᵀ p)/∂t
//
// The equation is linear, so that W0 at the start of its step is its derivative, and there is no
// second one. That in time is a difference. The integrals of inputs and parameters are summed at
// Gauss' two nodes, with p from the dense output of the step: the values at stages, of order 1
// alone where the motion is stiff, would not do. docs/derivations/stiff.md, eq. 5 to 7.
#include <array>
#include <cmath>
#include <limits>

#include "adjoint/continuous.h"

namespace diffmj {
namespace {

// A share of the step, large beside what the solver leaves and small beside what the step resolves.
constexpr double kDifference = 1e-5;

}  // namespace

// where a pullback does not leave other stages in mjData
bool ContinuousAdjoint::keeps_evaluations() const {
  return impl_.differentiation.of_stages && !impl_.has_surrogate_field();
}

// W at time t, where the step begins, without what an activation that does not move has in it
bool ContinuousAdjoint::differentiate(double t) {
  if (jacobian_time_ == t) return true;
  if (!jacobian_) {
    jacobian_.emplace(impl_);
    system_.emplace(impl_);
    rhs_.resize(p_.cols());
  }
  Workspace::Stage& at = workspace_.between;
  if (!evaluate_between(t)) return false;
  jacobian_->compute(along_->input_at(t, at), at.qacc, at.nefc, true, workspace_);
  x_time_ = std::numeric_limits<double>::quiet_NaN();
  for (int j = 0; j < impl_.na; j++) {
    if (is_held(at, j)) jacobian_->act_dot.row(j).setZero();
  }
  jacobian_qvel_ = at.qvel;
  jacobian_time_ = t;
  return true;
}

// as attempt(), but for sum_; rates_ has the increments
bool ContinuousAdjoint::attempt_implicit(double t, double h) {
  severity_ = 1;
  if (!differentiate(t)) return false;
  if (!system_->factorize(*jacobian_, jacobian_qvel_, 1, 1 / (tableau_->gamma * -h))) return false;
  // p' at the start, and a little later
  p_stage_ = p_;
  if (!rate(0, t, stage_) || !look_ahead(t + h)) return false;
  const auto last = static_cast<Eigen::Index>(tableau_->nsolve());
  const double later = inside(t) + kDifference * h;
  if (!rate(tableau_->nsolve(), later, stage_)) return false;
  by_time_ = (rates_.row(last) - rates_.row(0)) / (later - inside(t));
  p_next_ = p_;
  for (size_t i = 0; i < tableau_->nsolve(); i++) {
    const auto row = static_cast<Eigen::Index>(i);
    p_stage_ = p_;
    for (size_t j = 0; j < i; j++) {
      if (tableau_->A[i][j] == 0) continue;
      p_stage_ += h * tableau_->A[i][j] * rates_.row(static_cast<Eigen::Index>(j));
    }
    if (i > 0 && !rate(i, t + tableau_->c[i] * h, stage_)) return false;
    rhs_ = rates_.row(row) + tableau_->gamma_time[i] * h * by_time_;
    for (size_t j = 0; j < i; j++) {
      rhs_ += tableau_->C[i][j] * rates_.row(static_cast<Eigen::Index>(j)).transpose();
    }
    system_->solve_transposed(rhs_);
    rates_.row(row) = rhs_.transpose() / -h;
    p_next_ += h * tableau_->b[i] * rates_.row(row);
  }
  rates_.row(last).setZero();
  return p_next_.allFinite();
}

// sum_ of the step just made
bool ContinuousAdjoint::integrate_implicit(double t, double h) {
  const auto last = tableau_->nsolve();
  sum_.clear();
  for (const double side : {-1.0, 1.0}) {
    const double theta = 0.5 + side * std::sqrt(1.0 / 12);
    std::array<double, kMaxStage> weights;
    dense_weights(*tableau_, theta, weights);
    p_stage_ = p_;
    for (size_t j = 0; j < last; j++) {
      p_stage_ += h * weights[j] * rates_.row(static_cast<Eigen::Index>(j));
    }
    if (!rate(last, t + theta * h, stage_, false)) return false;
    sum_.add(-h / 2, stage_);
  }
  return true;
}

}  // namespace diffmj
