#include "integrate/stability.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "mj/call.h"
#include "stages/acceleration/actuation.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/evaluate_stages.h"
#include "stages/oracle.h"
#include "stages/surrogate_field.h"

namespace diffmj {
namespace {

// Steps this much shorter than the bound need no better estimate: of few products, and of kSeveral.
// Where steps are shorter still, what new constraints change can wait.
constexpr double kFar = 4, kFair = 1.5, kVeryFar = 16;
// Products of a look, at least: the first has nothing to start from.
constexpr int kFew = 3, kFirst = 5, kSeveral = 8;
// Eigenvalues cost more than a product: they are computed after so many more.
constexpr int kBetween = 3;
// |J ξ - λ ξ| / |λ ξ|: an estimate that a step may be cut by.
constexpr double kResidual = 0.05;
// Of the random direction beside the one that is remembered.
constexpr double kRandomShare = 0.1;
// Steps between two looks; where the limit decides on steps, which are short then.
constexpr int kShortest = 2, kPatience = 16, kLongPatience = 64;

}  // namespace

Stability::Stability(const StepModel& impl, Workspace& workspace)
    : impl_(impl),
      workspace_(workspace),
      polynomial_(*impl.tableau),
      smallest_radius_(std::min(polynomial_.imaginary_limit(), polynomial_.real_limit())),
      n_(2 * impl.nv + impl.na),
      direction_(Eigen::VectorXd::Zero(n_)),
      x_dot_(n_),
      a_dot_(static_cast<size_t>(impl.nv)),
      act_dot_dot_(static_cast<size_t>(impl.na)),
      space_(n_, kMost + 1) {
  const mjModel* m = impl.mj();
  at_.resize(impl);
  moved_.resize(impl);
  scale_.resize(n_);
  left_out_.resize(static_cast<size_t>(impl.na));
  for (int j = 0; j < impl.na; j++) {
    const int i = impl.act_actuator[static_cast<size_t>(j)];
    left_out_[static_cast<size_t>(j)] =
        m->actuator_dyntype[i] == mjDYN_FILTEREXACT || actuator_disabled(m, i);
  }
}

bool Stability::due(double h, const StepStart& start) const {
  if (n_ == 0) return false;
  if (!looked_ || since_ >= patience_) return true;
  if (margin_ * h > bound_) return true;
  if (kVeryFar * h <= bound_) return false;
  return since_ >= (kFar * h > bound_ ? 4 : 8) && is_new(start);
}

// Constraints appeared, vanished, began or ceased to carry force.
bool Stability::is_new(const StepStart& start) const {
  return start.nefc >= 0 && (start.nefc != nefc_ || start.active != active_);
}

double Stability::growth(double h) const {
  const double excess = polynomial_.excess(h * eigenvalue_);
  return excess > 1 ? std::log(excess) : 0;
}

OracleProblem Stability::problem() const {
  return {.in = input_, .qacc = at_.qacc, .F = {}, .act_from = {}, .act_dot_from = {}};
}

// what products are differences of
void Stability::evaluate(const StepStart& start, const IntervalInput& in) {
  std::copy(start.qpos.begin(), start.qpos.end(), at_.qpos.begin());
  std::copy(start.qvel.begin(), start.qvel.end(), at_.qvel.begin());
  std::copy(start.act.begin(), start.act.end(), at_.act.begin());
  std::copy(start.qacc.begin(), start.qacc.end(), at_.qacc.begin());
  for (int j = 0; j < impl_.nu; j++) {
    at_.ctrl[static_cast<size_t>(j)] = in.control(start.time, j);
  }
  input_ = {.time = start.time,
            .qpos = at_.qpos,
            .qvel = at_.qvel,
            .act = at_.act,
            .qacc_warmstart = at_.qacc,
            .ctrl = at_.ctrl,
            .qfrc_applied = in.qfrc_applied,
            .xfrc_applied = in.xfrc_applied};
  // gradient: contacts from distance count where the motion has them, not in the adjoint alone
  if (cfd_forward(impl_)) {
    surrogate_field(impl_, input_, at_.qacc, workspace_);
    const mjData* d = workspace_.data.get();
    std::copy(d->qacc, d->qacc + impl_.nv, at_.qacc.begin());
    std::copy(d->act_dot, d->act_dot + impl_.na, at_.act_dot.begin());
    return;
  }
  evaluate_stages(impl_, input_, workspace_);
  newton_factorize(impl_.mj(), workspace_.data.get(), at_.qacc, workspace_);
  oracle_linearize(impl_, problem(), workspace_);
}

// y = J x, both in the norm's scale
void Stability::product(Eigen::Ref<const Eigen::VectorXd> x, Eigen::Ref<Eigen::VectorXd> y) {
  const int nv = impl_.nv, na = impl_.na;
  x_dot_ = x.cwiseQuotient(scale_);
  const double side = inward(x_dot_.tail(na));
  x_dot_ *= side;
  const CVec x_dot(x_dot_.data(), static_cast<size_t>(n_));
  if (cfd_forward(impl_)) {
    field_difference(x_dot);
  } else {
    oracle_pushforward(impl_, problem(), x_dot, a_dot_, act_dot_dot_, workspace_);
  }
  y.head(nv) = x_dot_.segment(nv, nv);
  y.segment(nv, nv) = eigen(CVec(a_dot_));
  for (int j = 0; j < na; j++) {
    const auto k = static_cast<size_t>(j);
    y[2 * nv + j] = left_out_[k] ? 0 : act_dot_dot_[k];
  }
  y.array() *= side * scale_.array();
}

// The sign with which the largest entry of those activations that are at a bound points into their
// range. They are never beyond it, where a muscle would have another time constant.
double Stability::inward(Eigen::Ref<const Eigen::VectorXd> act_dot) const {
  const mjModel* m = impl_.mj();
  double largest = 0, side = 1;
  for (int j = 0; j < impl_.na; j++) {
    const int i = impl_.act_actuator[static_cast<size_t>(j)];
    const bool muscle = m->actuator_dyntype[i] == mjDYN_MUSCLE;
    if ((!muscle && !m->actuator_actlimited[i]) || std::abs(act_dot[j]) <= largest) continue;
    const mjtNum* range = m->actuator_actrange + 2 * i;
    const double w = at_.act[static_cast<size_t>(j)];
    const bool low = w <= (m->actuator_actlimited[i] ? range[0] : 0),
               high = w >= (m->actuator_actlimited[i] ? range[1] : 1);
    if (low == high) continue;
    largest = std::abs(act_dot[j]);
    side = (act_dot[j] > 0) == low ? 1 : -1;
  }
  return side;
}

// the field with contacts from distance is smooth: a difference of it
void Stability::field_difference(CVec x_dot) {
  constexpr double kStep = 1e-6;
  const auto nv = static_cast<size_t>(impl_.nv), na = static_cast<size_t>(impl_.na);
  const double size = eigen(x_dot).lpNorm<Eigen::Infinity>();
  const double h = size > 0 ? kStep / size : 0;
  Workspace::Stage& to = moved_;
  to.qpos = at_.qpos;
  for (size_t k = 0; k < nv; k++) {
    to.u[k] = h * x_dot[k];
    to.qvel[k] = at_.qvel[k] + h * x_dot[nv + k];
  }
  for (size_t k = 0; k < na; k++) to.act[k] = at_.act[k] + h * x_dot[2 * nv + k];
  mj_call("mj_integratePos", [&] { mj_integratePos(impl_.mj(), to.qpos.data(), to.u.data(), 1); });
  StepInput in = input_;
  in.qpos = to.qpos;
  in.qvel = to.qvel;
  in.act = to.act;
  surrogate_field(impl_, in, at_.qacc, workspace_);
  const mjData* d = workspace_.data.get();
  for (size_t k = 0; k < nv; k++) a_dot_[k] = h > 0 ? (d->qacc[k] - at_.qacc[k]) / h : 0;
  for (size_t k = 0; k < na; k++) {
    act_dot_dot_[k] = h > 0 ? (d->act_dot[k] - at_.act_dot[k]) / h : 0;
  }
}

void Stability::set_scale() {
  const mjModel* m = impl_.mj();
  const int nv = impl_.nv;
  for (int k = 0; k < nv; k++) {
    const double root = std::sqrt(std::max(m->dof_M0[k], mjMINVAL));
    scale_[k] = root * s_;
    scale_[nv + k] = root;
  }
  scale_.tail(impl_.na).setConstant(kappa_);
}

void Stability::add_random(Eigen::Index first, Eigen::Index n, double size) {
  constexpr double kHalf = 0.5 * static_cast<double>(std::minstd_rand::max());
  auto part = space_.col(kMost).segment(first, n);
  for (Eigen::Index k = 0; k < n; k++) {
    const Eigen::Index j = first + k - 2 * impl_.nv;
    part[k] = j >= 0 && left_out_[static_cast<size_t>(j)]
                  ? 0
                  : static_cast<double>(random_()) / kHalf - 1;
  }
  const double norm = part.norm();
  if (norm > 0) space_.col(0).segment(first, n) += (size / norm) * part;
}

// The scales are unknown: positions tell by what they accelerate, and activations do.
//   s² = |∂a/∂q ξ| / |ξ|,     kappa = |∂a/∂w ξ| / (s |ξ|)
void Stability::find_scales() {
  const int nv = impl_.nv, na = impl_.na;
  s_ = kappa_ = 1;
  set_scale();
  auto from = space_.col(0), to = space_.col(1);
  from.setZero();
  add_random(0, nv, 1);
  product(from, to);
  s_ = std::max(std::sqrt(to.segment(nv, nv).norm()), 1.0);
  if (na > 0) {
    from.setZero();
    add_random(2 * nv, na, 1);
    product(from, to);
    const double response = to.segment(nv, nv).norm() / s_;
    if (response > 0) kappa_ = response;
  }
  set_scale();
}

bool Stability::find_bound(int m, double rest, double h) {
  using Square = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, kMost, kMost>;
  const Eigen::EigenSolver<Square> solver(projected_.topLeftCorner(m, m));
  const auto& values = solver.eigenvalues();
  const auto vectors = solver.eigenvectors();
  // |J ξ - λ ξ| / |ξ|
  const auto residual = [&](Eigen::Index k) {
    return rest * std::abs(vectors(m - 1, k)) / vectors.col(k).norm();
  };
  Eigen::Index which = 0;
  for (Eigen::Index k = 0; k < m; k++) {
    if (std::abs(values[k]) > std::abs(values[which])) which = k;
  }
  const auto found = [&](double bound) {
    bound_ = bound;
    eigenvalue_ = values[which];
    ritz_ = vectors.col(which).real();
    return residual(which) <= kResidual * std::abs(eigenvalue_);
  };
  // far from any limit: which one it would be does not matter
  exact_ = kFar * h * std::abs(values[which]) > smallest_radius_;
  if (!exact_) return found(smallest_radius_ / std::abs(values[which]));

  // The largest first: most others then cannot count. Next to the imaginary axis limits fall
  // steeply, so that a mode is given the least damping that the residual leaves it.
  double best = std::numeric_limits<double>::infinity(), careful = best;
  const auto look = [&](Eigen::Index k) {
    const double size = std::abs(values[k]);
    if (size * careful <= smallest_radius_) return;
    const double damped = values[k].real();
    const std::complex<double> least(damped < 0 ? std::min(damped + residual(k), 0.0) : damped,
                                     values[k].imag());
    careful = std::min(careful, polynomial_.limit(least) / size);
    const double bound = polynomial_.limit(values[k]) / size;
    if (bound >= best) return;
    best = bound;
    which = k;
  };
  look(which);
  for (Eigen::Index k = 0; k < m; k++) look(k);
  // what starts as one mode stays so: all that could count must be known, not this one alone
  bool known = found(careful) && careful >= (1 - kResidual) * best;
  for (Eigen::Index k = 0; k < m && known; k++) {
    const double size = std::abs(values[k]);
    known = size * careful <= smallest_radius_ || residual(k) <= kResidual * size;
  }
  return known;
}

void Stability::look(double h, const StepStart& start, const IntervalInput& in) {
  evaluate(start, in);
  const bool first = !looked_;
  if (first) find_scales();
  const bool again = is_rough() && kFar * h > bound_;  // the last one was not good enough
  const int fewest = again ? kSeveral : first ? kFirst : kFew;

  // what is remembered, and a random direction; what was found far from the limit is no better
  auto begin = space_.col(0);
  begin = direction_.cwiseProduct(scale_);
  const double norm = begin.norm();
  if (norm > 0) begin /= norm;
  add_random(0, n_, norm > 0 && !is_rough() ? kRandomShare : 1);
  begin.normalize();

  const double before = bound_;
  const auto most = static_cast<int>(std::min<Eigen::Index>(kMost, n_));
  bool good = false;
  int m = 0, enough = std::min(fewest, most);
  while (!good) {
    auto next = space_.col(m + 1);
    product(space_.col(m), next);
    if (!next.allFinite()) return;  // nothing is learnt
    const double size = next.norm();
    for (int i = 0; i <= m; i++) projected_(i, m) = 0;
    // twice: once leaves what rounding does
    for (int pass = 0; pass < 2; pass++) {
      for (int i = 0; i <= m; i++) {
        const double share = space_.col(i).dot(next);
        projected_(i, m) += share;
        next -= share * space_.col(i);
      }
    }
    const double rest = next.norm();
    m++;
    // differences leave so much
    const bool whole = m == n_ || rest <= 1e-6 * size;
    if (!whole && m < enough) {
      projected_(m, m - 1) = rest;
      next /= rest;
      continue;
    }
    good = find_bound(m, whole ? 0 : rest, h);
    margin_ = m < kSeveral ? kFar : kFair;
    if (good || whole || margin_ * h <= bound_ || m == most) break;
    enough = std::min(m + kBetween, most);
    projected_(m, m - 1) = rest;
    next /= rest;
  }
  if (exact_ && (good || m == most)) margin_ = 0;

  direction_.noalias() = space_.leftCols(m) * ritz_;
  direction_.array() /= scale_.array();
  const double largest = direction_.size() ? direction_.lpNorm<Eigen::Infinity>() : 0;
  if (largest > 0) direction_ /= largest;
  s_ = std::max(std::abs(eigenvalue_), 1.0);
  set_scale();

  // the next one can wait longer where this one brought nothing new
  const double change = std::abs(bound_ - before) / bound_;
  const bool decides = 2 * h > bound_, longer = change < (decides ? 0.03 : 0.3);
  if (kFar * h <= bound_ || longer) {
    patience_ = std::min(2 * patience_, decides ? kLongPatience : kPatience);
  } else if (!(change < 0.1)) {
    patience_ = std::max(patience_ / 2, kShortest);
  }
  since_ = 0;
  looked_ = true;
  nefc_ = start.nefc;
  active_ = start.active;
}

}  // namespace diffmj
