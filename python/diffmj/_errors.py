"""Exceptions and warnings. The extension raises these too (python/src/module.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._trajectory import Trajectory


class Error(Exception):
    """Base of every exception that diffmj raises."""


class InputError(Error, ValueError):
    """An argument is wrong: the message names it, its value and what was expected."""


class UnsupportedError(Error, NotImplementedError):
    """The model uses a feature without a derivative: the message names the element."""


class MujocoError(Error, RuntimeError):
    """MuJoCo itself reported an error; its text is in the message."""


class RolloutError(Error, RuntimeError):
    """A rollout, or its backward pass, did not come to its end: a rollout that was needed diverged,
    a recorded step cannot be recomputed, a continuous adjoint cannot be solved, or a gradient or
    tangent is not finite.

    Attributes:
        trajectory: the completed steps, readable as usual; None if unavailable.
    """

    def __init__(self, message: str, trajectory: Trajectory | None = None):
        super().__init__(message)
        self.trajectory = trajectory

    def __reduce__(self) -> tuple[type[RolloutError], tuple[str]]:
        # a worker process can hand on the message; the record stays where it was made
        return type(self), (str(self),)


class DivergedError(RolloutError):
    """A state is not finite, or larger than MuJoCo's limit of 1e10."""


class StepBudgetError(RolloutError):
    """Adaptive steps: max_steps were taken before the end was reached."""


class StepSizeError(RolloutError):
    """Adaptive steps: even the smallest step does not meet the tolerance."""


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory for the result; the message says how much was requested."""


class FallbackWarning(UserWarning):
    """The model takes a slower gradient path than requested, or keeps MuJoCo's collider where a
    smooth one was requested; the text names the reason."""


class GradientWarning(UserWarning):
    """The gradient of a rollout is unreliable: base class, with one category per cause. Each
    category is shown once per rollout, and `Trajectory.warnings` has the same text."""


class SolverWarning(GradientWarning):
    """MuJoCo's constraint solver stopped at `opt.iterations` before it had converged, and the
    gradient is that of the converged solution. The text says in how many steps, and how far the
    solver was from its solution."""


class GrazingWarning(GradientWarning):
    """Contacts or limits begin or end so slowly that the motion may miss them after a small
    change."""


class ChatterWarning(GradientWarning):
    """A contact or limit begins and ends many times in a short time, and the terms of these
    events dominate the gradient. The text names it and says what to use instead."""


class JumpWarning(GradientWarning):
    """MuJoCo's collider exchanges the points of a contact for others while they carry force, so
    that forces jump. The gradient does not contain the terms of such jumps. The text names the
    geoms and the remedies."""


class StiffWarning(GradientWarning):
    """The stability limit of an explicit method, not the tolerance, determines the steps of a
    rollout, or constant steps exceed it. The text names the joint, what makes it stiff and the
    remedies."""


for _class in (
    Error,
    InputError,
    UnsupportedError,
    MujocoError,
    RolloutError,
    DivergedError,
    StepBudgetError,
    StepSizeError,
    OutOfMemoryError,
    FallbackWarning,
    GradientWarning,
    SolverWarning,
    GrazingWarning,
    ChatterWarning,
    JumpWarning,
    StiffWarning,
):
    _class.__module__ = "diffmj"
