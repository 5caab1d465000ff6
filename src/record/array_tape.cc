#include <algorithm>

#include "base/require.h"
#include "diffmj/error.h"
#include "diffmj/tape.h"
#include "mj/view.h"
#include "record/input.h"
#include "record/recorder.h"
#include "record/tape.h"
#include "record/trajectory.h"
#include "setup/model_impl.h"

namespace diffmj {
namespace {

// where the numbers of a row are
struct TapeRow {
  explicit TapeRow(const Model& model)
      : qpos(1),
        qvel(qpos + model.nq()),
        act(qvel + model.nv()),
        qacc_warmstart(act + model.na()),
        qacc(qacc_warmstart + model.nv()),
        nefc(qacc + model.nv()),
        reached(nefc + 1),
        width(reached + 1) {}
  int qpos, qvel, act, qacc_warmstart, qacc, nefc;
  int reached;  // 1: the rollout got to this state
  int width;
};

void require_tape(const char* who, const Model& model, int nstep, size_t size) {
  const size_t expected = tape_size(model, nstep);
  require_size(who, "tape", size, expected, expected,
               std::to_string(nstep + 1) + " x " + std::to_string(tape_width(model)) +
                   " ((nstep + 1) x tape_width)");
}

}  // namespace

int tape_width(const Model& model) { return TapeRow(model).width; }

size_t tape_size(const Model& model, int nstep) {
  return (static_cast<size_t>(nstep) + 1) * static_cast<size_t>(tape_width(model));
}

void write_tape(const Model& model, const Trajectory& t, Vec tape) {
  if (!is_made_with(model, t)) {
    throw InputError("write_tape: the trajectory was made with another model");
  }
  require_tape("write_tape", model, t.nstep_asked, tape.size());
  std::fill(tape.begin(), tape.end(), 0.0);
  const TapeRow at(model);
  for (int i = 0; i <= t.nstep; i++) {
    double* to = tape.data() + static_cast<ptrdiff_t>(i) * at.width;
    const auto put = [to](CVec from, int where) {
      std::copy(from.begin(), from.end(), to + where);
    };
    to[0] = t.time[static_cast<size_t>(i)];
    put(row(t.qpos, i, t.nq), at.qpos);
    put(row(t.qvel, i, t.nv), at.qvel);
    put(row(t.act, i, t.na), at.act);
    to[at.reached] = 1;
    if (i == t.nstep) {
      put(t.next_warmstart, at.qacc_warmstart);
      break;
    }
    put(row(t.tape->qacc_warmstart, i, t.nv), at.qacc_warmstart);
    put(row(t.qacc, i, t.nv), at.qacc);
    to[at.nefc] = t.steps[static_cast<size_t>(i)].nefc;
  }
}

Trajectory trajectory_from_tape(const Model& model, const RolloutInput& input, int nstep,
                                CVec tape) {
  const char* who = "trajectory_from_tape";
  require_input(who, model, input, nstep);
  require_tape(who, model, nstep, tape.size());
  const TapeRow at(model);
  const auto from = [&](int i) { return tape.data() + static_cast<ptrdiff_t>(i) * at.width; };
  const auto part = [&](int i, int where, int size) {
    return CVec(from(i) + where, static_cast<size_t>(size));
  };
  const int nv = model.nv();
  int done = 0;
  while (done < nstep && from(done + 1)[at.reached] != 0) done++;

  if (model.is_adaptive() && done == nstep) {
    RolloutInput again = input;
    again.time = from(0)[0];
    again.qpos = part(0, at.qpos, model.nq());
    again.qvel = part(0, at.qvel, nv);
    again.act = part(0, at.act, model.na());
    return rollout(model, again, nstep);
  }
  Trajectory t;
  const auto own = std::make_shared<Tape>();
  t.tape = own;
  TendonRecordSize none(model.mj());
  none.numbers = none.objects = 0;
  allocate_rows(model, input, nstep, none, t, *own);
  resize_rows(done, none, t, *own);
  t.nstep = done;
  for (int i = 0; i <= done; i++) {
    record_state(from(i)[0], from(i) + at.qpos, from(i) + at.qvel, from(i) + at.act, i, t);
    if (i == done) break;
    std::copy_n(from(i) + at.qacc_warmstart, nv, own->qacc_warmstart.data() + i * nv);
    std::copy_n(from(i) + at.qacc, nv, t.qacc.data() + i * nv);
    t.steps[static_cast<size_t>(i)].nefc = static_cast<int>(from(i)[at.nefc]);
  }
  t.next_warmstart.assign(from(done) + at.qacc_warmstart, from(done) + at.qacc);
  if (done < nstep) {
    t.outcome = Outcome::kNotFinite;
    t.message =
        "the rollout failed at step " + std::to_string(done) + " of " + std::to_string(nstep);
  }
  return t;
}

}  // namespace diffmj
