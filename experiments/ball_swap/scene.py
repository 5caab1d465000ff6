"""Two balls in MyoSuite's hand, palm up. Each is to go to the other's place."""

import diffmj
import mujoco
import numpy as np

from experiments import manipulation

PAIRS = (("ball1_site", "target2_site"), ("ball2_site", "target1_site"))
NEAR = 0.015  # [m]
VARIANTS = ("swap",)
# of the balls alone: fingers are near to each other all the time
LAW = diffmj.Cfd(width=0.03, d_0=0.01)
CFD = diffmj.Cfd(width=0.0, geoms={"ball1": LAW, "ball2": LAW}, max_contacts=24)
PLANNERS = {"hybrid": {"refined": 2}}  # with one, a ball falls from one start of five


def spec(variant: str) -> mujoco.MjSpec:
    out = manipulation.hand("hand/myohand_baoding.xml")
    for name in ("tendon1", "tendon2"):  # lines to look at
        out.delete(out.tendon(name))
    qpos = out.compile().qpos0.copy()
    qpos[:-14] = 0
    qpos[0] = -1.57
    out.add_key(name="start", qpos=qpos)
    return out


def errors(model: mujoco.MjModel, qpos: np.ndarray) -> np.ndarray:
    data = mujoco.MjData(model)
    out = np.empty((len(qpos), len(PAIRS)))
    for row, x in zip(out, qpos, strict=True):
        data.qpos = x
        mujoco.mj_kinematics(model, data)
        for k, (ball, target) in enumerate(PAIRS):
            row[k] = np.linalg.norm(data.site(ball).xpos - data.site(target).xpos) / NEAR
    return out
