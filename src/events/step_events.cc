#include "events/step_events.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mj/active_set.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "stages/surrogate_field.h"

namespace diffmj {
namespace {

bool collides(const mjModel* m, int geom) {
  return m->geom_contype[geom] != 0 || m->geom_conaffinity[geom] != 0;
}

// half of what a geom measures across; a plane or a height field has no other side
double half_thickness(const mjModel* m, int geom) {
  const int type = m->geom_type[geom];
  if (type == mjGEOM_PLANE || type == mjGEOM_HFIELD) return std::numeric_limits<double>::infinity();
  const mjtNum* half = m->geom_aabb + 6 * geom + 3;
  return std::min({half[0], half[1], half[2]});
}

// there are constraints that are active at times
bool can_be_active(const mjModel* m) {
  if (m->opt.disableflags & mjDSBL_CONSTRAINT) return false;
  if (!(m->opt.disableflags & mjDSBL_CONTACT) && m->ngeom + m->nflex > 1) return true;
  const auto any = [](const auto* flags, auto n) {
    return std::any_of(flags, flags + n, [](auto flag) { return flag != 0; });
  };
  return !(m->opt.disableflags & mjDSBL_LIMIT) &&
         (any(m->jnt_limited, m->njnt) || any(m->tendon_limited, m->ntendon));
}

}  // namespace

bool has_events(const StepModel& impl) {
  const AdaptiveOptions& o = impl.options.adaptive;
  return o.events && o.onset == 0 && can_be_active(impl.mj()) && !cfd_forward(impl);
}

StepEvents::StepEvents(const StepModel& impl, RungeKutta& method, Workspace& workspace,
                       EvaluationTimes& times)
    : impl_(impl),
      method_(method),
      workspace_(workspace),
      times_(times),
      watch_(has_events(impl)),
      mask_(impl.mj(), impl.collider()),
      end_rows_(impl.mj(), impl.collider()) {
  set_nodes();
  if (!watch_) return;
  measure_geoms();
  method.observe(*this);
}

void StepEvents::measure_geoms() {
  const mjModel* m = impl_.mj();
  reach_.assign(static_cast<size_t>(m->nbody), 0.0);
  thickness_ = std::numeric_limits<double>::infinity();
  for (int i = 0; i < m->ngeom; i++) {
    const int body = m->geom_bodyid[i];
    if (!collides(m, i) || m->body_weldid[body] == 0) continue;
    double& reach = reach_[static_cast<size_t>(body)];
    reach = std::max(reach,
                     mju_dist3(m->geom_pos + 3 * i, m->body_ipos + 3 * body) + m->geom_rbound[i]);
    thickness_ = std::min(thickness_, half_thickness(m, i));
  }
}

void StepEvents::set_nodes() {
  const Tableau& t = tableau();
  nodes_of_ = &t;
  nodes_.assign(t.c.begin(), t.c.begin() + static_cast<ptrdiff_t>(t.nk));
  std::sort(nodes_.begin(), nodes_.end());
  nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());
}

void StepEvents::begun(const StepStart& start) {
  suppressed_ = lost_ = lost_at_end_ = false;
  speed_ = 0;
  if (nodes_of_ != &tableau()) set_nodes();
  if (knows_base_) return;
  knows_base_ = true;
  // what is active where it begins; if its rates are to be evaluated, that will tell
  if (start.qacc.empty()) {
    mask_.set_base_at_next(start.time, released_);
    return;
  }
  mjData* d = workspace_.data.get();
  mj_call("mj_fwdPosition", [&] {
    std::copy(start.qpos.begin(), start.qpos.end(), d->qpos);
    d->time = start.time;
    mj_fwdPosition(CollidingModel(impl_.mj()), d);
  });
  mask_.set_base(d, start.time, released_);
}

void StepEvents::evaluated(Workspace::Stage& at, bool last) {
  const mjData* d = workspace_.data.get();
  at.active = active_set(impl_.mj(), d);
  speed_ = std::max(speed_, fastest());
  suppressed_ = suppressed_ || !mask_.begun().empty();
  lost_ = lost_ || mask_.lost();
  if (last) end_rows_.set_base(d, 0);
}

// where the end is no stage, nothing has looked there
void StepEvents::ended() {
  if (tableau().fsal) return;
  rows_at(method_.start().time + method_.h(), method_.end());
  suppressed_ = suppressed_ || !mask_.begun().empty();
  lost_at_end_ = mask_.lost();
}

void StepEvents::follow(bool jumps) {
  released_.clear();
  knows_base_ = watch_ && tableau().fsal && !jumps;
  if (!knows_base_) return;
  std::swap(mask_, end_rows_);
  mask_.set_begin(method_.start().time + method_.h());
}

void StepEvents::release(std::span<const EventConstraint> constraints) {
  released_.assign(constraints.begin(), constraints.end());
}

bool StepEvents::is_nonsmooth() const {
  const std::vector<Workspace::Stage>& stages = workspace_.stages;
  for (size_t i = 1; i < tableau().nstage; i++) {
    if (stages[i].active != stages[0].active) return watch_;
  }
  return false;
}

// compares what is active at a state with the mask; no forces
void StepEvents::rows_at(double time, const Workspace::Stage& state) {
  Workspace::Stage& at = workspace_.between;
  if (&at != &state) {
    at.qpos = state.qpos;
    at.qvel = state.qvel;
    at.act = state.act;
  }
  const StepInput in = method_.input_at(time, at);
  mjData* d = workspace_.data.get();
  mj_call("mj_fwdVelocity", [&] {
    write_input(impl_.mj(), d, in);
    mj_fwdPosition(CollidingModel(impl_.mj()), d);
    mj_fwdVelocity(impl_.mj(), d);
  });
  mask_.find(d);
}

