// The steps that a Runge-Kutta method made: the record of a rollout read again.
//
// A row of Tape::kept, with every step kept: qpos, qvel, act at the start of the step, then
// qacc and act_dot of all its stages, or the increments of a linearly implicit method, stage by
// stage; kept_nefc has a number per stage. Where two methods take turns rows have the length of the
// longer one. With checkpoints: the
// StepState before step kept_step[slot], as many rows as there are slots; kept_nefc has one number.
#ifndef DIFFMJ_RECORD_INTEGRATOR_STEPS_H_
#define DIFFMJ_RECORD_INTEGRATOR_STEPS_H_

#include <span>
#include <vector>

#include "diffmj/rollout.h"
#include "integrate/runge_kutta.h"
#include "record/tape.h"
#include "setup/model_impl.h"
#include "setup/workspace_lease.h"

namespace diffmj {

// How many checkpoints of a rollout can be of use; the option is set.
int checkpoint_slots(const AdaptiveOptions& options);

// What drives interval i.
IntervalInput interval_input(const Model& model, const Trajectory& trajectory, int i);

// The state between two steps, with all that the next one depends on: recomputed from it, steps are
// the same to the last bit.
struct StepState {
  explicit StepState(const ModelImpl& impl);

  double time = 0;                                     // [s]
  std::vector<double> qpos, qvel, act, qacc, act_dot;  // nq, nv, na, nv, na
  std::vector<double> qacc_warmstart;                  // nv
  int nefc = -1, ncon = 0;                             // -1: qacc and act_dot are not known
  size_t active = 0;                                   // with them, but in no checkpoint

  StepStart start() const;
  // After a step, which is finished where its rates are the next one's: not where they jump.
  void follow(RungeKutta& method, double time, bool jumps);
  // At the start of an interval: the rates are no longer known where inputs jump.
  void enter(const Model& model, const Trajectory& trajectory, int interval);

  static size_t size(const ModelImpl& impl);
  void write(Vec row, int& nefc) const;
  void read(CVec row, int nefc, double time);
};

// The event that ends step n, and what was active where it began if something was suppressed
// within it; or null.
const EventRecord* event_after(const Trajectory& trajectory, int n);
const SuppressedStep* suppressed_step(const Trajectory& trajectory, int n);
// Step n begins where an event released constraints.
bool begins_with_release(const Trajectory& trajectory, int n);
// The rates at the end of step n are not those of the next one.
bool ends_at_jump(const Trajectory& trajectory, int n);
// Forces have a corner within step n.
bool is_nonsmooth(const Trajectory& trajectory, int n);

// The method of step n.
const Tableau& step_tableau(const ModelImpl& impl, const Trajectory& trajectory, int n);

// Keeps the step that the method has just made from x.
void keep_step(const ModelImpl& impl, const StepState& x, RungeKutta& method, Tape& tape);
// Step i of a trajectory that keeps every step.
MadeStep kept_step(const Model& model, const Trajectory& trajectory, int i);

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_INTEGRATOR_STEPS_H_
