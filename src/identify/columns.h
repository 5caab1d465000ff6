// Columns of dp/dθ: what one parameter changes in a compiled model.
#ifndef DIFFMJ_IDENTIFY_COLUMNS_H_
#define DIFFMJ_IDENTIFY_COLUMNS_H_

#include <mujoco/mujoco.h>

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mj/handle.h"

namespace diffmj {

// Slopes by field (number in parameter_fields()) and entry.
using Slopes = std::map<std::pair<int, int>, double>;

struct Column {
  Slopes slopes;
  std::string refused;   // the first array that acts on the motion and has no gradient
  std::string kink;      // why there is no derivative, of the first entry that has none
  bool changes = false;  // anything at all
};

// Of models at θ + h and θ - h; size is that of the parameter.
Column column_of(const mjModel* plus, const mjModel* minus, double h, double size);

// Do slopes of two steps agree? They do not if the function rounds, for example to six digits of a
// text.
bool is_smooth(const Column& near, const Column& far);

// A model with movable numbers: those that mj_setConst derives (inverse weights, acc0, ...) follow,
// without a compilation.
class MovableModel {
 public:
  explicit MovableModel(MjModelPtr model);

  // The numbers the model came with, changed by step · slopes.
  void move(const Slopes& slopes, double step);
  const mjModel* mj() const { return model_.get(); }

  // The column with these slopes: those of numbers that mj_setConst derives are computed here.
  Column column(const Slopes& slopes, double h, double size);
  // Is `other` what these slopes say? To 1e-7 of each change, which holds for a model whose numbers
  // are affine in the parameters but for those that mj_setConst derives.
  bool predicts(const Slopes& change, const mjModel* other);

 private:
  MjModelPtr model_;
  MjDataPtr data_;
  std::vector<std::vector<double>> numbers_;  // of every field
};

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_COLUMNS_H_
