#include "integrate/rosenbrock.h"

#include <algorithm>
#include <cmath>

#include "stages/acceleration/actuation.h"

namespace diffmj {
namespace {

// Calls fn(span) for all that W depends on.
template <class Fn>
void for_each_part(const StepInput& in, CVec qacc, CVec ctrl_rate, Fn&& fn) {
  fn(CVec(&in.time, 1));
  for (const CVec x : {in.qpos, in.qvel, in.act, qacc, in.ctrl, ctrl_rate}) fn(x);
}

}  // namespace

Rosenbrock::Rosenbrock(const StepModel& impl, Workspace& workspace)
    : impl_(impl),
      workspace_(workspace),
      exact_(static_cast<size_t>(impl.na)),
      held_(static_cast<size_t>(impl.na)),
      jacobian_(impl),
      system_(impl),
      by_time_(2 * impl.nv + impl.na),
      rhs_(2 * impl.nv + impl.na),
      mode_(Eigen::VectorXd::LinSpaced(2 * impl.nv + impl.na, 1, 2)),
      moved_(2 * impl.nv + impl.na) {
  for (int j = 0; j < impl.na; j++) {
    const int i = impl.act_actuator[static_cast<size_t>(j)];
    exact_[static_cast<size_t>(j)] = impl.mj()->actuator_dyntype[i] == mjDYN_FILTEREXACT;
  }
  start_.reserve(static_cast<size_t>(1 + impl.nq + 2 * impl.nv + impl.na + 2 * impl.nu));
}

bool Rosenbrock::is_known(const StepInput& in, CVec ctrl_rate) const {
  size_t at = 0;
  bool same = true;
  for_each_part(in, workspace_.stages[0].qacc, ctrl_rate, [&](CVec x) {
    same = same && at + x.size() <= start_.size() &&
           std::equal(x.begin(), x.end(), start_.begin() + static_cast<ptrdiff_t>(at));
    at += x.size();
  });
  return same && at == start_.size();
}

void Rosenbrock::remember(const StepInput& in, CVec ctrl_rate) {
  start_.clear();
  for_each_part(in, workspace_.stages[0].qacc, ctrl_rate,
                [&](CVec x) { start_.insert(start_.end(), x.begin(), x.end()); });
}

// W and ∂F/∂t, without what an activation that does not move has in them
void Rosenbrock::differentiate(const StepInput& in, CVec ctrl_rate) {
  const mjModel* m = impl_.mj();
  const int nv = impl_.nv, na = impl_.na;
  const Stage& first = workspace_.stages[0];
  jacobian_.compute(in, first.qacc, first.nefc, false, workspace_);
  by_time_.setZero();
  if (!ctrl_rate.empty()) {
    by_time_.segment(nv, nv) = jacobian_.a.rightCols(impl_.nu) * eigen(ctrl_rate);
    by_time_.tail(na) = jacobian_.act_dot.rightCols(impl_.nu) * eigen(ctrl_rate);
  }
  for (int j = 0; j < na; j++) {
    const auto k = static_cast<size_t>(j);
    const int i = impl_.act_actuator[k];
    const double w = first.act[k], rate = first.act_dot[k];
    const mjtNum* range = m->actuator_actrange + 2 * i;
    held_[k] = exact_[k] || actuator_disabled(m, i) ||
               (m->actuator_actlimited[i] &&
                ((w <= range[0] && rate <= 0) || (w >= range[1] && rate >= 0)));
    if (!held_[k]) continue;
    auto column = jacobian_.a.col(2 * nv + j);
    if (exact_[k]) by_time_.segment(nv, nv) += rate * column;
    column.setZero();
    jacobian_.act_dot.col(2 * nv + j).setZero();
    jacobian_.act_dot.row(j).setZero();
    by_time_[2 * nv + j] = 0;
  }
}

bool Rosenbrock::begin(const Tableau& tableau, const StepInput& in, CVec ctrl_rate, double h) {
  tableau_ = &tableau;
  h_ = h;
  if (!is_known(in, ctrl_rate)) {
    start_.clear();
    differentiate(in, ctrl_rate);
    remember(in, ctrl_rate);
  }
  return system_.factorize(jacobian_, workspace_.stages[0].qvel, 0.5, 1 / (tableau.gamma * h));
}

void Rosenbrock::solve(size_t i) {
  const int nv = impl_.nv, na = impl_.na;
  Stage& at = workspace_.stages[i];
  rhs_.head(nv) = eigen(CVec(at.k));
  rhs_.segment(nv, nv) = eigen(CVec(at.qacc));
  rhs_.tail(na) = eigen(CVec(at.act_dot));
  for (size_t j = 0; j < i; j++) {
    const double weight = tableau_->C[i][j];
    const Stage& before = workspace_.stages[j];
    rhs_.head(nv) += weight * eigen(CVec(before.dq));
    rhs_.segment(nv, nv) += weight * eigen(CVec(before.dv));
    rhs_.tail(na) += weight * eigen(CVec(before.dw));
  }
  rhs_ += tableau_->gamma_time[i] * h_ * by_time_;
  for (int j = 0; j < na; j++) {
    if (held_[static_cast<size_t>(j)]) rhs_[2 * nv + j] = 0;
  }
  system_.solve(rhs_);
  eigen(Vec(at.dq)) = rhs_.head(nv) / h_;
  eigen(Vec(at.dv)) = rhs_.segment(nv, nv) / h_;
  eigen(Vec(at.dw)) = rhs_.tail(na) / h_;
  // what a filter's own solution is made of
  for (size_t k = 0; k < exact_.size(); k++) {
    if (exact_[k]) at.dw[k] = at.act_dot[k];
  }
}

double Rosenbrock::fastest_rate() {
  constexpr int kFirst = 4, kLast = 12;
  const int nv = impl_.nv, n = 2 * nv + impl_.na;
  // none is missed for having been at rest
  mode_.array() += 0.01 * mode_.cwiseAbs().maxCoeff();
  double growth = 0;  // ln, over the last of them: those of a complex pair alternate
  for (int k = 0; k < kLast; k++) {
    moved_.head(nv) = mode_.segment(nv, nv);
    moved_.segment(nv, nv).noalias() = jacobian_.a.leftCols(n) * mode_;
    moved_.tail(impl_.na).noalias() = jacobian_.act_dot.leftCols(n) * mode_;
    const double before = mode_.norm(), after = moved_.norm();
    if (!(before > 0 && after > 0)) return 0;
    if (k >= kFirst) growth += std::log(after / before);
    mode_ = moved_ / after;
  }
  return std::exp(growth / (kLast - kFirst));
}

}  // namespace diffmj
