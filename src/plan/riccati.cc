#include "plan/riccati.h"

#include <algorithm>
#include <cmath>

namespace diffmj {
namespace {

// Below this share of its mean diagonal, a Hessian is as good as singular.
constexpr double kLeastRegularization = 1e-10;

// the upper triangle from the lower one
void mirror(Matrix& x) {
  for (Eigen::Index i = 0; i < x.rows(); i++) {
    for (Eigen::Index j = 0; j < i; j++) x(j, i) = x(i, j);
  }
}

Eigen::Index at(size_t i) { return static_cast<Eigen::Index>(i); }

}  // namespace

void Riccati::Quadratic::resize(int n, int nu, int from, int knots) {
  begin = from;
  count = knots;
  const Eigen::Index nz = static_cast<Eigen::Index>(knots) * nu;
  x.resize(n);
  z.resize(nz);
  xx.resize(n, n);
  zx.resize(nz, n);
  zz.resize(nz, nz);
}

Riccati::Riccati(const Model& model, const PlanVariables& variables, bool change, bool sensors)
    : variables_(variables), n_(model.ntangent()), nu_(model.nu()), sensors_(sensors) {
  const Spline& spline = variables.spline();
  const int nstep = spline.nstep();
  int known = 0;  // knots below it were read by a step before
  for (int i = 0; i <= nstep; i++) {
    Stage stage;
    const auto range = [&](int row) {
      const Spline::Weights& x = spline.row_weights(row);
      if (stage.nknot() == 0) stage.begin = stage.end = x.first;
      stage.begin = std::min(stage.begin, x.first);
      stage.end = std::max(stage.end, x.first + x.count);
    };
    const auto weights = [&](int row, std::vector<double>& to) {
      const Spline::Weights& x = spline.row_weights(row);
      for (int k = 0; k < x.count; k++) {
        to[static_cast<size_t>(x.first + k - stage.begin)] = x.w[static_cast<size_t>(k)];
      }
    };
    const bool changes = change && i > 0 && i < nstep, reads = i < nstep || sensors;
    const int row = std::min(i, nstep - 1);
    if (reads) range(row);
    if (changes) range(i - 1);
    stage.weight.assign(static_cast<size_t>(stage.nknot()), 0.0);
    stage.before = stage.weight;
    if (reads) weights(row, stage.weight);
    if (changes) weights(i - 1, stage.before);
    stage.first_new = std::clamp(known, stage.begin, stage.end);
    known = std::max(known, stage.end);
    const Eigen::Index nnew = static_cast<Eigen::Index>(stage.end - stage.first_new) * nu_;
    stage.k.setZero(nnew);
    stage.K.setZero(nnew, n_);
    stage.K_memory.setZero(nnew, static_cast<Eigen::Index>(stage.nmemory()) * nu_);
    stages_.push_back(std::move(stage));
  }
}

void Riccati::last_value(const CostExpansion& cost) {
  const Stage& stage = stages_.back();
  V_.resize(n_, nu_, stage.begin, stage.nknot());
  V_.x = cost.x;
  V_.xx = cost.xx;
  for (int k = 0; k < stage.nknot(); k++) {
    const double w = stage.weight[static_cast<size_t>(k)];
    V_.z.segment(k * nu_, nu_) = w * cost.u;
    V_.zx.middleRows(k * nu_, nu_) = w * cost.ux;
    for (int l = 0; l < stage.nknot(); l++) {
      auto block = V_.zz.block(k * nu_, l * nu_, nu_, nu_);
      block = cost.uu_rest;
      block.diagonal() += cost.uu;
      block *= w * stage.weight[static_cast<size_t>(l)];
    }
  }
}

// eq. 1
void Riccati::expand(const Stage& stage, CVec A_in, CVec B_in, const CostExpansion& cost) {
  const Eigen::Map<const Matrix> A(A_in.data(), n_, n_), B(B_in.data(), n_, nu_);
  Q_.resize(n_, nu_, stage.begin, stage.nknot());
  // through the step
  PA_.noalias() = V_.xx * A;
  PB_.noalias() = V_.xx * B;
  Q_.xx.triangularView<Eigen::Lower>() = A.transpose() * PA_;
  mirror(Q_.xx);
  Q_.x.noalias() = A.transpose() * V_.x;
  Su_x_.noalias() = B.transpose() * PA_;
  Suu_.noalias() = B.transpose() * PB_;
  su_.noalias() = B.transpose() * V_.x;
  // the cost
  Q_.xx += cost.xx;
  Q_.x += cost.x;
  su_ += cost.u;
  Suu_.diagonal() += cost.uu;
  if (sensors_) {
    Su_x_ += cost.ux;
    Suu_ += cost.uu_rest;
  }
  // u = Σ w_k z_k
  const int nknot = stage.nknot();
  for (int k = 0; k < nknot; k++) {
    const auto w = stage.weight[static_cast<size_t>(k)],
               c = w - stage.before[static_cast<size_t>(k)];
    Q_.z.segment(k * nu_, nu_) = w * su_ + c * cost.change;
    Q_.zx.middleRows(k * nu_, nu_) = w * Su_x_;
    for (int l = 0; l < nknot; l++) {
      const double w_l = stage.weight[static_cast<size_t>(l)],
                   c_l = w_l - stage.before[static_cast<size_t>(l)];
      auto block = Q_.zz.block(k * nu_, l * nu_, nu_, nu_);
      block = w * w_l * Suu_;
      block.diagonal() += c * c_l * cost.change_change;
    }
  }
  // knots that later steps read, too
  if (V_.count == 0) return;
  const int shift = V_.begin - stage.begin, m = V_.count * nu_;
  Q_.z.segment(shift * nu_, m) += V_.z;
  Q_.zx.middleRows(shift * nu_, m).noalias() += V_.zx * A;
  Q_.zz.block(shift * nu_, shift * nu_, m, m) += V_.zz;
  MB_.noalias() = V_.zx * B;
  for (int l = 0; l < nknot; l++) {
    const double w = stage.weight[static_cast<size_t>(l)];
    if (w == 0) continue;
    Q_.zz.block(shift * nu_, l * nu_, m, nu_) += w * MB_;
    Q_.zz.block(l * nu_, shift * nu_, nu_, m) += w * MB_.transpose();
  }
}

// eq. 2 and 3
bool Riccati::minimize(CVec z, double regularization, Stage& stage) {
  const int m = stage.nmemory() * nu_, nnew = (stage.end - stage.first_new) * nu_;
  V_.resize(n_, nu_, stage.begin, stage.nmemory());
  V_.x = Q_.x;
  V_.z = Q_.z.head(m);
  V_.xx = Q_.xx;
  V_.zx = Q_.zx.topRows(m);
  V_.zz = Q_.zz.topLeftCorner(m, m);
  if (nnew > 0) {
    const auto begin = static_cast<size_t>(stage.first_new) * static_cast<size_t>(nu_);
    const CVec scale = variables_.scale().subspan(begin, static_cast<size_t>(nnew)),
               low = variables_.low().subspan(begin, scale.size()),
               high = variables_.high().subspan(begin, scale.size());
    const auto unit = [&](Eigen::Index j) {
      return scale[static_cast<size_t>(j)] > 0 ? scale[static_cast<size_t>(j)] : 1;
    };
    const auto zz = Q_.zz.bottomRightCorner(nnew, nnew);
    g_ = Q_.z.tail(nnew);
    H_ = zz;
    double mean = 0;
    for (Eigen::Index j = 0; j < nnew; j++) mean += zz(j, j) * unit(j) * unit(j) / nnew;
    if (!std::isfinite(mean) || !g_.allFinite()) return false;
    // without any effect on the cost, the step is 0
    const double add = mean > 0 ? std::max(regularization, kLeastRegularization) * mean : 1;
    for (Eigen::Index j = 0; j < nnew; j++) H_(j, j) += add / (unit(j) * unit(j));
    low_.resize(nnew);
    high_.resize(nnew);
    for (size_t j = 0; j < scale.size(); j++) {
      low_[at(j)] = low[j] - z[begin + j];
      high_[at(j)] = high[j] - z[begin + j];
    }
    stage.k.setZero();
    if (!qp_.solve(H_, g_, low_, high_, stage.k)) return false;
    // K of the free ones: -H⁻¹ (Q_zx, Q_zm)
    const auto nfree = static_cast<Eigen::Index>(qp_.free().size());
    stage.K.setZero();
    stage.K_memory.setZero();
    Kt_.resize(nfree, n_ + m);
    for (Eigen::Index f = 0; f < nfree; f++) {
      const Eigen::Index j = m + qp_.free()[static_cast<size_t>(f)];
      Kt_.row(f).head(n_) = -Q_.zx.row(j);
      Kt_.row(f).tail(m) = -Q_.zz.row(j).head(m);
    }
    qp_.solve_free(Kt_);
    for (Eigen::Index f = 0; f < nfree; f++) {
      const Eigen::Index j = qp_.free()[static_cast<size_t>(f)];
      stage.K.row(j) = Kt_.row(f).head(n_);
      stage.K_memory.row(j) = Kt_.row(f).tail(m);
    }
    if (!stage.k.allFinite() || !stage.K.allFinite() || !stage.K_memory.allFinite()) return false;
    first_ += stage.k.dot(g_);
    second_ += 0.5 * stage.k.dot(zz * stage.k);
    // V = Q(y, k + K y), y = (dx, dz_M), with Q as it is without regularization
    const auto Qx = Q_.zx.bottomRows(nnew);
    const auto Qm = Q_.zz.bottomLeftCorner(nnew, m);
    su_.noalias() = zz * stage.k;
    su_ += g_;
    V_.x.noalias() += stage.K.transpose() * su_;
    V_.x.noalias() += Qx.transpose() * stage.k;
    // Kᵀ Qzz K + Kᵀ Qzx + Qzxᵀ K is the symmetric part of Kᵀ (Qzz K + 2 Qzx), which is taken below
    ZK_.noalias() = zz * stage.K;
    ZK_ += 2 * Qx;
    V_.xx.noalias() += stage.K.transpose() * ZK_;
    ZK_ -= Qx;
    if (m > 0) {
      V_.z.noalias() += stage.K_memory.transpose() * su_;
      V_.z.noalias() += Qm.transpose() * stage.k;
      V_.zx.noalias() += stage.K_memory.transpose() * ZK_;
      V_.zx.noalias() += Qm.transpose() * stage.K;
      ZM_.noalias() = zz * stage.K_memory;
      ZM_ += Qm;
      V_.zz.noalias() += stage.K_memory.transpose() * ZM_;
      V_.zz.noalias() += Qm.transpose() * stage.K_memory;
    }
  }
  // the symmetric part; a matrix of its own, for the transpose is read while it is written
  PA_ = V_.xx.transpose();
  V_.xx = 0.5 * (V_.xx + PA_);
  if (m > 0) {
    VT_ = V_.zz.transpose();
    V_.zz = 0.5 * (V_.zz + VT_);
  }
  return true;
}

bool Riccati::run(CVec A, CVec B, const std::vector<CostExpansion>& cost, CVec z,
                  double regularization) {
  first_ = second_ = 0;
  last_value(cost.back());
  const auto n = static_cast<size_t>(n_), nu = static_cast<size_t>(nu_);
  for (size_t i = cost.size() - 1; i-- > 0;) {
    Stage& stage = stages_[i];
    expand(stage, A.subspan(i * n * n, n * n), B.subspan(i * n * nu, n * nu), cost[i]);
    if (!minimize(z, regularization, stage)) return false;
  }
  return true;
}

void Riccati::decide(int i, double alpha, CVec dx, CVec z, Vec to) const {
  const Stage& stage = stages_[static_cast<size_t>(i)];
  if (stage.k.size() == 0) return;
  const auto nu = static_cast<size_t>(nu_), memory = static_cast<size_t>(stage.begin) * nu,
             begin = static_cast<size_t>(stage.first_new) * nu;
  for (Eigen::Index j = 0; j < stage.k.size(); j++) {
    double move = alpha * stage.k[j] + stage.K.row(j).dot(eigen(dx));
    for (Eigen::Index c = 0; c < stage.K_memory.cols(); c++) {
      const size_t knot = memory + static_cast<size_t>(c);
      move += stage.K_memory(j, c) * (to[knot] - z[knot]);
    }
    const size_t knot = begin + static_cast<size_t>(j);
    to[knot] = std::clamp(z[knot] + move, variables_.low()[knot], variables_.high()[knot]);
  }
}

}  // namespace diffmj
