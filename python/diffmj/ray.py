"""Batches on many machines: the batch calls of a Simulator over a Ray cluster.

    with diffmj.ray.Pool(sim) as pool:                   # this machine; address="auto": its cluster
        traj = pool.rollout(qvel=throws, nstep=200)      # trajectories stay on the workers
        grad = traj.backward(final={"qpos": bar})        # gradients come back

Results have the same bits as those of `sim`, whatever the number of workers. docs/ray.md says what
it costs. Needs Ray: pip install 'diffmj[ray]'.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _diffmj, _pool_worker
from ._arrays import Array, Input, common_batch, common_nstep, to_array, to_index, to_integer
from ._cost import Cost
from ._errors import InputError
from ._failures import report_failures
from ._inputs import ROWS as INPUT_ROWS
from ._linearize import Tangents
from ._pool_chunks import Chunk, Chunks
from ._records import ConstraintForces, Gradient, IntegratorRecord
from ._segments import Segment
from ._simulator import Simulator
from ._trajectory import _ROWS, Trajectory, _parameters
from ._tree_sum import TreeSum
from ._warnings import report_warnings

try:
    from ._pool_cluster import Cluster, Shared
except ImportError as error:
    if error.name != "ray":
        raise
    raise ImportError(
        "diffmj.ray needs Ray, which is not installed; pip install 'diffmj[ray]'"
    ) from error

__all__ = ["Pool", "PoolTrajectory"]

_ROLLOUT = inspect.signature(Simulator.rollout)
_LINEARIZE = inspect.signature(Simulator.linearize)
_BACKWARD = inspect.signature(Trajectory.backward)
_PARTS = (*_pool_worker.GRADIENT, "params")


class Pool:
    """Workers on all nodes of a Ray cluster, with the batch calls of a simulator.

    A pool is also what `Planner` and `identify` take to compute on a cluster. It is closed at the
    end of a `with` block, by `close`, or with the program. A cluster that it started then ends; one
    that it joined goes on without its workers.
    """

    def __init__(
        self,
        sim: Simulator | None = None,
        address: str | None = None,
        *,
        threads: int | None = None,
        chunk: int | None = None,
        progress: Callable[[float], object] | None = None,
    ):
        """
        Args:
            sim: whose batches are run. None: the pool is for planners, fits and `map` alone.
            address: of the cluster: "auto" for that of this machine, or "host:port". None: a
                cluster on this machine, which is started if the process has none
                (`ray.init` gives it other options before).
            threads: of a worker; a node has as many workers as fit on its cores. None: one worker
                per node, with all of its cores. Pools with the same number share their workers.
            chunk: most rollouts that a worker gets at once. None: as many as take about 0.25 s.
            progress: called with the share of a call that is done, from 0 to 1, after every chunk.

        Raises:
            InputError: no cluster at this address, or other versions of diffmj or MuJoCo on one of
                its nodes.
        """
        who = "Pool"
        if sim is not None and not isinstance(sim, Simulator):
            raise InputError(f"{who}: sim is a {type(sim).__name__}, expected a Simulator")
        if threads is not None:
            threads = to_integer(who, "threads", threads, least=1)
        if chunk is not None:
            chunk = to_integer(who, "chunk", chunk, least=1)
        self._sim, self._most, self._progress = sim, chunk, progress
        self._cluster = Cluster.acquire(address, threads)
        self._close = weakref.finalize(self, self._cluster.release)
        self._shared_sim: Shared | None = None

    @property
    def simulator(self) -> Simulator | None:
        """Whose batches are run."""
        return self._sim

    @property
    def workers(self) -> list[dict[str, Any]]:
        """The workers: host, node, pid, and number of threads of each."""
        return self._cluster.workers

    def close(self) -> None:
        """Ends the workers, and the cluster if the pool started it. Trajectories are lost."""
        self._close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rollout(self, *args: Any, **arguments: Any) -> PoolTrajectory:
        """As `Simulator.rollout`, of a batch. Trajectories stay where they were computed.

        Raises:
            InputError: a wrong argument, or none that has a batch dimension.
            OutOfMemoryError: trajectories do not fit in the memory of their worker; the message
                names them.
            KeyboardInterrupt: Ctrl-C.

        Warns: as `Simulator.rollout` does.
        """
        call = self._call("rollout", _ROLLOUT, args, arguments)
        record = _Record(self, call)
        shared = {"sim": call.sim, "common": call.common}

        def send(chunk: Chunk) -> dict[str, Any]:
            chunk.inputs = chunk.inputs or call.inputs(chunk)
            return {"number": call.common.number, "inputs": [chunk.inputs]}

        def receive(chunk: Chunk, result: dict[str, Any]) -> None:
            record.chunks.append(chunk)
            record.outcomes.add(chunk, result)

        kind = f"rollout of {call.nstep} steps {call.sim.number}"
        self._run(_pool_worker.rollout, Chunks(call.batch), shared, send, receive, kind)
        record.chunks.sort(key=lambda x: x.begin)
        trajectory = PoolTrajectory(self._require_sim("rollout"), record, True, call.xfrc_applied)
        report_warnings(record, trajectory.batch)
        report_failures(trajectory, record)
        return trajectory

    def linearize(self, *args: Any, **arguments: Any) -> tuple[Array, ...]:
        """As `Simulator.linearize`, of a batch."""
        call = self._call("linearize", _LINEARIZE, args, arguments)
        out = _Arrays(call.batch)

        def send(chunk: Chunk) -> dict[str, Any]:
            chunk.inputs = chunk.inputs or call.inputs(chunk)
            return {"inputs": [chunk.inputs], "sensors": call.sensors}

        def receive(chunk: Chunk, result: tuple[Array, ...]) -> None:
            out.add(chunk, {str(i): x for i, x in enumerate(result)})

        shared = {"sim": call.sim, "common": call.common}
        kind = f"linearize {call.sim.number}"
        self._run(_pool_worker.linearize, Chunks(call.batch), shared, send, receive, kind)
        return tuple(out.arrays.values())

    def value_and_gradient(
        self,
        loss: Callable[[Trajectory], tuple[npt.ArrayLike, Mapping[str, npt.ArrayLike]]],
        *,
        params: Iterable[str] = (),
        only: Iterable[str] | None = None,
        sum: bool = False,
        **arguments: Any,
    ) -> tuple[Any, Gradient]:
        """Rollouts, a loss of each, and its gradient, in one go: no trajectory is kept or moved, so
        that neither this machine nor the workers need memory for more than a few chunks.

            def height(traj):                               # runs on the workers, chunk by chunk
                bar = np.zeros_like(traj.qpos[:, -1])
                bar[:, 2] = 1
                return traj.qpos[:, -1, 2], {"final": {"qpos": bar}}

            heights, grad = pool.value_and_gradient(height, qvel=throws, nstep=200)

        Args:
            loss: takes a `Trajectory`, a part of the batch. It returns one number per rollout, and
                the arguments of `Trajectory.backward` as a dict. What it returns for a rollout must
                not depend on the others.
            params: as for `Trajectory.backward`.
            only, sum: as for `PoolTrajectory.backward`. With `sum`, the loss is summed, too.
            arguments: as for `rollout`.

        Returns:
            The losses, (B,), NaN where a rollout failed, and the gradient.
        """
        who = "value_and_gradient"
        call = self._call(who, _ROLLOUT, (), arguments)
        names, parts = _parameters(params), _only(who, only)
        record = _Record(self, call)
        trajectory = PoolTrajectory(self._require_sim(who), record, True, call.xfrc_applied)
        gradients = _Gradients(call.batch, sum)
        values, total = np.empty(call.batch), TreeSum(call.batch)

        def send(chunk: Chunk) -> dict[str, Any]:
            chunk.inputs = chunk.inputs or call.inputs(chunk)
            return {
                "inputs": [chunk.inputs],
                "params": names,
                "only": parts,
                "total": sum,
            }

        def receive(chunk: Chunk, result: dict[str, Any]) -> None:
            chunk.inputs = None
            record.outcomes.add(chunk, result)
            gradients.add(chunk, result)
            values[chunk.begin : chunk.end] = result["values"]
            if sum:
                total.add(chunk.begin, chunk.end, {"loss": result["total"]})

        shared = {"sim": call.sim, "common": call.common, "loss": Shared(self._cluster, loss)}
        self._run(
            _pool_worker.value_and_gradient,
            Chunks(call.batch),
            shared,
            send,
            receive,
            f"gradient of {call.nstep} steps {call.sim.number}",
        )
        report_warnings(record, call.batch)
        report_failures(trajectory, record)
        gradient = trajectory._gradient(gradients, names, single=sum)
        return (float(total.total["loss"]) if total.total else values), gradient

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """A function of every item, on the workers: sweeps over starts, seeds or settings.

            def search(sim, seed):
                return diffmj.Planner(sim, cost, method="hybrid", seed=seed).plan(qpos).cost

            costs = pool.map(search, range(100))

        Args:
            function: takes the pool's simulator, which has the threads of its worker, and an item;
                without a simulator, the item alone. It and what it returns are pickled. If a worker
                is lost, it is called again for the same items.
            items: each is a piece of work of its own.

        Returns:
            What it returned, in the order of the items.
        """
        self._require_open()
        todo = list(items)
        if not todo:
            return []
        out: list[Any] = [None] * len(todo)

        def receive(chunk: Chunk, result: list[Any]) -> None:
            out[chunk.begin : chunk.end] = result

        shared = {"function": Shared(self._cluster, function)}
        if self._sim is not None:
            shared["sim"] = self._share_sim()
        extra = {} if self._sim is not None else {"sim": None}
        chunks = [Chunk(i, i + 1) for i in range(len(todo))]
        self._run(
            _pool_worker.call,
            chunks,
            shared,
            lambda chunk: extra | {"items": todo[chunk.begin : chunk.end]},
            receive,
            "map",
            "items",
        )
        return out

    def _run(self, *args: Any, **arguments: Any) -> None:
        self._require_open()
        self._cluster.run(*args, **arguments, most=self._most, progress=self._progress)

    def _require_open(self) -> None:
        if not self._close.alive:
            raise InputError("Pool: it is closed; make another one")

    def _require_sim(self, who: str) -> Simulator:
        if self._sim is None:
            raise InputError(f"{who}: the pool has no simulator; use Pool(sim)")
        return self._sim

    def _share_sim(self) -> Shared:
        if self._shared_sim is None:
            self._shared_sim = Shared(self._cluster, self._sim)
        return self._shared_sim

    def _call(
        self,
        who: str,
        signature: inspect.Signature,
        args: tuple[Any, ...],
        arguments: dict[str, Any],
    ) -> _Call:
        self._require_open()
        sim = self._require_sim(who)
        try:
            given = dict(signature.bind(sim, *args, **arguments).arguments)
        except TypeError as error:
            raise TypeError(f"{who}: {error}") from None
        del given["self"]
        return _Call(who, self, sim, {k: x for k, x in given.items() if x is not None})

    def _plan_values(
        self, sim: Simulator, cost: Cost, arguments: dict[str, Any]
    ) -> Callable[[dict[str, Array], Array, bool], tuple[Any, ...]]:
        """What evaluates decision variables for a planner made of these."""
        planner = Shared(self._cluster, _pool_worker.PlannerParts(sim, cost, arguments))
        run, kind = self._run, f"plan {planner.number}"

        def values(start: dict[str, Array], variables: Array, gradient: bool) -> tuple[Any, ...]:
            n = len(variables)
            out = _Arrays(n)
            ok, message = [False] * n, [""] * n

            def receive(chunk: Chunk, result: tuple[Any, ...]) -> None:
                ok[chunk.begin : chunk.end], message[chunk.begin : chunk.end] = result[0], result[4]
                out.add(chunk, dict(zip(("cost", "terms", "gradient"), result[1:4], strict=True)))

            run(
                _pool_worker.plan_values,
                Chunks(n),
                {"planner": planner},
                lambda chunk: {
                    "start": start,
                    "variables": variables[chunk.begin : chunk.end],
                    "gradient": gradient,
                },
                receive,
                f"{kind} {gradient}",
                "samples",
            )
            return (ok, *out.arrays.values(), message)

        return values

    def _segment_values(
        self, sim: Simulator, segments: list[Segment], loss: tuple[str, float]
    ) -> Callable[[_diffmj.Model, list[int], bool, list[str]], tuple[Any, ...]]:
        """What simulates segments of recordings with a model."""
        shared = Shared(self._cluster, [Segment(x._record) for x in segments])
        cluster, run = self._cluster, self._run

        def values(
            model: _diffmj.Model, which: list[int], gradient: bool, fields: list[str]
        ) -> tuple[Any, ...]:
            n = len(which)
            ok, losses, message = [False] * n, [0.0] * n, [""] * n
            params = _Arrays(n)

            def receive(chunk: Chunk, result: tuple[Any, ...]) -> None:
                for to, x in zip((ok, losses, message), result[:3], strict=True):
                    to[chunk.begin : chunk.end] = x
                params.add(chunk, result[3])

            run(
                _pool_worker.segment_values,
                Chunks(n),
                {"sim": Shared(cluster, sim._like(model)), "segments": shared},
                lambda chunk: {
                    "which": which[chunk.begin : chunk.end],
                    "loss": loss,
                    "gradient": gradient,
                    "fields": fields,
                },
                receive,
                f"segments {shared.number} {gradient}",
                "segments",
            )
            return ok, losses, message, params.arrays

        return values

    def __repr__(self) -> str:
        members = self._cluster._ready()
        return f"Pool({self._sim!r}, workers={len(members)})"


class _Call:
    """The arguments of a batch call, checked, and cut into chunks."""

    def __init__(self, who: str, pool: Pool, sim: Simulator, given: dict[str, Any]):
        self.xfrc_applied = "xfrc_applied" in given
        self.sensors = bool(given.pop("sensors", False))
        nstep, steps_of = given.pop("nstep", None), given.pop("steps_of", None)
        if who == "linearize":
            sim._require_one_model(who)
            # rows of a batch, not of steps
            inputs = [_linearize_input(sim, name, x) for name, x in given.items()]
            self.nstep = 1
        else:
            inputs = sim._inputs(who, **given)
            self.nstep = common_nstep(who, inputs, nstep)
        batch = common_batch(who, inputs)
        if sim._models:
            if batch not in (None, len(sim._models)):
                raise InputError(
                    f"{who}: the arguments are a batch of {batch}, but the simulator has "
                    f"parameters for {len(sim._models)} rollouts"
                )
            batch = len(sim._models)
        if batch is None:
            raise InputError(
                f"{who}: no argument has a batch dimension; a single rollout is for the Simulator"
            )
        if isinstance(steps_of, PoolTrajectory):
            raise InputError(f"{who}: steps_of is a batch, expected a single rollout")
        self.batch = batch
        self._pool, self._rows = pool, {x.name: x.array for x in inputs if x.batch is not None}
        common: dict[str, Any] = {x.name: x.array for x in inputs if x.batch is None}
        if who != "linearize":
            common |= {"nstep": self.nstep, "steps_of": steps_of, "sensors": self.sensors}
        # with parameters of its own for every rollout, a chunk has its own simulator
        self._models = sim if sim._models else None
        self.sim = Shared(pool._cluster, None) if sim._models else pool._share_sim()
        self.common = Shared(pool._cluster, common)

    def inputs(self, chunk: Chunk) -> Any:
        """A reference to those of a chunk. It is a copy: a chunk that is lost is computed again
        from it, whatever happens to the caller's arrays."""
        some: dict[str, Any] = {
            name: np.ascontiguousarray(x[chunk.begin : chunk.end]) for name, x in self._rows.items()
        }
        if self._models is not None:
            models = self._models._models[chunk.begin : chunk.end]
            some["sim"] = self._models._like(models[0], models)
        return self._pool._cluster.put(some)


