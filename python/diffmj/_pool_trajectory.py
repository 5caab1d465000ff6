"""PoolTrajectory: rollouts that stay on the workers of a Pool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _pool_worker
from ._arrays import Array, to_array, to_index
from ._errors import InputError
from ._linearize import Tangents
from ._pool_chunks import Chunk
from ._pool_cluster import Shared
from ._recorded import OUTPUT_ROWS
from ._records import ConstraintForces, Gradient, IntegratorRecord
from ._trajectory import Trajectory, _parameters
from ._tree_sum import TreeSum

if TYPE_CHECKING:
    from ._simulator import Simulator
    from .ray import Pool, _Call

_BACKWARD = inspect.signature(Trajectory.backward)
_FORWARD = inspect.signature(Trajectory.forward)
_PARTS = (*_pool_worker.GRADIENT, "params")


def only_parts(who: str, only: Iterable[str] | None) -> list[str]:
    """Names of the parts of a gradient that are asked for."""
    if only is None:
        return list(_PARTS)
    names = [only] if isinstance(only, str) else list(only)
    for x in names:
        if x not in _PARTS:
            raise InputError(f"{who}: only has {x!r}, expected names among {', '.join(_PARTS)}")
    return names


class Arrays:
    """Arrays of a batch, put together from those of chunks."""

    def __init__(self, size: int):
        self._size = size
        self.arrays: dict[str, npt.NDArray[Any]] = {}

    def add(self, chunk: Chunk, parts: Mapping[str, npt.NDArray[Any]]) -> None:
        for name, x in parts.items():
            if name not in self.arrays:
                self.arrays[name] = np.empty((self._size, *x.shape[1:]), x.dtype)
            self.arrays[name][chunk.begin : chunk.end] = x


class Gradients:
    """What `Trajectory._gradient` reads of the extension's GradientBatch."""

    def __init__(self, size: int, total: bool):
        self._size, self._all = size, Arrays(size)
        self._sum = TreeSum(size) if total else None
        self._counts = Arrays(size)
        self.message = [""] * size

    def add(self, chunk: Chunk, result: dict[str, Any]) -> None:
        if self._sum is None:
            self._all.add(chunk, result["arrays"])
        else:
            self._sum.add(chunk.begin, chunk.end, result["arrays"])
        self._counts.add(chunk, result["counts"])
        for i, x in result["message"].items():
            self.message[chunk.begin + i] = x

    def param(self, name: str) -> Array | None:
        return self._array(f"params.{name}")

    def _array(self, name: str) -> Array | None:
        if self._sum is None:
            return self._all.arrays.get(name)
        x = (self._sum.total or {}).get(name)
        return None if x is None else x[None]

    def __getattr__(self, name: str) -> Any:
        if name in _pool_worker.GRADIENT:
            return self._array(name)
        if name in _pool_worker.COUNTS:
            counts = self._counts.arrays[name].tolist()
            return [sum(counts)] if self._sum is not None else counts
        raise AttributeError(name)


class _Outcomes:
    """How the rollouts of a batch went."""

    def __init__(self, size: int):
        self.arrays = Arrays(size)
        self.sparse: dict[str, dict[int, Any]] = {"outcome": {}, "message": {}, "warnings": {}}

    def add(self, chunk: Chunk, result: dict[str, Any]) -> None:
        self.arrays.add(chunk, {name: result[name] for name in ("ok", "completed")})
        for name, to in self.sparse.items():
            to.update((chunk.begin + i, x) for i, x in result[name].items())


