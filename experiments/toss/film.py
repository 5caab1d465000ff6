"""The cube in flight and on the floor."""

import mujoco
import numpy as np

from experiments import common
from experiments.film import Motion, stage
from experiments.toss.convergence import SPEED

SCENE = "toss/box.xml"


def film():
    trajectory = common.toss(common.adaptive(SCENE, 1e-8), SPEED)
    return Motion(
        stage(mujoco.MjSpec.from_file(str(common.SCENARIOS / SCENE)), "floor", "box"),
        np.asarray(trajectory.time),
        trajectory.qpos,
        lookat=(0, -0.13, 0.1),
        distance=0.62,
        slower=3,
    )
