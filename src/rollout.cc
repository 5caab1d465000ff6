// rollout(): nstep calls of mj_step, recorded.
#include "diffmj/rollout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <new>

#include "base/parallel.h"
#include "base/require.h"
#include "mj/call.h"
#include "model/workspace.h"
#include "record/input.h"
#include "record/trajectory.h"
#include "stages/position/collision.h"
#include "stages/position/tendon.h"

namespace diffmj {
namespace {

// A bad state found by MuJoCo's own checks in the step just made, if any.
struct BadState {
  const char* what = nullptr;  // qpos, qvel or qacc
  int dof = -1;
};
BadState find_bad_state(const mjData* d) {
  for (const auto& [warning, what] :
       {std::pair{mjWARN_BADQPOS, "qpos"}, {mjWARN_BADQVEL, "qvel"}, {mjWARN_BADQACC, "qacc"}}) {
    if (d->warning[warning].number > 0) return {what, d->warning[warning].lastinfo};
  }
  return {};
}

// mj_step checks qpos and qvel when it begins; the last state of a rollout needs the same check
BadState find_bad_end(const Model& model, const mjData* d) {
  const auto bad = [](double x) { return !std::isfinite(x) || std::abs(x) > kMaxMagnitude; };
  for (int i = 0; i < model.nq(); i++) {
    if (bad(d->qpos[i])) return {"qpos", i};
  }
  for (int i = 0; i < model.nv(); i++) {
    if (bad(d->qvel[i])) return {"qvel", i};
  }
  for (int i = 0; i < model.na(); i++) {
    if (bad(d->act[i])) return {"act", i};
  }
  return {};
}

// MuJoCo's index for a bad qpos is a coordinate, not a dof
int dof_of(const Model& model, const BadState& bad) {
  const mjModel* m = model.mj();
  const std::string what = bad.what;
  if (what == "act") return -1;
  if (what != "qpos") return bad.dof;
  int dof = 0;
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    if (m->jnt_qposadr[j] <= bad.dof) {
      const int next = j + 1 < static_cast<int>(m->njnt) ? m->jnt_dofadr[j + 1] : model.nv();
      dof = std::min(m->jnt_dofadr[j] + bad.dof - m->jnt_qposadr[j], next - 1);
    }
  }
  return dof;
}

void fail(const Model& model, const BadState& bad, int step, double time, Trajectory& trajectory) {
  trajectory.outcome = Outcome::kNotFinite;
  trajectory.failed_dof = dof_of(model, bad);
  char where[96];
  std::snprintf(where, sizeof(where), "] is not finite or exceeds 1e10 at step %d, time %g s", step,
                time);
  trajectory.message =
      std::string("the rollout diverged: ") + bad.what + "[" + std::to_string(bad.dof) + where +
      (trajectory.failed_dof >= 0 ? ", " + model.dof_name(trajectory.failed_dof) : "") +
      "; use a smaller timestep, softer contacts or smaller controls";
}

bool has_new_warning(const mjData* d, const std::array<int, mjNWARNING>& seen) {
  for (size_t i = 0; i < seen.size(); i++) {
    if (d->warning[i].number > seen[i]) return true;
  }
  return mj_messages().nwarning > 0;
}

// MuJoCo counts its own kinds of warnings in mjData and prints only the first of each; other
// warnings are messages. seen is the number of each kind before this step.
void collect_warnings(const mjData* d, int step, std::array<int, mjNWARNING>& seen,
                      std::vector<Warning>& warnings) {
  const auto add = [&](const std::string& text, const std::string& kind, int count) {
    const auto same = std::find_if(warnings.begin(), warnings.end(), [&](const Warning& w) {
      return w.text.find(kind) != std::string::npos;
    });
    if (same != warnings.end()) {
      same->count += count;
    } else {
      warnings.push_back({.text = text, .first_step = step, .count = count});
    }
  };
  // the text up to the number in it names the kind
  const auto kind_of = [](const std::string& text) {
    return text.substr(0, text.find_first_of("0123456789"));
  };
  std::array<std::string, mjNWARNING> kinds;
  for (size_t i = 0; i < seen.size(); i++) {
    const int fresh = d->warning[i].number - seen[i];
    if (fresh <= 0) continue;
    seen[i] = d->warning[i].number;
    const std::string text =
        mju_warningText(static_cast<int>(i), static_cast<size_t>(d->warning[i].lastinfo));
    kinds[i] = kind_of(text);
    add(text, kinds[i], fresh);
  }
  const MjMessages& messages = mj_messages();
  for (int k = 0; k < std::min(messages.nwarning, MjMessages::kMax); k++) {
    const std::string text = messages.warning[k];
    const bool counted = std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
      return !kind.empty() && text.find(kind) != std::string::npos;
    });
    if (!counted) add(text, text, 1);
  }
  mj_messages_clear();
}

