"""The tossed cube: its model as a function of parameters, tosses to fit it to, and the distance of
simulated tosses from them.

The tosses are those of ContactNets (contactnets.py) if the environment variable DIFFMJ_CONTACTNETS
names the folder that has them. Otherwise they are synthetic, and results say so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import diffmj
import mujoco
import numpy as np

from experiments import common, contactnets

FOLDER = "DIFFMJ_CONTACTNETS"
INTERVAL = contactnets.INTERVAL  # [s] between rows
SIDE = 2 * contactnets.LENGTH  # [m] what the publishers' unit of length says
SUBSTEPS = 4  # of Euler between rows: 1.7 ms, near MuJoCo's default of 2 ms
SCENE = common.SCENARIOS / "tossed_cube.xml"

# what the paper tuned by hand; it quotes 10 cm for the side
TUNED = {
    "side": 0.1,
    "mass": 0.37,
    "solref[0]": 0.02,
    "solref[1]": 1.0,
    "solimp[0]": 0.05,
    "solimp[1]": 0.95,
    "solimp[2]": 0.01,
    "solimp[3]": 0.5,
    "solimp[4]": 2.0,
    "friction": 0.4,
}
BOUNDS = {
    "side": (0.02, 0.4),  # [m]
    "mass": (0.05, 3),  # [kg]
    "solref[0]": (0.004, 0.2),  # [s], at least two steps: MuJoCo would raise it silently
    "solref[1]": (0.05, 10),
    "solimp[0]": (1e-4, 0.98),
    "solimp[1]": (0.2, 0.9999),
    "solimp[2]": (1e-4, 0.1),  # [m]
    "solimp[3]": (0.02, 0.98),
    "solimp[4]": (1, 6),
    "friction": (0.01, 2),
    "inertia": (0.3, 3),  # in units of that of a solid cube; a thin shell has 5/3
}

# noise of what is recorded of synthetic tosses
NOISE = {"position": 1e-4, "angle": 1e-3, "velocity": 4e-3, "spin": 0.015}  # [m], [rad], per [s]


def build(
    cone: str = "pyramidal", substeps: int = SUBSTEPS
) -> Callable[[dict[str, float]], mujoco.MjModel]:
    """The model as a function of parameters; those of TUNED are the default."""
    made = describe(cone, substeps)
    return lambda values: made(values).compile()


def describe(
    cone: str, substeps: int = SUBSTEPS, sensors: Sequence[str] = ()
) -> Callable[[dict[str, float]], mujoco.MjSpec]:
    """The same, not compiled. sensors: of the cube's body, by the ends of their names in
    mjtSensor."""
    scene = mujoco.MjSpec.from_file(str(SCENE))
    for name in sensors:
        kind = getattr(mujoco.mjtSensor, f"mjSENS_{name}")
        scene.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_BODY, objname="cube")

    def spec_of(values: dict[str, float]) -> mujoco.MjSpec:
        x = TUNED | values
        spec = scene.copy()
        spec.option.timestep = INTERVAL / substeps
        spec.option.cone = getattr(mujoco.mjtCone, f"mjCONE_{cone.upper()}")
        for geom in spec.geoms:
            geom.solref = [x["solref[0]"], x["solref[1]"]]
            geom.solimp = [x[f"solimp[{i}]"] for i in range(5)]
            geom.friction[0] = x["friction"]
        spec.geom("cube").size = [x["side"] / 2] * 3
        body = spec.body("cube")
        body.explicitinertial = True
        body.ipos = [0, 0, 0]
        body.mass = x["mass"]
        body.inertia = [x.get("inertia", 1) * x["mass"] * x["side"] ** 2 / 6] * 3
        return spec

    return spec_of


def simulator(values: dict[str, float], cone: str, substeps: int = SUBSTEPS, nthread: int = 0):
    return diffmj.Simulator(build(cone, substeps)(values), "Euler", nthread)


@dataclass(frozen=True)
class Tosses:
    recordings: list[diffmj.Recording]
    note: str  # which tosses these are, for the reader of a page
    synthetic: bool

    @property
    def name(self) -> str:
        return "Synthetic tosses" if self.synthetic else "Tosses of ContactNets"


def tosses(most: int, values: dict[str, float], cone: str) -> Tosses:
    """The first tosses there are, `most` at most; values and cone are those of synthetic ones."""
    folder = os.environ.get(FOLDER)
    if folder:
        note = f"Tosses of ContactNets, read from the folder that {FOLDER} names."
        return Tosses(contactnets.read(folder)[:most], note, synthetic=False)
    note = (
        "Not real tosses: these are synthetic, made by simulation of a known cube "
        f"({1e3 * values['side']:g} mm) with noise, because {FOLDER} names no folder. The paper's "
        "tosses are those of ContactNets: github.com/DAIRLab/contact-nets, folder "
        "data/tosses_processed."
    )
    return Tosses(synthetic(most, values, cone), note, synthetic=True)


def synthetic(
    count: int, values: dict[str, float], cone: str, rows: int = 105, seed: int = 0
) -> list[diffmj.Recording]:
    """Tosses of a known cube, thrown like those of ContactNets, with noise on what is recorded."""
    random = np.random.default_rng(seed)
    substeps = 10
    sim = simulator(values, cone, substeps)
    quat = random.standard_normal((count, 4))
    qpos = np.zeros((count, 7))
    qpos[:, 2] = 0.17 + 0.015 * random.standard_normal(count)
    qpos[:, 3:] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
    qvel = random.standard_normal((count, 6)) * [0.8, 0.8, 0.15, 2.4, 2.4, 2.4]
    made = sim.rollout(qpos, qvel, nstep=(rows - 1) * substeps)
    qpos, qvel = made.qpos[:, ::substeps].copy(), made.qvel[:, ::substeps].copy()
    qpos[..., :3] += NOISE["position"] * random.standard_normal(qpos[..., :3].shape)
    qpos[..., 3:] += NOISE["angle"] / 2 * random.standard_normal(qpos[..., 3:].shape)
    qpos[..., 3:] /= np.linalg.norm(qpos[..., 3:], axis=-1, keepdims=True)
    qvel[..., :3] += NOISE["velocity"] * random.standard_normal(qvel[..., :3].shape)
    qvel[..., 3:] += NOISE["spin"] * random.standard_normal(qvel[..., 3:].shape)
    return [
        diffmj.Recording(
            INTERVAL * np.arange(rows), qpos=qpos[i], qvel=qvel[i], name=f"synthetic toss {i}"
        )
        for i in range(count)
    ]


def weighted(recordings: Sequence[diffmj.Recording]) -> list[diffmj.Recording]:
    """With the weights of the loss |Δp|²/(5 cm)² + |ΔR|², R the rotation matrix: |ΔR|² is twice the
    squared angle, up to its fourth power."""
    weights = {"qpos": np.array([[0.05**-2] * 3 + [2.0] * 3])}
    return [
        diffmj.Recording(x.time, qpos=x.qpos, qvel=x.qvel, weights=weights, name=x.name)
        for x in recordings
    ]


@dataclass(frozen=True)
class WholeTosses:
    """How far whole simulated tosses are from recorded ones.

    Attributes:
        error: mean absolute error over all rows, of positions in half sides and of entries of the
            rotation matrix.
        position: [mm], mean distance of the centres.
        each: `error` of every toss.
    """

    error: float
    position: float
    each: np.ndarray


def replay(
    sim: diffmj.Simulator, recordings: Sequence[diffmj.Recording], substeps: int = SUBSTEPS
) -> list[np.ndarray]:
    """qpos of simulated tosses from the second row on, where recorded velocities begin."""
    out: list[np.ndarray] = [np.empty(0)] * len(recordings)
    order = np.argsort([len(x) for x in recordings], kind="stable")
    for some in np.array_split(order, max(1, len(order) // 32)):  # of similar lengths
        chosen = [recordings[i] for i in some]
        nstep = substeps * (max(len(x) for x in chosen) - 2)
        start = [np.array([getattr(x, name)[1] for x in chosen]) for name in ("qpos", "qvel")]
        made = sim.rollout(*start, nstep=nstep).qpos[:, ::substeps]
        for i, qpos in zip(some, made, strict=True):
            out[i] = qpos[: len(recordings[i]) - 1]
    return out


def whole_tosses(
    sim: diffmj.Simulator, recordings: Sequence[diffmj.Recording], substeps: int = SUBSTEPS
) -> WholeTosses:
    each, distances, rows = [], [], []
    for qpos, x in zip(replay(sim, recordings, substeps), recordings, strict=True):
        apart = qpos[:, :3] - x.qpos[1:, :3]
        turned = rotation_entries(qpos[:, 3:]) - rotation_entries(x.qpos[1:, 3:])
        each.append(np.abs(np.hstack([apart / (SIDE / 2), turned])).mean())
        distances.append(1e3 * np.linalg.norm(apart, axis=1).mean())
        rows.append(len(qpos))
    return WholeTosses(
        float(np.average(each, weights=rows)),
        float(np.average(distances, weights=rows)),
        np.array(each),
    )


def rotation_entries(quat: np.ndarray) -> np.ndarray:
    """Rotation matrices of unit quaternions (n, 4) as rows of 9 numbers."""
    w, x, y, z = quat.T
    return np.stack(
        [
            1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
        ],
        axis=1,
    )  # fmt: skip
