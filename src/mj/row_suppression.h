// A hook in the evaluation of the dynamics: constraint rows that are there but must not act.
#ifndef DIFFMJ_MJ_ROW_SUPPRESSION_H_
#define DIFFMJ_MJ_ROW_SUPPRESSION_H_

#include <mujoco/mujoco.h>

namespace diffmj {

class RowSuppression {
 public:
  // Takes the force of such rows away. d holds the rows and their references; the constraint solver
  // comes next. contacts: those, too; else limits alone.
  virtual void suppress(mjData* d, bool contacts) = 0;

 protected:
  ~RowSuppression() = default;
};

}  // namespace diffmj

#endif  // DIFFMJ_MJ_ROW_SUPPRESSION_H_
