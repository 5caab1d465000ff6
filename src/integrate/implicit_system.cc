#include "integrate/implicit_system.h"

#include <cmath>

namespace diffmj {
namespace {

Eigen::Matrix3d hat(const Vector3& x) {
  Eigen::Matrix3d out;
  out << 0, -x[2], x[1], x[2], 0, -x[0], -x[1], x[0], 0;
  return out;
}

}  // namespace

ImplicitSystem::ImplicitSystem(const StepModel& impl)
    : nv_(impl.nv), na_(impl.na), S_(nv_, nv_), lu_(nv_), w_lu_(na_), v_(nv_), w_(na_) {
  const mjModel* m = impl.mj();
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    if (m->jnt_type[j] == mjJNT_FREE) rotations_.push_back(m->jnt_dofadr[j] + 3);
    if (m->jnt_type[j] == mjJNT_BALL) rotations_.push_back(m->jnt_dofadr[j]);
  }
  turned_.resize(rotations_.size());
}

// q = (κ + ω v^)⁻¹ q, or by the transposed matrix
void ImplicitSystem::turn(Eigen::Ref<Eigen::VectorXd> q, bool transposed) const {
  q /= kappa_;
  for (size_t k = 0; k < rotations_.size(); k++) {
    const Vector3 r = kappa_ * q.segment<3>(rotations_[k]);
    if (transposed) {
      q.segment<3>(rotations_[k]).noalias() = turned_[k].transpose() * r;
    } else {
      q.segment<3>(rotations_[k]).noalias() = turned_[k] * r;
    }
  }
}

// w = (κ - w_w)⁻¹ w
void ImplicitSystem::divide(Eigen::Ref<Eigen::VectorXd> w, bool transposed) {
  if (jacobian_->diagonal()) {
    w.array() *= w_diagonal_.array();
  } else if (transposed) {
    w = w_lu_.transpose().solve(w).eval();
  } else {
    w = w_lu_.solve(w).eval();
  }
}

bool ImplicitSystem::factorize(const FieldJacobian& jacobian, CVec qvel, double chart,
                               double kappa) {
  jacobian_ = &jacobian;
  kappa_ = kappa;
  const Matrix &a = jacobian.a, &w = jacobian.act_dot;
  q_columns_ = a.leftCols(nv_) / kappa;
  if (!jacobian.diagonal()) w_rows_ = w.leftCols(nv_) / kappa;
  for (size_t k = 0; k < rotations_.size(); k++) {
    const int dof = rotations_[k];
    const Vector3 v(&qvel[static_cast<size_t>(dof)]);
    turned_[k] = (kappa * Eigen::Matrix3d::Identity() + chart * hat(v)).inverse();
    q_columns_.middleCols<3>(dof) = a.middleCols<3>(dof) * turned_[k];
    if (!jacobian.diagonal()) w_rows_.middleCols<3>(dof) = w.middleCols<3>(dof) * turned_[k];
  }
  S_ = -(a.middleCols(nv_, nv_) + q_columns_);
  S_.diagonal().array() += kappa;
  if (na_ > 0 && jacobian.diagonal()) {
    w_diagonal_ = (kappa - w.middleCols(2 * nv_, na_).diagonal().array()).inverse();
  } else if (na_ > 0) {
    w_rows_ += w.middleCols(nv_, nv_);
    Eigen::MatrixXd w_w = -w.middleCols(2 * nv_, na_);
    w_w.diagonal().array() += kappa;
    w_lu_.compute(w_w);
    S_ -= a.middleCols(2 * nv_, na_) * w_lu_.solve(Eigen::MatrixXd(w_rows_));
  }
  if (!S_.allFinite()) return false;
  lu_.compute(S_);
  return lu_.matrixLU().diagonal().cwiseAbs().minCoeff() > 0;
}

void ImplicitSystem::solve(Eigen::Ref<Eigen::VectorXd> x) {
  const Matrix &a = jacobian_->a, &w = jacobian_->act_dot;
  auto q = x.head(nv_), v = x.segment(nv_, nv_), act = x.tail(na_);
  turn(q, false);
  if (na_ > 0) {
    w_ = act;
    if (!jacobian_->diagonal()) w_.noalias() += w.leftCols(nv_) * q;
    divide(w_, false);
    v.noalias() += a.middleCols(2 * nv_, na_) * w_;
  }
  v.noalias() += a.leftCols(nv_) * q;
  v_.noalias() = lu_.solve(v);
  v = v_;
  turn(v_, false);
  q += v_;
  if (na_ == 0) return;
  if (!jacobian_->diagonal()) act.noalias() += w.leftCols(nv_) * q + w.middleCols(nv_, nv_) * v;
  divide(act, false);
}

void ImplicitSystem::solve_transposed(Eigen::Ref<Eigen::VectorXd> x) {
  const Matrix &a = jacobian_->a, &w = jacobian_->act_dot;
  auto q = x.head(nv_), v = x.segment(nv_, nv_), act = x.tail(na_);
  if (na_ > 0) {
    w_ = act;
    divide(w_, true);
    if (!jacobian_->diagonal()) {
      q.noalias() += w.leftCols(nv_).transpose() * w_;
      v.noalias() += w.middleCols(nv_, nv_).transpose() * w_;
    }
  }
  v_ = q;
  turn(v_, true);
  v += v_;
  v_.noalias() = lu_.transpose().solve(v);
  v = v_;
  if (na_ > 0) {
    act.noalias() += a.middleCols(2 * nv_, na_).transpose() * v;
    if (!jacobian_->diagonal()) {
      // what q has of act's own right-hand side is in already
      w_.noalias() = a.middleCols(2 * nv_, na_).transpose() * v;
      divide(w_, true);
      q.noalias() += w.leftCols(nv_).transpose() * w_;
    }
    divide(act, true);
  }
  q.noalias() += a.leftCols(nv_).transpose() * v;
  turn(q, true);
}

}  // namespace diffmj
