"""A residual of mujoco.sysid that counts, keeps the best point, and ends after a given time."""

from __future__ import annotations

import time

import numpy as np


class TimeIsUp(Exception):
    pass


class Watched:
    """
    Attributes:
        count: evaluations of the residual, one for every point.
        best: the point of the smallest residual, without those of differences.
    """

    def __init__(
        self, residual_fn, most_seconds: float = np.inf, loss: str = "linear", f_scale: float = 1.0
    ):
        """loss: "linear" or "cauchy", what `best` is the best by."""
        self._function, self._end = residual_fn, time.perf_counter() + most_seconds
        self._robust, self._scale = loss == "cauchy", f_scale
        self.count, self.best, self._least = 0, None, np.inf

    def __call__(self, x, params, **keywords):
        if time.perf_counter() > self._end and self.best is not None:
            raise TimeIsUp
        points = 1 if x.ndim == 1 else x.shape[1]
        out = self._function(x, params, **keywords)
        self.count += points
        if points == 1:
            squares = np.concatenate([np.ravel(part) for part in out[0]]) ** 2
            if self._robust:
                squares = np.log1p(squares / self._scale**2)
            size = float(np.sum(squares))
            if size < self._least:
                self._least, self.best = size, np.array(x).ravel().copy()
        return out