class Record:
    """What a Trajectory reads of the extension's TrajectoryBatch; arrays are fetched."""

    def __init__(self, pool: Pool, call: _Call):
        self.pool, self.nstep = pool, call.nstep
        self.sim, self.common = call.sim, call.common
        self.chunks: list[Chunk] = []
        self.outcomes = _Outcomes(call.batch)
        self._size = call.batch

    def __len__(self) -> int:
        return self._size

    @property
    def ok(self) -> list[bool]:
        return [bool(x) for x in self.outcomes.arrays.arrays["ok"]]

    @property
    def completed(self) -> list[int]:
        return [int(x) for x in self.outcomes.arrays.arrays["completed"]]

    def _entries(self, name: str, default: Any) -> list[Any]:
        found = self.outcomes.sparse[name]
        return [found.get(i, default) for i in range(self._size)]

    @property
    def outcome(self) -> list[str]:
        return self._entries("outcome", "success")

    @property
    def message(self) -> list[str]:
        return self._entries("message", "")

    @property
    def warnings(self) -> list[list[Any]]:
        return self._entries("warnings", [])

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        if name in ("qpos", "qvel", "act", "qacc"):
            return self.fetch(name)
        raise AttributeError(name)

    def run(
        self,
        function: Callable[..., Any],
        arguments: Callable[[Chunk], Mapping[str, Any]],
        receive: Callable[[Chunk, Any], object],
        chunks: Sequence[Chunk] | None = None,
    ) -> None:
        """A function of the trajectories of every chunk, where they are."""
        self.pool._run(
            _pool_worker.of_trajectory,
            list(self.chunks if chunks is None else chunks),
            {"sim": self.sim, "common": self.common},
            lambda chunk: {
                "number": self.common.number,
                "inputs": [chunk.inputs],
                "function": function,
                "arguments": arguments(chunk),
            },
            receive,
            "",
        )

    def fetch(self, name: str, row: int | None = None) -> npt.NDArray[Any]:
        """An array of all rollouts, or the rows of one state."""
        out = Arrays(self._size)
        self.run(
            _pool_worker.fetch,
            lambda chunk: {"name": name, "row": row},
            lambda chunk, x: out.add(chunk, {name: x}),
        )
        out.arrays[name].flags.writeable = False
        return out.arrays[name]


