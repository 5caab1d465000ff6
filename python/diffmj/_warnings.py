"""Warnings of a rollout: entries of `Trajectory.warnings`, and Python warnings of those that
concern the gradient.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from . import _diffmj
from ._errors import (
    ChatterWarning,
    GradientWarning,
    GrazingWarning,
    JumpWarning,
    SolverWarning,
    StiffWarning,
)

# by Warning.kind; other kinds are data alone
_CATEGORIES: dict[str, type[GradientWarning]] = {
    "solver": SolverWarning,
    "grazing": GrazingWarning,
    "chatter": ChatterWarning,
    "jump": JumpWarning,
    "stiff": StiffWarning,
}


@dataclass(frozen=True)
class Warning:
    """A warning of a rollout.

    Attributes:
        text: what happened, and what to do.
        first_step: the first step (interval, with adaptive steps) at which it occurred.
        count: how often it occurred.
        kind: "mujoco" for MuJoCo's own; "solver", "grazing", "chatter", "jump" and "stiff"
            concern gradients and are also Python warnings, of the category `SolverWarning`,
            `GrazingWarning`, `ChatterWarning`, `JumpWarning` or `StiffWarning`.
    """

    text: str
    first_step: int
    count: int
    kind: str = "mujoco"


def to_warnings(recorded: Iterable[_diffmj.Warning]) -> list[Warning]:
    return [Warning(w.text, w.first_step, w.count, w.kind) for w in recorded]


def shown_numbers(numbers: list[int], most: int = 10) -> str:
    """The first of them, as a list in a text."""
    return ", ".join(str(i) for i in numbers[:most]) + (", ..." if len(numbers) > most else "")


def report_warnings(record: _diffmj.TrajectoryBatch, batch: int | None) -> None:
    """Gives the first entry of each kind as a Python warning, at the caller of the caller."""
    for kind, category in _CATEGORIES.items():
        given = [(i, w) for i, one in enumerate(record.warnings) for w in one if w.kind == kind]
        if not given:
            continue
        which, first = given[0]
        text = first.text
        if batch is not None:
            count = len({i for i, _ in given})
            text = f"{count} of {batch} rollouts; rollout {which}: {text}"
        warnings.warn(text, category, stacklevel=3)
