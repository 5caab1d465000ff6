// The losses of `diffmj grad`: weighted sums of entries of the state and of its observables.
//
//   loss = term { ("+" | "-") term },   term = [number "*"] entry
//   entry = qpos[2]        by number
//         | qvel[knee]     by joint, of a joint with one coordinate
//         | qpos[root,2]   by joint and coordinate
//         | site_xpos[tip,2]   an observable (diffmj/observables.h) by element, its name or
//                              number, and coordinate; 0 to 8 of a matrix, row by row
//         | sensor('imu')[2]   a sensor by name, and its entry; without an entry all, added
//         | qvel           all of them, added;  sum is qpos + qvel + act
#ifndef DIFFMJ_CLI_LOSS_H_
#define DIFFMJ_CLI_LOSS_H_

#include <map>
#include <string>
#include <vector>

#include "diffmj/diffmj.h"

namespace diffmj::cli {

// The weight of every entry of one state.
struct Loss {
  std::vector<double> qpos, qvel, act;                     // nq, nv, na
  std::map<std::string, std::vector<double>> observables;  // those that the loss has, by name
  std::vector<double> sensordata;                          // nsensordata; empty: the loss has none
};

// Throws InputError naming what it could not read.
Loss parse_loss(const Model& model, const std::string& text);

// The loss of a trajectory, and its cotangents: weights on the last row, or on every row.
struct LossValue {
  double value = 0;
  bool final_row = true;                            // the arrays have the last row alone
  std::vector<double> qpos_bar, qvel_bar, act_bar;  // rows of {nq, nv, na}
  std::map<std::string, std::vector<double>> observable_bars;
  std::vector<double> sensordata_bar;

  Cotangents cotangents() const;  // look into the arrays here
};
LossValue evaluate_loss(const Model& model, const Loss& loss, const Trajectory& trajectory,
                        bool every_step);

}  // namespace diffmj::cli

#endif  // DIFFMJ_CLI_LOSS_H_
