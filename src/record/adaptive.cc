#include "record/adaptive.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <optional>

#include "base/checkpoints.h"
#include "base/text.h"
#include "diffmj/error.h"
#include "diffmj/state.h"
#include "events/describe.h"
#include "events/landing.h"
#include "events/onset_landing.h"
#include "mj/call.h"
#include "record/input.h"
#include "record/jumping_contact.h"
#include "record/method_choice.h"
#include "record/progress.h"
#include "record/recorder.h"
#include "record/stiffness.h"
#include "record/trajectory.h"
#include "setup/workspace_lease.h"
#include "stages/field_matrix.h"

namespace diffmj {
namespace {

class AdaptiveRollout {
 public:
  AdaptiveRollout(const Model& model, const RolloutInput& input, int nstep,
                  const Trajectory* steps_of, bool keep_all, StopSignal& stop,
                  const ControlLaw& law)
      : model_(model),
        impl_(model.impl()),
        options_(model.options().adaptive),
        steps_of_(steps_of),
        stop_(stop),
        law_(law),
        workspace_(impl_),
        method_(impl_, *workspace_),
        stiffness_(model, *workspace_),
        x_(impl_) {
    TendonRecordSize none(model.mj());
    none.numbers = none.objects = 0;
    allocate_rows(model, input, nstep, none, t_, *tape_);
    t_.tape = tape_;
    reset_data(model, t_.mocap_pos, t_.mocap_quat, *workspace_);
    const State initial = default_state(model);
    const auto set = [](CVec given, const std::vector<double>& otherwise, std::vector<double>& to) {
      to.assign(given.begin(), given.end());
      if (given.empty()) to = otherwise;
    };
    set(input.qpos, initial.qpos, x_.qpos);
    set(input.qvel, initial.qvel, x_.qvel);
    set(input.act, initial.act, x_.act);
    x_.time = input.time;
    progress_.emplace(input.time, input.time + nstep * model.interval(), impl_.mj()->opt.timestep,
                      options_.stepping.max_steps);
    if (!options_.step && !steps_of) {
      controller_.emplace(options_.stepping, impl_.tableau->embedded_order);
      onset_.emplace(impl_, method_, *controller_, *workspace_);
      if (impl_.stiff_tableau) {
        stiff_controller_.emplace(options_.stepping, impl_.stiff_tableau->embedded_order);
      }
    }
    const bool backsolve = model.options().adjoint() == Adjoint::kBacksolve;
    keep_ = keep_all || !backsolve;
    if (options_.checkpoints && !keep_all && !backsolve) {
      checkpoints_.emplace(checkpoint_slots(options_));
    }
  }

  Trajectory run() {
    const auto begin = std::chrono::steady_clock::now();
    IntegratorRecord& s = t_.integrator;
    record_row(0);
    s.time.assign(1, x_.time);
    s.first_step.assign(1, 0);
    int done = 0;
    try {
      for (; done < t_.nstep_asked; done++) {
        if (!interval(done)) break;
        record_row(done + 1);
        s.first_step.push_back(static_cast<int>(s.time.size()) - 1);
      }
    } catch (const MujocoError& error) {
      t_.outcome = Outcome::kMujocoError;
      t_.message = std::string(error.what()) + " (in interval " + std::to_string(done) +
                   ", after " + number(x_.time) + " s)";
    } catch (const std::bad_alloc&) {
      throw MemoryError("rollout: no memory for the record after " +
                        std::to_string(s.time.size() - 1) +
                        " steps; keep fewer states (checkpoints), or use fewer intervals");
    }
    add_event_warnings();
    add_jumping_contact();
    add_stiff_warnings();
    TendonRecordSize none(model_.mj());
    none.numbers = none.objects = 0;
    resize_rows(done, none, t_, *tape_);
    t_.nstep = done;
    s.naccepted = nmade();
    s.nrejected = control_.nrejected;
    s.nevaluation = times_.count;
    s.seconds = {times_.position,     times_.velocity,   times_.actuation,
                 times_.acceleration, times_.constraint, 0};
    s.seconds.total =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    s.end_time = x_.time;
    s.end_qpos = x_.qpos;
    s.end_qvel = x_.qvel;
    s.end_act = x_.act;
    return std::move(t_);
  }