class PoolTrajectory(Trajectory):
    """The rollouts of `Pool.rollout`, which stay on the workers that made them. An array comes here
    when it is first read; `row` and `apply` bring less. If a worker is lost, its rollouts are made
    again when they are needed, with the same bits.
    """

    _record: Record  # type: ignore[assignment]

    def row(self, name: str, index: int = -1) -> Array:
        """The rows of one state of an array, (B, ...): of the last one, `traj.row("qpos")`.

        Raises:
            InputError: no such array or state.
        """
        if name not in OUTPUT_ROWS or name == "qpos_tangent":
            names = [x for x in OUTPUT_ROWS if x != "qpos_tangent"]
            raise InputError(f"row: there is no array {name!r}, expected among {', '.join(names)}")
        rows = self.nstep + 1
        at = to_index("row", "index", index + rows if index < 0 else index, rows)
        return self._record.fetch(name, at)

    def apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """A function of the trajectories, where they are.

            distance = traj.apply(lambda t: np.linalg.norm(t.qpos[:, -1, :2], axis=-1))    # (B,)

        Args:
            function: takes a `Trajectory`, a part of the batch, and `args`. It returns an array
                with one row per rollout, or a dict of such arrays. It is pickled.
        """
        out = Arrays(len(self._record))
        is_dict = False

        def receive(chunk: Chunk, result: Any) -> None:
            nonlocal is_dict
            is_dict = isinstance(result, Mapping)
            parts = dict(result) if is_dict else {"": result}
            parts = {name: np.asarray(x) for name, x in parts.items()}
            for name, x in parts.items():
                if x.ndim == 0 or len(x) != len(chunk):
                    raise InputError(
                        f"apply: the function returned {name and repr(name) + ' with '}shape "
                        f"{x.shape} for {len(chunk)} rollouts, expected one row each"
                    )
            out.add(chunk, parts)

        shared = Shared(self._record.pool._cluster, (function, args))
        record = self._record
        record.pool._run(
            _apply,
            list(record.chunks),
            {"sim": record.sim, "common": record.common, "call": shared},
            lambda chunk: {"number": record.common.number, "inputs": [chunk.inputs]},
            receive,
            "",
        )
        return out.arrays if is_dict else out.arrays[""]

    def backward(
        self,
        *args: Any,
        sum: bool = False,
        only: Iterable[str] | None = None,
        **arguments: Any,
    ) -> Gradient:
        """As `Trajectory.backward`, where the trajectories are.

        Args:
            sum: return the sum over the batch, taken on the workers, for inputs that the rollouts
                share: the same bits as `Gradient.sum`, and hardly a byte is moved.
            only: names of the parts of the gradient that come back, such as ["qvel", "params"];
                others are None. None: all.
        """
        given = dict(_BACKWARD.bind(self, *args, **arguments).arguments)
        del given["self"]
        names, parts = _parameters(given.pop("params", ())), only_parts("backward", only)
        rows, final_row, forces = self._cotangents(**given)
        out = Gradients(len(self._record), sum)

        def cut(chunk: Chunk) -> dict[str, Any]:
            some = slice(chunk.begin, chunk.end)
            return {
                "rows": {name: x[some] for name, x in rows.items()},
                "final_row": final_row,
                "forces": forces[some],
                "names": names,
                "only": parts,
                "total": sum,
            }

        self._record.run(_pool_worker.pull_back, cut, out.add)
        return self._gradient(out, names, single=sum)  # type: ignore[arg-type]

    def forward(self, *args: Any, **arguments: Any) -> Tangents:
        """As `Trajectory.forward`, where the trajectories are."""
        named = dict(_FORWARD.bind(self, *args, **arguments).arguments)
        del named["self"]
        params = named.pop("params", None)

        def checked(name: str, value: npt.ArrayLike) -> Array:
            x = to_array("forward", name, value)
            if x.ndim == 0 or len(x) != self.batch:
                raise InputError(
                    f"forward: {name} has shape {x.shape}, expected a first dimension of B = "
                    f"{self.batch}"
                )
            return x

        rows = {name: checked(name, x) for name, x in named.items() if x is not None}
        fields = {name: checked(f"params[{name!r}]", x) for name, x in (params or {}).items()}
        out = Arrays(len(self._record))

        def cut(chunk: Chunk) -> dict[str, Any]:
            some = slice(chunk.begin, chunk.end)
            return {
                "arrays": {name: x[some] for name, x in rows.items()},
                "params": {name: x[some] for name, x in fields.items()},
            }

        self._record.run(_pool_worker.forward, cut, out.add)
        return Tangents(**out.arrays)

    def linearize(self) -> tuple[Array, ...]:
        """As `Trajectory.linearize`, where the trajectories are."""
        out = Arrays(len(self._record))
        self._record.run(
            _pool_worker.linearize_trajectory,
            lambda chunk: {},
            lambda chunk, x: out.add(chunk, {str(i): y for i, y in enumerate(x)}),
        )
        return tuple(out.arrays.values())

    def constraint_forces(self, step: int, rollout: int | None = None) -> ConstraintForces:
        """As `Trajectory.constraint_forces`."""
        who = "constraint_forces"
        if rollout is None:
            raise InputError(
                f"{who}: rollout is not given; say which one of the batch of {self.batch}"
            )
        which = to_index(who, "rollout", rollout, len(self._record))
        found: list[ConstraintForces] = []
        self._record.run(
            _pool_worker.constraint_forces,
            lambda chunk: {"step": step, "rollout": which - chunk.begin},
            lambda chunk, x: found.append(x),
            [x for x in self._record.chunks if x.begin <= which < x.end],
        )
        return found[0]

    @cached_property
    def integrator(self) -> list[IntegratorRecord] | None:
        """As `Trajectory.integrator`."""
        if not self._sim._model.is_adaptive:
            return None
        out: list[Any] = [None] * len(self._record)

        def receive(chunk: Chunk, x: list[IntegratorRecord]) -> None:
            out[chunk.begin : chunk.end] = x

        self._record.run(_pool_worker.field, lambda chunk: {"name": "integrator"}, receive)
        return out

    @cached_property
    def time(self) -> Array:
        """(B, nstep + 1) [s]"""
        return self._record.fetch("time")

    @cached_property
    def sensordata(self) -> Array:
        """(B, nstep + 1, nsensordata): as `Trajectory.sensordata`."""
        return self._record.fetch("sensordata")

    @cached_property
    def steps(self) -> np.recarray[Any, Any]:
        """(B, nstep) records: as `Trajectory.steps`."""
        return self._record.fetch("steps").view(np.recarray)

    def _pose(self, name: str) -> Array:
        return self._record.fetch(name)

    def __reduce__(self) -> tuple[Any, ...]:
        raise InputError(
            "PoolTrajectory: it is on the workers of a pool and cannot be pickled; pickle the "
            "arrays that you need"
        )


def _apply(
    worker: _pool_worker.Worker,
    begin: int,
    sim: Simulator,
    common: dict[str, Any],
    call: tuple[Callable[..., Any], tuple[Any, ...]],
    number: int,
    inputs: Any,
) -> Any:
    function, args = call
    return function(worker.trajectory(number, begin, sim, common, inputs), *args)