void record_state(const mjData* d, int i, Trajectory& t) {
  const auto at = [i](std::vector<double>& x, int width) {
    return x.data() + static_cast<ptrdiff_t>(i) * width;
  };
  t.time[static_cast<size_t>(i)] = d->time;
  std::copy(d->qpos, d->qpos + t.nq, at(t.qpos, t.nq));
  std::copy(d->qvel, d->qvel + t.nv, at(t.qvel, t.nv));
  std::copy(d->act, d->act + t.na, at(t.act, t.na));
}

void resize_rows(int nstep, const TendonRecordSize& tendons, Trajectory& t) {
  const auto n = static_cast<size_t>(nstep);
  t.time.resize(n + 1);
  t.qpos.resize((n + 1) * static_cast<size_t>(t.nq));
  t.qvel.resize((n + 1) * static_cast<size_t>(t.nv));
  t.act.resize((n + 1) * static_cast<size_t>(t.na));
  t.qacc.resize(n * static_cast<size_t>(t.nv));
  t.qacc_warmstart.resize(n * static_cast<size_t>(t.nv));
  t.steps.resize(n);
  t.tendon_numbers.resize(n * tendons.numbers);
  t.tendon_objects.resize(n * tendons.objects);
}

void allocate(const Model& model, const RolloutInput& input, int nstep,
              const TendonRecordSize& tendons, Trajectory& t) {
  t.nq = model.nq();
  t.nv = model.nv();
  t.na = model.na();
  t.nu = model.nu();
  t.nbody = model.nbody();
  t.model_id = model.impl().id;
  t.nstep_asked = nstep;
  try {
    resize_rows(nstep, tendons, t);
    const auto keep = [](CVec from, std::vector<double>& to) {
      to.assign(from.begin(), from.end());
    };
    keep(input.ctrl, t.ctrl);
    keep(input.qfrc_applied, t.qfrc_applied);
    keep(input.xfrc_applied, t.xfrc_applied);
    keep(input.mocap_pos, t.mocap_pos);
    keep(input.mocap_quat, t.mocap_quat);
  } catch (const std::bad_alloc&) {
    throw MemoryError("rollout: no memory for a record of " + std::to_string(nstep) +
                      " steps; use fewer steps");
  }
}

// Contacts of the step just made, or none of any step as soon as they do not fit.
void record_contacts(const mjData* d, size_t most, Trajectory& t) {
  if (t.contact_begin.empty()) return;
  try {
    keep_contacts(d, t.contacts);
    t.contact_begin.push_back(t.contacts.size());
    if (t.contacts.size() <= most) return;
  } catch (const std::bad_alloc&) {
    // the backward pass finds them again
  }
  t.contacts = {};
  t.contact_begin = {};
}

// What of the stages is kept for the backward pass.
struct Kept {
  bool tendons;
  size_t contacts;  // bytes
};
Kept kept_of(const Model& model, int nstep, size_t nrollout) {
  return {keeps_tendons(model, nstep, nrollout), contact_bytes(model, nrollout)};
}

