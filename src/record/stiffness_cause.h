// What makes a motion stiff: the element that does most work along the fastest mode.
#ifndef DIFFMJ_RECORD_STIFFNESS_CAUSE_H_
#define DIFFMJ_RECORD_STIFFNESS_CAUSE_H_

#include <complex>
#include <string>
#include <vector>

#include "diffmj/model.h"
#include "mj/view.h"
#include "stages/workspace.h"

namespace diffmj {

// A state, and the mode whose eigenvalue limits steps there.
struct StiffMode {
  int interval = -1;  // -1: there is none
  double time = 0;
  std::vector<double> qpos, qvel, act, ctrl, qacc;  // nq, nv, na, nu, nv
  CVec qfrc_applied, xfrc_applied;
  std::vector<double> direction;  // 2 nv + na
  std::complex<double> eigenvalue;
  double limit = 0;  // [s]
};

struct StiffCause {
  std::string what, remedy;
};

// Uses the workspace's mjData.
StiffCause find_cause(const Model& model, const StiffMode& mode, Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_STIFFNESS_CAUSE_H_
