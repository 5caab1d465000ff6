// What every kind of rollout does with its Trajectory while it runs.
#ifndef DIFFMJ_RECORD_RECORDER_H_
#define DIFFMJ_RECORD_RECORDER_H_

#include <mujoco/mujoco.h>

#include <array>

#include "diffmj/rollout.h"
#include "mj/view.h"
#include "record/tape.h"
#include "stages/position/tendon.h"

namespace diffmj {

// Sizes, inputs and nstep rows; MemoryError if they do not fit.
void allocate_rows(const Model& model, const RolloutInput& input, int nstep,
                   const TendonRecordSize& tendons, Trajectory& trajectory, Tape& tape);
void resize_rows(int nstep, const TendonRecordSize& tendons, Trajectory& trajectory, Tape& tape);

// State number i.
void record_state(double time, const double* qpos, const double* qvel, const double* act, int i,
                  Trajectory& trajectory);

// A number that is not finite, or larger than MuJoCo allows.
struct BadState {
  const char* what = nullptr;  // qpos, qvel, act or qacc; null: there is none
  int index = -1;
};
BadState find_bad_state(const Trajectory& sizes, const double* qpos, const double* qvel,
                        const double* act);
// Ends the trajectory with kNotFinite.
void fail_not_finite(const Model& model, const BadState& bad, int step, double time,
                     const std::string& remedy, Trajectory& trajectory);

// MuJoCo counts its own kinds of warnings in mjData and prints only the first of each; other
// warnings are messages. Both become data.
class WarningCollector {
 public:
  WarningCollector();
  // Those that are new since the last look.
  void look(const mjData* d, int step, std::vector<Warning>& warnings);

 private:
  std::array<int, mjNWARNING> seen_ = {};
};

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_RECORDER_H_
