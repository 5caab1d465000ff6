// What one evaluation of the dynamics, or one step, reads; and how it is put into mjData.
#ifndef DIFFMJ_STAGES_STEP_INPUT_H_
#define DIFFMJ_STAGES_STEP_INPUT_H_

#include <mujoco/mujoco.h>

#include <span>

#include "mj/row_suppression.h"
#include "mj/view.h"
#include "stages/stage_records.h"

namespace diffmj {

struct StepInput {
  double time = 0;                        // [s]
  CVec qpos, qvel, act;                   // nq, nv, na
  CVec qacc_warmstart;                    // nv; empty: 0
  CVec ctrl, qfrc_applied, xfrc_applied;  // nu, nv, 6 nbody; empty: 0
  // What the step led to, for its pullback.
  CVec qvel_next = {};  // nv
  int nefc = -1;        // rows of constraints; -1: not known
  // What mj_tendon found at the start (stages/position/tendon.h); empty: it is run again.
  CVec tendon_numbers = {};
  std::span<const int> tendon_objects = {};
  // What mj_collision found (stages/position/collision.h), if that is known; else it is run again.
  bool knows_contacts = false;
  std::span<const unsigned char> contacts = {};
  // What the evaluations of a step of RK4 found, if that is known.
  StepStages rk4 = {};
  // Constraints that must not act; null: all do.
  RowSuppression* suppression = nullptr;
};

inline void copy_or_zero(CVec from, mjtNum* to, int size) {
  if (from.empty()) {
    mju_zero(to, size);
  } else {
    mju_copy(to, from.data(), size);
  }
}

// Inside mj_call. Mocap poses stay as they are in d.
inline void write_input(const mjModel* m, mjData* d, const StepInput& in) {
  d->time = in.time;
  copy_or_zero(in.qpos, d->qpos, static_cast<int>(m->nq));
  copy_or_zero(in.qvel, d->qvel, static_cast<int>(m->nv));
  copy_or_zero(in.act, d->act, static_cast<int>(m->na));
  copy_or_zero(in.qacc_warmstart, d->qacc_warmstart, static_cast<int>(m->nv));
  copy_or_zero(in.ctrl, d->ctrl, static_cast<int>(m->nu));
  copy_or_zero(in.qfrc_applied, d->qfrc_applied, static_cast<int>(m->nv));
  copy_or_zero(in.xfrc_applied, d->xfrc_applied, 6 * static_cast<int>(m->nbody));
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_STEP_INPUT_H_
