// Events of a rollout by adaptive steps: how they are named, which of them have a term in the
// gradient, and what they warn of.
#ifndef DIFFMJ_EVENTS_DESCRIBE_H_
#define DIFFMJ_EVENTS_DESCRIBE_H_

#include <string>
#include <vector>

#include "diffmj/rollout.h"
#include "events/event_record.h"
#include "events/landing.h"

namespace diffmj {

// "contact of geom 'ball' and geom 'floor'", "limit of joint 'elbow'".
std::string constraint_name(const Model& model, const EventConstraint& constraint);

// An event that ends a step of an interval, but for the state and the rates on its other side; and
// those.
EventRecord make_event(const Model& model, const Landing& landing, int interval, int step,
                       CVec qacc_before);
void add_other_side(const StepStart& after, EventRecord& record);

// Of the events of a whole rollout, in the order of time: one warning for all that graze, and one
// for each constraint that chatters, the worst one first.
std::vector<Warning> event_warnings(const Model& model, const std::vector<EventRecord>& events);

}  // namespace diffmj

#endif  // DIFFMJ_EVENTS_DESCRIBE_H_
