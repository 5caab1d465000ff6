"""What a worker of a pool does: a process that has simulators, trajectories and planners."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _diffmj
from ._arrays import Array
from ._cost import Cost
from ._errors import InputError
from ._plan import Planner
from ._segments import Segment
from ._simulator import Simulator
from ._trajectory import Trajectory
from ._tree_sum import tree_sum
from ._warnings import to_warnings

# arrays of a gradient, one row per rollout
GRADIENT = ("qpos", "qpos_tangent", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied")
COUNTS = (
    "cfd_capped", "cfd_evaluations", "nrecomputed", "naccepted", "nrejected", "nevaluation",
)  # fmt: skip


class Worker:
    """Runs chunks of a batch. What several chunks need is fetched once and kept."""

    def __init__(self, threads: int, get: Callable[[Any], Any]):
        """threads: that a chunk runs on; get: fetches what a reference stands for."""
        self.threads = threads
        self._get = get
        self._shared: dict[int, Any] = {}
        self._kept: dict[tuple[int, int], Trajectory] = {}
        self._loads = 0

    def hello(self) -> dict[str, Any]:
        """Who it is."""
        return {
            "diffmj": _diffmj.version(),
            "mujoco": _diffmj.mujoco_version_loaded(),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "threads": self.threads,
        }

    def state(self) -> dict[str, int]:
        """What it has: numbers of trajectories and of shared objects, and how often it fetched
        one."""
        return {"kept": len(self._kept), "shared": len(self._shared), "loads": self._loads}

    def run(
        self,
        function: Callable[..., Any],
        begin: int,
        shared: Mapping[str, tuple[int, Any]],
        arguments: Mapping[str, Any],
    ) -> tuple[float, Any]:
        """Seconds that it takes on cores of its own, and what the function returned. shared:
        number and reference by name."""
        with warnings.catch_warnings():
            # the driver gives those of rollouts, with their numbers in the whole batch
            warnings.simplefilter("ignore", RuntimeWarning)
            warnings.filterwarnings("ignore", category=UserWarning, module="diffmj")
            objects = {name: self._load(*x) for name, x in shared.items()}
            # processor time: on a machine that is busy with other work chunks do not get smaller
            start = time.process_time()
            out = function(self, begin=begin, **objects, **arguments)
            return (time.process_time() - start) / self.threads, out

    def forget(self, numbers: Iterable[int]) -> None:
        """Drops shared objects, and the trajectories of these rollouts."""
        gone = set(numbers)
        for x in gone:
            self._shared.pop(x, None)
        for key in [x for x in self._kept if x[0] in gone]:
            del self._kept[key]

    def get(self, reference: Sequence[Any]) -> Any:
        """What a reference in a list stands for. It is in a list so that it is fetched here, and
        only if it is needed."""
        return self._get(reference[0])

    def trajectory(
        self, number: int, begin: int, sim: Simulator, common: dict[str, Any], inputs: Any
    ) -> Trajectory:
        """The rollouts of a chunk: those that are kept, or recomputed from their inputs."""
        kept = self._kept.get((number, begin))
        if kept is None:
            kept = self._kept[number, begin] = self.roll_out(sim, common, self.get(inputs))
        return kept

    def roll_out(
        self, sim: Simulator, common: dict[str, Any], inputs: dict[str, Any]
    ) -> Trajectory:
        """common: what all rollouts of the batch share; inputs: one row each."""
        given = dict(inputs)
        # with parameters of its own for every rollout, a chunk has its own simulator
        sim = given.pop("sim", sim)
        sim.nthread = self.threads
        return sim.rollout(**common, **given)

    def _load(self, number: int, reference: Any) -> Any:
        if number not in self._shared:
            value = self.get(reference)
            if isinstance(value, Simulator):
                value.nthread = self.threads
            elif isinstance(value, PlannerParts):
                value = value.make(self.threads)
            self._shared[number] = value
            self._loads += 1
        return self._shared[number]


def outcome(trajectory: Trajectory) -> dict[str, Any]:
    """What is known of rollouts without their arrays; entries of those that have something to
    say."""
    record = trajectory._record
    failed = [i for i, ok in enumerate(record.ok) if not ok]
    return {
        "nstep": trajectory.nstep,
        "ok": np.array(record.ok),
        "completed": np.array(record.completed),
        "outcome": {i: record.outcome[i] for i in failed},
        "message": {i: record.message[i] for i in failed},
        "warnings": {i: to_warnings(x) for i, x in enumerate(record.warnings) if x},
    }


def rollout(
    worker: Worker, begin: int, sim: Simulator, common: dict[str, Any], number: int, inputs: Any
) -> dict[str, Any]:
    """Makes trajectories, which stay here."""
    return outcome(worker.trajectory(number, begin, sim, common, inputs))


def of_trajectory(
    worker: Worker,
    begin: int,
    sim: Simulator,
    common: dict[str, Any],
    number: int,
    inputs: Any,
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
) -> Any:
    """A function of the trajectories of a chunk."""
    return function(worker.trajectory(number, begin, sim, common, inputs), **arguments)


def fetch(trajectory: Trajectory, name: str, row: int | None = None) -> Any:
    """An array of a trajectory, or the rows of one state."""
    x = getattr(trajectory, name).view(np.ndarray)
    return np.ascontiguousarray(x if row is None else x[:, row])


def field(trajectory: Trajectory, name: str) -> Any:
    """A list of a trajectory."""
    return getattr(trajectory, name)


def pull_back(
    trajectory: Trajectory,
    rows: dict[str, Array],
    final_row: bool,
    forces: list[dict[int, Array]],
    names: list[str],
    only: Sequence[str],
    total: bool,
) -> dict[str, Any]:
    """The gradients of a chunk, or their sum: arrays, messages, counts."""
    out = trajectory._pull_back(rows, final_row, forces, names)
    arrays = {x: getattr(out, x) for x in only if x not in ("params", "xfrc_applied")}
    if "xfrc_applied" in only and trajectory._xfrc_applied:
        arrays["xfrc_applied"] = out.xfrc_applied
    if "params" in only:
        arrays |= {f"params.{x}": out.param(x) for x in names}
    counts = {x: np.array(getattr(out, x)) for x in COUNTS}
    if total:
        arrays = {name: tree_sum(x) for name, x in arrays.items()}
    return {
        "arrays": arrays,
        "counts": counts,
        "message": {i: x for i, x in enumerate(out.message) if x},
    }


def forward(trajectory: Trajectory, arrays: dict[str, Array], params: dict[str, Array]) -> Any:
    """Tangents of a chunk."""
    return vars(trajectory.forward(**arrays, params=params or None))


def linearize_trajectory(trajectory: Trajectory) -> tuple[Array, ...]:
    """A and B of all steps of a chunk."""
    return trajectory.linearize()


def constraint_forces(trajectory: Trajectory, step: int, rollout: int) -> Any:
    """Of one rollout of a chunk."""
    return trajectory.constraint_forces(step, rollout)


def value_and_gradient(
    worker: Worker,
    begin: int,
    sim: Simulator,
    common: dict[str, Any],
    loss: Callable[[Trajectory], tuple[Any, Mapping[str, Any]]],
    inputs: Any,
    params: list[str],
    only: Sequence[str],
    total: bool,
) -> dict[str, Any]:
    """Rollouts, their losses and gradients; nothing is kept."""
    trajectory = worker.roll_out(sim, common, worker.get(inputs))
    values, bars = loss(trajectory)
    values = np.asarray(values, dtype=float)
    if values.shape != (trajectory.batch,):
        raise InputError(
            f"value_and_gradient: the loss has shape {values.shape}, expected "
            f"({trajectory.batch},), one number per rollout"
        )
    given = trajectory._cotangents(**bars)
    return (
        outcome(trajectory)
        | pull_back(trajectory, *given, params, only, total)
        | {"values": values, "total": tree_sum(values) if total else None}
    )


def linearize(
    worker: Worker, begin: int, sim: Simulator, common: dict[str, Any], inputs: Any, sensors: bool
) -> tuple[Array, ...]:
    """A and B of one step each."""
    return sim.linearize(**common, **worker.get(inputs), sensors=sensors)


class PlannerParts:
    """What a planner is made of, in another process."""

    def __init__(self, sim: Simulator, cost: Cost, arguments: dict[str, Any]):
        self._parts = sim, cost, arguments

    def make(self, threads: int) -> Planner:
        """The planner."""
        sim, cost, arguments = self._parts
        return Planner(sim, cost, **arguments, nthread=threads)


def plan_values(
    worker: Worker,
    begin: int,
    planner: Planner,
    start: dict[str, Array],
    variables: Array,
    gradient: bool,
) -> tuple[Any, ...]:
    """Costs of decision variables."""
    return planner._planner.evaluate(_diffmj.InputArrays(**start), variables, gradient)


def segment_values(
    worker: Worker,
    begin: int,
    sim: Simulator,
    segments: list[Segment],
    loss: tuple[str, float],
    which: list[int],
    gradient: bool,
    fields: list[str],
) -> tuple[Any, ...]:
    """Losses of segments of recordings, and their gradients in fields of mjModel."""
    some = [segments[i]._record for i in which]
    return _diffmj.segment_values(sim._model, some, *loss, gradient, fields, worker.threads)


def call(
    worker: Worker,
    begin: int,
    sim: Simulator | None,
    function: Callable[..., Any],
    items: list[Any],
) -> list[Any]:
    """The user's function for each item."""
    return [function(x) if sim is None else function(sim, x) for x in items]
