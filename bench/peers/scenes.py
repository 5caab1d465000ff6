"""The scenes that all peers differentiate, without anything but mujoco and numpy.

The loss is a fixed random combination of the final velocities, the gradient is that in the initial
ones (nv numbers).
"""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path

import mujoco
import numpy as np

ROOT = Path(__file__).parents[2]
HAND = "simhive/myo_sim/hand/myohand.xml"


def _myosuite() -> Path:
    """Where MyoSuite's models are: in its package, or where MYOSUITE says."""
    if "MYOSUITE" in os.environ:
        return Path(os.environ["MYOSUITE"])
    return Path(importlib.util.find_spec("myosuite").origin).parent


SCENES = {  # name: file, keyframe, steps before the start, steps
    "cube toss": (lambda: ROOT / "scenarios/toss/box.xml", "throw", 0, 50),
    "humanoid on the floor": (lambda: ROOT / "tests/testdata/zoo/humanoid.xml", "test", 0, 20),
    "MyoHand": (lambda: _myosuite() / HAND, None, 300, 20),
}


class Scene:
    def __init__(self, name: str):
        file, key, settle, self.nstep = SCENES[name]
        self.model = mujoco.MjModel.from_xml_path(str(file()))
        self.data = mujoco.MjData(self.model)
        if key:
            mujoco.mj_resetDataKeyframe(self.model, self.data, self.model.key(key).id)
        if settle:  # muscles that pull: at rest, activations stand on a kink of their own
            self.data.ctrl = np.random.default_rng(0).uniform(0.1, 0.6, self.model.nu)
        for _ in range(settle):
            mujoco.mj_step(self.model, self.data)
        self.data.qacc_warmstart[:] = 0
        self.start = {x: getattr(self.data, x).copy() for x in ("qpos", "qvel", "act", "ctrl")}
        self.weights = np.random.default_rng(1).standard_normal(self.model.nv)

    def reset(self) -> mujoco.MjData:
        mujoco.mj_resetData(self.model, self.data)
        for name, x in self.start.items():
            setattr(self.data, name, x)
        return self.data

    def mj_step_seconds(self) -> float:
        """A loop of mj_step over the same steps, the best of several: the unit of all ratios."""
        return best(self._loop)

    def _loop(self) -> None:
        data = self.reset()
        for _ in range(self.nstep):
            mujoco.mj_step(self.model, data)


def best(f, budget: float = 2.0, least: int = 3) -> float:
    """Seconds of the fastest of several calls, within a budget of seconds."""
    times: list[float] = []
    while len(times) < least or (sum(times) < budget and len(times) < 200):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)
