#include "adjoint/continuous.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "adjoint/jump.h"
#include "base/text.h"
#include "diffmj/error.h"
#include "events/step_events.h"
#include "integrate/manifold.h"
#include "mj/active_set.h"
#include "record/trajectory.h"
#include "stages/acceleration/actuation.h"
#include "stages/acceleration/noslip.h"

namespace diffmj {
namespace {

// Where a constraint changes its case p' jumps. Estimates are made for smooth solutions: of a jump
// anywhere in the first 0.9 of a step, that of tsit5 shows the 54th to 85th part of the error (the
// error's weights up to a stage nearly cancel, docs/derivations/adaptive.md). So much a step across
// a corner that is not located is judged more severely.
constexpr double kJump = 60;
// The same where p' has a corner, because a contact sets in smoothly or an impedance changes its
// piece: of such a corner the estimate shows the 5th to 31st part, in the medians between two
// stages.
constexpr double kCorner = 30;
// So many are located within one step of the rollout. More are chatter.
constexpr int kMostCorners = 20;
// How precisely: within this share of that step, or the tolerance if that is in between. The jump
// of p' acts for so long on the wrong side, and the solver's rounding is smaller still.
constexpr double kLeastWidth = 1e-9, kMostWidth = 1e-4;

}  // namespace

ContinuousAdjoint::Quadrature::Quadrature(const StepBar& bar) {
  ctrl.setZero(1, bar.ctrl.cols());
  ctrl_end.setZero(1, bar.ctrl.cols());
  qfrc_applied.setZero(1, bar.qfrc_applied.cols());
  xfrc_applied.setZero(1, bar.xfrc_applied.cols());
  for (size_t i = 0; i < params.size(); i++) params[i].assign(bar.params.field[i].size(), 0.0);
}

void ContinuousAdjoint::Quadrature::clear() {
  for (Matrix* x : {&ctrl, &ctrl_end, &qfrc_applied, &xfrc_applied}) x->setZero();
  for (std::vector<double>& x : params) std::fill(x.begin(), x.end(), 0.0);
}

void ContinuousAdjoint::Quadrature::add(double weight, const Quadrature& other) {
  ctrl += weight * other.ctrl;
  ctrl_end += weight * other.ctrl_end;
  qfrc_applied += weight * other.qfrc_applied;
  xfrc_applied += weight * other.xfrc_applied;
  for (size_t i = 0; i < params.size(); i++) {
    eigen(Vec(params[i])) += weight * eigen(CVec(other.params[i]));
  }
}

void ContinuousAdjoint::Quadrature::add_to(StepBar& bar) const {
  bar.ctrl += ctrl;
  bar.ctrl_end += ctrl_end;
  bar.qfrc_applied += qfrc_applied;
  bar.xfrc_applied += xfrc_applied;
  for (size_t i = 0; i < params.size(); i++) {
    eigen(bar.params.field[i]) += eigen(CVec(params[i]));
  }
}

ParameterBar ContinuousAdjoint::Quadrature::parameter_bar() {
  ParameterBar bar;
  for (size_t i = 0; i < params.size(); i++) bar.field[i] = params[i];
  return bar;
}

ContinuousAdjoint::ContinuousAdjoint(const Model& model, const Trajectory& trajectory,
                                     const StepBar& bar, ReverseSteps* steps, Workspace& workspace)
    : model_(model),
      impl_(model.impl()),
      trajectory_(trajectory),
      tableau_(impl_.tableau),
      workspace_(workspace),
      steps_(steps),
      mask_(impl_.mj(), impl_.collider()),
      first_(bar),
      stage_(bar),
      sum_(bar),
      locates_(steps && !has_noslip(impl_.mj()) && !impl_.has_surrogate_field()),
      change_(model.options().adaptive.onset > 0) {
  const AdaptiveOptions& o = model.options().adaptive;
  if (!steps) {
    back_.emplace(impl_, workspace);
    if (has_events(impl_)) back_->suppress(&mask_);
    x_.emplace(impl_);
  }
  // a discrete adjoint asks for nonsmooth steps: steps of one size would not do
  const bool discrete = model.options().adjoint() == Adjoint::kDiscrete;
  if (!o.step || (discrete && tableau_->embedded_order > 0)) {
    StepControl control = o.stepping;
    control.rtol = o.adjoint_rtol.value_or(control.rtol);
    control.atol = o.adjoint_atol.value_or(control.atol);
    controller_.emplace(control, tableau_->embedded_order);
    if (impl_.stiff_tableau) {
      stiff_controller_.emplace(control, impl_.stiff_tableau->embedded_order);
    }
  }
  const int n = 2 * impl_.nv + impl_.na;
  for (Matrix* x : {&p_, &p_stage_, &p_next_}) x->setZero(1, n);
  const size_t nstage =
      std::max(tableau_->nstage, impl_.stiff_tableau ? impl_.stiff_tableau->nstage : 0);
  rates_.setZero(static_cast<Eigen::Index>(nstage), n);
  warmstart_.assign(static_cast<size_t>(impl_.nv), 0.0);
  ahead_qacc_ = warmstart_;
}

bool ContinuousAdjoint::interval(int i, StepBar& bar, StopSignal& stop) {
  in_ = interval_input(model_, trajectory_, i);
  p_ = bar.next;
  knows_first_ = false;
  const std::vector<double>& time = trajectory_.integrator.time;
  const auto begin = static_cast<size_t>(trajectory_.integrator.first_step[static_cast<size_t>(i)]),
             end =
                 static_cast<size_t>(trajectory_.integrator.first_step[static_cast<size_t>(i) + 1]);
  if (state_.h == 0) state_.h = time[end] - time[end - 1];
  const auto set_state = [&](double at, CVec qpos, CVec qvel, CVec act) {
    x_->time = at;
    x_->qpos.assign(qpos.begin(), qpos.end());
    x_->qvel.assign(qvel.begin(), qvel.end());
    x_->act.assign(act.begin(), act.end());
    x_->nefc = -1;
  };
  if (back_) {
    set_state(time[end], row(trajectory_.qpos, i + 1, trajectory_.nq),
              row(trajectory_.qvel, i + 1, trajectory_.nv),
              row(trajectory_.act, i + 1, trajectory_.na));
    along_ = &*back_;
  }
  for (size_t n = end; n-- > begin;) {
    if (const EventRecord* event = event_after(trajectory_, static_cast<int>(n))) {
      jump_pullback(impl_, *event, p_, bar.params, workspace_);
      knows_first_ = false;
      if (back_) set_state(event->event.time, event->qpos, event->qvel, event->act);
    }
    if (steps_) {
      const int k = static_cast<int>(n);
      RungeKutta* loaded = steps_->load(k, true, stop);
      if (!loaded || !along(k, *loaded, bar, stop)) return false;
      continue;
    }
    // with steps of its own size, backsolve stops where those were that end at an event or begin
    // with a release: within them something is suppressed
    size_t to = n;
    const auto alone = [&](size_t step) {
      const int k = static_cast<int>(step);
      return event_after(trajectory_, k) || begins_with_release(trajectory_, k);
    };
    while (controller_ && !alone(n) && to > begin && !alone(to - 1)) to--;
    set_mask(static_cast<int>(to), static_cast<int>(n));
    if (!solve(time[n + 1], time[to], stop, bar)) return false;
    n = to;
  }
  bar.x += p_;
  return true;
}

// What backsolve suppresses between the start of step first and the end of step last: what is
// released there, or what becomes active at an event there.
void ContinuousAdjoint::set_mask(int first, int last) {
  const EventRecord* after = event_after(trajectory_, last);
  const bool begins = after && !after->event.release;
  const SuppressedStep* suppressed = begins || begins_with_release(trajectory_, first)
                                         ? suppressed_step(trajectory_, first)
                                         : nullptr;
  if (suppressed) {
    mask_.set_base(suppressed->base);
  } else {
    mask_.clear_base();
  }
}

bool ContinuousAdjoint::step(int i, int n, RungeKutta& loaded, StepBar& bar, StopSignal& stop) {
  in_ = interval_input(model_, trajectory_, i);
  p_ = bar.next;
  knows_first_ = false;
  state_.h = std::numeric_limits<double>::max();
  if (!along(n, loaded, bar, stop)) return false;
  bar.x += p_;
  return true;
}

bool ContinuousAdjoint::along(int n, RungeKutta& loaded, StepBar& bar, StopSignal& stop) {
  const std::vector<double>& time = trajectory_.integrator.time;
  const auto k = static_cast<size_t>(n);
  along_ = &loaded;
  if (tableau_ != &loaded.tableau()) knows_first_ = false;
  tableau_ = &loaded.tableau();
  x_time_ = std::numeric_limits<double>::quiet_NaN();
  jacobian_time_ = x_time_;
  step_begin_ = time[k];
  step_size_ = time[k + 1] - time[k];
  for (int j = 0; j < impl_.na; j++) {
    if (loaded.stopped_at_end(j)) p_(0, 2 * impl_.nv + j) = 0;
  }
  if (!solve(time[k + 1], time[k], stop, bar)) return false;
  // the next step begins on the other side of a corner at the end of this one
  if (piece_begin_ > time[k]) knows_first_ = false;
  return true;
}

bool ContinuousAdjoint::solve(double begin, double end, StopSignal& stop, StepBar& bar) {
  double t = begin, target = end, corner = end;
  piece_end_ = same_until_ = begin;
  piece_begin_ = end;
  ncorner_ = 0;
  // what follows is on the other side of a corner
  const auto begin_piece = [&](double far) {
    piece_end_ = same_until_ = far;
    knows_first_ = false;
  };
  while (t > end) {
    if (stop.poll((trajectory_.time.back() - t) /
                  (trajectory_.time.back() - trajectory_.time.front()))) {
      return false;
    }
    double next = target;
    StepAttempt tried;
    if (controller_) {
      if (controller().exhausted(state_)) {
        fail("max_steps = " + std::to_string(controller().options().max_steps) +
                 " are made; use a larger max_steps or a larger adjoint_rtol and adjoint_atol",
             t);
      }
      tried = controller().attempt(t, target, state_);
      if (!tried.last) next = t - tried.h;
    }
    const double h = next - t;
    const bool finite = tableau_->implicit() ? attempt_implicit(t, h) : attempt(t, h);
    if (!std::isnan(far_)) {
      // the next steps end at the corner; one at the end of theirs is left to what follows
      near_ = inside(t);
      locate_corner();
      if (inside(t) - near_ <= corner_width()) {
        begin_piece(far_);
      } else {
        same_until_ = near_;
        if (near_ - end <= corner_width()) {
          piece_begin_ = near_;
        } else {
          target = near_;
          corner = far_;
        }
      }
      far_ = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    if (controller_) {
      double error = std::numeric_limits<double>::quiet_NaN();
      if (finite) {
        ErrorNorm norm = controller().error_norm();
        p_stage_.setZero();
        for (size_t i = 0; i < tableau_->nstage; i++) {
          p_stage_ += h * tableau_->error[i] * rates_.row(static_cast<Eigen::Index>(i));
        }
        const auto span = [](const Matrix& x) {
          return row_part(x, 0, 0, static_cast<int>(x.cols()));
        };
        norm.add(span(p_stage_), span(p_), span(p_next_));
        if (back_) back_->add_error(norm);
        error = norm.value() * severity_;
      }
      switch (controller().judge(t, tried.h, error, state_)) {
        case StepOutcome::kAccepted:
          break;
        case StepOutcome::kRejected:
          continue;
        case StepOutcome::kBudgetExhausted:
          continue;  // said above
        case StepOutcome::kBelowMinimum:
          // where the field jumps p' does too, and over so short a step that does not matter
          state_.naccepted++;
          break;
        case StepOutcome::kNotFinite:
          fail("its numbers are not finite or exceed 1e10; use the discrete adjoint", t);
      }
    } else if (!finite) {
      fail("its numbers are not finite or exceed 1e10; use the discrete adjoint", t);
    } else {
      state_.naccepted++;
    }
    if (tableau_->implicit() && !integrate_implicit(t, h)) {
      fail("its numbers are not finite or exceed 1e10; use a smaller tolerance", t);
    }
    sum_.add_to(bar);
    p_ = p_next_;
    if (back_) {
      if (!back_->finish(times_)) fail("the state is not finite; use the discrete adjoint", t);
      x_->follow(*back_, next, false);
    }
    // the last stage is the next step's first
    knows_first_ = !tableau_->implicit() && tableau_->fsal && !tableau_->last_stage_can_wait();
    if (knows_first_) {
      rates_.row(0) = rates_.row(static_cast<Eigen::Index>(tableau_->nstage) - 1);
      std::swap(first_, stage_);
      first_cases_ = cases_;
      first_hash_ = last_hash_;
    }
    t = next;
    if (t == target && t > end) {
      begin_piece(corner);
      target = end;
    }
  }
  return true;
}

// p_next_ and sum_ after a step of size h < 0; false if a number is not finite
bool ContinuousAdjoint::attempt(double t, double h) {
  if (back_) back_->begin(x_->start(), in_, h);
  sum_.clear();
  severity_ = 1;
  const size_t n = tableau_->nstage - (tableau_->last_stage_can_wait() ? 1 : 0);
  for (size_t i = 0; i < n; i++) {
    Quadrature& quadrature = i == 0 ? first_ : stage_;
    if (back_ && (!back_->place(i) || !back_->evaluate(i, times_))) return false;
    if (i > 0 || !knows_first_) {
      p_stage_ = p_;
      for (size_t j = 0; j < i; j++) {
        if (tableau_->A[i][j] == 0) continue;
        p_stage_ += h * tableau_->A[i][j] * rates_.row(static_cast<Eigen::Index>(j));
      }
      if (!rate(i, t + tableau_->c[i] * h, quadrature)) return false;
      if (i == 0) knows_first_ = true;
    }
    if (i == 0 && !look_ahead(t + h)) return false;
    if (tableau_->b[i] != 0) sum_.add(-h * tableau_->b[i], quadrature);
  }
  p_next_ = p_;
  for (size_t i = 0; i < n; i++) {
    p_next_ += h * tableau_->b[i] * rates_.row(static_cast<Eigen::Index>(i));
  }
  return p_next_.allFinite() && (!back_ || back_->place_end());
}

double ContinuousAdjoint::inside(double t) const {
  return back_ ? t : std::clamp(t, piece_begin_, piece_end_);
}

// x at that time, from the step, in workspace_.between; and the dynamics there
bool ContinuousAdjoint::evaluate_between(double t) {
  t = inside(t);
  Workspace::Stage& at = workspace_.between;
  // stages share times, and pullbacks leave mjData as it is
  if (x_time_ == t) return true;
  x_time_ = std::numeric_limits<double>::quiet_NaN();
  if (!along_->place_between((t - step_begin_) / step_size_, at)) return false;
  if (!along_->evaluate(t, t == ahead_time_ ? ahead_qacc_ : warmstart_, at, times_)) return false;
  if (locates_) cases_.read(impl_.mj(), workspace_.data.get(), at.qacc);
  active_ = active_set(impl_.mj(), workspace_.data.get());
  std::copy(at.qacc.begin(), at.qacc.end(), warmstart_.begin());
  if (keeps_evaluations()) x_time_ = t;
  return true;
}

// After an evaluation: false if the step comes upon a corner there that is to be located.
bool ContinuousAdjoint::stays_in_case(double t) {
  if (!change_.find(first_cases_, cases_)) return true;
  if (ncorner_ >= kMostCorners) {
    severity_ = kJump;
    return true;
  }
  far_ = inside(t);
  far_cases_ = cases_;
  return false;
}

// The same at the end of a step whose first stage is known, before the others are evaluated.
bool ContinuousAdjoint::look_ahead(double t) {
  if (!locates_ || first_cases_.empty() || t >= same_until_) return true;
  if (!evaluate_between(t)) return false;
  ahead_time_ = inside(t);
  ahead_qacc_ = workspace_.between.qacc;
  if (!stays_in_case(t)) return false;
  same_until_ = t;
  return true;
}

double ContinuousAdjoint::corner_width() const {
  const double rtol = controller_ ? controller_->options().rtol : 0;
  return std::abs(step_size_) * std::clamp(rtol, kLeastWidth, kMostWidth);
}

// Between near_, where constraints are in the cases of the first stage, and far_: brings the two
// together. The numbers that decide cases are smooth on either side and have a corner in between,
// so that they are followed from the side that was evaluated last, if it was twice.
void ContinuousAdjoint::locate_corner() {
  constexpr int kMostEvaluations = 60;
  constexpr double kFirstSlack = 0.02;
  const double width = corner_width();
  ncorner_++;
  near_cases_ = first_cases_;
  double before = std::numeric_limits<double>::quiet_NaN();  // time of the evaluation before_cases_
  double last = before;                                      // the estimate before
  int moved = 0;  // how often in a row the same end was: near_ > 0, far_ < 0
  for (int k = 0; k < kMostEvaluations && near_ - far_ > width; k++) {
    double at = std::numeric_limits<double>::quiet_NaN();
    if (moved > 0) {
      at = near_ + (near_ - before) * change_.beyond(before_cases_, near_cases_, far_cases_, false);
    } else if (moved < 0) {
      at = far_ + (far_ - before) * change_.beyond(before_cases_, far_cases_, near_cases_, true);
    }
    if (!(at > far_ && at < near_)) {
      change_.find(near_cases_, far_cases_);
      at = near_ - change_.share() * (near_ - far_);
    }
    // on the other side of the corner than the last evaluation, by what the estimate may be off
    const double estimate = at;
    double slack = std::isnan(last) ? kFirstSlack * (near_ - far_) : std::abs(at - last);
    slack = std::max(slack, width / 2) * std::max(std::abs(moved), 1);
    at = moved < 0 ? at + slack : at - slack;
    // and now and then none: half of what is left
    if (k % 8 == 7) at = (near_ + far_) / 2;
    at = std::clamp(at, far_ + width / 2, near_ - width / 2);
    last = estimate;
    if (!evaluate_between(at)) return;
    if (change_.find(first_cases_, cases_)) {
      std::swap(before_cases_, far_cases_);
      before = std::exchange(far_, at);
      far_cases_ = cases_;
      moved = std::min(moved, 0) - 1;
    } else {
      std::swap(before_cases_, near_cases_);
      before = std::exchange(near_, at);
      near_cases_ = cases_;
      moved = std::max(moved, 0) + 1;
    }
  }
}

// an activation that does not move, whatever its rate
bool ContinuousAdjoint::is_held(const Workspace::Stage& at, int j) const {
  const mjModel* m = impl_.mj();
  const auto k = static_cast<size_t>(j);
  const int actuator = impl_.act_actuator[k];
  const double w = at.act[k], w_dot = at.act_dot[k];
  const double* range = m->actuator_actrange + 2 * actuator;
  const bool stopped = m->actuator_actlimited[actuator] &&
                       ((w <= range[0] && w_dot < 0) || (w >= range[1] && w_dot > 0));
  return stopped || actuator_disabled(m, actuator);
}

// which cases the constraints are in, after the pullback: also those of a no-slip pass
size_t ContinuousAdjoint::case_hash(const Workspace::Stage& at) const {
  size_t hash = active_;
  if (at.nefc == 0 || !has_noslip(impl_.mj())) return hash;
  for (const Noslip::Update& update : workspace_.noslip.updates) {
    hash = 31 * hash + static_cast<size_t>(update.which);
  }
  return hash;
}

// row i of rates_: p' at time t and p_stage_, where x is that of the step or of stage i; false if
// that is not finite, or if a corner is to be located first
bool ContinuousAdjoint::rate(size_t i, double t, Quadrature& quadrature, bool watch) {
  t = inside(t);
  const int nv = impl_.nv, na = impl_.na;
  Workspace::Stage& at = back_ ? back_->stage(i) : workspace_.between;
  bool evaluated = back_ && !(i == 0 && x_->nefc >= 0);
  if (!back_) {
    if (!evaluate_between(t)) return false;
    evaluated = true;
    if (i == 0) first_cases_ = cases_;
    if (watch && locates_ && i > 0 && !stays_in_case(t)) return false;
  }
  at.a_bar = p_stage_.middleCols(nv, nv);
  at.act_dot_bar = p_stage_.rightCols(na);
  const mjModel* m = impl_.mj();
  for (int j = 0; j < na; j++) {
    if (is_held(at, j)) at.act_dot_bar(0, j) = 0;
  }
  at.x_bar.setZero(1, 2 * nv + na);
  quadrature.clear();
  along_->field_pullback(t, at,
                         {at.x_bar, quadrature.ctrl, quadrature.qfrc_applied,
                          quadrature.xfrc_applied, quadrature.parameter_bar()},
                         evaluated);
  if (!back_) {
    last_hash_ = case_hash(at);
    if (i == 0) first_hash_ = last_hash_;
    if (last_hash_ != first_hash_) severity_ = std::max(severity_, locates_ ? kCorner : kJump);
  }
  const double share = in_.share(t);
  quadrature.ctrl_end = share * quadrature.ctrl;
  quadrature.ctrl *= 1 - share;
  position_rate_pullback(m, at.qvel, row_part(std::as_const(p_stage_), 0, 0, nv),
                         row_part(at.x_bar, 0, 0, nv), row_part(at.x_bar, 0, nv, nv));
  rates_.row(static_cast<Eigen::Index>(i)) = -at.x_bar;
  return rates_.row(static_cast<Eigen::Index>(i)).allFinite();
}

void ContinuousAdjoint::fail(const std::string& why, double t) const {
  throw RolloutError(std::string("the ") + adjoint_name(model_.options().adjoint()) +
                     " adjoint cannot be solved beyond time " + number(t) + " s: " + why);
}

}  // namespace diffmj
