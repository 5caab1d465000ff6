// Keeps what the four evaluations of mj_step with RK4 found (stages/stage_records.h).
#ifndef DIFFMJ_INTEGRATE_RK4_RECORDER_H_
#define DIFFMJ_INTEGRATE_RK4_RECORDER_H_

#include <mujoco/mujoco.h>

#include "mj/evaluation_hook.h"
#include "stages/position/tendon.h"
#include "stages/stage_model.h"
#include "stages/stage_records.h"

namespace diffmj {

// Steps of this model can be recorded.
bool rk4_is_recordable(const StageModel& impl);

// Exists while steps are made on its thread.
class Rk4Recorder {
 public:
  // Adds to records, which are empty. nstep: how many steps are expected; most: bytes of contacts
  Rk4Recorder(const mjModel* m, int nstep, size_t most, StageRecords& records);

  // Around each call of mj_step that is to be recorded. If not all four evaluations were seen, or
  // there is no memory for them, records is empty from then on.
  void begin() { seen_ = 0; }
  void end(const mjData* d);
  // Drops what is not of the first nstep steps.
  void finish(int nstep);

 private:
  static void look(void* self, const mjData* d);
  void look(const mjData* d);
  void add_rates(const mjData* d, const mjtNum* qacc);  // of the evaluation before
  void give_up();

  const mjModel* m_;
  const TendonRecordSize tendons_;
  const size_t most_;
  StageRecords& records_;
  size_t seen_ = 0;
  size_t expected_;  // rows
  bool given_up_ = false;
  EvaluationHook hook_;
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_RK4_RECORDER_H_
