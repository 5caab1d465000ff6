"""MyoSuite's die in its hand, palm up, to be turned in place about an axis of the world.

Points on the axes of the die, and where they are to go, are sites: the cost is distances alone.
"""

import diffmj
import mujoco
import numpy as np

from experiments import manipulation

ANGLE, NEAR = 0.2, 0.015  # [rad], [m]
ARM = 0.1  # [m] of the points from the centre
SETTLE = 0.25  # [s], as in task.toml
VARIANTS = ("x", "y", "z", "half turn")
TURNS = {
    "x": ((1, 0, 0), np.pi / 2),
    "y": ((0, 1, 0), np.pi / 2),
    "z": ((0, 0, 1), np.pi / 2),
    "half turn": ((0, 0, 1), np.pi),
}
# of the die alone: fingers are near to each other all the time
CFD = diffmj.Cfd(width=0.0, geoms={"die": diffmj.Cfd(width=0.03, d_0=0.01)}, max_contacts=24)


def spec(variant: str) -> mujoco.MjSpec:
    out = manipulation.hand("hand/myohand_die.xml")
    with_goal(out, {"pro_sup": -1.5}, SETTLE, *TURNS[variant])
    return out


def with_goal(out: mujoco.MjSpec, joints: dict, settle: float, axis, angle: float) -> None:
    """Adds a keyframe with these joints, and the goal: the die that has settled from there, turned
    about an axis of the world."""
    model = out.compile()
    data = mujoco.MjData(model)
    for name, value in joints.items():
        data.joint(name).qpos = value
    out.add_key(name="start", qpos=data.qpos.copy())
    mujoco.mj_step(model, data, round(settle / model.opt.timestep))
    mujoco.mj_kinematics(model, data)

    place, rotation = data.body("Object").xpos, data.body("Object").xmat.reshape(3, 3)
    quat, turn = np.empty(4), np.empty(9)
    mujoco.mju_axisAngle2Quat(quat, np.array(axis, float), angle)
    mujoco.mju_quat2Mat(turn, quat)
    target = turn.reshape(3, 3) @ rotation
    die = out.body("Object")
    die.geoms[-1].name = "die"  # one of three boxes, with rods for edges
    unseen = {"group": 4}
    die.add_site(name="die_centre", pos=[0, 0, 0], **unseen)
    out.worldbody.add_site(name="goal_centre", pos=place, **unseen)
    for k, letter in enumerate("xyz"):
        die.add_site(name=f"die_{letter}", pos=ARM * np.eye(3)[k], **unseen)
        there = place + ARM * target[:, k]
        out.worldbody.add_site(name=f"goal_{letter}", pos=there, **unseen)
    # MyoSuite's own target, which is only to look at
    body = out.body("target")
    body.pos, quat = place, np.empty(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(target).ravel())
    body.quat = quat
    body.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT  # not its Euler angles


def errors(model: mujoco.MjModel, qpos: np.ndarray) -> np.ndarray:
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    centre = data.site("goal_centre").xpos.copy()
    target = np.array([data.site(f"goal_{x}").xpos - centre for x in "xyz"]).T / ARM
    out = np.empty((len(qpos), 2))
    for row, x in zip(out, qpos, strict=True):
        data.qpos = x
        mujoco.mj_kinematics(model, data)
        body = data.body("Object")
        trace = np.sum(target * body.xmat.reshape(3, 3))
        row[0] = np.arccos(np.clip((trace - 1) / 2, -1, 1)) / ANGLE
        row[1] = np.linalg.norm(body.xpos - centre) / NEAR
    return out
