// What contacts from distance keep in a workspace.
#ifndef DIFFMJ_STAGES_CFD_SCRATCH_H_
#define DIFFMJ_STAGES_CFD_SCRATCH_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "diffmj/cfd.h"

namespace diffmj {

class CfdModel;  // stages/cfd/pairs.h

// Scratch of the search at one state.
struct CfdScratch {
  struct Candidate {
    double distance;  // [m] at least, beyond the margin
    int pair;
    bool capsules;  // by capsules, not spheres
  };
  struct Found {
    double r;  // [m] beyond the margin
    int pair, order;
    mjPreContact contact;
  };
  const CfdModel* model = nullptr;  // of the search
  std::vector<Candidate> candidates;
  std::vector<Found> touching, near;
  std::vector<int> law;  // of each contact in the data
  CfdCounts counts;
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_CFD_SCRATCH_H_
