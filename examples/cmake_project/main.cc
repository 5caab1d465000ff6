// How does the place that a thrown ball reaches after one second change with its launch velocity?
//
// The ball hits the floor on its way. With MuJoCo's default contacts the contact force jumps at
// first touch, and the derivative of the motion has a term for the time of that touch. Adaptive
// steps (here Tsit5) include it. With MuJoCo's own integrators the gradient is the derivative of
// their steps, which differs: 0.329 instead of 0.044 for the last number (docs/gradients.md,
// "Exact is not the same as useful").
#include <cmath>
#include <cstdio>
#include <vector>

#include "diffmj/diffmj.h"

int main() {
  const char* const mjcf = R"(
    <mujoco>
      <worldbody>
        <geom type="plane" size="5 5 0.1"/>
        <body pos="0 0 1"><freejoint/><geom size="0.1" mass="1"/></body>
      </worldbody>
    </mujoco>)";
  const diffmj::Model model = diffmj::Model::from_xml(
      mjcf, {.integrator = diffmj::Integrator::kTsit5, .adaptive = {.interval = 0.01}});

  // throw the ball for one second
  const int nstep = static_cast<int>(std::lround(1.0 / model.interval()));
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