def _linearize_input(sim: Simulator, name: str, value: Any) -> Input:
    row = {d: int(d) if d.isdigit() else getattr(sim, d) for d in INPUT_ROWS[name][0]}
    x = to_array("linearize", name, value)
    if INPUT_ROWS[name][1] and x.ndim == len(row) + 2 and x.shape[1] == 1:
        x = x[:, 0]  # one step
    return Input("linearize", name, x, row, False)


def _only(who: str, only: Iterable[str] | None) -> list[str]:
    if only is None:
        return list(_PARTS)
    names = [only] if isinstance(only, str) else list(only)
    for x in names:
        if x not in _PARTS:
            raise InputError(f"{who}: only has {x!r}, expected names among {', '.join(_PARTS)}")
    return names


class _Arrays:
    """Arrays of a batch, put together from those of chunks."""

    def __init__(self, size: int):
        self._size = size
        self.arrays: dict[str, npt.NDArray[Any]] = {}

    def add(self, chunk: Chunk, parts: Mapping[str, npt.NDArray[Any]]) -> None:
        for name, x in parts.items():
            if name not in self.arrays:
                self.arrays[name] = np.empty((self._size, *x.shape[1:]), x.dtype)
            self.arrays[name][chunk.begin : chunk.end] = x


class _Gradients:
    """What `Trajectory._gradient` reads of the extension's GradientBatch."""

    def __init__(self, size: int, total: bool):
        self._size, self._all = size, _Arrays(size)
        self._sum = TreeSum(size) if total else None
        self._counts = _Arrays(size)
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
        self.arrays = _Arrays(size)
        self.sparse: dict[str, dict[int, Any]] = {"outcome": {}, "message": {}, "warnings": {}}

    def add(self, chunk: Chunk, result: dict[str, Any]) -> None:
        self.arrays.add(chunk, {name: result[name] for name in ("ok", "completed")})
        for name, to in self.sparse.items():
            to.update((chunk.begin + i, x) for i, x in result[name].items())


