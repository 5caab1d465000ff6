#include "check/rollout_function.h"

#include <algorithm>
#include <cmath>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "record/adaptive.h"
#include "record/input.h"
#include "record/recorder.h"
#include "record/tape.h"
#include "record/trajectory.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

using Vector = std::vector<double>;

Vector copy(CVec x) { return {x.begin(), x.end()}; }

}  // namespace

Vector flat(const Gradient& g) {
  Vector out;
  for (const Vector* part : {&g.qpos_tangent, &g.qvel, &g.act, &g.ctrl}) {
    out.insert(out.end(), part->begin(), part->end());
  }
  return out;
}

RolloutFunction::RolloutFunction(const Model& model, const RolloutInput& input, int nstep,
                                 std::function<bool()> interrupted)
    : model_(model),
      input_(input),
      nstep_(nstep),
      interrupted_(std::move(interrupted)),
      survey_(model) {
  const State initial = default_state(model);
  const auto start = [](CVec given, const Vector& otherwise) {
    return given.empty() ? otherwise : copy(given);
  };
  x_ = {.time = input.time,
        .qpos = start(input.qpos, initial.qpos),
        .qvel = start(input.qvel, initial.qvel),
        .act = start(input.act, initial.act)};
  const auto nu = static_cast<size_t>(model.nu());
  ctrl_.assign(static_cast<size_t>(nstep_) * nu, 0.0);
  for (int i = 0; i < nstep_; i++) {
    const CVec row = input_row(input.ctrl, i, model.nu());
    std::copy(row.begin(), row.end(), ctrl_.begin() + static_cast<ptrdiff_t>(nu) * i);
  }
  const Vector zero(size(), 0.0);
  State x;
  Vector ctrl;
  base_ = rollout(model_, perturbed(zero, x, ctrl), nstep_, {.interrupted = interrupted_});
  if (base_.outcome == Outcome::kInterrupted) throw Interrupted("check: interrupted");
  if (!base_.ok()) throw InputError("check: the rollout fails: " + base_.message);
  const auto rows = static_cast<size_t>(nstep_ + 1);
  qpos_bar.assign(rows * static_cast<size_t>(model.nv()), 0.0);
  qvel_bar = qpos_bar;
  act_bar.assign(rows * static_cast<size_t>(model.na()), 0.0);
  pieces_ = (*this)(zero).pieces;
}

RolloutInput RolloutFunction::perturbed(const Vector& z, State& x, Vector& ctrl) const {
  const auto n = static_cast<size_t>(model_.ntangent());
  x = plus(model_, x_, CVec(z).first(n));
  ctrl = ctrl_;
  for (size_t i = 0; i < ctrl.size(); i++) ctrl[i] += z[n + i];
  RolloutInput input = input_;
  input.qpos = x.qpos;
  input.qvel = x.qvel;
  input.act = x.act;
  input.ctrl = ctrl;
  return input;
}

double RolloutFunction::weigh(int i, CVec qpos, CVec qvel, CVec act) const {
  Vector dq(qvel.size());
  mj_call("mj_differentiatePos", [&] {
    mj_differentiatePos(model_.mj(), dq.data(), 1, row(base_.qpos, i, base_.nq).data(),
                        qpos.data());
  });
  double sum = 0;
  const auto at = static_cast<size_t>(i) * dq.size();
  for (size_t k = 0; k < dq.size(); k++) {
    sum += qpos_bar[at + k] * dq[k] + qvel_bar[at + k] * (qvel[k] - base_.qvel[at + k]);
  }
  const auto act_at = static_cast<size_t>(i) * act.size();
  for (size_t k = 0; k < act.size(); k++) {
    sum += act_bar[act_at + k] * (act[k] - base_.act[act_at + k]);
  }
  return sum;
}

// mj_step as rollout() calls it; after a step mjData still holds the stages of its start, of RK4
// those of its last stage
RolloutFunction::Value RolloutFunction::walk(const Vector& z) const {
  State x;
  Vector ctrl;
  const RolloutInput input = perturbed(z, x, ctrl);
  const mjModel* m = model_.mj();
  WorkspaceLease workspace(model_.impl());
  mjData* d = workspace->data.get();
  reset_data(model_, base_.mocap_pos, base_.mocap_quat, *workspace);
  const auto set = [](CVec from, mjtNum* to) { std::copy(from.begin(), from.end(), to); };
  d->time = input.time;
  set(x.qpos, d->qpos);
  set(x.qvel, d->qvel);
  set(x.act, d->act);
  Value out;
  out.sum = weigh(0, x.qpos, x.qvel, x.act);
  for (int i = 0; i < nstep_; i++) {
    if (interrupted_ && interrupted_()) throw Interrupted("check: interrupted");
    set(input_row(input.ctrl, i, model_.nu()), d->ctrl);
    set(input_row(input.qfrc_applied, i, model_.nv()), d->qfrc_applied);
    set(input_row(input.xfrc_applied, i, 6 * base_.nbody), d->xfrc_applied);
    const Vector act(d->act, d->act + model_.na());
    const CVec act_next(d->act, static_cast<size_t>(model_.na()));
    try {
      if (m->opt.integrator == mjINT_RK4) {
        mj_call("mj_forward", [&] { mj_forward(CollidingModel(m), d); });
        out.pieces.push_back({i, survey_.look(*workspace, act, {})});
      }
      mj_call("mj_step", [&] { mj_step(CollidingModel(m), d); });
      const BadState bad = find_bad_state(base_, d->qpos, d->qvel, d->act);
      if (bad.what || d->warning[mjWARN_BADQACC].number > 0) return {};
      out.pieces.push_back({i, survey_.look(*workspace, act, act_next)});
    } catch (const MujocoError&) {
      return {};
    }
    out.sum += weigh(i + 1, {d->qpos, static_cast<size_t>(base_.nq)},
                     {d->qvel, static_cast<size_t>(base_.nv)}, act_next);
  }
  out.ok = true;
  return out;
}

