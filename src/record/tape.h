// What the backward pass reads of a rollout beside its states.
#ifndef DIFFMJ_RECORD_TAPE_H_
#define DIFFMJ_RECORD_TAPE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "diffmj/rollout.h"
#include "events/event_record.h"
#include "stages/stage_records.h"

namespace diffmj {

struct Tape {
  int model_id = 0;  // of the model it was made with, or a copy of it

  std::vector<double> qacc_warmstart;  // nstep x nv: what the solver of each step started from
  // Tendon paths at the start of each step, so that the backward pass need not recompute them:
  // nstep rows, or nothing if the model has none or they would not fit.
  std::vector<double> tendon_numbers;
  std::vector<int> tendon_objects;
  // Contacts at the start of each step, to the same end: those of step i are the bytes from
  // contact_begin[i] to contact_begin[i + 1]. Both are empty where contacts would not fit.
  std::vector<unsigned char> contacts;
  std::vector<size_t> contact_begin;  // nstep + 1
  // Of RK4, in place of these: what its evaluations found, or nothing if that would not fit.
  StageRecords rk4;

  // Of explicit Runge-Kutta methods: all steps with their stages, or the states of those in
  // kept_step (AdaptiveOptions::checkpoints), in the layout of record/integrator_steps.h.
  std::vector<double> kept;
  std::vector<int> kept_nefc;
  std::vector<int> kept_step;
  std::vector<EventRecord> events;  // in the order of time, and so are those below
  std::vector<SuppressedStep> suppressed;
  // Nonsmooth steps, within which constraints began or ceased to carry force. They use the
  // continuous adjoint, because that of the step itself does not depend on where in the step this
  // happens.
  std::vector<int> nonsmooth_step;
};

// An empty tape; it has the memory of the one that the trajectory had, if no other shares it.
std::shared_ptr<Tape> take_tape(Trajectory& trajectory);

// The trajectory was made with this model, or a copy of it.
bool is_made_with(const Model& model, const Trajectory& trajectory);

// The same rollout as one of another model, for comparisons of gradients along the same states.
// Throws InputError if their sizes differ.
Trajectory adopted(const Model& by, const Trajectory& trajectory);
// The same rollout with no jump of the rates at its events.
Trajectory without_jumps(const Trajectory& trajectory);

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_TAPE_H_
