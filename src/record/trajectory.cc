#include "record/trajectory.h"

namespace diffmj {

StepInput step_input(const Trajectory& t, int i) {
  return {
      .time = t.time[static_cast<size_t>(i)],
      .qpos = row(t.qpos, i, t.nq),
      .qvel = row(t.qvel, i, t.nv),
      .act = row(t.act, i, t.na),
      .qacc_warmstart = row(t.qacc_warmstart, i, t.nv),
      .ctrl = input_row(t.ctrl, i, t.nu),
      .qfrc_applied = input_row(t.qfrc_applied, i, t.nv),
      .xfrc_applied = input_row(t.xfrc_applied, i, 6 * t.nbody),
      .qvel_next = row(t.qvel, i + 1, t.nv),
      .nefc = t.steps[static_cast<size_t>(i)].nefc,
  };
}

double trajectory_bytes(const Model& model, int nstep) {
  const double row = 1 + model.nq() + 3 * model.nv() + model.na() + model.nu();
  return (static_cast<double>(nstep) + 1) * (row * sizeof(double) + sizeof(StepRecord));
}

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSuccess:
      return "success";
    case Outcome::kNotFinite:
      return "not finite";
    case Outcome::kMujocoError:
      return "MuJoCo error";
    case Outcome::kInterrupted:
      return "interrupted";
  }
  return "?";
}

}  // namespace diffmj
