#include "integrate/runge_kutta.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/require.h"
#include "integrate/field_pullback.h"
#include "integrate/manifold.h"
#include "integrate/stages_pullback.h"
#include "mj/call.h"
#include "stages/acceleration/actuation.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/surrogate_field.h"

namespace diffmj {
namespace {

bool is_good(CVec x) {
  return std::all_of(x.begin(), x.end(),
                     [](double value) { return std::abs(value) <= kMaxMagnitude; });  // NaN is not
}

// what the sums of a method are made of
CVec position_rate(const Workspace::Stage& s, bool implicit) { return implicit ? s.dq : s.k; }
CVec velocity_rate(const Workspace::Stage& s, bool implicit) { return implicit ? s.dv : s.qacc; }
CVec activation_rate(const Workspace::Stage& s, bool implicit) {
  return implicit ? s.dw : s.act_dot;
}

// sum += h Σ_j weights_j of a stage's vector
template <class Member>
void add_stages(const std::vector<Workspace::Stage>& stages, std::span<const double> weights,
                double h, Member&& member, Vec sum) {
  for (size_t j = 0; j < weights.size(); j++) {
    if (weights[j] != 0) eigen(sum) += h * weights[j] * eigen(CVec(member(stages[j])));
  }
}

}  // namespace

double IntervalInput::control(double t, int j) const {
  if (ctrl.empty()) return 0;
  const auto k = static_cast<size_t>(j);
  const double s = share(t);
  return s == 0 ? ctrl[k] : (1 - s) * ctrl[k] + s * ctrl_end[k];
}

RungeKutta::RungeKutta(const StepModel& impl, Workspace& workspace)
    : impl_(impl), tableau_(impl.tableau), workspace_(workspace) {
  use(*impl.tableau);
  const mjModel* m = impl.mj();
  filter_of_.assign(static_cast<size_t>(impl.na), -1);
  for (int j = 0; j < impl.na; j++) {
    const int i = impl.act_actuator[static_cast<size_t>(j)];
    if (m->actuator_dyntype[i] != mjDYN_FILTEREXACT) continue;
    filter_of_[static_cast<size_t>(j)] = static_cast<int>(filters_.size());
    filters_.push_back({.activation = j,
                        .actuator = i,
                        .control = m->actuator_ctrladr[i],
                        .tau = time_constant(m, i)});
  }
}

void RungeKutta::begin(const StepStart& start, const IntervalInput& in, double h) {
  start_ = start;
  in_ = in;
  h_ = h;
  if (observer_) observer_->begun(start);
  const mjModel* m = impl_.mj();
  for (Filter& f : filters_) {
    const double u[2] = {in.control(start.time, f.control), in.control(start.time + h, f.control)};
    double clamped[2];
    for (int k = 0; k < 2; k++) {
      f.limited[k] = control_clamped(m, f.control, u[k]);
      clamped[k] = !f.limited[k] ? u[k]
                                 : std::clamp(u[k], m->actuator_ctrlrange[2 * f.control],
                                              m->actuator_ctrlrange[2 * f.control + 1]);
    }
    f.slope = h == 0 || actuator_disabled(m, f.actuator) ? 0 : (clamped[1] - clamped[0]) / h;
  }
}

// before its range
double RungeKutta::activation(std::span<const double> weights, double theta, int j) const {
  const auto k = static_cast<size_t>(j);
  double w = start_.act[k];
  if (filter_of_[k] >= 0) {
    const Filter& f = filters_[static_cast<size_t>(filter_of_[k])];
    const double s = theta * h_, reach = -f.tau * std::expm1(-s / f.tau);
    const double rate = activation_rate(workspace_.stages[0], tableau_->implicit())[k];
    return w + reach * rate + f.slope * (s - reach);
  }
  for (size_t i = 0; i < weights.size(); i++) {
    if (weights[i] == 0) continue;
    w += h_ * weights[i] * activation_rate(workspace_.stages[i], tableau_->implicit())[k];
  }
  return w;
}

double RungeKutta::limited(int j, double w) const {
  const mjModel* m = impl_.mj();
  const int i = impl_.act_actuator[static_cast<size_t>(j)];
  if (!m->actuator_actlimited[i]) return w;
  return std::clamp(w, m->actuator_actrange[2 * i], m->actuator_actrange[2 * i + 1]);
}

// weights are of the stages before; false if it is no state
bool RungeKutta::place(std::span<const double> weights, double theta, Stage& at) {
  const mjModel* m = impl_.mj();
  const std::vector<Stage>& stages = workspace_.stages;
  std::fill(at.u.begin(), at.u.end(), 0.0);
  std::copy(start_.qpos.begin(), start_.qpos.end(), at.qpos.begin());
  std::copy(start_.qvel.begin(), start_.qvel.end(), at.qvel.begin());
  const bool implicit = tableau_->implicit();
  add_stages(
      stages, weights, h_, [implicit](const Stage& s) { return position_rate(s, implicit); }, at.u);
  add_stages(
      stages, weights, h_, [implicit](const Stage& s) { return velocity_rate(s, implicit); },
      at.qvel);
  for (int j = 0; j < impl_.na; j++) {
    at.act[static_cast<size_t>(j)] = limited(j, activation(weights, theta, j));
  }
  if (!is_good(at.u) || !is_good(at.qvel) || !is_good(at.act)) return false;
  mj_call("mj_integratePos", [&] { mj_integratePos(m, at.qpos.data(), at.u.data(), 1); });
  stage_velocity(m, at.u, at.qvel, at.k);
  return is_good(at.qpos);
}

bool RungeKutta::place(size_t i) {
  return place(std::span(tableau_->A[i]).first(i), tableau_->c[i], stage(i));
}

bool RungeKutta::place_end() {
  return place(std::span(tableau_->b).first(tableau_->nstage), 1, end());
}

bool RungeKutta::place_between(double theta, Stage& at) {
  std::array<double, kMaxStage> weights;
  dense_weights(*tableau_, theta, weights);
  return place(std::span(weights).first(tableau_->nk), theta, at);
}

StepInput RungeKutta::input_at(double time, Stage& at) const {
  for (int j = 0; j < impl_.nu; j++) at.ctrl[static_cast<size_t>(j)] = in_.control(time, j);
  return {.time = time,
          .qpos = at.qpos,
          .qvel = at.qvel,
          .act = at.act,
          .qacc_warmstart = {},
          .ctrl = at.ctrl,
          .qfrc_applied = in_.qfrc_applied,
          .xfrc_applied = in_.xfrc_applied,
          .nefc = at.nefc,
          .suppression = suppression_};
}

bool RungeKutta::evaluate(double time, CVec warmstart, bool last, Stage& at,
                          EvaluationTimes& times) {
  StepInput in = input_at(time, at);
  in.qacc_warmstart = warmstart;
  vector_field(impl_, in, workspace_, times);
  const mjModel* m = impl_.mj();
  const mjData* d = workspace_.data.get();
  std::copy(d->qacc, d->qacc + impl_.nv, at.qacc.begin());
  for (int j = 0; j < impl_.na; j++) {
    const bool off = actuator_disabled(m, impl_.act_actuator[static_cast<size_t>(j)]);
    at.act_dot[static_cast<size_t>(j)] = off ? 0 : d->act_dot[j];
  }
  at.nefc = d->nefc;
  at.ncon = d->ncon;
  if (observer_) observer_->evaluated(at, last);
  return is_good(at.qacc) && is_good(at.act_dot);
}

bool RungeKutta::evaluate(double time, CVec warmstart, Stage& at, EvaluationTimes& times) {
  return evaluate(time, warmstart, false, at, times);
}

bool RungeKutta::evaluate(size_t i, EvaluationTimes& times) {
  Stage& at = stage(i);
  if (i > 0) {
    return evaluate(start_.time + tableau_->c[i] * h_, stage(i - 1).qacc, i + 1 == tableau_->nk, at,
                    times);
  }
  if (start_.qacc.empty()) {
    return evaluate(start_.time, start_.qacc_warmstart, false, at, times);
  }
  std::copy(start_.qacc.begin(), start_.qacc.end(), at.qacc.begin());
  std::copy(start_.act_dot.begin(), start_.act_dot.end(), at.act_dot.begin());
  at.nefc = start_.nefc;
  at.ncon = start_.ncon;
  at.active = start_.active;
  return true;
}

bool RungeKutta::step(const StepStart& start, const IntervalInput& in, double h,
                      EvaluationTimes& times) {
  begin(start, in, h);
  const size_t n = tableau_->nstage - (tableau_->last_stage_can_wait() ? 1 : 0);
  for (size_t i = 0; i < n; i++) {
    if (!place(i) || !evaluate(i, times)) return false;
    if (watch_ && !watch_->goes_on(i)) return false;
    if (!tableau_->implicit()) continue;
    if (i == 0 && !begin_implicit()) return false;
    implicit_->solve(i);
  }
  return place_end();
}

void RungeKutta::use(const Tableau& tableau) {
  tableau_ = &tableau;
  if (!tableau.implicit() || implicit_) return;
  implicit_ = std::make_unique<Rosenbrock>(impl_, workspace_);
  ctrl_rate_.reserve(static_cast<size_t>(impl_.nu));
}

// the linear systems of the step, after its first evaluation
bool RungeKutta::begin_implicit() {
  ctrl_rate_.clear();
  for (size_t j = 0; j < in_.ctrl_end.size(); j++) {
    ctrl_rate_.push_back((in_.ctrl_end[j] - in_.ctrl[j]) / (in_.end - in_.begin));
  }
  return implicit_->begin(*tableau_, input_at(start_.time, stage(0)), ctrl_rate_, h_);
}

bool RungeKutta::finish(EvaluationTimes& times) {
  if (observer_) observer_->ended();
  if (!tableau_->last_stage_can_wait()) return true;
  const size_t last = tableau_->nstage - 1;
  return place(last) && evaluate(last, times);
}

void RungeKutta::add_error(ErrorNorm& norm) {
  const mjModel* m = impl_.mj();
  const auto nv = static_cast<size_t>(impl_.nv), na = static_cast<size_t>(impl_.na);
  const std::span weights = std::span(tableau_->error).first(tableau_->nstage);
  const Vec error = Vec(workspace_.error).first(nv), x0 = Vec(workspace_.x0_size).first(nv),
            x1 = Vec(workspace_.x1_size).first(nv);
  position_magnitudes(m, start_.qpos, x0);
  position_magnitudes(m, end().qpos, x1);
  std::fill(error.begin(), error.end(), 0.0);
  const bool implicit = tableau_->implicit();
  add_stages(
      workspace_.stages, weights, h_,
      [implicit](const Stage& s) { return position_rate(s, implicit); }, error);
  norm.add(error, x0, x1);
  std::fill(error.begin(), error.end(), 0.0);
  add_stages(
      workspace_.stages, weights, h_,
      [implicit](const Stage& s) { return velocity_rate(s, implicit); }, error);
  norm.add(error, start_.qvel, end().qvel);
  // an exact filter has no error; nor has what a bound stops
  const Vec act_error = Vec(workspace_.error).first(na);
  for (size_t k = 0; k < na; k++) {
    const int j = static_cast<int>(k);
    const double embedded = activation(std::span(tableau_->bhat).first(tableau_->nstage), 1, j);
    act_error[k] = end().act[k] - limited(j, embedded);
  }
  norm.add(act_error, start_.act, end().act);
}

void RungeKutta::add_cfd_error(ErrorNorm& norm) {
  // forces from distance are about so much weaker than those that the tolerance is meant for
  constexpr double kWeight = 100;
  const Vec error = Vec(workspace_.error).first(static_cast<size_t>(impl_.nv));
  std::fill(error.begin(), error.end(), 0.0);
  for (size_t i = 0; i < tableau_->nstage; i++) {
    if (tableau_->error[i] == 0) continue;
    StepInput in = input_at(start_.time + tableau_->c[i] * h_, stage(i));
    in.suppression = nullptr;
    surrogate_field(impl_, in, stage(i).qacc, workspace_);
    eigen(error) += kWeight * h_ * tableau_->error[i] *
                    (eigen(CVec(workspace_.field_qacc)) - eigen(CVec(stage(i).qacc)));
  }
  norm.add(error, start_.qvel, end().qvel);
}

double RungeKutta::first_step(const StepController& controller, const StepStart& start,
                              const IntervalInput& in, EvaluationTimes& times) {
  begin(start, in, 0);
  if (!place(0) || !evaluate(0, times)) return 0;
  const Vec size = Vec(workspace_.x0_size).first(static_cast<size_t>(impl_.nv));
  position_magnitudes(impl_.mj(), start.qpos, size);
  const auto norm = [&](CVec q, CVec v, CVec w) {
    ErrorNorm sum = controller.error_norm();
    sum.add(q, size, size);
    sum.add(v, start.qvel, start.qvel);
    for (size_t k = 0; k < w.size(); k++) {
      // an exact filter asks for no step
      if (filter_of_[k] < 0)
        sum.add(w.subspan(k, 1), start.act.subspan(k, 1), start.act.subspan(k, 1));
    }
    return sum.value();
  };
  Stage &first = stage(0), &moved = end();
  const double d0 = norm(size, start.qvel, start.act),
               d1 = norm(first.k, first.qacc, first.act_dot);
  const double h = controller.trial_step(d0, d1);
  begin(start, in, h);
  constexpr double kEuler[] = {1};
  first.dq = first.k;
  first.dv = first.qacc;
  first.dw = first.act_dot;
  if (!place(kEuler, 1, moved) || !evaluate(start.time + h, first.qacc, moved, times)) {
    return controller.first_step(h, d1, std::numeric_limits<double>::quiet_NaN());
  }
  eigen(Vec(moved.k)) -= eigen(CVec(first.k));
  eigen(Vec(moved.qacc)) -= eigen(CVec(first.qacc));
  eigen(Vec(moved.act_dot)) -= eigen(CVec(first.act_dot));
  return controller.first_step(h, d1, norm(moved.k, moved.qacc, moved.act_dot) / h);
}

void RungeKutta::load(const MadeStep& made, const IntervalInput& in) {
  begin({.time = made.time,
         .qpos = made.qpos,
         .qvel = made.qvel,
         .act = made.act,
         .qacc = {},
         .act_dot = {}},
        in, made.h);
  const auto nv = static_cast<size_t>(impl_.nv), na = static_cast<size_t>(impl_.na);
  const size_t width = 2 * nv + na;
  for (size_t i = 0; i < tableau_->nsolve() && tableau_->implicit(); i++) {
    const CVec from = made.increments.subspan(i * width, width);
    std::copy_n(from.begin(), nv, stage(i).dq.begin());
    std::copy_n(from.begin() + impl_.nv, nv, stage(i).dv.begin());
    std::copy_n(from.begin() + 2 * impl_.nv, na, stage(i).dw.begin());
  }
  for (size_t i = 0; i < tableau_->nstage && !tableau_->implicit(); i++) {
    place(i);
    std::copy_n(&made.qacc[i * nv], nv, stage(i).qacc.begin());
    std::copy_n(made.act_dot.begin() + static_cast<ptrdiff_t>(i * na), na,
                stage(i).act_dot.begin());
    stage(i).nefc = made.nefc[i];
  }
  place_end();
}

bool RungeKutta::stopped_at_end(int j) const {
  const double w = activation(std::span(tableau_->b).first(tableau_->nstage), 1, j);
  return limited(j, w) != w;
}

// act_i, or act' with the weights b: what the start, the rates of stages and the inputs receive
void RungeKutta::activations_pullback(std::span<const double> weights, double theta,
                                      const Eigen::Ref<const Matrix>& act_bar, StepBar& bar) {
  const mjModel* m = impl_.mj();
  for (int j = 0; j < impl_.na; j++) {
    const auto k = static_cast<size_t>(j);
    const double w = activation(weights, theta, j);
    if (limited(j, w) != w) continue;
    const int column = 2 * impl_.nv + j, i = impl_.act_actuator[k];
    bar.x.col(column) += act_bar.col(j);
    if (filter_of_[k] < 0) {
      for (size_t n = 0; n < weights.size(); n++) {
        if (weights[n] == 0 || actuator_disabled(m, i)) continue;
        workspace_.stages[n].act_dot_bar.col(j) += h_ * weights[n] * act_bar.col(j);
      }
      continue;
    }
    const Filter& f = filters_[static_cast<size_t>(filter_of_[k])];
    if (actuator_disabled(m, i)) continue;
    const double s = theta * h_, reach = -f.tau * std::expm1(-s / f.tau);
    Stage& first = workspace_.stages[0];
    first.act_dot_bar.col(j) += reach * act_bar.col(j);
    // τ, of reach alone: the rate's own is the field's
    const Vec dynprm = bar.params[Parameter::kActuatorDynprm];
    if (!dynprm.empty() && f.tau > mjMINVAL) {
      const double reach_tau = -std::expm1(-s / f.tau) - s / f.tau * std::exp(-s / f.tau);
      dynprm[static_cast<size_t>(mjNDYN * i)] +=
          reach_tau * (first.act_dot[k] - f.slope) * act_bar(0, j);
    }
    if (in_.ctrl_end.empty()) continue;
    // the slope of the control, between the two ends of the step
    for (int side = 0; side < 2; side++) {
      if (f.limited[side]) continue;
      const double share = in_.share(start_.time + side * h_);
      const double weight = (side == 0 ? -1 : 1) * (s - reach) / h_;
      bar.ctrl.col(f.control) += weight * (1 - share) * act_bar.col(j);
      bar.ctrl_end.col(f.control) += weight * share * act_bar.col(j);
    }
  }
}

void RungeKutta::pullback(StepBar& bar) {
  const int na = impl_.na;
  const Eigen::Index ncotangent = bar.next.rows();
  step_end_pullback(impl_, *tableau_, h_, bar, workspace_);
  for (size_t i = 0; i < tableau_->nstage; i++) stage(i).act_dot_bar.setZero(ncotangent, na);
  activations_pullback(std::span(tableau_->b).first(tableau_->nstage), 1, bar.next.rightCols(na),
                       bar);

  const bool linear = !in_.ctrl_end.empty();
  const auto field = [&](size_t i, Stage& at) {
    const double time = start_.time + tableau_->c[i] * h_;
    Matrix& ctrl_bar = linear ? workspace_.ctrl_bar : bar.ctrl;
    if (linear) ctrl_bar.setZero(ncotangent, impl_.nu);
    field_pullback(time, at, {at.x_bar, ctrl_bar, bar.qfrc_applied, bar.xfrc_applied, bar.params},
                   false);
    if (!linear) return;
    bar.ctrl += (1 - in_.share(time)) * ctrl_bar;
    bar.ctrl_end += in_.share(time) * ctrl_bar;
  };
  const auto activations = [&](size_t i, Stage& at) {
    activations_pullback(std::span(tableau_->A[i]).first(i), tableau_->c[i], at.x_bar.rightCols(na),
                         bar);
  };
  stages_pullback(impl_, *tableau_, h_, true, bar, workspace_, field, activations);
}

void RungeKutta::field_pullback(double time, Stage& at, const VectorFieldBar& bar, bool evaluated) {
  const StepInput in = input_at(time, at);
  Multipliers multipliers;
  if (impl_.na > 0) multipliers.act_dot_bar = &at.act_dot_bar;
  diffmj::field_pullback(impl_,
                         {.in = in, .qacc = at.qacc, .nefc = at.nefc, .evaluated = evaluated},
                         at.a_bar, multipliers, bar, workspace_);
}

}  // namespace diffmj
