#include "record/tape.h"

#include <utility>

#include "diffmj/error.h"
#include "setup/model_impl.h"

namespace diffmj {

std::shared_ptr<Tape> take_tape(Trajectory& t) {
  // it was made as one that may change
  std::shared_ptr<Tape> tape = std::const_pointer_cast<Tape>(std::move(t.tape));
  t.tape.reset();
  if (!tape || tape.use_count() != 1) return std::make_shared<Tape>();
  for (auto* x : {&tape->qacc_warmstart, &tape->tendon_numbers, &tape->kept}) x->clear();
  for (auto* x :
       {&tape->tendon_objects, &tape->kept_nefc, &tape->kept_step, &tape->nonsmooth_step}) {
    x->clear();
  }
  tape->contacts.clear();
  tape->contact_begin.clear();
  tape->rk4.clear();
  tape->events.clear();
  tape->suppressed.clear();
  return tape;
}

bool is_made_with(const Model& model, const Trajectory& t) {
  return t.tape && t.tape->model_id == model.impl().id;
}

Trajectory adopted(const Model& by, const Trajectory& t) {
  if (!t.tape || t.nq != by.nq() || t.nv != by.nv() || t.na != by.na() || t.nu != by.nu() ||
      t.nbody != by.nbody()) {
    throw InputError("a trajectory of a model of other sizes cannot be taken over");
  }
  const auto tape = std::make_shared<Tape>(*t.tape);
  tape->model_id = by.impl().id;
  Trajectory out = t;
  out.tape = tape;
  return out;
}

Trajectory without_jumps(const Trajectory& t) {
  const auto tape = std::make_shared<Tape>(*t.tape);
  for (EventRecord& record : tape->events) record.qacc_after = record.qacc_before;
  Trajectory out = t;
  out.tape = tape;
  return out;
}

}  // namespace diffmj
