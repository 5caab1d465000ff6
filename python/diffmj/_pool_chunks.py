"""Chunks of a batch: which rollouts a worker gets next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# A chunk should take this long [s]: far longer than the milliseconds that sending it takes, and
# short enough that a worker that is lost costs little.
_SECONDS = 0.25
# Rollouts for each thread of a worker in the first chunk, when nothing was measured yet.
_FIRST = 4


@dataclass(eq=False)
class Chunk:
    """Rollouts begin to end - 1 of a batch."""

    begin: int
    end: int
    worker: Any = None  # that has their trajectories
    inputs: Any = None  # reference to their inputs
    deaths: int = 0  # workers that died while they computed it

    def __len__(self) -> int:
        return self.end - self.begin

    def __str__(self) -> str:
        return f"{self.begin} to {self.end - 1}" if len(self) > 1 else f"{self.begin}"


def _power_of_two(x: float) -> int:
    """The largest that is not above x, at least 1."""
    return 1 << max(int(x), 1).bit_length() - 1


@dataclass
class Chunks:
    """Cuts a batch into chunks that are nodes of the tree of `TreeSum`: each has a power of two of
    rollouts and begins at a multiple of it. Sizes follow what was measured, and fall towards the
    end, so that all workers end at the same time.
    """

    total: int
    most: int | None = None  # rollouts in a chunk
    seconds: float | None = None  # of a rollout on a worker, if it is known
    position: int = field(default=0, init=False)

    def next(self, nworker: int, threads: int) -> Chunk | None:
        """The next chunk, for a worker with this many threads; None: there is none."""
        left = self.total - self.position
        if left == 0:
            return None
        size = _FIRST * threads if self.seconds is None else _SECONDS / max(self.seconds, 1e-9)
        size = max(min(size, left / (2 * nworker)), threads)
        if self.most is not None:
            size = min(size, self.most)
        size = _power_of_two(size)
        if self.position:
            size = min(size, self.position & -self.position)
        chunk = Chunk(self.position, min(self.position + size, self.total))
        self.position = chunk.end
        return chunk

    def measured(self, chunk: Chunk, seconds: float) -> None:
        """What a chunk took."""
        rate = seconds / len(chunk)
        self.seconds = rate if self.seconds is None else 0.5 * (self.seconds + rate)