 private:
  bool interval(int i) {
    if (law_) {
      const auto nu = static_cast<size_t>(t_.nu);
      law_({.step = i, .qpos = x_.qpos, .qvel = x_.qvel, .act = x_.act},
           Vec(t_.ctrl).subspan(static_cast<size_t>(i) * nu, nu));
    }
    const IntervalInput in = interval_input(model_, t_, i);
    x_.enter(model_, t_, i);
    const long iterations = times_.solver_niter;
    if (controller_ && control_.h == 0) {
      control_.h = method_.first_step(*controller_, x_.start(), in, times_);
      if (control_.h == 0) return not_finite(i);
      remember_first_rates();
    }
    if (!(steps_of_ ? given_steps(i, in) : own_steps(i, in))) return false;
    StepRecord& record = t_.steps[static_cast<size_t>(i)];
    record.solver_niter = static_cast<int>(times_.solver_niter - iterations);
    return true;
  }

  bool own_steps(int i, const IntervalInput& in) {
    // a whole number
    const double nconstant =
        !controller_ ? std::ceil((in.end - in.begin) / *options_.step - 1e-9) : 0;
    for (double k = 1;; k++) {
      if (stop_.poll(share(i, in))) return stopped(i);
      if (controller_) {
        if (!controlled_step(i, in)) return false;
      } else if (!fixed_step(
                     i, in,
                     k >= nconstant ? in.end : in.begin + (in.end - in.begin) * k / nconstant)) {
        return false;
      }
      if (x_.time == in.end) return true;
    }
  }

  // the steps of another trajectory; those that round to nothing after another start are left out
  bool given_steps(int i, const IntervalInput& in) {
    const std::vector<double>& given = steps_of_->integrator.time;
    const std::vector<int>& first = steps_of_->integrator.first_step;
    const double origin = t_.time[0] - given.front();
    const auto end = static_cast<size_t>(first[static_cast<size_t>(i) + 1]);
    for (auto n = static_cast<size_t>(first[static_cast<size_t>(i)]); n < end; n++) {
      if (stop_.poll(share(i, in))) return stopped(i);
      if (impl_.stiff_tableau) method_.use(step_tableau(impl_, *steps_of_, static_cast<int>(n)));
      // the last one ends where the interval does, whatever was rounded
      const double next = n + 1 == end ? in.end : std::min(given[n + 1] + origin, in.end);
      if (!fixed_step(i, in, next)) return false;
    }
    return true;
  }

  long nmade() const { return static_cast<long>(t_.integrator.time.size()) - 1; }

  double share(int i, const IntervalInput& in) const {
    return (i + (x_.time - in.begin) / (in.end - in.begin)) / t_.nstep_asked;
  }

  // to that time, with a stop at every event before it
  bool fixed_step(int i, const IntervalInput& in, double next) {
    while (x_.time < next) {
      if (!steps_of_ && nmade() >= options_.stepping.max_steps) return budget_exhausted(i);
      if (!steps_of_ && stable_step(i, in, next - x_.time) == 0) return not_finite(i);
      if (!method_.step(x_.start(), in, next - x_.time, times_)) return not_finite(i);
      if (!accept(i, in, next)) return false;
    }
    return true;
  }

  const StepController& controller() const {
    return stiff_controller_ && choice_.implicit() ? *stiff_controller_ : *controller_;
  }

