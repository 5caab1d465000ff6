"""Tasks that are planned again and again while they are executed.

A task is a folder with task.toml, which `diffmj plan` reads too, and scene.py:

    VARIANTS                names of goals; the first is the default
    spec(variant)           the scene, built from models that are not part of this repository
    errors(model, qpos)     (n, k): how far states are from the goal, 1 where that is good enough
    NEEDS                   optional: whose models they are, a key of MODELS; default "MyoSuite"
    CFD                     optional: contacts from distance; default: of all geoms, from 0.1 m
    PLANNERS                optional: options by name of a method, in addition to the task file's

`python -m experiments.manipulation ball_swap FOLDER [VARIANT]` writes the scene beside the task
file, for `diffmj plan FOLDER/task.toml`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
import time
import tomllib
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import diffmj
import mujoco
import numpy as np

from experiments import common

TIMESTEP = 0.0025  # [s]
HOLD = 0.25  # [s]: solved, if good enough for so long
LOST = 20.0  # an error from which there is no way back: the object was dropped
FRAME = 0.01  # [s] between states of a motion to be shown
SPEED = 0.02  # standard deviation of velocities at the start [m/s or rad/s]
TERMS = {
    "distance": diffmj.Distance,
    "orientation": diffmj.Orientation,
    "joint_position": diffmj.JointPosition,
    "joint_velocity": diffmj.JointVelocity,
    "velocity": diffmj.FrameVelocity,
    "control_effort": diffmj.ControlEffort,
}
# of a model, that the motion depends on
FIELDS = (
    "qpos0", "body_pos", "body_quat", "body_mass", "body_inertia", "jnt_axis", "jnt_range",
    "jnt_stiffness", "dof_damping", "dof_armature", "dof_frictionloss", "site_pos", "tendon_range",
    "actuator_ctrlrange", "actuator_forcerange", "actuator_gainprm", "actuator_biasprm", "eq_data",
    "key_qpos", "key_ctrl", "key_act",
)  # fmt: skip
FIELDS_OF_CONTACTS = (  # of geoms that can touch something
    "geom_type", "geom_size", "geom_pos", "geom_quat", "geom_friction", "geom_margin",
    "geom_solref", "geom_solimp", "geom_contype", "geom_conaffinity",
)  # fmt: skip
FIELDS_OF_OPTIONS = ("timestep", "gravity", "integrator", "solver", "iterations", "ls_iterations")


def myosuite() -> Path | None:
    """The folder of its models; None: it is not installed."""
    found = importlib.util.find_spec("myosuite")
    return Path(found.origin).parent / "envs/myo/assets" if found else None


def menagerie() -> Path | None:
    """A checkout of MuJoCo Menagerie, which the environment variable DIFFMJ_MENAGERIE names."""
    name = os.environ.get("DIFFMJ_MENAGERIE", "")
    return Path(name) if name and Path(name).is_dir() else None


MODELS = {  # where models are, and what to do where they are not
    "MyoSuite": (myosuite, "pip install myosuite"),
    "MuJoCo Menagerie": (menagerie, "set DIFFMJ_MENAGERIE to the folder of a checkout"),
}


def scene_of(name: str) -> ModuleType:
    return importlib.import_module(f"experiments.{name}.scene")


def missing(name: str) -> str:
    """What a task needs and this machine does not have, in words; '': nothing."""
    needed = getattr(scene_of(name), "NEEDS", "MyoSuite")
    folder, remedy = MODELS[needed]
    return "" if folder() else f"{needed} ({remedy})"


def hand(file: str) -> mujoco.MjSpec:
    """A scene of MyoSuite with the contacts and the solver of [Paulus26]."""
    spec = mujoco.MjSpec.from_file(str(myosuite() / file))
    spec.option.timestep = TIMESTEP
    spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    spec.option.iterations, spec.option.ls_iterations = 4, 16
    for geom in spec.geoms:
        geom.solref, geom.solimp = [0.02, 1], [0, 0.95, 0.001, 0.5, 2]
    return spec


@dataclass(frozen=True)
class Method:
    """A planner, as changes to what the task file says."""

    name: str
    colour: str
    planner: dict = field(default_factory=dict)
    cfd: bool = False  # contacts from distance


# two starts, of which the second is disturbed
BY_GRADIENT = {"method": "gradient", "starts": 2, "noise": "pink", "sigma": 0.3}
GRADIENT = Method("gradient", common.BLUE, BY_GRADIENT)
FROM_DISTANCE = Method("gradient + CFD", common.SKY, BY_GRADIENT, cfd=True)
HYBRID = Method("hybrid", common.GREEN, {"method": "hybrid"})
ILQR = Method("iLQR", common.BLACK, {"method": "ilqr"})
SAMPLING = [
    Method(f"sampling, {n}", colour, {"method": "sampling", "samples": n, "iterations": 1})
    for n, colour in ((64, common.PURPLE), (256, common.ORANGE), (1024, common.VERMILION))
]
METHODS = [GRADIENT, FROM_DISTANCE, *SAMPLING, ILQR, HYBRID]


@dataclass
class Run:
    """One execution, at the times of its plans."""

    variant: str
    method: str
    seed: int
    solved: float | None  # [s] of motion until it was held; None: it was not
    time: list[float]  # [s]
    errors: list[float]  # the largest, 1 where it is just good enough
    spent: list[float]  # [s] of planning on the clock until then
    processor: list[float]  # [s] of all cores until then
    costs: list[float]  # of the plans


@dataclass
class Motion:
    """The states of a run, to be shown."""

    variant: str
    method: str
    seed: int
    interval: float  # [s] between rows
    qpos: list[list[float]]


class Task:
    def __init__(self, name: str, variant: str | None = None):
        self.folder = Path(__file__).parent / name
        self.scene = scene_of(name)
        self.file = tomllib.loads((self.folder / "task.toml").read_text())
        self.variant = variant or self.scene.VARIANTS[0]
        self.model: mujoco.MjModel = self.scene.spec(self.variant).compile()
        self.cost = [
            TERMS[term["term"]](**{key: x for key, x in term.items() if key != "term"})
            for term in self.file["cost"]
        ]

    def cfd(self, method: Method) -> diffmj.Cfd | None:
        return getattr(self.scene, "CFD", diffmj.Cfd(width=0.1)) if method.cfd else None

    def planner(self, method: Method) -> dict:
        """Options of the planner, but for its seed."""
        own = getattr(self.scene, "PLANNERS", {}).get(method.name, {})
        return self.file["planner"] | method.planner | own

    def settings(self, method: Method) -> dict:
        """What its runs depend on, beside scene, cost and execution, as a record has it."""
        cfd = self.cfd(method)
        return self.planner(method) | ({"cfd": _words(cfd)} if cfd else {})

    def numbers(self) -> dict[str, float]:
        """What a changed scene changes: a weighted sum of each field of the model that matters to
        the motion, and the errors at the start."""
        start = self.model.key(self.file["start"]["key"]).qpos[None]
        return sums(self.model, errors=self.scene.errors(self.model, start))

    def start(self, seed: int) -> dict:
        """The keyframe after it has settled, with velocities that differ from seed to seed."""
        sim = diffmj.Simulator(self.model)
        start = self.file["start"]
        key, ctrl = sim.keyframe_state(start["key"]), self.model.key(start["key"]).ctrl.copy()
        nstep = round(start["settle"] / self.model.opt.timestep)
        with warnings.catch_warnings():
            # no gradient is taken here
            warnings.simplefilter("ignore", diffmj.SolverWarning)
            rest = sim.rollout(key.qpos, key.qvel, nstep=nstep, ctrl=ctrl)
        noise = SPEED * np.random.default_rng(seed).standard_normal(sim.nv)
        return {
            "qpos": rest.qpos[-1],
            "qvel": rest.qvel[-1] + noise,
            "act": rest.act[-1],
            "ctrl": ctrl,
        }

    def run(
        self, method: Method, seed: int, seconds: float, nthread: int = 0
    ) -> tuple[Run, Motion]:
        sim = diffmj.Simulator(self.model, cfd=self.cfd(method))
        planner = diffmj.Planner(sim, self.cost, **self.planner(method), seed=seed, nthread=nthread)
        rows = round(HOLD / self.model.opt.timestep) + 1
        known, processor = np.zeros(0), []

        def errors(qpos: np.ndarray) -> np.ndarray:
            nonlocal known
            found = self.scene.errors(self.model, qpos[len(known) :]).max(axis=1)
            known = np.append(known, found)
            return known

        def done(run: diffmj.MpcRun) -> bool:
            processor.append(time.process_time() - began)
            x = errors(run.qpos)
            return x[-1] > LOST or held(x, rows)

        start, began = self.start(seed), time.process_time()
        with warnings.catch_warnings():
            # samples that diverge are left out, which is not news here
            warnings.simplefilter("ignore", RuntimeWarning)
            run = diffmj.run_mpc(
                planner,
                **start,
                nstep=round(seconds / self.model.opt.timestep),
                execute=self.file["execution"]["execute"],
                done=done,
            )
        x = errors(run.qpos)
        begins = [plan.time for plan in run.plans]
        at = np.append(np.searchsorted(run.time, begins), len(x) - 1)
        spent = np.cumsum([0.0, *(plan.seconds for plan in run.plans)])
        series = run.time[at] - run.time[0], x[at], spent, [0, *processor], run.costs
        every = round(FRAME / self.model.opt.timestep)
        return Run(
            self.variant,
            method.name,
            seed,
            float(run.simulated) if held(x, rows) else None,
            *(np.round(row, 4).tolist() for row in series),
        ), Motion(self.variant, method.name, seed, FRAME, run.qpos[::every].round(4).tolist())

    def write(self, folder: Path) -> None:
        """Scene and task, for `diffmj plan`."""
        folder.mkdir(parents=True, exist_ok=True)
        mujoco.mj_saveModel(self.model, str(folder / "scene.mjb"), None)
        shutil.copy(self.folder / "task.toml", folder)


def _words(cfd: diffmj.Cfd) -> str:
    """What is given of contacts from distance."""
    given = {key: x for key, x in vars(cfd).items() if x not in (None, {})}
    parts = {key: given[key] for key in ("geoms", "pairs") if key in given}
    given |= {key: {str(k): _words(v) for k, v in x.items()} for key, x in parts.items()}
    return ", ".join(f"{key}={x}" for key, x in given.items())


def sums(model: mujoco.MjModel, **more) -> dict[str, float]:
    """A weighted sum of each field that the motion depends on, and of more numbers."""
    touches = (model.geom_contype | model.geom_conaffinity) != 0
    fields = {x: getattr(model, x) for x in FIELDS}
    fields |= {x: getattr(model, x)[touches] for x in FIELDS_OF_CONTACTS}
    fields |= {x: getattr(model.opt, x) for x in FIELDS_OF_OPTIONS}
    return {name: _sum(x) for name, x in (fields | more).items()}


def _sum(x) -> float:
    """With weights that differ from number to number."""
    x = np.ravel(np.asarray(x, float))
    return float(np.dot(x, 1 + np.modf(0.618034 * np.arange(len(x)))[0]).round(9))


def held(errors: np.ndarray, rows: int) -> bool:
    return len(errors) >= rows and bool(np.all(errors[-rows:] < 1))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: python -m experiments.manipulation TASK FOLDER [VARIANT]")
    Task(sys.argv[1], *sys.argv[3:]).write(Path(sys.argv[2]))
