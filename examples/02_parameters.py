"""Poses and parameters: how far from a goal an arm ends, by its masses and dampers."""

import diffmj
import mujoco
import numpy as np

MJCF = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <default><joint axis="0 1 0" damping="0.05"/><geom type="capsule" size="0.02"/></default>
  <worldbody>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder"/>
      <geom fromto="0 0 0 0.3 0 0.02"/>
      <body name="lower" pos="0.3 0 0.02">
        <joint name="elbow"/>
        <geom fromto="0 0 0 0.25 0 -0.03"/>
        <site name="tip" pos="0.25 0 -0.03"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="shoulder" gear="2"/><motor joint="elbow"/></actuator>
</mujoco>
"""
NSTEP, GOAL = 200, np.array([0.2, 0.0, 1.3])
CTRL = np.array([-1.0, -0.2])

model = mujoco.MjModel.from_xml_string(MJCF)
tip = model.site("tip").id


def loss(model):
    """Squared distance of the tip from the goal at the end. Also the trajectory."""
    trajectory = diffmj.Simulator(model).rollout(ctrl=CTRL, nstep=NSTEP)
    return np.sum((trajectory.site_xpos[-1, tip] - GOAL) ** 2), trajectory


value, trajectory = loss(model)
print(f"loss {value:.6f} m²; {trajectory.nstep} steps")

# d(loss)/d(site_xpos) in, d(loss)/d(parameters) out
dloss_dsite = np.zeros_like(trajectory.site_xpos)
dloss_dsite[-1, tip] = 2 * (trajectory.site_xpos[-1, tip] - GOAL)
gradient = trajectory.backward(site_xpos=dloss_dsite, params=["body_mass", "dof_damping"])

print("                        adjoint    differences")
for name in ("body_mass", "dof_damping"):
    first = 1 if name == "body_mass" else 0  # the world has no mass
    for i in range(first, getattr(model, name).shape[0]):
        ends = []
        for h in (1e-6, -1e-6):
            moved = mujoco.MjModel.from_xml_string(MJCF)
            getattr(moved, name)[i] += h
            ends.append(loss(moved)[0])
        difference = (ends[0] - ends[1]) / 2e-6
        print(f"  {name + f'[{i}]':14}  {gradient.params[name][i]:14.8f} {difference:14.8f}")
print(f"  d(loss)/d(ctrl), summed over the steps: {gradient.ctrl.sum(axis=0)}")
