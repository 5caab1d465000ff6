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

    def times(self, gradient, budget: float = 4.0, least: int = 3) -> dict[str, float]:
        """Seconds of the processor for a gradient and for a loop of mj_step over the same steps,
        taken in turn so that a busy machine disturbs both: of each the fastest."""
        taken: dict[str, list[float]] = {"mj_step": [], "seconds": []}
        total = 0.0
        while len(taken["seconds"]) < least or (total < budget and len(taken["seconds"]) < 1000):
            for name, f in (("mj_step", self._loop), ("seconds", gradient)):
                start = time.process_time()
                f()
                taken[name].append(time.process_time() - start)
                total += taken[name][-1]
        return {name: min(x) for name, x in taken.items()}

    def _loop(self) -> None:
        data = self.reset()
        for _ in range(self.nstep):
            mujoco.mj_step(self.model, data)
