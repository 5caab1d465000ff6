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
    """The model uses a feature that has no derivative here: the message names the element."""


class MujocoError(Error, RuntimeError):
    """MuJoCo itself reported an error; its text is in the message."""


class RolloutError(Error, RuntimeError):
    """A rollout, or its backward pass, did not come to its end: a rollout that was needed diverged,
    a recorded step cannot be recomputed, a continuous adjoint cannot be solved, or a gradient or
    tangent is not finite.

    Attributes:
        trajectory: the steps that were completed, readable as usual; None if it is not known.
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
    """Adaptive steps: max_steps were made before the end."""


class StepSizeError(RolloutError):
    """Adaptive steps: the tolerance is not met with the smallest step."""


class OutOfMemoryError(Error, MemoryError):
    """Memory for the result cannot be had; the message says how much was asked for."""


class FallbackWarning(UserWarning):
    """The model takes a slower gradient path than was asked for, or has MuJoCo's collider where a
    smooth one was; the text names what forced it."""


class GradientWarning(UserWarning):
    """The gradient of a rollout is unreliable: base of one category per cause. The same text is in
    `Trajectory.warnings`, and each category is shown once per rollout."""


class GrazingWarning(GradientWarning):
    """Contacts or limits begin or end so slowly that a small change of the motion may miss them."""


class ChatterWarning(GradientWarning):
    """A contact or limit begins and ends many times in a short time, and the terms of these events
    dominate the gradient; the text names it and says what to use instead."""


class StiffWarning(GradientWarning):
    """The stability of an explicit method, not the tolerance, decides on the steps of a rollout, or
    constant steps are beyond it; the text names the joint, what makes it stiff and the remedies."""


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
    GrazingWarning,
    ChatterWarning,
    StiffWarning,
):
    _class.__module__ = "diffmj"
