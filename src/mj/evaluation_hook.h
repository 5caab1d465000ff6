// A look at every evaluation of the dynamics within MuJoCo's calls of one thread.
//
// mj_step with RK4 evaluates the dynamics four times and leaves the last evaluation. MuJoCo's
// control callback is called in the middle of each: positions and velocities are evaluated,
// contacts and constraint rows are there, while forces and accelerations are still those of the
// evaluation before. The callback belongs to the whole process, so that it is set only while some
// thread looks, and does nothing on other threads. It is never called if actuation is disabled.
#ifndef DIFFMJ_MJ_EVALUATION_HOOK_H_
#define DIFFMJ_MJ_EVALUATION_HOOK_H_

#include <mujoco/mujoco.h>

namespace diffmj {

// look(self, d) is called on this thread until destroyed; must not throw, for C frames are below
// it. Does not nest. If the process has a control callback of its own, look is never called.
class EvaluationHook {
 public:
  using Look = void (*)(void* self, const mjData* d);
  EvaluationHook(Look look, void* self);
  ~EvaluationHook();
  EvaluationHook(const EvaluationHook&) = delete;
  EvaluationHook& operator=(const EvaluationHook&) = delete;
};

// The process has a control callback that is not ours.
bool has_foreign_control_callback();

}  // namespace diffmj

#endif  // DIFFMJ_MJ_EVALUATION_HOOK_H_
