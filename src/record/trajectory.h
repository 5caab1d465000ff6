// What the backward sweep reads of a Trajectory.
#ifndef DIFFMJ_RECORD_TRAJECTORY_H_
#define DIFFMJ_RECORD_TRAJECTORY_H_

#include "diffmj/rollout.h"
#include "mj/view.h"
#include "stages/step_input.h"

namespace diffmj {

// Row i of an array with rows of this width.
inline CVec row(const std::vector<double>& x, int i, int width) {
  return CVec(x).subspan(static_cast<size_t>(i) * static_cast<size_t>(width),
                         static_cast<size_t>(width));
}

// Input row i: its own, the one that is held, or nothing.
inline CVec input_row(CVec x, int i, int width) {
  if (x.empty()) return {};
  const auto n = static_cast<size_t>(width);
  return x.size() == n ? x : x.subspan(static_cast<size_t>(i) * n, n);
}

// What step i started from.
StepInput step_input(const Trajectory& trajectory, int i);

// Whether the paths of tendons are part of records of nstep steps each.
bool keeps_tendons(const Model& model, int nstep, size_t nrollout);

// How many bytes of contacts the record of each rollout may keep.
size_t contact_bytes(const Model& model, size_t nrollout);

// Whether what the evaluations of RK4 find is part of records of nstep steps each.
bool keeps_rk4(const Model& model, int nstep, size_t nrollout);

// Bytes the records of that many rollouts take, but for contacts, whose number is not known before.
double trajectory_bytes(const Model& model, int nstep, size_t nrollout = 1);

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_TRAJECTORY_H_
