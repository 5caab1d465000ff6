// The record of a rollout as an array of fixed shape, for frameworks that carry from the forward to
// the backward pass nothing but arrays.
//
// A row holds a state and the step that begins there: time, qpos, qvel, act, what the solver
// started from, the acceleration, and the number of constraint rows. Contacts and paths of tendons
// are not part of it: the backward pass finds them again, with the same bits.
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

// The trajectory as rollout_pullback() needs it, which then gives the same bits as for the one the
// tape was written from. input: that of the rollout, without qpos, qvel, act, time and
// qacc_warmstart, which are in the tape. A rollout that failed has the outcome kNotFinite, whatever
// it was. Of explicit Runge-Kutta methods the tape holds the start alone that counts: the rollout
// is run again.
// Throws InputError if the input or the size of the tape is wrong.
[[nodiscard]] Trajectory trajectory_from_tape(const Model& model, const RolloutInput& input,
                                              int nstep, std::span<const double> tape);

}  // namespace diffmj

#endif  // DIFFMJ_TAPE_H_
