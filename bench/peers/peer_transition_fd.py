"""mjd_transitionFD at every step, its matrices multiplied backwards.

usage: peer_transition_fd.py SCENE centred|forward
"""

import json
import sys

import mujoco
import numpy as np
from scenes import Scene

scene = Scene(sys.argv[1])
centred = sys.argv[2] == "centred"
model, nv = scene.model, scene.model.nv
n = 2 * nv + model.na
matrices = [(np.zeros((n, n)), np.zeros((n, model.nu))) for _ in range(scene.nstep)]


def gradient():
    data = scene.reset()
    for a, b in matrices:
        mujoco.mjd_transitionFD(model, data, 1e-6, centred, a, b, None, None)
        mujoco.mj_step(model, data)
    bar = np.zeros(n)
    bar[nv : 2 * nv] = scene.weights
    for a, _ in reversed(matrices):
        bar = a.T @ bar
    return bar[nv : 2 * nv]


out = {"version": f"MuJoCo {mujoco.__version__}", "compile": 0.0, "gradient": gradient().tolist()}
out |= scene.times(gradient)
print(json.dumps(out))
