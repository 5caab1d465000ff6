// What looks at the stages of a step while it is made, and may end it before the last one.
#ifndef DIFFMJ_INTEGRATE_STAGE_WATCH_H_
#define DIFFMJ_INTEGRATE_STAGE_WATCH_H_

#include <cstddef>

namespace diffmj {

class StageWatch {
 public:
  // Stage i was evaluated, which the workspace's mjData holds. False: the step will be rejected
  // whatever the others are.
  virtual bool goes_on(size_t i) = 0;

 protected:
  ~StageWatch() = default;
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_STAGE_WATCH_H_
