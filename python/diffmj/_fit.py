"""Fit: the result of `identify`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from . import _diffmj
from ._arrays import Array
from ._errors import InputError

if TYPE_CHECKING:
    from ._parametric import ParametricSimulator
    from ._simulator import Simulator


@dataclass(frozen=True)
class FitIteration:
    """An iteration of a fit.

    Attributes:
        iteration: its number, from 0.
        loss: mean over segments of ½ Σ weight residual².
        values: the parameters by name.
        seconds: since the fit began.
        failed: segments whose rollout failed; they do not count in the loss.
    """

    iteration: int
    loss: float
    values: dict[str, float]
    seconds: float
    failed: int


@dataclass(frozen=True)
class TargetError:
    """Root mean squares of simulated minus recorded, without weights.

    Attributes:
        count: how many numbers were compared.
        before: at the start of the fit.
        after: at the fitted values.
    """

    count: int
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of `identify`.

    Attributes:
        values: the fitted parameters by name.
        errors: their standard errors; infinite where the data do not determine a parameter, NaN if
            they were not requested.
        correlation: (p, p), of the estimates.
        undetermined: combinations of parameters that the data do not determine, each a dict from
            names to weights relative to the parameters' sizes.
        loss: mean over segments of ½ Σ weight residual², at the values.
        held_out: the loss of the held-out segments, at the start and at the values; None if nothing
            was held out.
        history: a list of `FitIteration`.
        starts: (segments, 2 nv + na), the estimated changes of the starting states of segments;
            None if these were not estimated.
        converged: the fit ended before its last iteration, because nothing improved any more.
        interrupted: Ctrl-C stopped the fit; the values are the best so far.
        message: of an error that ended the fit; the values are the best so far.
        family: the `ParametricSimulator`.
    """

    values: dict[str, float]
    errors: dict[str, float]
    correlation: Array
    undetermined: list[dict[str, float]]
    loss: float
    held_out: tuple[float, float] | None
    history: list[FitIteration] = field(repr=False)
    starts: Array | None = field(repr=False)
    converged: bool
    interrupted: bool
    message: str
    family: ParametricSimulator = field(repr=False)
    _parts: _Parts = field(repr=False)

    @property
    def simulator(self) -> Simulator:
        """The simulator of the fitted values."""
        return self.family.at(self.values)

    @property
    def spec(self) -> mujoco.MjSpec:
        """The fitted model as an MjSpec. If the model is a function, this is its result at the
        fitted values. If it is an MJCF, MuJoCo writes the fitted values with six digits
        (`simulator` has all digits).

        Raises:
            InputError: the function returns an MjModel, which has no MJCF.
        """
        return self.family._spec(self.values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the fitted model as an MJCF file.

        Raises:
            InputError: as for `spec`, or the file cannot be written.
        """
        _write(path, self.family._mjcf(self.values))

    def target_errors(self, held_out: bool = False) -> dict[str, TargetError]:
        """Errors by quantity before and after the fit, over the segments of the fit or of the
        held-out recordings.

        Raises:
            InputError: nothing was held out.
        """
        parts = self._parts
        objective = parts.held_out if held_out else parts.training
        if objective is None:
            raise InputError("target_errors: nothing was held out; use identify(..., held_out=0.2)")
        found = objective.target_errors(parts.start, np.array(list(self.values.values())), None)
        return {x[0]: TargetError(*x[1:]) for x in found}

    def report(self, path: str | os.PathLike[str], title: str = "Fit") -> Path:
        """Writes a report on the fit: one HTML file without scripts, with values and their standard
        errors, correlations, errors before and after, plots, and the fitted MJCF. Returns its path.

        Raises:
            InputError: the file cannot be written.
        """
        parts = self._parts
        try:
            mjcf = self.family._mjcf(self.values)
        except InputError:
            mjcf = ""
        text = parts.training.report(
            parts.held_out,
            parts.start,
            parts.bounds,
            parts.result,
            title,
            parts.summary,
            self._notes(),
            mjcf,
        )
        return _write(path, text)

    def _notes(self) -> list[str]:
        return [undetermined_text(x) for x in self.undetermined]

    def __str__(self) -> str:
        lines = [
            f"{name:30s} {value:12.6g}"
            + ("" if np.isnan(self.errors[name]) else f" ± {self.errors[name]:.2g}")
            for name, value in self.values.items()
        ]
        lines.append(f"loss {self.history[0].loss:.4g} -> {self.loss:.4g}")
        if self.held_out is not None:
            lines.append(f"held out {self.held_out[0]:.4g} -> {self.held_out[1]:.4g}")
        lines += [
            "not determined: " + " ".join(f"{w:+.2g} {name}" for name, w in x.items())
            for x in self.undetermined
        ]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class _Parts:
    """What the report of a fit is made of."""

    training: _diffmj.Objective
    held_out: _diffmj.Objective | None
    start: Array
    bounds: list[tuple[float, float]]
    result: _diffmj.FitResult
    summary: str


def undetermined_text(weights: dict[str, float]) -> str:
    return (
        f"the recordings do not determine {', '.join(weights)}: the loss does not change with "
        + " ".join(f"{w:+.2g} {name}" for name, w in weights.items())
        + " (relative to their sizes); leave one of them out, or record a motion in which it "
        "matters"
    )


def _write(path: str | os.PathLike[str], text: str) -> Path:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{os.fsdecode(path)}: the file cannot be written: {error}") from error
    return Path(path)