  // What the limit of stability leaves of a step of size h; 0 if the rates are not finite.
  double stable_step(int i, const IntervalInput& in, double h) {
    if (choice_.implicit()) return h;
    // an estimate would count constraints that were released
    if (!events_.begins_with_release() && stiffness_.due(h, x_.start())) {
      if (x_.nefc < 0) {
        method_.begin(x_.start(), in, 0);
        if (!method_.place(0) || !method_.evaluate(0, times_)) return 0;
        remember_first_rates();
      }
      stiffness_.look(h, x_.start(), in);
    }
    return stiffness_.limited(i, h, x_.start(), in);
  }

  // [s] The step that the tolerance allows. Where stability cuts one after the other the controller
  // grows from a cut step each time, and so falls short of it: what the last error says.
  double allowed_step() const {
    if (choice_.implicit() || made_ == 0) return control_.h;
    const double k = impl_.tableau->embedded_order + 1;
    return std::max(control_.h,
                    made_ * options_.stepping.safety * std::pow(control_.error1, -1 / k));
  }

  // What was done since the last time. The factors fit the robots of MuJoCo Menagerie within a
  // factor of 2 or so.
  void count_work() {
    const mjData* d = workspace_->data.get();
    const double nv = impl_.nv, ncon = d->ncon,
                 nevaluation = static_cast<double>(times_.count - counted_.count),
                 niter = static_cast<double>(times_.solver_niter - counted_.solver_niter);
    work_ += nevaluation * (1000 * nv + 4000 * ncon) + 4 * niter * d->nefc * nv;
    // the matrix of an implicit step: that of every contact, or a pullback per row
    if (choice_.implicit() && nevaluation > 0) {
      work_ += has_matrices_ ? 1000 * nv * nv + 20000 * ncon : nv * (4000 * nv + 20000 * ncon);
    }
    counted_ = times_;
  }

  // one attempt
  bool controlled_step(int i, const IntervalInput& in) {
    if (controller_->exhausted(control_)) return budget_exhausted(i);
    count_work();
    const Effort effort{nmade() + control_.nrejected, times_.count, work_};
    if (!progress_->follow(effort, x_.time)) return budget_exhausted(i);
    const double wish = std::min(control_.h, in.end - x_.time), stable = stable_step(i, in, wish);
    if (stable == 0) return not_finite(i);
    if (choice_.look(std::min(allowed_step(), in.end - in.begin), stiffness_.limit())) {
      control_.error1 = control_.error2 = 1;
    } else if (stable < wish) {
      control_.h = stable;
    }
    const StepAttempt attempt = controller().attempt(x_.time, in.end, control_);
    const double next = attempt.last ? in.end : x_.time + attempt.h, h = next - x_.time;
    double error = std::numeric_limits<double>::quiet_NaN();
    onset_->begin();
    if (method_.step(x_.start(), in, h, times_)) {
      ErrorNorm norm = controller().error_norm();
      method_.add_error(norm);
      if (impl_.cfd && impl_.options.cfd->controls_steps) method_.add_cfd_error(norm);
      error = norm.value();
    } else if (onset_->error()) {
      error = *onset_->error();
    }
    remember_first_rates();
    // the step as it was asked for: next - time is rounded
    switch (controller().judge(x_.time, attempt.h, error, control_)) {
      case StepOutcome::kAccepted:
        made_ = attempt.h;
        onset_->accepted(control_);
        jumping_.accepted();
        return accept(i, in, next);
      case StepOutcome::kRejected:
        onset_->rejected(attempt.h, control_);
        jumping_.rejected(x_.start(), attempt.h, i);
        return true;
      case StepOutcome::kBudgetExhausted:
        return budget_exhausted(i);
      case StepOutcome::kNotFinite:
        return not_finite(i);
      case StepOutcome::kBelowMinimum:
        t_.outcome = Outcome::kStepTooSmall;
        t_.message = "the error of the smallest step, " + number(h) + " s, is " + number(error) +
                     " times the tolerance at time " + number(x_.time) + " s, in interval " +
                     std::to_string(i) +
                     ": a jump of the forces is there, or the tolerance is below rounding; use a "
                     "larger tolerance, a smaller min_step, or let contacts set in over a width "
                     "(onset=1e-4)";
        return false;
    }
    return false;
  }

