"""Segments: the short pieces of recordings that a fit simulates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import _diffmj
from ._arrays import Array
from ._errors import InputError
from ._option_values import filled
from ._recording import Recording, _record

if TYPE_CHECKING:
    from ._simulator import Simulator
    from ._trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class Target:
    """Numbers of a segment that a fit compares with a simulation.

    Attributes:
        name: of the quantity, as in `Recording.weights`.
        observable: the array of the trajectory that has the simulated numbers: "qpos", "qvel",
            "act", "sensordata", "site_xpos", "xpos", "xquat" or "xmat".
        offset: of the first of them in a row of that array, taken as one dimension.
        quaternion: the numbers are a rotation.
        values: (length + 1, width); row 0 is the start. Where a number is missing it is 0, of a
            quaternion 1 0 0 0.
        weights: (length + 1, k) of squared residuals, one column per residual: nv of qpos, 3 of a
            quaternion, else the width. 0 where a number is missing.
    """

    name: str
    observable: str
    offset: int
    quaternion: bool
    values: Array
    weights: Array


class Segment:
    """A short piece of a recording, made by `segments`.

    traj = sim.rollout(**segment.inputs)
    segment.residuals(traj)
    """

    def __init__(self, record: _diffmj.Segment):
        """Made by `segments`."""
        self._record = record

    @property
    def recording(self) -> int:
        """Index of the recording."""
        return self._record.recording

    @property
    def first(self) -> int:
        """Row of the recording that it starts at."""
        return self._record.first

    @property
    def length(self) -> int:
        """Recorded intervals."""
        return self._record.length

    @property
    def substeps(self) -> int:
        """Steps of the simulation per recorded interval."""
        return self._record.substeps

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Arguments of `Simulator.rollout`: the recorded start and the controls, held over the
        substeps."""
        x = self._record
        out = {"qpos": x.qpos, "qvel": x.qvel, "act": x.act, "time": x.time}
        nstep = x.length * x.substeps
        return out | ({"ctrl": x.ctrl} if x.ctrl.size else {}) | {"nstep": nstep}

    @cached_property
    def targets(self) -> list[Target]:
        """What was recorded, row by row; row i belongs to row i * substeps of the trajectory."""
        return [
            Target(x.name, x.observable, x.offset, x.quaternion, x.values, x.weights)
            for x in self._record.targets
        ]

    def residuals(self, trajectory: Trajectory) -> dict[str, Array]:
        """simulated - recorded, (length + 1, k) by name of the target; 0 where the weight is 0. Of
        qpos they are as mj_differentiatePos gives them, of quaternions as mju_subQuat does.

        Args:
            trajectory: `sim.rollout(**segment.inputs)`.
        """
        if trajectory.batch is not None:
            raise InputError("residuals: the trajectory is a batch, expected a single rollout")
        all_targets = _diffmj.residuals(trajectory._sim._model, self._record, trajectory._record)
        return {x.name: r for x, r in zip(self._record.targets, all_targets, strict=True)}

    def __repr__(self) -> str:
        x = self._record
        return (
            f"Segment(recording {x.recording}, rows {x.first} to {x.first + x.length}, "
            f"{x.substeps} steps each)"
        )


def segments(
    sim: Simulator,
    recordings: Recording | Sequence[Recording],
    length: int,
    stride: int | None = None,
    rule: str | None = None,
    *,
    margin: float | None = None,
    max_missing: float | None = None,
    targets: Sequence[str] | None = None,
) -> list[Segment]:
    """Short pieces of recordings, in the order of recordings and rows.

    Rows 0, stride, 2 stride, ... start a segment if their state is known and if the next rows
    follow at equal intervals with known controls. Sensors of accelerations and forces have weight 0
    in the last row if its control is unknown or differs from the one before: the simulation does
    not apply it.

    Args:
        sim: its timestep (or, of adaptive methods, its interval) must divide the recorded interval,
            to 1e-6 of it.
        recordings: one or several.
        length: recorded intervals of a segment.
        stride: rows between two starts; None: length, so that segments do not overlap.
        rule: "all" (default), or "contact": segments that have a contact at one recorded state at
            least, in the model as it is.
        margin: [m] of "contact": geoms that are nearer than this count, too; default 0.
        max_missing: share of the target numbers after the start that may be missing; default 0.5.
        targets: names of quantities to compare; None: all but ctrl.

    Raises:
        InputError: a recording does not fit the model, its times do not fit the timestep, or qpos,
            qvel, act or ctrl is not recorded.
    """
    who = "segments"
    sim._require_one_model(who)
    if isinstance(recordings, Recording):
        recordings = [recordings]
    if not isinstance(recordings, Sequence):
        raise InputError(f"{who}: recordings is {recordings!r}, expected one or a list of them")
    records = [_record(who, x) for x in recordings]
    if isinstance(targets, str):
        raise InputError(f"{who}: targets is {targets!r}, expected a list of names")
    cut = _diffmj.segments(
        sim._model,
        records,
        filled(
            who,
            _diffmj.SegmentOptions(),
            {
                "length": length,
                "stride": stride,
                "rule": rule,
                "margin": margin,
                "max_missing": max_missing,
                "targets": None if targets is None else list(targets),
            },
        ),
    )
    return [Segment(x) for x in cut]
