"""MyoChallenge's baoding balls: two balls in a hand of 39 muscles follow targets that circle in the
palm. The rules are those of MyoSuite's myoChallengeBaodingP1-v1 and P2-v1; a test compares states,
distances and score with those of its environments (tests/python/test_baoding.py).

The balls do not start at their targets. In phase 1 they are 25 and 37 mm away, 63 and 78 degrees
ahead of them: if they stayed where they are, the targets would be there after about 1 s. In phase 2
the targets start at any angle. The balls start above the open hand, and all muscles are at rest.

`python -m experiments.baoding.scene FOLDER [SEED]` writes the scene, the paths of the targets and
the task file for `diffmj plan FOLDER/task.toml`: of phase 1, or, with a seed, an instance of
phase 2.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

STEPS, DT = 200, 0.025  # control steps of an episode, and their length [s]
NEAR = 0.015  # [m] of a ball from its target
LOW = 1.25  # [m]: a ball that is lower has fallen, which ends the episode
CENTRE = (-0.0125, -0.07)  # [m] of the circle, in the frame of the palm
# controls that actions between -1 and 1 give: 1 / (1 + exp(-5 (action - 0.5)))
CONTROLS = tuple(1 / (1 + np.exp(-5 * (action - 0.5))) for action in (-1, 1))
BALLS = ("ball1", "ball2")
LEAD = 0.15  # [s] by which what plans follow is ahead of the targets: the balls lag behind


@dataclass(frozen=True)
class Instance:
    """What phase 2 draws at random; the defaults are phase 1."""

    direction: int = 1  # 0: the targets stand still
    angle: float = np.pi / 4  # of the first target at the start
    period: float = 5.0  # [s]
    radius: tuple[float, float] = (0.025, 0.028)  # [m]
    size: tuple[float, float] | None = None  # [m] of the balls; None: as in the model
    mass: tuple[float, float] | None = None  # [kg]
    friction: tuple[tuple[float, ...], ...] | None = None


def draw(seed: int) -> Instance:
    """An instance of phase 2."""
    random = np.random.default_rng(seed)
    change = np.array([0.2, 0.001, 0.00002])
    nominal = np.array([1.0, 0.005, 0.0001])
    return Instance(
        direction=int(random.choice([0, -1, 1])),
        angle=random.uniform(0, 2 * np.pi),
        period=random.uniform(4, 6),
        radius=(random.uniform(0.020, 0.030), random.uniform(0.022, 0.032)),
        size=tuple(random.uniform(0.018, 0.024, 2)),
        mass=tuple(random.uniform(0.030, 0.300, 2)),
        friction=tuple(tuple(random.uniform(nominal - change, nominal + change)) for _ in BALLS),
    )


def available() -> bool:
    return importlib.util.find_spec("myosuite") is not None


def model(instance: Instance, shown: bool = False) -> mujoco.MjModel:
    """The scene of MyoSuite, palm up, with the balls of an instance.

    Args:
        shown: for pictures, with a mark for each target; its three joints, "target1_x" and so on,
            are the point in the palm's frame.
    """
    package = Path(importlib.util.find_spec("myosuite").origin).parent
    spec = mujoco.MjSpec.from_file(str(package / "envs/myo/assets/hand/myohand_baoding.xml"))
    for name in ("tendon1", "tendon2"):  # lines to look at
        spec.delete(spec.tendon(name))
    for actuator in spec.actuators:
        actuator.ctrlrange = CONTROLS
    if shown:
        _add_marks(spec)
    else:
        qpos = spec.compile().qpos0.copy()
        qpos[:-14] = 0
        qpos[0] = -1.57
        spec.add_key(name="start", qpos=qpos)
    out = spec.compile()
    for k, ball in enumerate(BALLS):
        # as MyoSuite does it: the moments of inertia stay
        geom = out.geom(ball).id
        if instance.size:
            out.geom_size[geom] = instance.size[k]
        if instance.mass:
            out.body_mass[out.geom_bodyid[geom]] = instance.mass[k]
        if instance.friction:
            out.geom_friction[geom] = instance.friction[k]
    return out


def _add_marks(spec: mujoco.MjSpec) -> None:
    for k, ball in enumerate(BALLS):
        site = spec.site(f"target{k + 1}_site")
        mark = site.parent.add_body(name=f"target{k + 1}")
        for axis, name in zip(np.eye(3), "xyz", strict=True):
            joint = mark.add_joint(name=f"target{k + 1}_{name}", axis=axis)
            joint.type, joint.limited = mujoco.mjtJoint.mjJNT_SLIDE, False
        colour = spec.material(spec.geom(ball).material).rgba
        mark.add_geom(
            size=[NEAR, 0, 0], mass=1e-3, contype=0, conaffinity=0, rgba=[*colour[:3], 0.35]
        )
        spec.delete(site)


def targets(instance: Instance, height: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """Times [s] of the ends of control steps, and the points in the palm's frame that each ball is
    compared with then: the target was moved when the step began.
    """
    turn = instance.direction * 2 * np.pi * DT * np.arange(2 * STEPS) / instance.period
    points = []
    for start in (instance.angle, instance.angle - np.pi):
        x = instance.radius[0] * np.cos(turn + start) + CENTRE[0]
        y = instance.radius[1] * np.sin(turn + start) + CENTRE[1]
        points.append(np.stack([x, y, np.full_like(x, height)], axis=1))
    return DT * (1 + np.arange(2 * STEPS)), points


def files(scene: mujoco.MjModel, instance: Instance) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Times and numbers of the files that task.toml names: the targets, by LEAD too early."""
    time, points = targets(instance, palm(scene)[1])
    return {f"target{k + 1}.csv": (time - LEAD, path) for k, path in enumerate(points)}


