"""A first gradient: how does the place where a tossed box ends depend on how it is thrown?"""

import diffmj
import numpy as np

MJCF = """
<mujoco>
  <option timestep="0.002"/>
  <default><geom solref="0.02 1" solimp="0 0.95 0.01 0.5 2"/></default>
  <worldbody>
    <geom type="plane" size="5 5 0.1"/>
    <body pos="0 0 0.3" euler="20 30 0">
      <freejoint/>
      <geom type="box" size="0.05 0.05 0.05" density="200"/>
    </body>
  </worldbody>
</mujoco>
"""
NSTEP = 300  # 0.6 s: it falls, hits the floor with a corner, and tumbles on

sim = diffmj.Simulator(MJCF)


def final_x(sim, qvel):
    """The loss: x of the box at the end. Also the trajectory, to go back through."""
    trajectory = sim.rollout(qvel=qvel, nstep=NSTEP)
    return trajectory.qpos[-1, 0], trajectory


# forward: MuJoCo's own steps
qvel = np.array([1.0, 0.2, 0.0, 0.0, 3.0, 0.0])  # velocity [m/s], angular velocity [rad/s]
loss, trajectory = final_x(sim, qvel)
print(f"the box ends at x = {loss:.6f} m; up to {trajectory.steps.ncon.max()} contacts on the way")

# backward: d(loss)/d(state) of every row in, d(loss)/d(initial velocity) out
dloss_dqpos = np.zeros_like(trajectory.qpos)
dloss_dqpos[-1, 0] = 1
gradient = trajectory.backward(qpos=dloss_dqpos).qvel

# the same by finite differences, two more rollouts for every number
tight, h = sim.tightened(), 1e-6
print("d(x)/d(qvel)   adjoint        differences")
for i, name in enumerate(["vx", "vy", "vz", "wx", "wy", "wz"]):
    unit = np.eye(6)[i]
    difference = (final_x(tight, qvel + h * unit)[0] - final_x(tight, qvel - h * unit)[0]) / (2 * h)
    print(f"          {name}  {gradient[i]:12.8f}   {difference:12.8f}")
