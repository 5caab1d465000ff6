// The record of a rollout as an array of fixed shape, for frameworks that can pass only arrays from
// the forward to the backward pass.
//
// A row holds a state and the step that begins there: time, qpos, qvel, act, the warm start of the
// constraint solver, the acceleration, and the number of constraint rows. Contacts and tendon paths
// are not included: the backward pass recomputes them, with the same bits.
#ifndef DIFFMJ_TAPE_H_
#define DIFFMJ_TAPE_H_

#include <cstddef>
#include <span>

#include "diffmj/model.h"
#include "diffmj/rollout.h"

namespace diffmj {

// Numbers per row.
int tape_width(const Model& model);
// Numbers of a tape: (nstep + 1) x tape_width.
size_t tape_size(const Model& model, int nstep);

// tape has tape_size(model, trajectory.nstep_asked) numbers. Rows that the rollout did not reach
// are 0. Throws InputError on another size, or if the trajectory belongs to another model.
void write_tape(const Model& model, const Trajectory& trajectory, std::span<double> tape);

// The trajectory as rollout_pullback() needs it. The gradient has the same bits as that of the
// trajectory from which the tape was written. input: that of the rollout, without qpos, qvel, act,
// time and qacc_warmstart, which are in the tape. A rollout that failed has the outcome kNotFinite,
// whatever it was. With explicit Runge-Kutta methods only the start is read from the tape, and the
// rollout is recomputed. Throws InputError if the input or the size of the tape is wrong.
[[nodiscard]] Trajectory trajectory_from_tape(const Model& model, const RolloutInput& input,
                                              int nstep, std::span<const double> tape);

}  // namespace diffmj

#endif  // DIFFMJ_TAPE_H_