  // a rejected step has evaluated what the next attempt starts with
  void remember_first_rates() {
    if (x_.nefc >= 0) return;
    const Workspace::Stage& first = method_.stage(0);
    x_.qacc = first.qacc;
    x_.act_dot = first.act_dot;
    x_.nefc = first.nefc;
    x_.ncon = first.ncon;
    x_.active = first.active;
  }

  // the step just made, up to the first event within it
  bool accept(int i, const IntervalInput& in, double next) {
    if (!method_.finish(times_)) return not_finite(i);
    workspace_warnings_.look(workspace_->data.get(), i, t_.warnings);
    const std::optional<Landing> landing =
        steps_of_ ? land_.as_given(next) : land_(x_.start(), in, next);
    if (!landing) return not_finite(i);
    return landing->rows.empty() ? record(i, landing->time, landing->jumps)
                                 : record_event(i, in, *landing);
  }

  // at the end of the step just made
  bool record_event(int i, const IntervalInput& in, const Landing& landing) {
    const int step = static_cast<int>(t_.integrator.time.size()) - 1;
    EventRecord event = make_event(model_, landing, i, step, events_.rates_at_end().qacc);
    if (!record(i, landing.time, true)) return false;
    if (landing.release) events_.release(event.constraints);

    // the other side, where the next step begins
    method_.begin(x_.start(), in, 0);
    if (!method_.place(0) || !method_.evaluate(0, times_)) return not_finite(i);
    remember_first_rates();
    add_other_side(x_.start(), event);
    t_.integrator.events.push_back(event.event);
    tape_->events.push_back(std::move(event));
    return true;
  }

  // the step just made; jumps: the rates at its end are not the next one's
  bool record(int i, double next, bool jumps) {
    const size_t n = t_.integrator.time.size() - 1;
    if (static_cast<int>(n) == t_.integrator.first_step.back()) record_interval_start(i);
    keep(static_cast<int>(n));
    IntegratorRecord& s = t_.integrator;
    const int step = static_cast<int>(n);
    if (events_.needs_base()) {
      tape_->suppressed.push_back({.step = step, .base = events_.base(), .at_end = jumps});
    }
    if (events_.is_nonsmooth() && !steps_of_) tape_->nonsmooth_step.push_back(step);
    const double h = next - x_.time;
    s.smallest_step = n == 0 ? h : std::min(s.smallest_step, h);
    s.largest_step = std::max(s.largest_step, h);
    s.implicit.push_back(choice_.implicit() ? 1 : 0);
    if (!steps_of_) {
      if (!choice_.implicit()) stiffness_.follow(h);
      choice_.follow(h);
    }
    x_.follow(method_, next, jumps);
    events_.follow(jumps);
    s.time.push_back(next);
    const BadState bad = find_bad_state(t_, x_.qpos.data(), x_.qvel.data(), x_.act.data());
    if (bad.what) {
      fail_not_finite(model_, bad, i, x_.time, kRemedy, t_);
      return false;
    }
    return true;
  }

  // step n, which the method has just made
  void keep(int n) {
    Tape& tape = *tape_;
    if (checkpoints_) {
      const std::optional<int> slot = checkpoints_->keep(n);
      if (!slot) return;
      const size_t width = StepState::size(impl_), k = static_cast<size_t>(*slot);
      tape.kept.resize(std::max(tape.kept.size(), (k + 1) * width));
      tape.kept_nefc.resize(std::max(tape.kept_nefc.size(), k + 1));
      tape.kept_step.resize(std::max(tape.kept_step.size(), k + 1));
      x_.write(Vec(tape.kept).subspan(k * width, width), tape.kept_nefc[k]);
      tape.kept_step[k] = n;
      return;
    }
    if (!keep_) return;
    keep_step(impl_, x_, method_, tape);
  }

