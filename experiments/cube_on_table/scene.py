"""MyoSuite's hand, palm down, above its die on a table. The die is to be turned by a quarter about
the vertical, in place."""

import diffmj
import mujoco
import numpy as np

from experiments import manipulation
from experiments.cube_in_hand import scene

HALF = 0.0285  # [m] of the die
PLACE = (-0.19, -0.56)  # [m] of the die's centre
TABLE = 1.325  # [m] height of its top
SETTLE = 0.25  # [s], as in task.toml
VARIANTS = ("left", "right")
TURNS = {"left": np.pi / 2, "right": -np.pi / 2}
# of the die and the hand alone: about 700 pairs of geoms are within 0.1 m, most of them fingers
# beside each other, and the die lies on the table
CFD = diffmj.Cfd(
    width=0.0,
    geoms={"die": diffmj.Cfd(width=0.03, d_0=0.01)},
    pairs={("die", "table"): diffmj.Cfd(width=0.0)},
    max_contacts=24,
)

errors = scene.errors


def spec(variant: str) -> mujoco.MjSpec:
    out = manipulation.hand("hand/myohand_die.xml")
    out.worldbody.add_geom(
        name="table",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=[0.15, 0.15, 0.02],
        pos=[*PLACE, TABLE - 0.02],
        rgba=[0.6, 0.5, 0.4, 1],
        solref=[0.02, 1],
        solimp=[0, 0.95, 0.001, 0.5, 2],
    )
    home = out.body("Object").pos
    place = np.array([*PLACE, TABLE + HALF]) - home
    joints = {"pro_sup": 1.5, "OBJTx": place[0], "OBJTy": place[1], "OBJTz": place[2]}
    scene.with_goal(out, joints, SETTLE, (0, 0, 1), TURNS[variant])
    return out
