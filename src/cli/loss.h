// The losses of `diffmj grad`: weighted sums of entries of the state.
//
//   loss = term { ("+" | "-") term },   term = [number "*"] entry
//   entry = qpos[2]        by number
//         | qvel[knee]     by joint, of a joint with one coordinate
//         | qpos[root,2]   by joint and coordinate
//         | qvel           all of them, added;  sum is qpos + qvel + act
#ifndef DIFFMJ_CLI_LOSS_H_
#define DIFFMJ_CLI_LOSS_H_

#include <string>
#include <vector>

#include "diffmj/diffmj.h"

namespace diffmj::cli {

// The weight of every entry of one state.
struct Loss {
  std::vector<double> qpos, qvel, act;  // nq, nv, na
};

// Throws InputError naming what it could not read.
Loss parse_loss(const Model& model, const std::string& text);

// The loss of a trajectory, and its cotangents: weights on the last row, or on every row.
struct LossValue {
  double value = 0;
  std::vector<double> qpos_bar, qvel_bar, act_bar;  // (nstep + 1) x {nq, nv, na}
};
LossValue evaluate_loss(const Loss& loss, const Trajectory& trajectory, bool every_step);

}  // namespace diffmj::cli

#endif  // DIFFMJ_CLI_LOSS_H_