  void record_row(int i) {
    record_state(x_.time, x_.qpos.data(), x_.qvel.data(), x_.act.data(), i, t_);
  }
  void record_interval_start(int i) {
    const Workspace::Stage& first = method_.stage(0);
    const ptrdiff_t at = static_cast<ptrdiff_t>(i) * t_.nv;
    std::copy(first.qacc.begin(), first.qacc.end(), t_.qacc.begin() + at);
    std::copy(x_.qacc_warmstart.begin(), x_.qacc_warmstart.end(),
              tape_->qacc_warmstart.begin() + at);
    t_.steps[static_cast<size_t>(i)].nefc = first.nefc;
    t_.steps[static_cast<size_t>(i)].ncon = first.ncon;
  }

  // and says which contact made so many steps necessary
  void add_event_warnings() {
    for (Warning& warning : event_warnings(model_, tape_->events)) {
      const bool steps = t_.outcome == Outcome::kBudgetExhausted;
      if (steps && warning.kind == WarningKind::kChatter) t_.message += "; " + warning.text;
      t_.warnings.push_back(std::move(warning));
    }
  }

  // the same of what makes the motion stiff
  void add_stiff_warnings() {
    const size_t before = t_.warnings.size();
    stiffness_.warn(x_.time - t_.time[0], !controller_, t_.warnings);
    const bool steps = t_.outcome == Outcome::kBudgetExhausted;
    if (steps && t_.warnings.size() > before) t_.message += "; " + t_.warnings.back().text;
  }

  // the same of contacts that no step is short enough for
  void add_jumping_contact() {
    if (!controller_) return;
    if (std::optional<Warning> warning = jumping_.warning(model_, *workspace_)) {
      t_.warnings.push_back(std::move(*warning));
    }
    if (t_.outcome != Outcome::kBudgetExhausted) return;
    std::string what = jumping_.what(model_, *workspace_);
    const long nstep = nmade() + control_.nrejected;
    const double step = (x_.time - t_.time[0]) / static_cast<double>(std::max(nstep, 1L));
    for (const double nmean : {20, 200}) {
      if (!what.empty()) break;
      what = find_jumping_contact(model_, x_.start(), nmean * step, *workspace_);
    }
    if (!what.empty()) t_.message += "; " + what;
  }

  bool stopped(int i) {
    t_.outcome = Outcome::kInterrupted;
    t_.message =
        "interrupted in interval " + std::to_string(i) + " of " + std::to_string(t_.nstep_asked);
    return false;
  }
  bool budget_exhausted(int i) {
    const bool early = controller_ && !controller_->exhausted(control_);
    const std::string made =
        std::to_string(nmade()) + " accepted, " + std::to_string(control_.nrejected) + " rejected";
    t_.outcome = Outcome::kBudgetExhausted;
    t_.message =
        (early ? std::to_string(nmade() + control_.nrejected) + " steps (" + made + ")"
               : "max_steps = " + std::to_string(options_.stepping.max_steps) + " (" + made + ")") +
        " reached time " + number(x_.time) + " s, in interval " + std::to_string(i) + " of " +
        std::to_string(t_.nstep_asked);
    if (early) {
      t_.message += ", and at the pace of the last ones the rest would take " +
                    text("%.1e", progress_->needed_steps()) + " of them and " +
                    text("%.1e", progress_->needed_ratio()) +
                    " times the evaluations of MuJoCo's own steps, far beyond what max_steps = " +
                    std::to_string(options_.stepping.max_steps) +
                    " is meant for; use a larger tolerance";
    } else {
      t_.message += std::string("; use a larger max_steps or a larger ") +
                    (controller_ ? "tolerance" : "step");
    }
    t_.message += stiffness_.hint();
    return false;
  }
  bool not_finite(int i) {
    t_.outcome = Outcome::kNotFinite;
    t_.message = "the rollout diverged: numbers within the step from " + number(x_.time) +
                 " s, in interval " + std::to_string(i) + ", are not finite or exceed 1e10; " +
                 kRemedy;
    return false;
  }