def palm(scene: mujoco.MjModel) -> tuple[str, float]:
    """The body that carries the targets, and their height in its frame."""
    site = scene.site("target1_site")
    return scene.body(site.bodyid[0]).name, float(site.pos[2])


def score(scene: mujoco.MjModel, instance: Instance, qpos: np.ndarray) -> tuple[float, np.ndarray]:
    """The share of control steps at whose end both balls are near their targets; and the distances
    (steps, 2) [m]. qpos: (steps, nq), at the ends of control steps; fewer count as missed.
    """
    carrier, height = palm(scene)
    _, points = targets(instance, height)
    data = mujoco.MjData(scene)
    distances = np.full((len(qpos), len(BALLS)), np.inf)
    solved = 0
    for i, x in enumerate(qpos):
        data.qpos = x
        mujoco.mj_kinematics(scene, data)
        frame = data.body(carrier)
        balls = [data.body(ball).xpos for ball in BALLS]
        for k, (ball, path) in enumerate(zip(balls, points, strict=True)):
            target = frame.xpos + frame.xmat.reshape(3, 3) @ path[i]
            distances[i, k] = np.linalg.norm(ball - target)
        if min(ball[2] for ball in balls) < LOW:
            break
        solved += bool(np.all(distances[i] < NEAR))
    return solved / STEPS, distances[: i + 1]


def with_marks(instance: Instance, qpos: np.ndarray) -> tuple[mujoco.MjModel, np.ndarray]:
    """A scene to be shown, and its states. qpos: (1 + steps, nq), the start and the ends of control
    steps."""
    shown = model(instance, shown=True)
    names = [f"target{k + 1}_{axis}" for k in range(len(BALLS)) for axis in "xyz"]
    marks = [int(shown.joint(name).qposadr[0]) for name in names]
    _, points = targets(instance, palm(model(instance))[1])
    at = np.maximum(np.arange(len(qpos)) - 1, 0)
    out = np.empty((len(qpos), shown.nq))
    out[:, marks] = np.concatenate([path[at] for path in points], axis=1)
    out[:, np.setdiff1d(np.arange(shown.nq), marks)] = qpos
    return shown, out


def write(folder: Path, instance: Instance) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    scene = model(instance)
    mujoco.mj_saveModel(scene, str(folder / "scene.mjb"), None)
    for name, (time, path) in files(scene, instance).items():
        rows = np.column_stack([time, path])
        np.savetxt(folder / name, rows, delimiter=",", header="time,x,y,z", comments="")
    shutil.copy(Path(__file__).with_name("task.toml"), folder)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python -m experiments.baoding.scene FOLDER [SEED]")
    seeds = [int(x) for x in sys.argv[2:]]
    write(Path(sys.argv[1]), draw(seeds[0]) if seeds else Instance())