Trajectory rollout_one(const Model& model, const RolloutInput& input, int nstep, const Kept& kept,
                       StopSignal& stop) {
  const mjModel* m = model.mj();
  Trajectory t;
  TendonRecordSize tendons(m);
  if (!kept.tendons) tendons.numbers = tendons.objects = 0;
  allocate(model, input, nstep, tendons, t);
  WorkspaceLease workspace(model.impl());
  mjData* d = workspace->data.get();
  mj_messages_clear();
  reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
  d->time = input.time;
  const auto set = [](CVec from, mjtNum* to) { std::copy(from.begin(), from.end(), to); };
  set(input.qpos, d->qpos);
  set(input.qvel, d->qvel);
  set(input.act, d->act);
  record_state(d, 0, t);
  if (kept.contacts > 0) t.contact_begin.assign(1, 0);

  int done = 0;
  std::array<int, mjNWARNING> seen = {};
  for (; done < nstep; done++) {
    if (stop.poll(static_cast<double>(done) / nstep)) {
      t.outcome = Outcome::kInterrupted;
      t.message = "interrupted at step " + std::to_string(done) + " of " + std::to_string(nstep);
      break;
    }
    const double time = d->time;
    set(input_row(t.ctrl, done, t.nu), d->ctrl);
    set(input_row(t.qfrc_applied, done, t.nv), d->qfrc_applied);
    set(input_row(t.xfrc_applied, done, 6 * t.nbody), d->xfrc_applied);
    double* warmstart = t.qacc_warmstart.data() + static_cast<ptrdiff_t>(done) * t.nv;
    std::copy(d->qacc_warmstart, d->qacc_warmstart + t.nv, warmstart);
    try {
      mj_call("mj_step", [&] { mj_step(m, d); });
    } catch (const MujocoError& error) {
      t.outcome = Outcome::kMujocoError;
      t.message = std::string(error.what()) + " (at step " + std::to_string(done) + ")";
      break;
    }
    if (has_new_warning(d, seen)) collect_warnings(d, done, seen, t.warnings);
    BadState bad = find_bad_state(d);
    if (!bad.what) bad = find_bad_end(model, d);
    if (bad.what) {
      fail(model, bad, done, time, t);
      break;
    }
    StepRecord& record = t.steps[static_cast<size_t>(done)];
    record.ncon = d->ncon;
    record.nefc = d->nefc;
    for (int i = 0; i < std::max(1, std::min(d->nisland, +mjNISLAND)); i++) {
      record.solver_niter += d->solver_niter[i];
    }
    // for RK4 the data holds the last stage; its first acceleration is computed again when needed
    std::copy(d->qacc, d->qacc + t.nv, t.qacc.data() + static_cast<ptrdiff_t>(done) * t.nv);
    record_state(d, done + 1, t);
    record_contacts(d, kept.contacts, t);
    if (tendons.numbers > 0) {
      const auto i = static_cast<size_t>(done);
      keep_tendons(m, d, Vec(t.tendon_numbers).subspan(i * tendons.numbers, tendons.numbers),
                   std::span(t.tendon_objects).subspan(i * tendons.objects, tendons.objects));
    }
  }
  resize_rows(done, tendons, t);  // drops the rows of steps that were not completed
  t.nstep = done;
  return t;
}

}  // namespace

Trajectory rollout(const Model& model, const RolloutInput& input, int nstep,
                   const RolloutOptions& options) {
  require_no_callbacks("rollout");
  require_input("rollout", model, input, nstep);
  require_memory("rollout", trajectory_bytes(model, nstep));
  StopSignal stop(options.interrupted, options.progress);
  return rollout_one(model, input, nstep, kept_of(model, nstep, 1), stop);
}

std::vector<Trajectory> rollout_batch(const Model& model, std::span<const RolloutInput> inputs,
                                      int nstep, const RolloutOptions& options) {
  require_no_callbacks("rollout");
  for (size_t i = 0; i < inputs.size(); i++) {
    require_input("rollout " + std::to_string(i) + " of the batch", model, inputs[i], nstep);
  }
  require_memory("rollout", trajectory_bytes(model, nstep, inputs.size()));
  const Kept kept = kept_of(model, nstep, inputs.size());
  std::vector<Trajectory> out(inputs.size());
  StopSignal stop(options.interrupted, options.progress);
  parallel_for(static_cast<int>(inputs.size()), options.nthread, stop, [&](int i, StopSignal& s) {
    const auto k = static_cast<size_t>(i);
    out[k] = rollout_one(model, inputs[k], nstep, kept, s);
  });
  if (stop.stopped()) throw Interrupted("rollout: interrupted");
  return out;
}

}  // namespace diffmj
