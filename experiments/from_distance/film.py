"""The robot that hovers."""

import diffmj
import mujoco
import numpy as np

from experiments import common
from experiments.film import Motion, stage
from experiments.from_distance.run import HOVER, drop


def film():
    trajectory, _ = drop(diffmj.Cfd(**HOVER, forward=True))
    return Motion(
        stage(mujoco.MjSpec.from_file(str(common.SCENARIOS / "quadruped.xml")), "floor", "torso"),
        np.asarray(trajectory.time),
        trajectory.qpos,
        lookat=(0, 0, 0.25),
        distance=1.5,
        azimuth=120,
        elevation=-6,
        moments=(0.0, 0.2, 0.4, 0.8, 1.4, 2.0),
    )
