#include "events/onset_landing.h"

#include <algorithm>
#include <cmath>

namespace diffmj {
namespace {

// A gap between stages in which a constraint may begin and show at all stages after it.
constexpr double kGap = 0.4;
// So many times the tolerance: the error of a jump is a guess.
constexpr double kHopeless = 5;
// Of the width in time: the first step within it.
constexpr double kShare = 0.3;
// What began earlier than this share of a step is where the step begins, but for rounding.
constexpr double kAtStart = 0.01;
// A little before the begin: bodies that fall approach more slowly earlier on.
constexpr double kBefore = 0.99;

bool sets_in(int type) {
  return type == mjCNSTR_LIMIT_JOINT || type == mjCNSTR_LIMIT_TENDON ||
         type == mjCNSTR_CONTACT_FRICTIONLESS || type == mjCNSTR_CONTACT_PYRAMIDAL ||
         type == mjCNSTR_CONTACT_ELLIPTIC;
}

int row_count(const mjData* d, int i) {
  const int type = d->efc_type[i];
  if (type != mjCNSTR_CONTACT_PYRAMIDAL && type != mjCNSTR_CONTACT_ELLIPTIC) return 1;
  const int dim = d->contact[d->efc_id[i]].dim;
  return type == mjCNSTR_CONTACT_ELLIPTIC ? dim : 2 * (dim - 1);
}

}  // namespace

std::optional<OnsetBegin> find_onset_begin(const mjData* d, double elapsed) {
  std::optional<OnsetBegin> first;
  for (int i = 0, n = 1; i < d->nefc; i += n) {
    n = 1;
    if (!sets_in(d->efc_type[i])) continue;
    n = row_count(d, i);
    // two edges of the pyramid have the normal for their mean
    const bool edges = d->efc_type[i] == mjCNSTR_CONTACT_PYRAMIDAL;
    const double phi = d->efc_pos[i] - d->efc_margin[i],
                 rate = edges ? (d->efc_vel[i] + d->efc_vel[i + 1]) / 2 : d->efc_vel[i];
    if (!(phi < 0 && rate < 0) || phi / rate >= elapsed) continue;
    if (!first || phi / rate > first->ago) first = OnsetBegin{phi / rate, -rate};
  }
  return first;
}

OnsetLanding::OnsetLanding(const StepModel& impl, RungeKutta& method,
                           const StepController& controller, const Workspace& workspace)
    : method_(method),
      controller_(controller),
      workspace_(workspace),
      width_(impl.options.adaptive.onset),
      jump_(static_cast<size_t>(impl.nv)) {
  if (width_ > 0) method.watch(*this);
}

void OnsetLanding::begin() {
  begin_.reset();
  error_.reset();
}

bool OnsetLanding::goes_on(size_t i) {
  const Tableau& t = method_.tableau();
  const double h = method_.h(), elapsed = t.c[i] * h;
  if (i == 0 || elapsed <= 0) return true;
  const std::optional<OnsetBegin> found =
      find_onset_begin(workspace_.data.get(), (1 - kAtStart) * elapsed);
  if (!found) return true;
  const double at = elapsed - found->ago;
  if (!begin_ || at < *begin_) {
    begin_ = at;
    speed_ = found->speed;
  }
  if (t.implicit() || i < 2 || t.c[i] - t.c[i - 1] < kGap) return true;
  const double error = jump_error(i);
  if (!(error > kHopeless)) return true;
  error_ = error;
  return false;
}

// docs/derivations/adaptive.md, eq. 15
double OnsetLanding::jump_error(size_t i) {
  const Tableau& t = method_.tableau();
  double weight = 0;
  for (size_t j = 0; j < i; j++) weight += t.error[j];
  const CVec now = method_.stage(i).qacc, before = method_.stage(i - 1).qacc,
             first = method_.stage(0).qacc;
  const double s = t.c[i] / t.c[i - 1];
  for (size_t k = 0; k < jump_.size(); k++) {
    jump_[k] = method_.h() * weight * (now[k] - before[k] - (s - 1) * (before[k] - first[k]));
  }
  ErrorNorm norm = controller_.error_norm();
  norm.add(jump_, method_.start().qvel, method_.stage(i).qvel);
  return norm.value();
}

void OnsetLanding::rejected(double h, StepControllerState& state) {
  lands_ = begin_ && *begin_<h&& * begin_> state.h;
  if (!lands_) return;
  state.h = kBefore * *begin_;
  state.is_target = true;
  landing_speed_ = speed_;
}

void OnsetLanding::accepted(StepControllerState& state) {
  if (lands_) state.h = std::min(state.h, kShare * width_ / landing_speed_);
  lands_ = false;
}

}  // namespace diffmj