class _Record:
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
        return self.outcomes.arrays.arrays["ok"].tolist()

    @property
    def completed(self) -> list[int]:
        return self.outcomes.arrays.arrays["completed"].tolist()

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
        out = _Arrays(self._size)
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

    _record: Any

    def row(self, name: str, index: int = -1) -> Array:
        """The rows of one state of an array, (B, ...): of the last one, `traj.row("qpos")`.

        Raises:
            InputError: no such array or state.
        """
        if name not in _ROWS or name == "qpos_tangent":
            names = [x for x in _ROWS if x != "qpos_tangent"]
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
        out = _Arrays(len(self._record))
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

    def backward(  # type: ignore[override]
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
        names, parts = _parameters(given.pop("params", ())), _only("backward", only)
        rows, final_row, forces = self._cotangents(**given)
        out = _Gradients(len(self._record), sum)

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

    def forward(
        self,
        qpos: npt.ArrayLike | None = None,
        qpos_tangent: npt.ArrayLike | None = None,
        qvel: npt.ArrayLike | None = None,
        act: npt.ArrayLike | None = None,
        ctrl: npt.ArrayLike | None = None,
        qfrc_applied: npt.ArrayLike | None = None,
        params: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Tangents:
        """As `Trajectory.forward`, where the trajectories are."""

        def checked(name: str, value: npt.ArrayLike) -> Array:
            x = to_array("forward", name, value)
            if x.ndim == 0 or len(x) != self.batch:
                raise InputError(
                    f"forward: {name} has shape {x.shape}, expected a first dimension of B = "
                    f"{self.batch}"
                )
            return x

        named = {
            "qpos": qpos,
            "qpos_tangent": qpos_tangent,
            "qvel": qvel,
            "act": act,
            "ctrl": ctrl,
            "qfrc_applied": qfrc_applied,
        }
        rows = {name: checked(name, x) for name, x in named.items() if x is not None}
        fields = {name: checked(f"params[{name!r}]", x) for name, x in (params or {}).items()}
        out = _Arrays(len(self._record))

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
        out = _Arrays(len(self._record))
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
    def integrator(self) -> list[IntegratorRecord] | None:  # type: ignore[override]
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
        return self._record.fetch("steps").view(np.recarray)  # type: ignore[return-value]

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
