// Events of a rollout by adaptive steps: how they are named, which of them have a term in the
// gradient, and what they warn of.
#ifndef DIFFMJ_RECORD_EVENTS_H_
#define DIFFMJ_RECORD_EVENTS_H_

#include <string>
#include <vector>

#include "diffmj/rollout.h"
#include "record/landing.h"

namespace diffmj {

// "contact of geom 'ball' and geom 'floor'", "limit of joint 'elbow'".
std::string constraint_name(const Model& model, const EventConstraint& constraint);

// An event that ends a step, but for the state and the rates on its other side.
SolverEvent make_event(const Model& model, const Landing& landing, CVec qacc_before);

// Of the events of a whole rollout, in the order of time: one warning for all that graze, and one
// for each constraint that chatters, the worst one first.
std::vector<Warning> event_warnings(const Model& model, const std::vector<SolverEvent>& events);

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_EVENTS_H_
