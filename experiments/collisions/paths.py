"""Scenes and paths of poses through the ends of colliders' cases, by figure."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

X, Y, Z = np.eye(3)
TILTED = np.array([0.2, 1, 0]) / np.hypot(0.2, 1)


class Path(NamedTuple):
    fixed: str  # geoms
    free: str
    poses: Callable  # s -> qpos at s, and its tangent along the path
    span: tuple[float, float]  # of s
    label: str
    component: int  # of the acceleration, that is shown
    qvel: tuple = (0,) * 6  # of all poses
    mujoco: bool = True  # whether the derivative kinks or misses a jump with MuJoCo's collider


def line(place=(0, 0, 0), move=(0, 0, 0), axis=Z, angle=0.0, turn=0.0):
    """A place and an angle about an axis that change at constant rates."""

    def poses(s):
        half = (angle + turn * s)[:, None] / 2
        quat = np.concatenate([np.cos(half), np.sin(half) * axis], -1)
        tangent = np.concatenate([move, turn * np.array(axis)])
        return np.concatenate([place + s[:, None] * np.array(move), quat], -1), tangent

    return poses


def spin(place, tilt):
    """A turn about the body's own z axis, which is tilted about y."""

    def poses(s):
        c, d = np.cos(tilt / 2), np.sin(tilt / 2)
        e, f = np.cos(s / 2), np.sin(s / 2)
        quat = np.stack([c * e, d * f, d * e, c * f], -1)
        return np.concatenate([np.tile(place, (len(s), 1)), quat], -1), np.eye(6)[5]

    return poses


def geom(shape, *size, more=""):
    return f'<geom type="{shape}" size="{" ".join(map(str, size))}" {more}/>'


def mesh(name):
    return f'<geom type="mesh" mesh="{name}"/>'


def vertices(points):
    return " ".join(f"{x:.6f}" for point in points for x in point)


def corners():
    """Of a prism: seven at either end, more than MuJoCo has contacts for."""
    for angle in 2 * np.pi * np.arange(7) / 7:
        for z in (-0.06, 0.06):
            yield 0.1 * np.cos(angle), 0.1 * np.sin(angle), z


CUBOID = [(x, y, z) for x in (-0.08, 0.08) for y in (-0.11, 0.11) for z in (-0.13, 0.13)]
ASSETS = f"""<asset><mesh name="cuboid" vertex="{vertices(CUBOID)}"/>
  <mesh name="prism" vertex="{vertices(corners())}"/></asset>"""

FLOOR = geom("plane", 3, 3, 1)
SPHERE = geom("sphere", 0.05)
LYING = geom("capsule", 0.07, 0.12, more='euler="0 90 0"')
CAPSULE = geom("capsule", 0.04, 0.1)
CYLINDER = geom("cylinder", 0.09, 0.12)
ELLIPSOID = geom("ellipsoid", 0.06, 0.09, 0.12)
CUBE = geom("box", 0.1, 0.1, 0.1)
WIDE, SMALL = geom("box", 0.1, 0.12, 0.08), geom("box", 0.05, 0.06, 0.04)
BLOCK = geom("box", 0.08, 0.11, 0.13)
PLACE, TILT = "place [m]", "tilt [rad]"

ROUND = {
    "cylinder that stands": Path(
        FLOOR, CYLINDER, line((0, 0, 0.1197), axis=0.6 * X + 0.8 * Y, turn=1),
        (-0.02, 0.02), TILT, 3, (0.3, 0.1, 0, 0, 0, 5)),
    "capsules that are parallel": Path(
        LYING, LYING, line((0.03, 0, 0.138), axis=Y, turn=1), (-0.02, 0.02), TILT, 4),
    "sphere over a box's edge": Path(
        CUBE, SPHERE, line((0, 0.02, 0.148), X), (0.08, 0.12), PLACE, 0),
    "sphere inside a box": Path(
        CUBE, SPHERE, line((0.06, 0.02, 0), Z), (0.03, 0.09), PLACE, 0),
    "sphere over a cylinder's rim": Path(
        CYLINDER, SPHERE, line((0, 0.02, 0.168), X), (0.06, 0.11), PLACE, 0),
}  # fmt: skip
BOXES = {
    "box flat on a box": Path(
        CUBE, CUBE, line((0.02, 0.01, 0.199), axis=Y, turn=1),
        (-0.04, 0.04), TILT, 4, mujoco=False),
    "box over a box's edge": Path(
        WIDE, SMALL, line((0, 0.02, 0.119), X, angle=0.3), (0.03, 0.045), PLACE, 4),
    "box turning on a box": Path(
        CUBE, CUBE, line((0.05, 0.02, 0.199), turn=1), (1.05, 1.3), "angle [rad]", 4),
    "box's edge on a box's edge": Path(
        WIDE, SMALL, line((0.09, 0.02, 0.1416), axis=Y, turn=1), (0.65, 0.85), TILT, 4),
    "cylinder flat on a box": Path(
        BLOCK, CYLINDER, line((0.02, 0.01, 0.249), axis=X, turn=1), (-0.04, 0.04), TILT, 3),
}  # fmt: skip
CONVEX = {
    "cylinder's side on a box": Path(
        CYLINDER, BLOCK, line((0.168, 0, 0.02), axis=Y, turn=1), (-0.03, 0.03), TILT, 4),
    "capsule along a cylinder": Path(
        CYLINDER, CAPSULE, line((0.127, 0, 0.03), axis=Y, turn=1), (-0.03, 0.03), TILT, 4),
    "ellipsoid over a box's edge": Path(
        BLOCK, ELLIPSOID, line((0, 0.02, 0.248), X), (0.075, 0.095), PLACE, 0),
    "prism turning on a plane": Path(
        FLOOR, mesh("prism"), spin((0, 0, 0.059), 0.02), (0, 0.9), "angle [rad]", 3),
    "prism flat on a mesh": Path(
        mesh("cuboid"), mesh("prism"), line((0.02, 0.01, 0.189), axis=TILTED, turn=1),
        (-0.03, 0.03), TILT, 3),
}  # fmt: skip
FIGURES = {"round": ROUND, "boxes": BOXES, "convex": CONVEX}
