#include "events/landing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diffmj {
namespace {

// how far inside a step aims to end; 64 times that is near enough [m]
constexpr double kInside = 1e-14;
constexpr double kNear = 64 * kInside;
// what begins or ends within this distance is one event [m], if it is not later than this [s]
constexpr double kTogether = 1e-11;
constexpr double kSoon = 1e-8;
// what has not come through 0 by now is a contact that a collider places elsewhere [m]
constexpr double kDeep = 1e-9;
constexpr int kMost = 60;  // steps towards an event

}  // namespace

// The shortest step towards an event [s]: 1 m/s takes it through the width of a margin. Where a
// body at rest on its margin begins to move, φ tells times apart that the clock does not.
double EventLanding::floor() const {
  return std::max(std::min(control_.min_step, kOnMargin),
                  16 * std::numeric_limits<double>::epsilon() * std::abs(start_.time));
}

// makes the step again, of this size, at least floor() and up to end
bool EventLanding::step(double size) {
  next_ = std::max(start_.time + std::max(size, floor()), std::nextafter(start_.time, end_));
  if (end_ - next_ < floor()) next_ = end_;
  return method_.step(start_, in_, next_ - start_.time, times_) && method_.finish(times_);
}

// the step just made, with nothing but itself
Landing EventLanding::here() {
  return {.time = next_, .jumps = events_.suppressed() && !events_.suppressed_at_end().empty()};
}

std::optional<Landing> EventLanding::operator()(const StepStart& start, const IntervalInput& in,
                                                double end) {
  start_ = start;
  in_ = in;
  end_ = next_ = end;
  if (!events_.suppressed() && events_.travels()) events_.look_between();
  if (!events_.suppressed() && !events_.lost()) return Landing{.time = end};
  const double whole = end - start.time, begins = events_.suppressed() ? events_.find_begin() : 2,
               ends = events_.lost() ? events_.find_release() : 2;
  if (ends < begins && ends <= 1) return release(ends * whole);
  if (begins <= 1) return begin(begins * whole);
  return here();
}

Landing EventLanding::as_given(double end) {
  next_ = end;
  return here();
}

// The step is repeated so that it ends at the event: inside by as much as rounding needs. h is
// where dense output has it.
std::optional<Landing> EventLanding::begin(double h) {
  // Newton's method between sizes that end outside and inside
  double outside = 0, inside = end_ - start_.time;
  double grow = 1e-12;  // [s] from the outside, where the violation is not known
  for (int k = 0; k < kMost; k++) {
    if (!step(h)) return {};
    const std::vector<RowMask::Row>& rows = events_.suppressed_at_end();
    const double size = next_ - start_.time;
    if (rows.empty()) {
      outside = std::max(outside, size);
      h = size + grow;
      grow *= 4;
    } else {
      inside = std::min(inside, size);
      const RowMask::Row& first = earliest(rows);
      if (-first.phi <= kNear || !(first.what.rate < 0)) break;
      h = size - (first.since() - kInside / -first.what.rate);
    }
    if (inside - outside <= floor()) {
      // next to each other
      if (size != inside && !step(inside)) return {};
      break;
    }
    if (!(h > outside && h < inside)) h = (outside + inside) / 2;
  }
  std::vector<RowMask::Row> rows = events_.suppressed_at_end();
  if (rows.empty()) return Landing{.time = next_};
  if (-earliest(rows).phi > kDeep) return Landing{.time = next_, .jumps = true};
  // what becomes active together is one event
  const double later = std::min(kTogether / std::abs(earliest(rows).what.rate), kSoon);
  h = next_ - start_.time;
  if (next_ < end_ && events_.suppressed_between(1 + later / h) > rows.size() && !step(h + later)) {
    return {};
  }
  // in any case again: what lies between has been evaluated since
  rows = events_.suppressed_at_end();
  if (rows.empty()) return Landing{.time = next_};
  const double curvature = events_.curvature(rows, events_.rates_at_end().qacc);
  return Landing{.time = next_, .rows = std::move(rows), .curvature = curvature, .jumps = true};
}

// The same where constraints cease to be active, and jump: the step ends before they do, and so do
// all its stages. What their errors leave is for the next steps, ever shorter ones, until nothing
// is left but rounding: that is the event.
std::optional<Landing> EventLanding::release(double h) {
  const double whole = end_ - start_.time;
  double inside = 0, outside = whole;
  for (int k = 0; k < kMost; k++) {
    if (!step(h)) return {};
    const double size = next_ - start_.time;
    const RowMask::Row* first = events_.lost() ? nullptr : events_.leaving_at_end();
    if (!first) {
      outside = std::min(outside, size);
      h = inside > 0 ? (inside + outside) / 2 : size / 2;
    } else {
      inside = size;
      if (-first->phi <= kNear) break;
      h = size + (-first->phi - kInside) / first->what.rate;
      // near enough: from there on by shorter steps
      if (!(h < outside) && (outside - inside) * 4 < inside) break;
    }
    if (outside - inside <= floor()) break;
    if (!(h > inside && h < outside)) h = (outside + inside) / 2;
  }
  // no step is short enough for its stages: past it, with the error that this is
  if (inside == 0) {
    if (!step(whole)) return {};
    return here();
  }
  if (next_ != start_.time + inside && !step(inside)) return {};
  const RowMask::Row* first = events_.leaving_at_end();
  if (first && -first->phi <= kNear) {
    std::vector<RowMask::Row> rows = events_.released_at_end(kTogether);
    if (!rows.empty()) {
      const double curvature = events_.curvature(rows, events_.rates_at_end().qacc);
      return Landing{.time = next_,
                     .rows = std::move(rows),
                     .release = true,
                     .curvature = curvature,
                     .jumps = true};
    }
  }
  return here();
}

}  // namespace diffmj
