"""What rollouts take: the shapes of their arguments, and states to start from."""

from __future__ import annotations

from dataclasses import dataclass

from . import _diffmj
from ._arrays import Array, Input

# the dimensions of one row, and whether it may differ between steps
ROWS: dict[str, tuple[tuple[str, ...], bool]] = {
    "qpos": (("nq",), False),
    "qvel": (("nv",), False),
    "act": (("na",), False),
    "ctrl": (("nu",), True),
    "qfrc_applied": (("nv",), True),
    "xfrc_applied": (("nbody", "6"), True),
    "mocap_pos": (("nmocap", "3"), False),
    "mocap_quat": (("nmocap", "4"), False),
    "time": ((), False),
}


@dataclass(frozen=True, eq=False)
class State:
    """A state to start a rollout from: `sim.rollout(**vars(state), nstep=100)`.

    Attributes:
        time: [s]
        qpos: (nq,)
        qvel: (nv,)
        act: (na,)
        ctrl: (nu,), of the keyframe; a rollout holds it. Zeros in the default state.
        mocap_pos: (nmocap, 3); None: the model's.
        mocap_quat: (nmocap, 4); None: the model's.
    """

    time: float
    qpos: Array
    qvel: Array
    act: Array
    ctrl: Array
    mocap_pos: Array | None = None
    mocap_quat: Array | None = None


def input_arrays(inputs: list[Input]) -> _diffmj.InputArrays:
    """The arguments as the extension takes them."""
    return _diffmj.InputArrays(**{x.name: x.rows() for x in inputs})
