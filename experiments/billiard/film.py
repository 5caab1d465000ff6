"""A shot that misses, and the one that descent along contacts from distance makes of it."""

import diffmj
import mujoco
import numpy as np

from experiments import common
from experiments.billiard.run import PUSH
from experiments.film import Motion, stage

MISS, HIT = 3.0, 0.0  # [N], sideways
SECONDS = 2.6  # of each


def film():
    path = common.SCENARIOS / "billiard/table.xml"
    sim = diffmj.Simulator(path, "tsit5", interval=PUSH)
    push = np.zeros((2, round(SECONDS / PUSH), sim.nv))
    push[:, 0, 0], push[:, 0, 1] = 4, (MISS, HIT)
    trajectory = sim.rollout(qfrc_applied=push)
    # one after the other
    qpos = trajectory.qpos.reshape(-1, trajectory.qpos.shape[-1])
    return Motion(
        stage(mujoco.MjSpec.from_file(str(path)), "table", "black"),
        PUSH * np.arange(len(qpos)),
        qpos,
        lookat=(-0.1, 0.05, 0),
        distance=1.0,
        azimuth=70,
        elevation=-40,
        moments=(0.0, 0.8, 2.0, 2.62, 3.3, 4.6),
    )
