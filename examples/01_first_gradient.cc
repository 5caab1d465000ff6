// The gradient of a throw: how does the resting place of a cube depend on the speed it is thrown
// with?
#include <cstdio>
#include <vector>

#include "diffmj/diffmj.h"

const char* const kCube = R"(
<mujoco>
  <option timestep="0.002"/>
  <default><geom solref="0.02 1" solimp="0 0.95 0.01 0.5 2"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="10 10 1"/>
    <body name="cube" pos="0 0 0.3">
      <freejoint/>
      <geom type="box" size="0.05 0.05 0.05" euler="30 20 0"/>
    </body>
  </worldbody>
</mujoco>)";

int main() {
  const auto model = diffmj::Model::from_xml(kCube);
  constexpr int kSteps = 200;

  // loss: where the cube is along x in the end, for a speed along x at the start
  const auto throw_cube = [&](double speed) {
    const std::vector<double> qvel = {speed, 0, 0, 0, 0, 0};
    return diffmj::rollout(model, {.qvel = qvel}, kSteps);
  };
  const auto loss = [](const diffmj::Trajectory& t) { return t.qpos[kSteps * 7]; };

  const diffmj::Trajectory t = throw_cube(1);
  std::vector<double> qpos_bar(t.qpos.size(), 0.0);
  qpos_bar[kSteps * 7] = 1;
  const diffmj::Gradient g = diffmj::rollout_pullback(model, t, {.qpos = qpos_bar});

  const double h = 1e-5;
  const double differences = (loss(throw_cube(1 + h)) - loss(throw_cube(1 - h))) / (2 * h);
  std::printf("the cube comes to x = %.6f m\n", loss(t));
  std::printf("d x / d speed: %.8f (adjoint), %.8f (differences)\n", g.qvel[0], differences);
  const double error = g.qvel[0] / differences - 1;
  return error * error < 1e-6 ? 0 : 1;
}
