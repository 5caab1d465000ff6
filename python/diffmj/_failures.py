"""What is raised, or warned of, if rollouts fail."""

from __future__ import annotations

import warnings

from . import _diffmj
from ._errors import DivergedError, RolloutError, StepBudgetError, StepSizeError
from ._trajectory import Trajectory
from ._warnings import shown_numbers

# what a single rollout that failed raises
_FAILURES = {
    "not finite": DivergedError,
    "budget exhausted": StepBudgetError,
    "step too small": StepSizeError,
}


def report_failures(trajectory: Trajectory, record: _diffmj.TrajectoryBatch) -> None:
    """Raises an error for a single rollout that failed; warns of those of a batch."""
    failed = [i for i, ok in enumerate(record.ok) if not ok]
    if not failed:
        return
    if trajectory.batch is None:
        failure = _FAILURES.get(record.outcome[0], RolloutError)
        raise failure(f"rollout: {record.message[0]}", trajectory)
    warnings.warn(
        f"{len(failed)} of {trajectory.batch} rollouts failed (rollout {shown_numbers(failed)}); "
        f"the first: {record.message[failed[0]]}",
        RuntimeWarning,
        stacklevel=3,
    )
