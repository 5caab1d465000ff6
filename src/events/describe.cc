#include "events/describe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.h"
#include "mj/constraint_type.h"

namespace diffmj {
namespace {

// an event whose violation has a smaller rate is called grazing [m/s or rad/s]
constexpr double kGrazingRate = 1e-3;
// From so little a distance a body at rest would have reached the rate at which it crosses its
// margin: ten times what landing on the margin and rounding are worth [m or rad]. And a rate that
// is none [m/s or rad/s].
constexpr double kAtRest = 1e-11;
constexpr double kNoRate = 1e-9;
// a constraint chatters if it begins or ends more often than this within this time [s]
constexpr double kWindow = 0.1;
constexpr size_t kOften = 10;
// a change of accelerations that is none, relative to their size
constexpr double kNoJump = 1e-9;

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

// forces change there
bool matters(const EventRecord& record) {
  return record.event.jump > kNoJump * std::max(norm(record.qacc_before), norm(record.qacc_after));
}

void add_grazing(const std::vector<EventRecord>& events, std::vector<Warning>& warnings) {
  const Event* first = nullptr;
  int count = 0, at_rest = 0;
  for (const EventRecord& record : events) {
    const Event& event = record.event;
    if (!event.grazing || !matters(record)) continue;
    if (!first) first = &event;
    count++;
    at_rest += event.at_rest ? 1 : 0;
  }
  if (!first) return;
  const bool one = count == 1;
  std::string text = "grazing: " + first->what + " at " + number(first->time) + " s" +
                     (one ? " has" : " and " + std::to_string(count - 1) + " later events have") +
                     " a speed below " + number(kGrazingRate) +
                     " m/s, so that a small change of the motion may miss " + (one ? "it" : "them");
  if (at_rest < count) {
    text +=
        "; the gradient there has the errors of the tolerance, amplified by the jump of the "
        "accelerations over that speed";
  }
  if (at_rest > 0) {
    text += at_rest == count ? "; " : "; at " + std::to_string(at_rest) + " of them ";
    text +=
        "the motion starts from rest on the margin and has no derivative: the gradient is the "
        "one-sided one, without a term for the event";
  }
  warnings.push_back(
      {.text = text, .first_step = first->interval, .count = count, .kind = WarningKind::kGrazing});
}

// the elements that a constraint is about: the contacts of two geoms are not told apart
using Elements = std::array<int, 5>;
Elements elements_of(const EventConstraint& c) {
  if (!is_contact(c.type)) return {c.type, c.id, -1, -1, -1};
  return {mjCNSTR_CONTACT_FRICTIONLESS, c.geom[0], c.geom[1], c.flex[0], c.flex[1]};
}

// the events of one of them
struct Chatter {
  const EventConstraint* what = nullptr;
  std::vector<const Event*> events = {};
  size_t most = 0, begin = 0;  // events within the window that has most of them, and its first

  void find_window() {
    for (size_t i = 0, k = 0; i < events.size(); i++) {
      while (events[i]->time - events[k]->time > kWindow) k++;
      if (i + 1 - k <= most) continue;
      most = i + 1 - k;
      begin = k;
    }
  }
};

void add_chatter(const Model& model, const std::vector<EventRecord>& events,
                 std::vector<Warning>& warnings) {
  std::map<Elements, Chatter> all;
  for (const EventRecord& record : events) {
    const Event& event = record.event;
    if (!matters(record)) continue;
    for (const EventConstraint& constraint : record.constraints) {
      Chatter& chatter = all[elements_of(constraint)];
      if (!chatter.what) chatter.what = &constraint;
      if (chatter.events.empty() || chatter.events.back() != &event) {
        chatter.events.push_back(&event);
      }
    }
  }
  const Chatter* worst = nullptr;
  int others = -1;
  size_t count = 0;
  for (auto& [elements, chatter] : all) {
    chatter.find_window();
    if (chatter.most <= kOften) continue;
    others++;
    count += chatter.events.size();
    if (!worst || chatter.most > worst->most) worst = &chatter;
  }
  if (!worst) return;
  const Event& first = *worst->events[worst->begin];
  warnings.push_back(
      {.text = "chatter: " + constraint_name(model, *worst->what) + " begins or ends " +
               std::to_string(worst->most) + " times within " + number(kWindow) + " s (" +
               text("%.0f", static_cast<double>(worst->most) / kWindow) +
               " events per second) from " + text("%.4g", first.time) + " s on" +
               (others > 0 ? ", and so do " + std::to_string(others) + " others" : "") +
               "; each event amplifies small changes, so that the gradient may be wrong by orders "
               "of magnitude: let contacts set in over a width (onset=1e-4, with "
               "integrator=\"auto\"), use MuJoCo's own steps (integrator=\"model\"), let the force "
               "begin softly (solimp with d0 near 0), or compare it at two tolerances",
       .first_step = first.interval,
       .count = static_cast<int>(count),
       .kind = WarningKind::kChatter});
}

}  // namespace

std::string constraint_name(const Model& model, const EventConstraint& constraint) {
  if (constraint.type == mjCNSTR_LIMIT_JOINT) {
    return "limit of " + model.element_name(mjOBJ_JOINT, constraint.id);
  }
  if (constraint.type == mjCNSTR_LIMIT_TENDON) {
    return "limit of " + model.element_name(mjOBJ_TENDON, constraint.id);
  }
  const auto side = [&](int k) {
    return constraint.geom[k] >= 0 ? model.element_name(mjOBJ_GEOM, constraint.geom[k])
                                   : model.element_name(mjOBJ_FLEX, constraint.flex[k]);
  };
  return "contact of " + side(0) + " and " + side(1);
}

EventRecord make_event(const Model& model, const Landing& landing, int interval, int step,
                       CVec qacc_before) {
  EventRecord record;
  Event& event = record.event;
  event.time = landing.time;
  event.interval = interval;
  event.step = step;
  event.release = landing.release;
  event.count = static_cast<int>(landing.rows.size());
  for (const RowMask::Row& row : landing.rows) {
    record.constraints.push_back(row.what);
    event.rate += row.what.rate / static_cast<double>(landing.rows.size());
  }
  event.what = (event.release ? "end of " : "") + constraint_name(model, record.constraints[0]);
  const double speed = std::abs(event.rate);
  event.at_rest = speed < kNoRate || speed * speed < 2 * std::abs(landing.curvature) * kAtRest;
  event.grazing = event.at_rest || speed < kGrazingRate;
  record.qacc_before.assign(qacc_before.begin(), qacc_before.end());
  return record;
}

void add_other_side(const StepStart& after, EventRecord& record) {
  const auto keep = [](CVec from, std::vector<double>& to) { to.assign(from.begin(), from.end()); };
  keep(after.qpos, record.qpos);
  keep(after.qvel, record.qvel);
  keep(after.act, record.act);
  keep(after.qacc, record.qacc_after);
  double& jump = record.event.jump;
  for (size_t k = 0; k < record.qacc_after.size(); k++) {
    jump += std::pow(record.qacc_after[k] - record.qacc_before[k], 2);
  }
  jump = std::sqrt(jump);
}

std::vector<Warning> event_warnings(const Model& model, const std::vector<EventRecord>& events) {
  std::vector<Warning> out;
  add_chatter(model, events, out);
  add_grazing(events, out);
  return out;
}

}  // namespace diffmj
