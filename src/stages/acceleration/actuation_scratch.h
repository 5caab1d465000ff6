// What actuation_pullback() keeps in a workspace (stages/acceleration/actuation.h).
#ifndef DIFFMJ_STAGES_ACCELERATION_ACTUATION_SCRATCH_H_
#define DIFFMJ_STAGES_ACCELERATION_ACTUATION_SCRATCH_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace diffmj {

struct ActuationScratch {
  explicit ActuationScratch(const mjModel* m);

  std::vector<double> lambda, moment;                              // nv
  std::vector<double> y;                                           // 3 nv
  std::vector<double> act, act_dot, act_dot_bar;                   // na
  std::vector<double> force, force_bar, length_bar, velocity_bar;  // nout
  std::vector<double> step, center, psi;                           // nactuator
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_ACTUATION_SCRATCH_H_