RolloutFunction::Value RolloutFunction::walk_adaptive(const Vector& z) const {
  State x;
  Vector ctrl;
  // step sizes are not differentiated: they stay those of the base rollout
  StopSignal stop(interrupted_, {});
  const Trajectory t = adaptive_rollout(model_, perturbed(z, x, ctrl), nstep_, &base_, true, stop);
  if (t.outcome == Outcome::kInterrupted) throw Interrupted("check: interrupted");
  if (!t.ok()) return {};
  Value out{.ok = true};
  for (int i = 0; i <= t.nstep; i++) {
    out.sum += weigh(i, row(t.qpos, i, t.nq), row(t.qvel, i, t.nv), row(t.act, i, t.na));
  }
  const mjModel* m = model_.mj();
  WorkspaceLease workspace(model_.impl());
  mjData* d = workspace->data.get();
  reset_data(model_, base_.mocap_pos, base_.mocap_quat, *workspace);
  const auto look = [&](int i, const StepInput& in) {
    mj_call("mj_forward", [&] {
      write_input(m, d, in);
      mj_forward(CollidingModel(m), d);
    });
    out.pieces.push_back({i, survey_.look(*workspace, in.act, {})});
  };
  for_each_step(model_, t, look);
  // the last stages of the last step are near its end
  const int last = t.nstep - 1;
  const IntervalInput in = interval_input(model_, t, last);
  Vector end(static_cast<size_t>(t.nu));
  for (int j = 0; j < t.nu; j++) end[static_cast<size_t>(j)] = in.control(t.time.back(), j);
  look(last, {.time = t.time.back(),
              .qpos = row(t.qpos, t.nstep, t.nq),
              .qvel = row(t.qvel, t.nstep, t.nv),
              .act = row(t.act, t.nstep, t.na),
              .qacc_warmstart = {},
              .ctrl = end,
              .qfrc_applied = in.qfrc_applied,
              .xfrc_applied = in.xfrc_applied});
  return out;
}

RolloutFunction::Value RolloutFunction::operator()(const Vector& z) const {
  Value out = model_.is_adaptive() ? walk_adaptive(z) : walk(z);
  for (const double x : z) out.distance = std::hypot(out.distance, x);
  return out;
}

RolloutFunction::Changes RolloutFunction::changes(const Value& value) const {
  for (size_t i = 0; i < pieces_.size(); i++) {
    std::vector<Switch> switches =
        survey_.changes(pieces_[i].pieces, value.pieces[i].pieces, value.distance);
    if (switches.empty()) continue;
    for (Switch& at : switches) at.evaluation = i;
    return {.step = pieces_[i].step, .switches = std::move(switches)};
  }
  return {};
}

const PieceRow* RolloutFunction::iterated() const {
  for (const StepPieces& at : pieces_) {
    for (const PieceRow& row : at.pieces.rows) {
      if (row.zone != 0 && is_iterated(model_.mj(), row)) return &row;
    }
  }
  return nullptr;
}

Vector RolloutFunction::gradient(const Model& by) const {
  return flat(
      rollout_pullback(by, adopted(by, base_), cotangents(), {.interrupted = interrupted_}));
}

RolloutFunction RolloutFunction::step(int i) const {
  RolloutInput input = input_;
  input.time = base_.time[static_cast<size_t>(i)];
  input.qpos = row(base_.qpos, i, base_.nq);
  input.qvel = row(base_.qvel, i, base_.nv);
  input.act = row(base_.act, i, base_.na);
  input.ctrl = row(ctrl_, i, base_.nu);
  input.qfrc_applied = input_row(input_.qfrc_applied, i, base_.nv);
  input.xfrc_applied = input_row(input_.xfrc_applied, i, 6 * base_.nbody);
  return {model_, input, 1, interrupted_};
}

RolloutFunction RolloutFunction::on(const Model& other) const {
  RolloutInput input = input_;
  input.qpos = x_.qpos;
  input.qvel = x_.qvel;
  input.act = x_.act;
  input.ctrl = ctrl_;
  RolloutFunction out(other, input, nstep_, interrupted_);
  out.qpos_bar = qpos_bar;
  out.qvel_bar = qvel_bar;
  out.act_bar = act_bar;
  return out;
}

void for_each_step(const Model& model, const Trajectory& t,
                   const std::function<void(int, const StepInput&)>& look) {
  if (!model.is_adaptive()) {
    for (int i = 0; i < t.nstep; i++) look(i, step_input(t, i));
    return;
  }
  Vector ctrl(static_cast<size_t>(t.nu));
  const std::vector<int>& first = t.integrator.first_step;
  for (int i = 0; i < t.nstep; i++) {
    const IntervalInput in = interval_input(model, t, i);
    for (int n = first[static_cast<size_t>(i)]; n < first[static_cast<size_t>(i) + 1]; n++) {
      const MadeStep step = kept_step(model, t, n);
      for (int j = 0; j < t.nu; j++) ctrl[static_cast<size_t>(j)] = in.control(step.time, j);
      look(i, {.time = step.time,
               .qpos = step.qpos,
               .qvel = step.qvel,
               .act = step.act,
               .qacc_warmstart = {},
               .ctrl = ctrl,
               .qfrc_applied = in.qfrc_applied,
               .xfrc_applied = in.xfrc_applied});
    }
  }
}

}  // namespace diffmj
