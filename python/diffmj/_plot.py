"""Plots of the steps of an integrator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import InputError
from ._trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_steps(trajectory: Trajectory, ax: Axes | None = None, **style: Any) -> Axes:
    """Step size against time, one line per rollout.

    Args:
        trajectory: of an explicit Runge-Kutta method.
        ax: where to draw; default: new axes.
        style: passed on to matplotlib's `stairs`.

    Returns:
        The axes, for titles and for saving: `plot_steps(traj).figure.savefig("steps.png")`.
    """
    import matplotlib.pyplot as plt  # slow to import, and not needed otherwise

    record = trajectory.integrator
    if record is None:
        raise InputError(
            "plot_steps: the trajectory has steps of one size; make it with an explicit "
            "Runge-Kutta method, for instance integrator='tsit5'"
        )
    if ax is None:
        ax = plt.subplots(layout="constrained")[1]
    rollouts = record if isinstance(record, list) else [record]
    for i, x in enumerate(rollouts):
        line = {"baseline": None, "color": f"C{i % 10}"} | style
        ax.stairs(np.diff(x.time), x.time, **line)
    ax.set(xlabel="time [s]", ylabel="step size [s]", yscale="log")
    return ax
