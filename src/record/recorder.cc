#include "record/recorder.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "base/require.h"
#include "base/text.h"
#include "diffmj/error.h"
#include "mj/call.h"
#include "setup/model_impl.h"

namespace diffmj {
namespace {

// MuJoCo's index for a bad qpos is a coordinate, not a dof
int dof_of(const Model& model, const BadState& bad) {
  const mjModel* m = model.mj();
  const std::string what = bad.what;
  if (what == "act") return -1;
  if (what != "qpos") return bad.index;
  int dof = 0;
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    if (m->jnt_qposadr[j] <= bad.index) {
      const int next = j + 1 < static_cast<int>(m->njnt) ? m->jnt_dofadr[j + 1] : model.nv();
      dof = std::min(m->jnt_dofadr[j] + bad.index - m->jnt_qposadr[j], next - 1);
    }
  }
  return dof;
}

}  // namespace

void allocate_rows(const Model& model, const RolloutInput& input, int nstep,
                   const TendonRecordSize& tendons, Trajectory& t, Tape& tape) {
  t.nq = model.nq();
  t.nv = model.nv();
  t.na = model.na();
  t.nu = model.nu();
  t.nbody = model.nbody();
  tape.model_id = model.impl().id;
  t.nstep_asked = nstep;
  TendonRecordSize no_tendons = tendons;
  no_tendons.numbers = no_tendons.objects = 0;
  try {
    resize_rows(nstep, no_tendons, t, tape);
    // written row by row: filling them before would take as long
    tape.tendon_numbers.reserve(static_cast<size_t>(nstep) * tendons.numbers);
    tape.tendon_objects.reserve(static_cast<size_t>(nstep) * tendons.objects);
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

void resize_rows(int nstep, const TendonRecordSize& tendons, Trajectory& t, Tape& tape) {
  const auto n = static_cast<size_t>(nstep);
  t.time.resize(n + 1);
  t.qpos.resize((n + 1) * static_cast<size_t>(t.nq));
  t.qvel.resize((n + 1) * static_cast<size_t>(t.nv));
  t.act.resize((n + 1) * static_cast<size_t>(t.na));
  t.qacc.resize(n * static_cast<size_t>(t.nv));
  tape.qacc_warmstart.resize(n * static_cast<size_t>(t.nv));
  t.steps.resize(n);
  tape.tendon_numbers.resize(n * tendons.numbers);
  tape.tendon_objects.resize(n * tendons.objects);
}

void record_state(double time, const double* qpos, const double* qvel, const double* act, int i,
                  Trajectory& t) {
  const auto at = [i](std::vector<double>& x, int width) {
    return x.data() + static_cast<ptrdiff_t>(i) * width;
  };
  t.time[static_cast<size_t>(i)] = time;
  std::copy_n(qpos, t.nq, at(t.qpos, t.nq));
  std::copy_n(qvel, t.nv, at(t.qvel, t.nv));
  std::copy_n(act, t.na, at(t.act, t.na));
}

BadState find_bad_state(const Trajectory& sizes, const double* qpos, const double* qvel,
                        const double* act) {
  // false of what is not a number, too
  const auto good = [](double x) { return std::abs(x) <= kMaxMagnitude; };
  struct Part {
    const char* what;
    const double* x;
    int size;
  };
  for (const Part& part :
       {Part{"qpos", qpos, sizes.nq}, Part{"qvel", qvel, sizes.nv}, Part{"act", act, sizes.na}}) {
    // the sum of squares of good numbers is seldom larger; false of what is not a number, too
    const Eigen::Map<const Eigen::VectorXd> x(part.x, part.size);
    if (x.squaredNorm() <= kMaxMagnitude * kMaxMagnitude) continue;
    for (int i = 0; i < part.size; i++) {
      if (!good(part.x[i])) return {part.what, i};
    }
  }
  return {};
}

void fail_not_finite(const Model& model, const BadState& bad, int step, double time,
                     const std::string& remedy, Trajectory& trajectory) {
  trajectory.outcome = Outcome::kNotFinite;
  trajectory.failed_dof = dof_of(model, bad);
  trajectory.message =
      std::string("the rollout diverged: ") + bad.what + "[" + std::to_string(bad.index) +
      text("] is not finite or exceeds 1e10 at step %d, time %g s", step, time) +
      (trajectory.failed_dof >= 0 ? ", " + model.dof_name(trajectory.failed_dof) : "") + "; " +
      remedy;
}

WarningCollector::WarningCollector() { mj_messages_clear(); }

void WarningCollector::look(const mjData* d, int step, std::vector<Warning>& warnings) {
  const MjMessages& messages = mj_messages();
  bool any = messages.nwarning > 0;
  for (size_t i = 0; i < seen_.size() && !any; i++) any = d->warning[i].number > seen_[i];
  if (!any) return;

  const auto add = [&](const std::string& text, const std::string& kind, int count) {
    const auto same = std::find_if(warnings.begin(), warnings.end(), [&](const Warning& w) {
      return w.kind == WarningKind::kMujoco && w.text.find(kind) != std::string::npos;
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
  for (size_t i = 0; i < seen_.size(); i++) {
    const int fresh = d->warning[i].number - seen_[i];
    if (fresh <= 0) continue;
    seen_[i] = d->warning[i].number;
    const std::string text =
        mju_warningText(static_cast<int>(i), static_cast<size_t>(d->warning[i].lastinfo));
    kinds[i] = kind_of(text);
    add(text, kinds[i], fresh);
  }
  for (int k = 0; k < std::min(messages.nwarning, MjMessages::kMax); k++) {
    const std::string text = messages.warning[k];
    const bool counted = std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
      return !kind.empty() && text.find(kind) != std::string::npos;
    });
    if (!counted) add(text, text, 1);
  }
  mj_messages_clear();
}

}  // namespace diffmj
