#include "record/mujoco_rollout.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "integrate/rk4_recorder.h"
#include "integrate/step.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "record/input.h"
#include "record/recorder.h"
#include "record/sensordata.h"
#include "record/solver_limit.h"
#include "record/trajectory.h"
#include "setup/workspace_lease.h"
#include "stages/acceleration/noslip.h"
#include "stages/differentiation.h"
#include "stages/position/collision.h"
#include "stages/position/tendon.h"
#include "stages/surrogate_field.h"

namespace diffmj {
namespace {

// A bad state found by MuJoCo's own checks in the step just made, or left behind by it: mj_step
// checks qpos and qvel when it begins, the last state of a rollout needs the same check.
BadState find_bad_step(const Trajectory& sizes, const mjData* d) {
  for (const auto& [warning, what] :
       {std::pair{mjWARN_BADQPOS, "qpos"}, {mjWARN_BADQVEL, "qvel"}, {mjWARN_BADQACC, "qacc"}}) {
    if (d->warning[warning].number > 0) return {what, d->warning[warning].lastinfo};
  }
  return find_bad_state(sizes, d->qpos, d->qvel, d->act);
}

// Contacts of the step just made, one of nstep, or none of any step as soon as they do not fit.
void record_contacts(const mjData* d, int nstep, size_t most, Tape& tape) {
  if (tape.contact_begin.empty()) return;
  try {
    const bool first = tape.contacts.empty();
    keep_contacts(d, tape.contacts);
    if (first) {
      // as many in every step to come
      const size_t left = static_cast<size_t>(nstep) + 1 - tape.contact_begin.size();
      tape.contacts.reserve(std::min(most, left * tape.contacts.size()));
    }
    tape.contact_begin.push_back(tape.contacts.size());
    if (tape.contacts.size() <= most) return;
  } catch (const std::bad_alloc&) {
    // the backward pass finds them again
  }
  tape.contacts = {};
  tape.contact_begin = {};
}

void set(CVec from, mjtNum* to) { std::copy(from.begin(), from.end(), to); }

class MujocoRollout {
 public:
  MujocoRollout(const Model& model, const RolloutInput& input, int nstep, const KeptStages& kept,
                bool sensors, const PoseReader* poses, Trajectory t, const ControlLaw& law)
      : model_(model),
        law_(law),
        kept_(kept),
        sensors_(sensors),
        poses_(poses),
        sensing_(*model.mj()),
        tendons_(model.mj()),
        workspace_(model.impl()),
        d_(workspace_->data.get()),
        judges_solver_(kept.any && model.impl().differentiation.of_field &&
                       !has_noslip(model.mj()) && !cfd_forward(model.impl())),
        t_(std::move(t)),
        tape_(take_tape(t_)) {
    t_.tape = tape_;
    if (sensors) sensing_.opt.disableflags &= ~mjDSBL_SENSOR;
    if (!kept.tendons) tendons_.numbers = tendons_.objects = 0;
    allocate_rows(model, input, nstep, tendons_, t_, *tape_);
    reset_data(model, t_.mocap_pos, t_.mocap_quat, *workspace_);
    d_->time = input.time;
    set(input.qpos, d_->qpos);
    set(input.qvel, d_->qvel);
    set(input.act, d_->act);
    set(input.qacc_warmstart, d_->qacc_warmstart);
    record_state(d_->time, d_->qpos, d_->qvel, d_->act, 0, t_);
    if (kept.rk4) {
      rk4_.emplace(model.mj(), nstep, kept.contacts, tape_->rk4);
    } else if (kept.contacts > 0) {
      tape_->contact_begin.assign(1, 0);
    }
  }

  Trajectory run(int nstep, StopSignal& stop) {
    int done = 0;
    for (; done < nstep; done++) {
      if (stop.poll(static_cast<double>(done) / nstep)) {
        t_.outcome = Outcome::kInterrupted;
        t_.message = "interrupted at step " + std::to_string(done) + " of " + std::to_string(nstep);
        break;
      }
      if (!step(done)) break;
      record(done);
    }
    finish(done);
    return std::move(t_);
  }

