"""Parameters from a recorded motion: damper, spring and friction of a model that is a little wrong.

A block slides along a tray that swings, and its motion is recorded. BFGS on the logarithms of three
factors finds them; every gradient is one backward pass.
"""

import diffmj
import mujoco
import numpy as np

MJCF = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <default><geom solref="0.02 1" solimp="0 0.95 0.01 0.5 2" condim="3"/></default>
  <worldbody>
    <body name="tray" pos="0 0 0.5">
      <joint name="swing" axis="0 1 0" damping="0.3" stiffness="8"/>
      <geom name="tray" type="box" size="0.5 0.2 0.01" mass="1" friction="0.3"/>
    </body>
    <body name="block" pos="-0.2 0 0.58">
      <freejoint/>
      <geom name="block" type="box" size="0.05 0.05 0.04" mass="0.4" friction="0.3"/>
    </body>
  </worldbody>
</mujoco>
"""
NSTEP = 150
QVEL = np.array([0, 1.0, 0, 0, 0, 0, 0])  # the block slides along the tray


def simulator(log_scale):
    """The model with its parameters scaled: damping of the swing, its stiffness, friction."""
    model = mujoco.MjModel.from_xml_string(MJCF)
    damping, stiffness, friction = np.exp(log_scale)
    model.dof_damping[0] *= damping
    model.jnt_stiffness[0] *= stiffness
    model.geom_friction[:, 0] *= friction
    return model, diffmj.Simulator(model)


def loss_and_gradient(log_scale, recorded):
    model, sim = simulator(log_scale)
    trajectory = sim.rollout(qvel=QVEL, nstep=NSTEP)
    miss = trajectory.qpos - recorded
    names = ["dof_damping", "jnt_stiffness", "geom_friction"]
    params = trajectory.backward(qpos=2 * miss / NSTEP, params=names).params
    gradient = [
        params["dof_damping"][0] * model.dof_damping[0],  # d/d(log x) = x d/dx
        params["jnt_stiffness"][0] * model.jnt_stiffness[0],
        params["geom_friction"][:, 0] @ model.geom_friction[:, 0],
    ]
    return np.sum(miss**2) / NSTEP, np.array(gradient)


truth = np.log([1.5, 0.8, 1.3])  # what a real system would hide
recorded = simulator(truth)[1].rollout(qvel=QVEL, nstep=NSTEP).qpos

# BFGS: the three differ in how much they matter
x, inverse = np.zeros(3), None
loss, gradient = loss_and_gradient(x, recorded)
for i in range(40):
    first = inverse is None
    direction = -0.1 * gradient / np.linalg.norm(gradient) if first else -inverse @ gradient
    for length in 0.5 ** np.arange(20):
        trial_loss, trial_gradient = loss_and_gradient(x + length * direction, recorded)
        if trial_loss < loss + 1e-4 * length * (gradient @ direction):
            break
    s, y = length * direction, trial_gradient - gradient
    if s @ y > 0:
        if first:
            inverse = np.eye(3) * (s @ y) / (y @ y)
        left = np.eye(3) - np.outer(s, y) / (s @ y)
        inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
    x, loss, gradient = x + s, trial_loss, trial_gradient
    print(f"  {i:2d}: loss {loss:.3e}, factors {np.exp(x).round(4)}")
    if loss < 1e-14:
        break
print(f"found {np.exp(x).round(4)}, true {np.exp(truth).round(4)}")
assert np.allclose(x, truth, atol=1e-2), "the fit did not find the parameters"
