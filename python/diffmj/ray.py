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
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _diffmj, _pool_worker
from ._arrays import Array, Input, common_batch, common_nstep, to_array, to_integer
from ._cost import Cost
from ._errors import InputError
from ._failures import report_failures
from ._inputs import ROWS as INPUT_ROWS
from ._pool_chunks import Chunk, Chunks
from ._records import Gradient
from ._segments import Segment
from ._simulator import Simulator
from ._trajectory import Trajectory, _parameters
from ._tree_sum import TreeSum
from ._warnings import report_warnings

try:
    from ._pool_cluster import Cluster, Shared
    from ._pool_trajectory import Arrays, Gradients, PoolTrajectory, Record, only_parts
except ImportError as error:
    if error.name != "ray":
        raise
    raise ImportError(
        "diffmj.ray needs Ray, which is not installed; pip install 'diffmj[ray]'"
    ) from error

__all__ = ["Pool", "PoolTrajectory"]

_ROLLOUT = inspect.signature(Simulator.rollout)
_LINEARIZE = inspect.signature(Simulator.linearize)


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
        record = Record(self, call)
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
        out = Arrays(call.batch)

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
        names, parts = _parameters(params), only_parts(who, only)
        record = Record(self, call)
        trajectory = PoolTrajectory(self._require_sim(who), record, True, call.xfrc_applied)
        gradients = Gradients(call.batch, sum)
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
            out = Arrays(n)
            ok, message, cfd = [False] * n, [""] * n, [(0, 0)] * n

            def receive(chunk: Chunk, result: tuple[Any, ...]) -> None:
                for to, x in zip((ok, message, cfd), (result[0], *result[4:]), strict=True):
                    to[chunk.begin : chunk.end] = x
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
            return (ok, *out.arrays.values(), message, cfd)

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
            ok, losses, message, cfd = [False] * n, [0.0] * n, [""] * n, [(0, 0)] * n
            params = Arrays(n)

            def receive(chunk: Chunk, result: tuple[Any, ...]) -> None:
                for to, x in zip((ok, losses, message, cfd), result[:4], strict=True):
                    to[chunk.begin : chunk.end] = x
                params.add(chunk, result[4])

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
            return ok, losses, message, cfd, params.arrays

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
