"""Workers on the nodes of a Ray cluster, and chunks of work on them."""

from __future__ import annotations

import itertools
import logging
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from . import _diffmj
from ._errors import Error, InputError, OutOfMemoryError
from ._pool_chunks import Chunk, Chunks
from ._pool_worker import Worker

# Chunks that a worker has at once: the one that it computes, and the next, so that it does not wait
# for the driver.
_DEPTH = 2
# Workers that may die while they compute the same chunk, before that is an error.
_DEATHS = 3
_LOOK = 1.0  # [s] between two looks for nodes that joined or left
_START = 120.0  # [s] that the first worker may take to start

_numbers = itertools.count()
_clusters: dict[int | None, Cluster] = {}  # that pools of this process use, by threads of a worker
_started = False  # Ray was started here, and ends with the last of them


class _Member:
    """A worker, as the driver sees it."""

    def __init__(self, node: str, threads: int):
        self.node, self.threads = node, threads
        actor = ray.remote(Worker)
        self.actor = actor.options(
            num_cpus=threads,
            max_restarts=0,  # what it has would be lost; a new one is started instead
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(threads, ray.get)
        self.hello = self.actor.hello.remote()
        self.about: dict[str, Any] | None = None  # once it has started
        self.alive = True
        self.load: list[Chunk] = []  # in the order in which it got them

    def kill(self) -> None:
        self.alive = False
        ray.kill(self.actor)


class Shared:
    """An object that every worker fetches once, and forgets when this one is gone."""

    def __init__(self, cluster: Cluster, value: Any):
        self.number, self._reference = next(_numbers), ray.put(value)
        # Ray is not called from here: this may run in the middle of one of its own calls
        weakref.finalize(self, cluster.gone.append, self.number).atexit = False

    def for_worker(self) -> tuple[int, list[Any]]:
        """Number and reference."""
        return self.number, [self._reference]


class Cluster:
    """Workers on all nodes of the cluster that this process is connected to. Pools share them."""

    def __init__(self, threads: int | None):
        self._threads, self._pools = threads, 0
        self._members: list[_Member] = []
        self._looked = 0.0
        self._seconds: dict[str, float] = {}  # of a rollout, by kind of work
        self.gone: list[int] = []  # numbers of what workers may forget

    @staticmethod
    def acquire(address: str | None, threads: int | None) -> Cluster:
        """For a pool, which must release it."""
        _connect(address)
        found = _clusters.setdefault(threads, Cluster(threads))
        found._pools += 1
        try:
            found._look(now=True)
            found._wait_for_start()
        except BaseException:
            found.release()
            raise
        return found

    def release(self) -> None:
        """A pool is closed. With the last one the workers end, and Ray, if it was started here."""
        global _started
        self._pools -= 1
        if self._pools > 0:
            return
        if _clusters.get(self._threads) is self:
            del _clusters[self._threads]
        if ray.is_initialized():
            for member in self._members:
                member.kill()
        self._members.clear()
        if _started and not _clusters:
            _started = False
            ray.shutdown()

    @property
    def workers(self) -> list[dict[str, Any]]:
        """Those that have started."""
        self._look(now=True)
        self._greet([x.hello for x in self._members])
        return [dict(x.about, node=x.node) for x in self._members if x.about is not None]

    def put(self, value: Any) -> Any:
        """A reference to a copy of a value."""
        return ray.put(value)

    def states(self) -> list[dict[str, int]]:
        """What the workers have."""
        self._forget()
        return ray.get([x.actor.state.remote() for x in self._members if x.about is not None])

    def run(
        self,
        function: Callable[..., Any],
        chunks: Chunks | list[Chunk],
        shared: Mapping[str, Shared],
        arguments: Callable[[Chunk], Mapping[str, Any]],
        receive: Callable[[Chunk, Any], object],
        kind: str,
        things: str = "rollouts",
        most: int | None = None,
        progress: Callable[[float], object] | None = None,
    ) -> None:
        """Runs a function of `_pool_worker` for all chunks. A list has the chunks of trajectories,
        each of which goes to the worker that has it, if that is alive.

        Args:
            arguments: of the function, for a chunk.
            receive: takes what it returned, in no order.
            kind: of work; how long it takes is remembered from call to call.
            things: that a batch consists of, for messages.
            most: rollouts in a chunk.
            progress: called with the share that is done.
        """
        self._forget()
        shipped = {name: x.for_worker() for name, x in shared.items()}
        again: list[Chunk] = [] if isinstance(chunks, Chunks) else list(chunks)
        total = chunks.total if isinstance(chunks, Chunks) else sum(len(x) for x in chunks)
        done = 0
        for x in again:
            x.deaths = 0
        if isinstance(chunks, Chunks):
            chunks.most, chunks.seconds = most, self._seconds.get(kind)
        flying: dict[Any, tuple[Chunk, _Member]] = {}

        def next_for(member: _Member) -> Chunk | None:
            for i, x in enumerate(again):
                if x.worker is None or x.worker is member or not x.worker.alive:
                    return again.pop(i)
            if isinstance(chunks, Chunks):
                return chunks.next(len(self._ready()), member.threads)
            return None

        def send() -> None:
            for depth in range(1, _DEPTH + 1):
                for member in self._ready():
                    if len(member.load) >= depth:
                        continue
                    chunk = next_for(member)
                    if chunk is None:
                        continue
                    chunk.worker = member
                    member.load.append(chunk)
                    reference = member.actor.run.remote(
                        function, chunk.begin, shipped, arguments(chunk)
                    )
                    flying[reference] = chunk, member

        try:
            while True:
                self._look()
                send()
                if not flying:
                    if not again and (isinstance(chunks, list) or chunks.position == total):
                        break
                    self._wait_for_start()
                    continue
                starting = [x.hello for x in self._members if x.about is None]
                ready, _ = ray.wait(
                    [*flying, *starting], num_returns=1, timeout=_LOOK, fetch_local=False
                )
                self._greet(x for x in ready if x not in flying)
                for reference in ready:
                    if reference not in flying:
                        continue
                    chunk, member = flying.pop(reference)
                    try:
                        seconds, result = ray.get(reference)
                    except RayTaskError as error:
                        raise _of_user(error, chunk, things) from None
                    except RayError as error:
                        self._lost(member)
                        self._looked = 0.0  # another one is started at once
                        chunk.worker = None
                        if _ran_out_of_memory(error):
                            raise _out_of_memory(chunk, things, str(error)) from None
                        if chunk.deaths >= _DEATHS:
                            raise _died(chunk, things, error) from None
                        again.append(chunk)
                        continue
                    if member.alive:
                        member.load.remove(chunk)
                    if isinstance(chunks, Chunks):
                        chunks.measured(chunk, seconds)
                        self._seconds[kind] = chunks.seconds or 0.0
                    receive(chunk, result)
                    del result, reference  # its memory is free for the next
                    done += len(chunk)
                    if progress is not None:
                        progress(done / total)
        except KeyboardInterrupt:
            # workers do not see Ctrl-C; what they are at is not wanted any more
            for member in {id(m): m for _, m in flying.values()}.values():
                self._lost(member)
            raise
        finally:
            for _, member in flying.values():
                member.load.clear()

    def _ready(self) -> list[_Member]:
        return [x for x in self._members if x.about is not None]

    def _lost(self, member: _Member) -> None:
        """It died, or is to."""
        if member not in self._members:
            return
        self._members.remove(member)
        for running in member.load[:1]:
            running.deaths += 1
        member.load.clear()
        member.kill()

    def _look(self, now: bool = False) -> None:
        """Starts workers on nodes that joined, or whose worker died; drops those of nodes that
        left."""
        if not now and time.monotonic() - self._looked < _LOOK:
            return
        self._looked = time.monotonic()
        nodes = {x["NodeID"]: int(x["Resources"].get("CPU", 0)) for x in ray.nodes() if x["Alive"]}
        for member in [x for x in self._members if x.node not in nodes]:
            self._lost(member)
        for node, cores in nodes.items():
            threads = self._threads or cores
            there = sum(x.node == node for x in self._members)
            for _ in range(there, cores // threads if threads else 0):
                self._members.append(_Member(node, threads))

    def _greet(self, hellos: Iterable[Any]) -> None:
        """Workers that have started."""
        waiting = list(hellos)
        for member in list(self._members):
            if member.about is not None or member.hello not in waiting:
                continue
            if not ray.wait([member.hello], timeout=0)[0]:
                continue
            try:
                about = ray.get(member.hello)
            except RayTaskError as error:
                raise error.cause from None
            except RayError as error:
                # its node may be about to leave; if not, the next look starts another one
                self._lost(member)
                if "No module named 'diffmj'" in str(error):
                    raise InputError(
                        f"Pool: no worker can start on node {member.node}; is diffmj installed "
                        f"there? {error}"
                    ) from None
                continue
            mine = _diffmj.version(), _diffmj.mujoco_version_loaded()
            if (about["diffmj"], about["mujoco"]) != mine:
                raise InputError(
                    f"Pool: {about['host']} has diffmj {about['diffmj']} with MuJoCo "
                    f"{about['mujoco']}, but here are diffmj {mine[0]} and MuJoCo {mine[1]}; "
                    "results would differ. Install the same versions on all nodes"
                )
            member.about = about

    def _wait_for_start(self) -> None:
        """Until all workers of now have started, or one of them if some cannot."""
        begin = time.monotonic()
        while True:
            self._look()
            starting = [x.hello for x in self._members if x.about is None]
            if not starting and self._members:
                return
            ready = ray.wait(starting, timeout=_LOOK)[0] if starting else []
            if not starting:
                time.sleep(0.1)
            self._greet(ready)
            waited = time.monotonic() - begin
            if self._ready() and waited > 10:
                return
            if waited > _START:
                raise Error(
                    f"Pool: no worker started within {_START:g} s. A worker needs "
                    f"{self._threads or 'all'} free cores of a node; `ray status` shows what is "
                    "taken. Use fewer threads, or wait for other work to end"
                )

    def _forget(self) -> None:
        gone = [self.gone.pop() for _ in range(len(self.gone))]
        for member in self._ready() if gone else ():
            member.actor.forget.remote(gone)


def _connect(address: str | None) -> None:
    """To a cluster, unless the process is connected to it."""
    global _started
    if address is not None and address.startswith("ray://"):
        raise InputError(
            f"Pool: address is {address!r}, of a Ray client; run the program on a node of the "
            "cluster (`ray job submit`) and use address='auto'"
        )
    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", here):
            raise InputError(
                f"Pool: address is {address!r}, but this process is connected to {here}; call "
                "ray.shutdown() first"
            )
        return
    _clusters.clear()  # of a session that ended
    try:
        ray.init(
            address=address or "local",
            logging_level=logging.WARNING,
            **({} if address else {"include_dashboard": False}),
        )
    except ConnectionError as error:
        raise InputError(f"Pool: there is no cluster at {address!r}: {error}") from None
    _started = address is None


def _of_user(error: RayTaskError, chunk: Chunk, things: str) -> BaseException:
    """What a worker raised, as it would be raised here."""
    cause = error.cause
    if isinstance(cause, MemoryError):
        return _out_of_memory(chunk, things, str(cause))
    if isinstance(cause, Error) and chunk.begin > 0:
        text = f"{cause} (in a chunk: its numbers count from {things[:-1]} {chunk.begin})"
        return type(cause)(text)
    if not isinstance(cause, BaseException):
        return error
    if not isinstance(cause, Error):
        cause.add_note(f"on a worker, {things} {chunk}:\n{error}")
    return cause


def _ran_out_of_memory(error: RayError) -> bool:
    # an actor that Ray ended so says it in its message alone
    known = isinstance(error, ray.exceptions.OutOfMemoryError)
    return known or "NODE_OUT_OF_MEMORY" in str(error)


def _out_of_memory(chunk: Chunk, things: str, why: str) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"{things} {chunk} do not fit in the memory of their worker: {why}. Use smaller chunks, "
        f"Pool(chunk={max(len(chunk) // 2, 1)}), fewer workers per node (more threads each), or "
        "value_and_gradient, which keeps no trajectories"
    )


def _died(chunk: Chunk, things: str, error: RayError) -> Error:
    return Error(
        f"{things} {chunk}: {chunk.deaths} workers died while they computed them; the last: "
        f"{str(error).strip()}. If the system ended them for want of memory, use smaller chunks: "
        f"Pool(chunk={max(len(chunk) // 2, 1)})"
    )
