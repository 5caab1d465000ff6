#include "record/solver_steps.h"

#include <algorithm>

#include "record/input.h"
#include "record/trajectory.h"

namespace diffmj {
namespace {

bool same(CVec a, CVec b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

size_t kept_size(const ModelImpl& impl) {
  const size_t rates = static_cast<size_t>(impl.nv + impl.na) * impl.tableau->nstage;
  return static_cast<size_t>(impl.nq + impl.nv + impl.na) + rates;
}

}  // namespace

StepState::StepState(const ModelImpl& impl)
    : qpos(static_cast<size_t>(impl.nq)),
      qvel(static_cast<size_t>(impl.nv)),
      act(static_cast<size_t>(impl.na)),
      qacc(static_cast<size_t>(impl.nv)),
      act_dot(static_cast<size_t>(impl.na)),
      qacc_warmstart(static_cast<size_t>(impl.nv)) {}

StepStart StepState::start() const {
  const bool known = nefc >= 0;
  return {.time = time,
          .qpos = qpos,
          .qvel = qvel,
          .act = act,
          .qacc = known ? CVec(qacc) : CVec(),
          .act_dot = known ? CVec(act_dot) : CVec(),
          .nefc = nefc,
          .ncon = ncon,
          .active = active,
          .qacc_warmstart = qacc_warmstart,
          .released = released};
}

void StepState::follow(RungeKutta& method, double next, bool event) {
  const Tableau& tableau = method.tableau();
  const Workspace::Stage &end = method.end(), &last = method.stage(tableau.nstage - 1);
  time = next;
  qpos = end.qpos;
  qvel = end.qvel;
  act = end.act;
  qacc_warmstart = last.qacc;
  nefc = -1;
  released.clear();
  method.follow(event);
  if (!tableau.fsal || event) return;
  qacc = last.qacc;
  act_dot = last.act_dot;
  nefc = last.nefc;
  ncon = last.ncon;
  active = last.active;
}

void StepState::enter(const Model& model, const Trajectory& t, int interval) {
  if (interval == 0) return;
  const IntervalInput before = interval_input(model, t, interval - 1),
                      after = interval_input(model, t, interval);
  const CVec ctrl_before = before.ctrl_end.empty() ? before.ctrl : before.ctrl_end;
  if (same(ctrl_before, after.ctrl) && same(before.qfrc_applied, after.qfrc_applied) &&
      same(before.xfrc_applied, after.xfrc_applied)) {
    return;
  }
  nefc = -1;
}

size_t StepState::size(const ModelImpl& impl) {
  return static_cast<size_t>(impl.nq + 3 * impl.nv + 2 * impl.na);
}

void StepState::write(Vec row, int& nefc_out) const {
  size_t at = 0;
  for (const std::vector<double>* x : {&qpos, &qvel, &act, &qacc, &act_dot, &qacc_warmstart}) {
    std::copy(x->begin(), x->end(), row.begin() + static_cast<ptrdiff_t>(at));
    at += x->size();
  }
  nefc_out = nefc;
}

void StepState::read(CVec row, int nefc_in, double time_in) {
  size_t at = 0;
  for (std::vector<double>* x : {&qpos, &qvel, &act, &qacc, &act_dot, &qacc_warmstart}) {
    const CVec from = row.subspan(at, x->size());
    std::copy(from.begin(), from.end(), x->begin());
    at += x->size();
  }
  nefc = nefc_in;
  time = time_in;
}

int checkpoint_slots(const AdaptiveOptions& options) {
  return static_cast<int>(std::min<long>(*options.checkpoints, options.stepping.max_steps));
}

IntervalInput interval_input(const Model& model, const Trajectory& t, int i) {
  const double T = model.interval();
  IntervalInput in{.begin = t.time[0] + i * T,
                   .end = t.time[0] + (i + 1) * T,
                   .ctrl = input_row(t.ctrl, i, t.nu),
                   .ctrl_end = {},
                   .qfrc_applied = input_row(t.qfrc_applied, i, t.nv),
                   .xfrc_applied = input_row(t.xfrc_applied, i, 6 * t.nbody)};
  if (model.options().adaptive.control == Control::kLinear && i + 1 < t.nstep_asked &&
      !in.ctrl.empty()) {
    in.ctrl_end = input_row(t.ctrl, i + 1, t.nu);
  }
  return in;
}

const SolverEvent* event_after(const Trajectory& t, int n) {
  const std::vector<SolverEvent>& events = t.solver.events;
  const auto at = std::lower_bound(events.begin(), events.end(), n,
                                   [](const SolverEvent& e, int step) { return e.step < step; });
  return at != events.end() && at->step == n ? &*at : nullptr;
}

bool is_masked(const Trajectory& t, int n) {
  return std::binary_search(t.solver.masked_step.begin(), t.solver.masked_step.end(), n);
}

std::span<const EventConstraint> released_before(const Trajectory& t, int n) {
  const SolverEvent* before = event_after(t, n - 1);
  if (!before || !before->release) return {};
  return before->constraints;
}

bool is_bent(const Trajectory& t, int n) {
  return std::binary_search(t.solver.bent_step.begin(), t.solver.bent_step.end(), n);
}

MadeStep kept_step(const Model& model, const Trajectory& t, int i) {
  const ModelImpl& impl = model.impl();
  const SolverRecord& s = t.solver;
  const auto nq = static_cast<size_t>(impl.nq), nv = static_cast<size_t>(impl.nv),
             na = static_cast<size_t>(impl.na), nstage = impl.tableau->nstage,
             n = static_cast<size_t>(i);
  const CVec row = CVec(s.kept).subspan(n * kept_size(impl), kept_size(impl));
  const size_t rates = nq + nv + na;
  return {.time = s.time[n],
          .h = s.time[n + 1] - s.time[n],
          .qpos = row.first(nq),
          .qvel = row.subspan(nq, nv),
          .act = row.subspan(nq + nv, na),
          .qacc = row.subspan(rates, nstage * nv),
          .act_dot = row.subspan(rates + nstage * nv, nstage * na),
          .nefc = std::span(s.kept_nefc).subspan(n * nstage, nstage),
          .masked = is_masked(t, i),
          .released = released_before(t, i)};
}

}  // namespace diffmj