// a state that is none has neither lost nor gained any
const RowMask& StepEvents::rows_between(double theta) {
  if (!method_.place_between(theta, workspace_.between)) return nothing_;
  rows_at(method_.start().time + theta * method_.h(), workspace_.between);
  return mask_;
}

size_t StepEvents::suppressed_between(double theta) { return rows_between(theta).begun().size(); }

// of the evaluation just made
double StepEvents::fastest() const {
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

bool StepEvents::travels() const {
  double gap = 0;
  for (size_t i = 1; i < nodes_.size(); i++) gap = std::max(gap, nodes_[i] - nodes_[i - 1]);
  return watch_ && gap * std::abs(method_.h()) * speed_ > thickness_;
}

// no further apart than the thinnest geom is thick
void StepEvents::add_samples() {
  constexpr double kMost = 100;  // between two stages
  samples_.assign(1, 0.0);
  for (size_t i = 1; i < nodes_.size(); i++) {
    const double gap = nodes_[i] - nodes_[i - 1];
    const double n =
        std::clamp(std::ceil(gap * std::abs(method_.h()) * speed_ / thickness_), 1.0, kMost);
    for (double k = 1; k < n; k++) samples_.push_back(nodes_[i - 1] + gap * k / n);
    samples_.push_back(nodes_[i]);
  }
}

void StepEvents::look_between() {
  (void)suppressed_at_end();
  add_samples();
  suppressed_ = std::any_of(samples_.begin() + 1, samples_.end(),
                            [&](double theta) { return suppressed_between(theta) > 0; });
}

double StepEvents::find_begin() {
  constexpr double kNear = 1e-9;  // [m]
  // dense output has the end but for rounding
  const bool at_end = !suppressed_at_end().empty();
  // the first place at which something has become active
  add_samples();
  double inside = 2, outside = 0;
  for (size_t i = 1; i < samples_.size() && inside > 1; i++) {
    if (suppressed_between(samples_[i]) > 0) {
      inside = samples_[i];
    } else {
      outside = samples_[i];
    }
  }
  if (inside > 1) return at_end ? 1 : 2;
  // Newton's method from the inside, where the violation is known, and bisection
  double guess = inside;
  for (int k = 0; k < 100; k++) {
    if (suppressed_between(guess) == 0) {
      outside = std::max(outside, guess);
    } else {
      inside = guess;
      const RowMask::Row& row = earliest(mask_.begun());
      if (-row.phi <= kNear || !(row.what.rate < 0)) break;
      guess = inside - (row.since() - kNear / (2 * -row.what.rate)) / method_.h();
    }
    if (inside - outside < 1e-14) break;
    const bool newton = guess > outside && guess < inside;
    if (!newton || k % 4 == 3) guess = (inside + outside) / 2;
  }
  return inside;
}

const std::vector<RowMask::Row>& StepEvents::suppressed_at_end() {
  const size_t last = tableau().nk - 1;
  // the end is a stage of the method already, but for those that have none there
  if (tableau().nk > tableau().nstage) {
    method_.place(last);
    method_.evaluate(last, times_);
  } else {
    rows_at(method_.start().time + method_.h(), method_.stage(last));
  }
  return mask_.begun();
}

double StepEvents::find_release() {
  constexpr double kNear = 1e-9;  // [m]
  (void)suppressed_at_end();
  // the first place at which something is gone
  double inside = 0, outside = 2;
  for (size_t i = 1; i < tableau().nk; i++) {
    const double theta = tableau().c[i];
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
        guess = inside + (-row.since() - kNear / (2 * row.what.rate)) / method_.h();
      }
    }
    const bool newton = guess > inside && guess < outside;
    if (!newton || k % 4 == 3) guess = (inside + outside) / 2;
  }
  // with its forces there
  Workspace::Stage& at = workspace_.between;
  if (!method_.place_between(inside, at) ||
      !method_.evaluate(method_.start().time + inside * method_.h(), method_.stage(0).qacc, at,
                        times_)) {
    return 2;
  }
  return released(2 * kNear).empty() ? 2 : inside;
}

const RowMask::Row* StepEvents::leaving_at_end() {
  (void)suppressed_at_end();
  return mask_.lost() || mask_.leaving().empty() ? nullptr : &earliest(mask_.leaving());
}

// of the evaluation just made
const std::vector<RowMask::Row>& StepEvents::released(double distance) {
  const mjData* d = workspace_.data.get();
  leaving_.clear();
  bool carries = false;
  for (const RowMask::Row& row : mask_.leaving()) {
    if (-row.phi > distance) continue;
    leaving_.push_back(row);
    const mjtNum* force = d->efc_force + row.what.row;
    carries = carries || std::any_of(force, force + row.what.nrow, [](double f) { return f != 0; });
  }
  if (!carries) leaving_.clear();
  return leaving_;
}

const std::vector<RowMask::Row>& StepEvents::released_at_end(double distance) {
  const size_t last = tableau().nk - 1;
  leaving_.clear();
  if (!method_.place(last) || !method_.evaluate(last, times_)) return leaving_;
  return released(distance);
}

const Workspace::Stage& StepEvents::rates_at_end() { return method_.stage(tableau().nk - 1); }

double StepEvents::curvature(std::span<const RowMask::Row> rows, CVec qacc) {
  const mjData* d = workspace_.data.get();
  std::vector<double>& y = workspace_.constraint.J_lambda;
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
