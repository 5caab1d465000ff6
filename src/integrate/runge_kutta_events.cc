// RungeKutta: where constraints begin or cease to be active within a step.
#include <algorithm>
#include <cmath>

#include "integrate/runge_kutta.h"
#include "mj/call.h"
#include "mj/collider.h"

namespace diffmj {

void RungeKutta::set_mask(CVec qpos, double time, std::span<const EventConstraint> released) {
  mjData* d = workspace_.data.get();
  mj_call("mj_fwdPosition", [&] {
    std::copy(qpos.begin(), qpos.end(), d->qpos);
    d->time = time;
    mj_fwdPosition(CollidingModel(impl_.mj()), d);
  });
  mask_.set_base(d, time, released);
  masking_ = true;
}

void RungeKutta::clear_mask() {
  mask_.clear_base();
  masking_ = false;
}

void RungeKutta::follow(bool event) {
  knows_rows_ = watch_ && own_rows_ && tableau_.fsal && !event;
  if (!knows_rows_) return;
  std::swap(mask_, end_rows_);
  mask_.set_begin(start_.time + h_);
}

bool RungeKutta::bends() const {
  const std::vector<Stage>& stages = workspace_.stages;
  for (size_t i = 1; i < tableau_.nstage; i++) {
    if (stages[i].active != stages[0].active) return watch_;
  }
  return false;
}

// compares what is active at a state with the mask; no forces
void RungeKutta::rows_at(double time, const Stage& state) {
  Stage& at = workspace_.between;
  if (&at != &state) {
    at.qpos = state.qpos;
    at.qvel = state.qvel;
    at.act = state.act;
  }
  const StepInput in = input_at(time, at);
  mjData* d = workspace_.data.get();
  mj_call("mj_fwdVelocity", [&] {
    write_input(impl_.mj(), d, in);
    mj_fwdPosition(CollidingModel(impl_.mj()), d);
    mj_fwdVelocity(impl_.mj(), d);
  });
  mask_.find(d);
}

// a state that is none has neither lost nor gained any
const RowMask& RungeKutta::rows_between(double theta) {
  if (!place_between(theta, workspace_.between)) return nothing_;
  rows_at(start_.time + theta * h_, workspace_.between);
  return mask_;
}

size_t RungeKutta::held_between(double theta) { return rows_between(theta).rows().size(); }

// of the evaluation just made
double RungeKutta::fastest() const {
  const mjModel* m = impl_.mj();
  const mjData* d = workspace_.data.get();
  double most = 0;
  for (int b = 1; b < m->nbody; b++) {
    const double reach = reach_[static_cast<size_t>(b)];
    if (reach == 0) continue;
    const mjtNum* v = d->cvel + 6 * b;
    mjtNum arm[3], linear[3];
    mju_sub3(arm, d->xipos + 3 * b, d->subtree_com + 3 * m->body_rootid[b]);
    mju_cross(linear, v, arm);
    mju_addTo3(linear, v + 3);
    most = std::max(most, mju_norm3(linear) + reach * mju_norm3(v));
  }
  return most;
}

bool RungeKutta::travels() const {
  double gap = 0;
  for (size_t i = 1; i < nodes_.size(); i++) gap = std::max(gap, nodes_[i] - nodes_[i - 1]);
  return watch_ && gap * std::abs(h_) * speed_ > thickness_;
}

// no further apart than the thinnest geom is thick
void RungeKutta::add_samples() {
  constexpr double kMost = 100;  // between two stages
  samples_.assign(1, 0.0);
  for (size_t i = 1; i < nodes_.size(); i++) {
    const double gap = nodes_[i] - nodes_[i - 1];
    const double n = std::clamp(std::ceil(gap * std::abs(h_) * speed_ / thickness_), 1.0, kMost);
    for (double k = 1; k < n; k++) samples_.push_back(nodes_[i - 1] + gap * k / n);
    samples_.push_back(nodes_[i]);
  }
}

void RungeKutta::look_between(EvaluationTimes& times) {
  (void)held_at_end(times);
  add_samples();
  held_ = std::any_of(samples_.begin() + 1, samples_.end(),
                      [&](double theta) { return held_between(theta) > 0; });
}

double RungeKutta::find_event(EvaluationTimes& times) {
  constexpr double kNear = 1e-9;  // [m]
  // dense output has the end but for rounding
  const bool at_end = !held_at_end(times).empty();
  // the first place at which something has become active
  add_samples();
  double inside = 2, outside = 0;
  for (size_t i = 1; i < samples_.size() && inside > 1; i++) {
    if (held_between(samples_[i]) > 0) {
      inside = samples_[i];
    } else {
      outside = samples_[i];
    }
  }
  if (inside > 1) return at_end ? 1 : 2;
  // Newton's method from the inside, where the violation is known, and bisection
  double guess = inside;
  for (int k = 0; k < 100; k++) {
    if (held_between(guess) == 0) {
      outside = std::max(outside, guess);
    } else {
      inside = guess;
      const RowMask::Row& row = earliest(mask_.rows());
      if (-row.phi <= kNear || !(row.what.rate < 0)) break;
      guess = inside - (row.since() - kNear / (2 * -row.what.rate)) / h_;
    }
    if (inside - outside < 1e-14) break;
    const bool newton = guess > outside && guess < inside;
    if (!newton || k % 4 == 3) guess = (inside + outside) / 2;
  }
  return inside;
}

const std::vector<RowMask::Row>& RungeKutta::held_at_end(EvaluationTimes& times) {
  const size_t last = tableau_.nk - 1;
  // the end is a stage of the method already, but for those that have none there
  if (tableau_.nk > tableau_.nstage) {
    place(last);
    evaluate(last, times);
  } else {
    rows_at(start_.time + h_, stage(last));
  }
  return mask_.rows();
}

double RungeKutta::find_release(EvaluationTimes& times) {
  constexpr double kNear = 1e-9;  // [m]
  (void)held_at_end(times);
  // the first place at which something is gone
  double inside = 0, outside = 2;
  for (size_t i = 1; i < tableau_.nk; i++) {
    const double theta = tableau_.c[i];
    if (theta > 0 && theta < outside && rows_between(theta).lost()) outside = theta;
  }
  if (outside > 1) return 2;
  // Newton's method from the inside, where the violation is known, and bisection
  double guess = outside / 2;
  for (int k = 0; k < 100 && outside - inside > 1e-14; k++) {
    const RowMask& mask = rows_between(guess);
    if (mask.lost()) {
      outside = guess;
    } else {
      inside = guess;
      if (!mask.leaving().empty()) {
        const RowMask::Row& row = earliest(mask.leaving());
        if (-row.phi <= kNear) break;
        guess = inside + (-row.since() - kNear / (2 * row.what.rate)) / h_;
      }
    }
    const bool newton = guess > inside && guess < outside;
    if (!newton || k % 4 == 3) guess = (inside + outside) / 2;
  }
  // with its forces there
  Stage& at = workspace_.between;
  if (!place_between(inside, at) ||
      !evaluate(start_.time + inside * h_, stage(0).qacc, at, times)) {
    return 2;
  }
  return released(2 * kNear).empty() ? 2 : inside;
}

const RowMask::Row* RungeKutta::leaving_at_end(EvaluationTimes& times) {
  (void)held_at_end(times);
  return mask_.lost() || mask_.leaving().empty() ? nullptr : &earliest(mask_.leaving());
}

// of the evaluation just made
const std::vector<RowMask::Row>& RungeKutta::released(double distance) {
  const mjData* d = workspace_.data.get();
  released_.clear();
  bool carries = false;
  for (const RowMask::Row& row : mask_.leaving()) {
    if (-row.phi > distance) continue;
    released_.push_back(row);
    const mjtNum* force = d->efc_force + row.what.row;
    carries = carries || std::any_of(force, force + row.what.nrow, [](double f) { return f != 0; });
  }
  if (!carries) released_.clear();
  return released_;
}

const std::vector<RowMask::Row>& RungeKutta::released_at_end(double distance,
                                                             EvaluationTimes& times) {
  const size_t last = tableau_.nk - 1;
  released_.clear();
  if (!place(last) || !evaluate(last, times)) return released_;
  return released(distance);
}

const RungeKutta::Stage& RungeKutta::rates_at_end() { return stage(tableau_.nk - 1); }

double RungeKutta::curvature(std::span<const RowMask::Row> rows, CVec qacc) {
  const mjData* d = workspace_.data.get();
  std::vector<double>& y = workspace_.J_lambda;
  y.assign(static_cast<size_t>(d->nefc), 0.0);
  mj_call("mj_mulJacVec", [&] { mj_mulJacVec(impl_.mj(), d, y.data(), qacc.data()); });
  double sum = 0;
  for (const RowMask::Row& row : rows) {
    // two edges of the pyramid have the normal for their mean
    const bool edges = row.what.type == mjCNSTR_CONTACT_PYRAMIDAL && row.what.nrow > 1;
    const auto i = static_cast<size_t>(row.what.row);
    sum += edges ? (y[i] + y[i + 1]) / 2 : y[i];
  }
  return sum / static_cast<double>(rows.size());
}

}  // namespace diffmj
