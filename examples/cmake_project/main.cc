// How does the landing point of a thrown ball change with its launch velocity?
#include <cmath>
#include <cstdio>
#include <vector>

#include "diffmj/diffmj.h"

int main() {
  const diffmj::Model model = diffmj::Model::from_xml(R"(
    <mujoco>
      <worldbody>
        <geom type="plane" size="5 5 0.1"/>
        <body pos="0 0 1"><freejoint/><geom size="0.1" mass="1"/></body>
      </worldbody>
    </mujoco>)");

  // throw the ball for one second
  const int nstep = static_cast<int>(std::lround(1.0 / model.timestep()));
  const std::vector<double> qvel = {1, 0, 2, 0, 0, 0};
  const diffmj::Trajectory trajectory = diffmj::rollout(model, {.qvel = qvel}, nstep);
  if (!trajectory.ok()) {
    std::fprintf(stderr, "%s\n", trajectory.message.c_str());
    return 1;
  }

  // the loss is x at the end: its cotangent is one number of the last row
  std::vector<double> qpos_bar(trajectory.qpos.size(), 0.0);
  qpos_bar[qpos_bar.size() - static_cast<size_t>(model.nq())] = 1;
  const diffmj::Gradient gradient = diffmj::rollout_pullback(model, trajectory, {.qpos = qpos_bar});

  std::printf("dx/d(qvel) = %g %g %g\n", gradient.qvel[0], gradient.qvel[1], gradient.qvel[2]);
  return std::isfinite(gradient.qvel[0]) ? 0 : 1;
}