 private:
  // false if it fails, which the trajectory says then
  bool step(int i) {
    const double time = d_->time;
    if (law_) {
      const auto nu = static_cast<size_t>(t_.nu);
      law_({.step = i,
            .qpos = row(t_.qpos, i, t_.nq),
            .qvel = row(t_.qvel, i, t_.nv),
            .act = row(t_.act, i, t_.na)},
           Vec(t_.ctrl).subspan(static_cast<size_t>(i) * nu, nu));
    }
    set(input_row(t_.ctrl, i, t_.nu), d_->ctrl);
    set(input_row(t_.qfrc_applied, i, t_.nv), d_->qfrc_applied);
    set(input_row(t_.xfrc_applied, i, 6 * t_.nbody), d_->xfrc_applied);
    double* warmstart = tape_->qacc_warmstart.data() + static_cast<ptrdiff_t>(i) * t_.nv;
    std::copy(d_->qacc_warmstart, d_->qacc_warmstart + t_.nv, warmstart);
    try {
      if (cfd_forward(model_.impl())) {
        cfd_step(model_.impl(), start_of(i, time), *workspace_);
      } else {
        if (rk4_) rk4_->begin();
        mj_call("mj_step", [&] { mj_step(CollidingModel(&sensing_), d_); });
        if (rk4_) rk4_->end(d_);
      }
    } catch (const MujocoError& error) {
      t_.outcome = Outcome::kMujocoError;
      t_.message = std::string(error.what()) + " (at step " + std::to_string(i) + ")";
      return false;
    }
    warnings_.look(d_, i, t_.warnings);
    if (const BadState bad = find_bad_step(t_, d_); bad.what) {
      fail_not_finite(model_, bad, i, time,
                      "use a smaller timestep, softer contacts or smaller controls", t_);
      return false;
    }
    return true;
  }

  StepInput start_of(int i, double time) const {
    return {.time = time,
            .qpos = row(t_.qpos, i, t_.nq),
            .qvel = row(t_.qvel, i, t_.nv),
            .act = row(t_.act, i, t_.na),
            .qacc_warmstart = row(tape_->qacc_warmstart, i, t_.nv),
            .ctrl = input_row(t_.ctrl, i, t_.nu),
            .qfrc_applied = input_row(t_.qfrc_applied, i, t_.nv),
            .xfrc_applied = input_row(t_.xfrc_applied, i, 6 * t_.nbody)};
  }

  // the step just made
  void record(int i) {
    StepRecord& record = t_.steps[static_cast<size_t>(i)];
    record.ncon = d_->ncon;
    record.nefc = d_->nefc;
    for (int k = 0; k < std::max(1, std::min(d_->nisland, +mjNISLAND)); k++) {
      record.solver_niter += d_->solver_niter[k];
    }
    if (judges_solver_) solver_limit_.look(model_.mj(), d_, i);
    std::copy(d_->qacc, d_->qacc + t_.nv, t_.qacc.data() + static_cast<ptrdiff_t>(i) * t_.nv);
    record_state(d_->time, d_->qpos, d_->qvel, d_->act, i + 1, t_);
    record_contacts(d_, t_.nstep_asked, kept_.contacts, *tape_);
    if (poses_) poses_->read(d_, i);
    add_sensordata();
    if (tendons_.numbers == 0) return;
    const auto k = static_cast<size_t>(i);
    tape_->tendon_numbers.resize((k + 1) * tendons_.numbers);
    tape_->tendon_objects.resize((k + 1) * tendons_.objects);
    keep_tendons(model_.mj(), d_, Vec(tape_->tendon_numbers).subspan(k * tendons_.numbers),
                 std::span(tape_->tendon_objects).subspan(k * tendons_.objects));
  }

  void add_sensordata() {
    const auto n = sensors_ ? static_cast<size_t>(model_.nsensordata()) : 0;
    t_.sensordata.insert(t_.sensordata.end(), d_->sensordata, d_->sensordata + n);
  }

  void finish(int done) {
    resize_rows(done, tendons_, t_, *tape_);  // drops the rows of steps that were not completed
    if (rk4_) rk4_->finish(done);
    t_.nstep = done;
    solver_limit_.warn(model_.mj(), done, t_.warnings);
    t_.next_warmstart.assign(d_->qacc_warmstart, d_->qacc_warmstart + t_.nv);
    if (poses_ && t_.ok()) {
      // the last state, which no step begins with
      poses_->evaluate(d_);
      poses_->read(d_, done);
    }
    if (sensors_ && t_.ok()) {
      evaluate_sensors_at(model_, state_input(t_, done), *workspace_);
      add_sensordata();
    } else {
      t_.sensordata.clear();
    }
  }

  const Model& model_;
  const ControlLaw& law_;
  const KeptStages kept_;
  const bool sensors_;
  const PoseReader* poses_;
  mjModel sensing_;  // of the pointers
  TendonRecordSize tendons_;
  WorkspaceLease workspace_;
  mjData* d_;
  WarningCollector warnings_;
  const bool judges_solver_;  // the gradient is that of a converged solution
  SolverLimit solver_limit_;
  Trajectory t_;
  std::shared_ptr<Tape> tape_;  // of t_, while it is written
  std::optional<Rk4Recorder> rk4_;
};

}  // namespace

Trajectory mujoco_rollout(const Model& model, const RolloutInput& input, int nstep,
                          const KeptStages& kept, bool sensors, const PoseReader* poses,
                          Trajectory t, const ControlLaw& law, StopSignal& stop) {
  return MujocoRollout(model, input, nstep, kept, sensors, poses, std::move(t), law)
      .run(nstep, stop);
}

}  // namespace diffmj
