"""Your own model: is its gradient right, what does it cost, and what does the motion depend on?

usage: python 02_own_model.py [model.xml] [keyframe]        (without: a box on a tilting tray)
"""

import sys
import time

import diffmj
import mujoco
import numpy as np

TRAY = """
<mujoco model="tray">
  <option timestep="0.002" integrator="implicitfast"/>
  <default><geom solref="0.02 1" solimp="0 0.95 0.01 0.5 2"/></default>
  <worldbody>
    <body name="tray" pos="0 0 0.5">
      <joint name="tilt" axis="0 1 0" damping="0.5"/>
      <geom type="box" size="0.3 0.2 0.01" mass="1"/>
    </body>
    <body name="box" pos="0 0 0.548">
      <freejoint name="free"/>
      <geom type="box" size="0.05 0.05 0.04" mass="0.2"/>
    </body>
  </worldbody>
  <actuator><position name="servo" joint="tilt" kp="30" kv="2"/></actuator>
  <keyframe>
    <key name="slides" qpos="0 0 0 0.548 1 0 0 0" qvel="0 0.3 0 0 0 0 0" ctrl="0.1"/>
  </keyframe>
</mujoco>
"""
NSTEP = 100

load = mujoco.MjModel.from_xml_path if len(sys.argv) > 1 else mujoco.MjModel.from_xml_string
model = load(sys.argv[1] if len(sys.argv) > 1 else TRAY)
sim = diffmj.Simulator(model)  # a feature without a fast gradient is named in a warning
key = sys.argv[2] if len(sys.argv) > 2 else 0
start = sim.keyframe_state(key) if model.nkey else sim.default_state()
print(f"nv {sim.nv}, nu {sim.nu}, {sim.integrator}; gradient path: {sim.gradient_path}")

# is it right here? differences with an error bar, and the constraints that are near a kink
print(sim.check(**vars(start), nstep=10))

# what does it cost?
begin = time.perf_counter()
trajectory = sim.rollout(**vars(start), nstep=NSTEP)
middle = time.perf_counter()
bar = np.zeros_like(trajectory.subtree_com)
bar[-1, 0, :] = 1, 0, 0  # loss: x of the centre of mass of everything, at the end
gradient = trajectory.backward(subtree_com=bar)
end = time.perf_counter()
print(
    f"\n{NSTEP} steps: forward {1e3 * (middle - begin):.1f} ms, back {1e3 * (end - middle):.1f} ms"
)

# what does the motion depend on? the largest entries of the gradient
for name, x in (("qvel", gradient.qvel), ("ctrl, summed", gradient.ctrl.sum(axis=0))):
    order = np.argsort(-np.abs(x))[:3]
    print(f"d(x of the centre of mass)/d({name}): " + ", ".join(f"[{i}] {x[i]:.4g}" for i in order))
