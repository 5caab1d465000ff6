// What follows the steps of an explicit Runge-Kutta method, and may suppress constraints in them.
#ifndef DIFFMJ_INTEGRATE_STEP_OBSERVER_H_
#define DIFFMJ_INTEGRATE_STEP_OBSERVER_H_

#include "mj/row_suppression.h"
#include "stages/workspace.h"

namespace diffmj {

struct StepStart;  // integrate/runge_kutta.h

class StepObserver : public RowSuppression {
 public:
  // A step begins.
  virtual void begun(const StepStart& start) = 0;
  // An evaluation was made, which the workspace's mjData holds; at is the stage it belongs to, or
  // another state within the step. last: it is the method's last stage.
  virtual void evaluated(Workspace::Stage& at, bool last) = 0;
  // The step was made, but for a last stage that could wait.
  virtual void ended() = 0;

 protected:
  ~StepObserver() = default;
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_STEP_OBSERVER_H_
