"""A window of MuJoCo's viewer that shows a motion while it is computed.

    with diffmj.view.LiveView(sim) as view:
        view.show(time, qpos)

`diffmj plan --view` runs `python -m diffmj.view MODEL`, which reads states from its standard input:
a line for each, time and qpos.
"""

from __future__ import annotations

import os
import sys
import time as clock
from collections.abc import Callable, Iterable
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from ._errors import InputError
from ._simulator import Simulator

_FRAME = 1 / 60  # [s] of motion between pictures


def _require_display() -> None:
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return
    raise InputError(
        "view: there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set); run without a "
        "view, and look at the film"
    )


class LiveView:
    """A window that is open within `with`. It shows states in real time, or as they arrive if
    that is slower."""

    def __init__(
        self,
        model: Simulator | mujoco.MjModel,
        *,
        launch: Callable[..., Any] | None = None,
        now: Callable[[], float] = clock.monotonic,
        sleep: Callable[[float], None] = clock.sleep,
    ):
        """
        Args:
            model: what moves.
            launch: opens the window; None: `mujoco.viewer.launch_passive`.
            now, sleep: the clock.

        Raises:
            InputError: there is no display.
        """
        self._model = model._mujoco_model() if isinstance(model, Simulator) else model
        self._launch, self._now, self._sleep = launch, now, sleep
        self._viewer: Any = None
        # when the last picture was shown, on the clock and in the motion
        self._shown: tuple[float, float] | None = None

    def __enter__(self) -> LiveView:
        launch = self._launch
        if launch is None:
            _require_display()
            from mujoco import viewer

            launch = viewer.launch_passive
        self._data = mujoco.MjData(self._model)
        self._viewer = launch(self._model, self._data, show_left_ui=False, show_right_ui=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._viewer.close()

    def show(self, time: npt.ArrayLike, qpos: npt.ArrayLike) -> None:
        """Shows states, time (n,) [s] and qpos (n, nq). Does nothing once the window is closed."""
        times = np.asarray(time, dtype=float)
        rows = np.asarray(qpos, dtype=float).reshape(len(times), self._model.nq)
        for t, row in zip(times, rows, strict=True):
            if not self._viewer.is_running():
                return
            if self._shown is not None:
                wall, motion = self._shown
                if 0 <= t - motion < _FRAME:
                    continue
                wait = t - motion - (self._now() - wall)
                if wait > 0:
                    self._sleep(wait)
            with self._viewer.lock():
                self._data.time, self._data.qpos[:] = t, row
                mujoco.mj_forward(self._model, self._data)
            self._viewer.sync()
            self._shown = (self._now(), t)


def follow(view: LiveView, lines: Iterable[str]) -> None:
    """Shows states that arrive as text."""
    for line in lines:
        numbers = [float(x) for x in line.split()]
        view.show(numbers[:1], numbers[1:])


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m diffmj.view MODEL")
    try:
        with LiveView(mujoco.MjModel.from_xml_path(sys.argv[1])) as view:
            follow(view, sys.stdin)
    except InputError as error:
        sys.exit(f"diffmj: {error}")
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
