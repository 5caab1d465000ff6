#include "record/trajectory.h"

#include <algorithm>

#include "integrate/rk4_recorder.h"
#include "record/tape.h"
#include "setup/model_impl.h"
#include "stages/position/tendon.h"

namespace diffmj {
namespace {

constexpr double kMostKept = 256e6;  // bytes, of tendons and of contacts each

// Evaluations of a step that may be kept.
size_t nevaluation(const Model& model) {
  if (model.mj()->opt.integrator != mjINT_RK4) return model.impl().differentiation.of_stages;
  return rk4_is_recordable(model.impl()) ? kRk4Evaluations : 0;
}

double tendon_bytes(const Model& model, int nstep) {
  const TendonRecordSize row(model.mj());
  return static_cast<double>(nstep) * static_cast<double>(nevaluation(model)) *
         static_cast<double>(row.numbers * sizeof(double) + row.objects * sizeof(int));
}

// accelerations and rates of activations
double rk4_rate_bytes(const Model& model, int nstep) {
  return static_cast<double>(nstep) * static_cast<double>(kRk4Evaluations * sizeof(double)) *
         (model.nv() + model.na());
}

}  // namespace

StepInput step_input(const Trajectory& t, int i) {
  const Tape& tape = *t.tape;
  const auto kept = [&](const auto& x) {
    const size_t width = t.nstep > 0 ? x.size() / static_cast<size_t>(t.nstep) : 0;
    return std::span(x).subspan(static_cast<size_t>(i) * width, width);
  };
  StepInput in{
      .time = t.time[static_cast<size_t>(i)],
      .qpos = row(t.qpos, i, t.nq),
      .qvel = row(t.qvel, i, t.nv),
      .act = row(t.act, i, t.na),
      .qacc_warmstart = row(tape.qacc_warmstart, i, t.nv),
      .ctrl = input_row(t.ctrl, i, t.nu),
      .qfrc_applied = input_row(t.qfrc_applied, i, t.nv),
      .xfrc_applied = input_row(t.xfrc_applied, i, 6 * t.nbody),
      .qvel_next = row(t.qvel, i + 1, t.nv),
      .nefc = t.steps[static_cast<size_t>(i)].nefc,
      .tendon_numbers = kept(tape.tendon_numbers),
      .tendon_objects = kept(tape.tendon_objects),
  };
  if (!tape.contact_begin.empty()) {
    const size_t *begin = &tape.contact_begin[static_cast<size_t>(i)], end = begin[1];
    in.knows_contacts = true;
    in.contacts = std::span(tape.contacts).subspan(*begin, end - *begin);
  }
  if (!tape.rk4.empty()) in.rk4 = {&tape.rk4, kRk4Evaluations * static_cast<size_t>(i)};
  return in;
}

double trajectory_bytes(const Model& model, int nstep, size_t nrollout) {
  const double row = 1 + model.nq() + 3 * model.nv() + model.na() + model.nu();
  const double one =
      (static_cast<double>(nstep) + 1) * (row * sizeof(double) + sizeof(StepRecord)) +
      (keeps_tendons(model, nstep, nrollout) ? tendon_bytes(model, nstep) : 0) +
      (keeps_rk4(model, nstep, nrollout) ? rk4_rate_bytes(model, nstep) : 0);
  return one * static_cast<double>(nrollout);
}

bool keeps_tendons(const Model& model, int nstep, size_t nrollout) {
  return model.mj()->nwrap > 0 && nevaluation(model) > 0 &&
         tendon_bytes(model, nstep) * static_cast<double>(nrollout) <= kMostKept;
}

size_t contact_bytes(const Model& model, size_t nrollout) {
  const bool finds_any = !(model.mj()->opt.disableflags & (mjDSBL_CONSTRAINT | mjDSBL_CONTACT));
  return finds_any && nevaluation(model) > 0
             ? static_cast<size_t>(kMostKept) / std::max<size_t>(nrollout, 1)
             : 0;
}

bool keeps_rk4(const Model& model, int nstep, size_t nrollout) {
  if (!rk4_is_recordable(model.impl())) return false;
  if (model.mj()->nwrap > 0 && !keeps_tendons(model, nstep, nrollout)) return false;
  return rk4_rate_bytes(model, nstep) * static_cast<double>(nrollout) <= kMostKept;
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
    case Outcome::kBudgetExhausted:
      return "budget exhausted";
    case Outcome::kStepTooSmall:
      return "step too small";
  }
  return "?";
}

const char* warning_kind_name(WarningKind kind) {
  switch (kind) {
    case WarningKind::kMujoco:
      return "mujoco";
    case WarningKind::kSolver:
      return "solver";
    case WarningKind::kGrazing:
      return "grazing";
    case WarningKind::kChatter:
      return "chatter";
    case WarningKind::kJump:
      return "jump";
    case WarningKind::kStiff:
      return "stiff";
  }
  return "?";
}

}  // namespace diffmj