  static constexpr const char* kRemedy =
      "use adaptive steps of a smaller tolerance, a smaller step, softer contacts or smaller "
      "controls";

  const Model& model_;
  const ModelImpl& impl_;
  const AdaptiveOptions& options_;
  const Trajectory* steps_of_;
  StopSignal& stop_;
  const ControlLaw& law_;
  WorkspaceLease workspace_;
  WarningCollector workspace_warnings_;
  RungeKutta method_;
  Stiffness stiffness_;
  StepState x_;
  Trajectory t_;
  std::shared_ptr<Tape> tape_ = std::make_shared<Tape>();  // of t_, while it is written
  std::optional<Progress> progress_;
  EvaluationTimes times_, counted_;  // counted_: up to which there is work_
  double work_ = 0;                  // as Effort has it
  const bool has_matrices_ = FieldMatrix::obstacle(impl_).empty();
  StepEvents events_{impl_, method_, *workspace_, times_};
  EventLanding land_{options_.stepping, method_, events_, times_};
  MethodChoice choice_{impl_, method_};
  std::optional<StepController> controller_, stiff_controller_;
  std::optional<OnsetLanding> onset_;  // with controller_
  StepControllerState control_;
  JumpingContact jumping_;
  double made_ = 0;  // [s] the last accepted step, to which control_.error1 belongs
  std::optional<Checkpoints> checkpoints_;
  bool keep_ = false;  // every step, unless there are checkpoints
};

}  // namespace

void require_steps_of(const std::string& who, const Model& model, int nstep,
                      const Trajectory* steps_of) {
  if (!steps_of) return;
  if (!model.is_adaptive()) {
    throw InputError(who + ": steps_of is given, but integrator " +
                     integrator_name(model.integrator()) +
                     " makes steps of one size; use an adaptive integrator such as auto");
  }
  if (steps_of->nstep != nstep ||
      steps_of->integrator.first_step.size() != static_cast<size_t>(nstep) + 1) {
    throw InputError(who + ": steps_of has " + std::to_string(steps_of->nstep) +
                     " intervals, expected nstep = " + std::to_string(nstep) +
                     " of an adaptive integrator");
  }
  // a model with other parameters is what differences in parameters need; another model is a
  // mistake
  if (steps_of->nq != model.nq() || steps_of->nv != model.nv() || steps_of->na != model.na() ||
      steps_of->nbody != model.nbody()) {
    const auto sizes = [](int nq, int nv, int na, int nbody) {
      return std::to_string(nq) + ", " + std::to_string(nv) + ", " + std::to_string(na) + ", " +
             std::to_string(nbody);
    };
    throw InputError(who + ": steps_of is a rollout of another model (nq, nv, na, nbody = " +
                     sizes(steps_of->nq, steps_of->nv, steps_of->na, steps_of->nbody) +
                     ", expected " + sizes(model.nq(), model.nv(), model.na(), model.nbody()) +
                     "); use a rollout of this model, or of one that differs in parameters only");
  }
  if (nstep == 0) return;
  const double interval = steps_of->time[1] - steps_of->time[0];
  if (std::abs(interval - model.interval()) > 1e-9 * model.interval()) {
    throw InputError(who + ": an interval of steps_of is " + number(interval) +
                     " s long, one of this model " + number(model.interval()) +
                     " s; use the same interval for both");
  }
}

Trajectory adaptive_rollout(const Model& model, const RolloutInput& input, int nstep,
                            const Trajectory* steps_of, bool keep_all, StopSignal& stop,
                            const ControlLaw& law) {
  return AdaptiveRollout(model, input, nstep, steps_of, keep_all, stop, law).run();
}

}  // namespace diffmj
