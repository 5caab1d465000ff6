"""Google's quadruped Barkour vB of MuJoCo Menagerie before a gap, or before a step. It is to stand
on the other side.

The model is Menagerie's for MJX, whose feet are spheres. Trunk and legs get simple geoms of their
own, so that they do not pass through an edge. The robot does not touch itself.
"""

import mujoco
import numpy as np

from experiments import manipulation

NEEDS = "MuJoCo Menagerie"
VARIANTS = ("gap", "step")
NEAR, ANGLE = 0.1, 0.3  # [m], [rad] of the trunk
EDGE = 0.35  # [m] where the ground ends, or rises, ahead of the trunk's centre
GAP = 0.5  # [m] width
STEP = 0.25  # [m] height
AHEAD = 1.25  # [m] of the goal
HEIGHT = 0.25  # [m] of the trunk above the ground where it stands
LEGS = ("front_left", "hind_left", "front_right", "hind_right")
TRUNK = (0.22, 0.09, 0.05)  # [m] half sizes
SHANK = 0.8  # of the way from knee to foot, which is a sphere
RADIUS = 0.012  # [m] of the legs


def spec(variant: str) -> mujoco.MjSpec:
    folder = manipulation.menagerie() / "google_barkour_vb"
    out = mujoco.MjSpec.from_file(str(folder / "scene_mjx.xml"))
    out.option.timestep = manipulation.TIMESTEP
    out.option.iterations, out.option.ls_iterations = 4, 16
    out.delete(out.geom("floor"))
    touching = {"contype": 0, "conaffinity": 1, "group": 4, "mass": 0}
    out.body("torso").add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=TRUNK, **touching)
    for leg in LEGS:
        thigh, shank = out.body(f"upper_leg_{leg}"), out.body(f"lower_leg_{leg}")
        foot = SHANK * out.geom(f"foot_{leg}").pos
        for body, end in ((thigh, shank.pos), (shank, foot)):
            capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
            body.add_geom(type=capsule, fromto=[0, 0, 0, *end], size=[RADIUS, 0, 0], **touching)
    _ground(out, variant)
    rise = STEP if variant == "step" else 0
    out.worldbody.add_site(name="goal", pos=[AHEAD, 0, HEIGHT + rise], group=4)
    return out


def _ground(out: mujoco.MjSpec, variant: str) -> None:
    far = EDGE + (GAP if variant == "gap" else 0)
    top = STEP if variant == "step" else 0.0
    for name, begin, end, height in (("near", -1.0, EDGE, 0.0), ("far", far, far + 1.5, top)):
        out.worldbody.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[(begin + end) / 2, 0, height - 0.3],
            size=[(end - begin) / 2, 0.6, 0.3],
            contype=1,
            conaffinity=0,
            rgba=[0.75, 0.72, 0.66, 1] if name == "near" else [0.55, 0.65, 0.55, 1],
        )


def errors(model: mujoco.MjModel, qpos: np.ndarray) -> np.ndarray:
    """Of the trunk: distance, and angle of its frame."""
    distance = np.linalg.norm(qpos[:, :3] - model.site("goal").pos, axis=1) / NEAR
    angle = 2 * np.arccos(np.clip(np.abs(qpos[:, 3]), 0, 1)) / ANGLE
    return np.stack([distance, angle], axis=1)
