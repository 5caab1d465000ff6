#include "record/integrator_steps.h"

#include <algorithm>

#include "record/input.h"
#include "record/trajectory.h"

namespace diffmj {
namespace {

bool same(CVec a, CVec b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

// what a step of the method has beside its start
size_t rates_size(const ModelImpl& impl, const Tableau& t) {
  const auto nv = static_cast<size_t>(impl.nv), na = static_cast<size_t>(impl.na);
  return t.implicit() ? t.nsolve() * (2 * nv + na) : t.nstage * (nv + na);
}

size_t kept_nstage(const ModelImpl& impl) {
  return std::max(impl.tableau->nstage, impl.stiff_tableau ? impl.stiff_tableau->nstage : 0);
}

// the same for every step
size_t kept_size(const ModelImpl& impl) {
  size_t rates = rates_size(impl, *impl.tableau);
  if (impl.stiff_tableau) rates = std::max(rates, rates_size(impl, *impl.stiff_tableau));
  return static_cast<size_t>(impl.nq + impl.nv + impl.na) + rates;
}

// the one of step n, or null; step_of(item) ascends
template <class Item, class StepOf>
const Item* find_step(const std::vector<Item>& items, int n, StepOf&& step_of) {
  const auto at = std::lower_bound(items.begin(), items.end(), n, [&](const Item& item, int step) {
    return step_of(item) < step;
  });
  return at != items.end() && step_of(*at) == n ? &*at : nullptr;
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
          .qacc_warmstart = qacc_warmstart};
}

void StepState::follow(RungeKutta& method, double next, bool jumps) {
  const Tableau& tableau = method.tableau();
  const Workspace::Stage &end = method.end(), &last = method.stage(tableau.nstage - 1);
  time = next;
  qpos = end.qpos;
  qvel = end.qvel;
  act = end.act;
  qacc_warmstart = last.qacc;
  nefc = -1;
  if (!tableau.fsal || jumps) return;
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

const EventRecord* event_after(const Trajectory& t, int n) {
  const auto step = [](const EventRecord& e) { return e.event.step; };
  return find_step(t.tape->events, n, step);
}

const SuppressedStep* suppressed_step(const Trajectory& t, int n) {
  return find_step(t.tape->suppressed, n, [](const SuppressedStep& s) { return s.step; });
}

bool begins_with_release(const Trajectory& t, int n) {
  const EventRecord* before = event_after(t, n - 1);
  return before && before->event.release;
}

bool ends_at_jump(const Trajectory& t, int n) {
  const SuppressedStep* suppressed = suppressed_step(t, n);
  return event_after(t, n) || (suppressed && suppressed->at_end);
}

bool is_nonsmooth(const Trajectory& t, int n) {
  const std::vector<int>& steps = t.tape->nonsmooth_step;
  return std::binary_search(steps.begin(), steps.end(), n);
}

const Tableau& step_tableau(const ModelImpl& impl, const Trajectory& t, int n) {
  const std::vector<unsigned char>& implicit = t.integrator.implicit;
  const bool stiff = impl.stiff_tableau && implicit[static_cast<size_t>(n)];
  return stiff ? *impl.stiff_tableau : *impl.tableau;
}

void keep_step(const ModelImpl& impl, const StepState& x, RungeKutta& method, Tape& tape) {
  const Tableau& tableau = method.tableau();
  const size_t rows = tape.kept.size() + kept_size(impl),
               stages = tape.kept_nefc.size() + kept_nstage(impl);
  const auto add = [&tape](CVec x) { tape.kept.insert(tape.kept.end(), x.begin(), x.end()); };
  add(x.qpos);
  add(x.qvel);
  add(x.act);
  if (tableau.implicit()) {
    for (size_t i = 0; i < tableau.nsolve(); i++) {
      const Workspace::Stage& stage = method.stage(i);
      add(stage.dq);
      add(stage.dv);
      add(stage.dw);
    }
  } else {
    for (size_t i = 0; i < tableau.nstage; i++) add(method.stage(i).qacc);
    for (size_t i = 0; i < tableau.nstage; i++) add(method.stage(i).act_dot);
  }
  for (size_t i = 0; i < tableau.nstage; i++) tape.kept_nefc.push_back(method.stage(i).nefc);
  tape.kept.resize(rows);
  tape.kept_nefc.resize(stages);
}

MadeStep kept_step(const Model& model, const Trajectory& t, int i) {
  const ModelImpl& impl = model.impl();
  const Tableau& tableau = step_tableau(impl, t, i);
  const std::vector<double>& time = t.integrator.time;
  const Tape& tape = *t.tape;
  const auto nq = static_cast<size_t>(impl.nq), nv = static_cast<size_t>(impl.nv),
             na = static_cast<size_t>(impl.na), nstage = tableau.nstage,
             n = static_cast<size_t>(i);
  const CVec row = CVec(tape.kept).subspan(n * kept_size(impl), kept_size(impl));
  const size_t rates = nq + nv + na;
  const std::span nefc = std::span(tape.kept_nefc).subspan(n * kept_nstage(impl), nstage);
  if (tableau.implicit()) {
    return {.time = time[n],
            .h = time[n + 1] - time[n],
            .qpos = row.first(nq),
            .qvel = row.subspan(nq, nv),
            .act = row.subspan(nq + nv, na),
            .qacc = {},
            .act_dot = {},
            .nefc = nefc,
            .increments = row.subspan(rates, rates_size(impl, tableau))};
  }
  return {.time = time[n],
          .h = time[n + 1] - time[n],
          .qpos = row.first(nq),
          .qvel = row.subspan(nq, nv),
          .act = row.subspan(nq + nv, na),
          .qacc = row.subspan(rates, nstage * nv),
          .act_dot = row.subspan(rates + nstage * nv, nstage * na),
          .nefc = nefc};
}

}  // namespace diffmj
