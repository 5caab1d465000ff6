"""diffmj: rollout and backward sweep. usage: peer_diffmj.py SCENE"""

import json
import sys

import diffmj
import numpy as np
from scenes import Scene

scene = Scene(sys.argv[1])
sim = diffmj.Simulator(scene.model)


def gradient():
    trajectory = sim.rollout(**scene.start, nstep=scene.nstep)
    bar = np.zeros_like(trajectory.qvel)
    bar[-1] = scene.weights
    return trajectory.backward(qvel=bar).qvel


out = {"version": f"diffmj {diffmj.__version__}, MuJoCo {diffmj.mujoco_version}"}
out |= {"compile": 0.0, "gradient": gradient().tolist()}
out |= scene.times(gradient)
print(json.dumps(out))
