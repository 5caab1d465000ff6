// What the backward pass reads of the events of a rollout.
#ifndef DIFFMJ_EVENTS_EVENT_RECORD_H_
#define DIFFMJ_EVENTS_EVENT_RECORD_H_

#include <vector>

#include "diffmj/rollout.h"
#include "events/row_mask.h"

namespace diffmj {

// An event, the state there and the rates on both of its sides.
struct EventRecord {
  Event event;
  std::vector<EventConstraint> constraints;     // event.count
  std::vector<double> qpos, qvel, act;          // nq, nv, na
  std::vector<double> qacc_before, qacc_after;  // nv
};

// A step within which constraints were suppressed, or that begins where some were released.
struct SuppressedStep {
  int step = 0;
  RowBase base;         // what was active where it began
  bool at_end = false;  // some are suppressed there: the rates there are not those of the next step
};

}  // namespace diffmj

#endif  // DIFFMJ_EVENTS_EVENT_RECORD_H_
