"""Controls through contact: a pusher flicks a puck so that it comes to a goal.

The gradient of the final distance in every control goes through the push and the friction of the
floor. Adam on 2 x 200 controls, one backward pass per iteration.
"""

import diffmj
import numpy as np

MJCF = """
<mujoco>
  <option timestep="0.005"/>
  <default><geom solref="0.02 1" solimp="0 0.95 0.01 0.5 2" friction="0.2 0.005 0.0001"/></default>
  <worldbody>
    <geom type="plane" size="3 3 0.1"/>
    <body name="pusher" pos="-0.2 0 0.05">
      <joint name="x" type="slide" axis="1 0 0" damping="2"/>
      <joint name="y" type="slide" axis="0 1 0" damping="2"/>
      <geom type="sphere" size="0.04" mass="0.5" friction="0"/>
    </body>
    <body name="puck" pos="0 0.01 0.02">
      <freejoint/>
      <geom type="cylinder" size="0.06 0.02" mass="0.3"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="x" gear="5" ctrlrange="-1 1"/>
    <motor joint="y" gear="5" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
"""
NSTEP, GOAL = 200, np.array([0.5, 0.15])  # 1 s; [m]
PUCK = slice(2, 4)  # x and y of the puck in qpos

sim = diffmj.Simulator(MJCF)


def loss_and_gradient(ctrl):
    """Squared distance of the puck from the goal at the end, plus a little for the effort."""
    trajectory = sim.rollout(ctrl=ctrl)
    miss = trajectory.qpos[-1, PUCK] - GOAL
    bar = np.zeros_like(trajectory.qpos)
    bar[-1, PUCK] = 2 * miss
    gradient = trajectory.backward(qpos=bar).ctrl
    effort = 1e-5
    return miss @ miss + effort * np.sum(ctrl**2), gradient + 2 * effort * ctrl, miss


ctrl = np.zeros((NSTEP, sim.nu))
ctrl[:60, 0] = 0.5  # a first push: without touch there is nothing to learn from
mean, square = np.zeros_like(ctrl), np.zeros_like(ctrl)
best = (np.inf, None)
for i in range(1, 101):
    loss, gradient, miss = loss_and_gradient(ctrl)
    best = min(best, (loss, np.linalg.norm(miss)))
    if i == 1 or i % 10 == 0:
        print(f"  {i:3d}: loss {loss:.6f}, puck {1e3 * np.linalg.norm(miss):6.1f} mm from the goal")
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.99 * square + 0.01 * gradient**2
    step = mean / (1 - 0.9**i) / (np.sqrt(square / (1 - 0.99**i)) + 1e-8)
    ctrl = np.clip(ctrl - 0.02 * step, -1, 1)
print(f"best: {1e3 * best[1]:.1f} mm from the goal")
assert best[1] < 0.02, "the puck does not come to the goal"
