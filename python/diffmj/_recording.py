"""Recording: measured data."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, to_array, to_integer
from ._errors import InputError
from ._option_values import did_you_mean

if TYPE_CHECKING:
    from ._simulator import Simulator
    from ._trajectory import Trajectory

T = TypeVar("T")

_WHOLE = ("qpos", "qvel", "act", "ctrl")
_NAMED = {
    "sensors": "sensor:",
    "sites": "site:",
    "body_pos": "body_pos:",
    "body_quat": "body_quat:",
}
_WEIGHT = "weight:"


@dataclass(frozen=True, eq=False, repr=False)
class Recording:
    """A recording of a real or simulated system, with one row per time.

        recording = diffmj.Recording(time, qpos=qpos, qvel=qvel, ctrl=ctrl, name="toss 3")
        recording = diffmj.Recording.from_csv("toss.csv", sim)

    NaN, or a masked entry, is a missing number. Arrays are copied and read-only; a quantity with
    one number per row may be one-dimensional. `dataclasses.replace(recording, qvel=...)` changes
    one of them. Names, widths and quaternions are compared with a model by `validate`, and by every
    function that takes a model.

    Attributes:
        time: (n,) [s], strictly increasing; intervals may differ.
        qpos: (n, nq)
        qvel: (n, nv)
        act: (n, na)
        ctrl: (n, nu); row i is held from time i to time i + 1. It must be known, except in the last
            row and in rows in which everything is missing.
        sensors: {name: (n, dim)}, or all of them as (n, nsensordata).
        sites: {name: (n, 3)}, positions of sites [m].
        body_pos: {name: (n, 3)}, positions of bodies [m].
        body_quat: {name: (n, 4)}, orientations of bodies, w first.
        weights: {quantity: weights}, weights of squared residuals, at least 0; default 1. The
            quantities are "qpos", "qvel", "act", "sensordata" (sensors given as one array),
            "sensor:NAME", "site:NAME", "body_pos:NAME" and "body_quat:NAME". Weights are one
            number, (n,) for the rows, or (n, k) or (1, k) with one column per residual: nv of qpos,
            3 of a quaternion, else the width.
        name: for messages.
    """

    time: Array
    _: KW_ONLY
    qpos: Array | None = None
    qvel: Array | None = None
    act: Array | None = None
    ctrl: Array | None = None
    sensors: Mapping[str, Array] | Array | None = None
    sites: Mapping[str, Array] | None = None
    body_pos: Mapping[str, Array] | None = None
    body_quat: Mapping[str, Array] | None = None
    weights: Mapping[str, Array] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"Recording: name is {self.name!r}, expected a string")
        who = f"recording '{self.name}'" if self.name else "recording"
        time = _filled(who, "time", self.time)
        if time.ndim != 1:
            raise InputError(f"{who}: time has shape {time.shape}, expected (n,)")
        n = len(time)
        self._set("time", time)
        for name in _WHOLE:
            if getattr(self, name) is not None:
                self._set(name, _rows(who, name, getattr(self, name), n))
        for name, prefix in _NAMED.items():
            value = getattr(self, name)
            if name == "sensors" and value is not None and not isinstance(value, Mapping):
                self._set(name, _rows(who, "sensordata", value, n))
            else:
                entries = _mapping(who, name, value).items()
                self._set(name, {key: _rows(who, prefix + key, x, n) for key, x in entries})
        weights = _mapping(who, "weights", self.weights).items()
        self._set("weights", {key: _weights(who, key, x, n) for key, x in weights})
        _diffmj.validate_recording(self._record)

    def _set(self, name: str, value: Any) -> None:
        for array in value.values() if isinstance(value, dict) else [value]:
            array.flags.writeable = False
        if isinstance(value, dict):
            value = MappingProxyType(value)
        object.__setattr__(self, name, value)

    def _arrays(self) -> dict[str, Array]:
        """By name of the quantity, without those that are empty."""
        out = {"time": self.time[:, None]}
        out |= {name: getattr(self, name) for name in _WHOLE if getattr(self, name) is not None}
        for name, prefix in _NAMED.items():
            value = getattr(self, name)
            if isinstance(value, Mapping):
                out |= {prefix + key: x for key, x in value.items()}
            else:
                out["sensordata"] = value
        return out | {_WEIGHT + key: x for key, x in (self.weights or {}).items()}

    @cached_property
    def _record(self) -> _diffmj.Recording:
        return _diffmj.Recording(self.name, self._arrays())

    @classmethod
    def _from_arrays(cls, name: str, arrays: Mapping[str, Any]) -> Recording:
        given: dict[str, Any] = {"name": name, "weights": {}}
        for key, rows in arrays.items():
            if key == "time":
                given["time"] = np.asarray(rows).reshape(-1)
            elif key == "sensordata":
                if "sensors" in given:
                    raise _both_sensors(name)
                given["sensors"] = rows
            elif key in _WHOLE:
                given[key] = rows
            elif key.startswith(_WEIGHT):
                given["weights"][key.removeprefix(_WEIGHT)] = rows
            else:
                for field, prefix in _NAMED.items():
                    if key.startswith(prefix):
                        given.setdefault(field, {})
                        if not isinstance(given[field], dict):
                            raise _both_sensors(name)
                        given[field][key.removeprefix(prefix)] = rows
                        break
                else:
                    known = ("time", *_WHOLE, "sensordata", *_NAMED.values(), _WEIGHT)
                    raise InputError(
                        f"{key!r} is not a quantity; there are {', '.join(known)}"
                        + did_you_mean(key, known)
                    )
        if "time" not in given:
            raise InputError("there is no 'time'")
        return cls(given.pop("time"), **given)

    @classmethod
    def _from_record(cls, record: _diffmj.Recording) -> Recording:
        return cls._from_arrays(record.name, record.arrays)

    @classmethod
    def from_trajectory(cls, trajectory: Trajectory, every: int = 1, name: str = "") -> Recording:
        """Every `every`-th state of a single rollout, with the controls held between them (NaN in
        the last row), and with sensors if the rollout recorded them (`sensors=True`).

        Raises:
            InputError: a control changes within an interval, or the trajectory is a batch.
        """
        if trajectory.batch is not None:
            raise InputError("record: the trajectory is a batch, expected a single rollout")
        record = _diffmj.record(
            trajectory._sim._model,
            trajectory._record,
            to_integer("record", "every", every, least=1),
        )
        return cls._from_arrays(name, record.arrays)

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str], sim: Simulator) -> Recording:
        """Reads comma-separated values. The first line names the columns: `time`, `qpos[0]` or
        `qpos_JOINT`, `qvel[0]` or `qvel_JOINT`, `act[0]` or `act_ACTUATOR`, `ctrl[0]` or
        `ctrl_ACTUATOR`, `sensordata[0]`, `sensor:NAME[0]`, `site:NAME[0]`, `body_pos:NAME[0]`,
        `body_quat:NAME[0]`, `weight:QUANTITY` and `weight:QUANTITY[0]`. A single number needs no
        index. An empty cell or `nan` is missing, and so is what has no column. The name is that of
        the file, without its extension.

        Raises:
            InputError: names the file, the line and the column.
        """
        return cls._from_record(_diffmj.read_csv(sim._model, os.fsdecode(path)))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes what `from_csv` reads, columns by index, with 17 digits. One weight for all rows
        becomes one per row."""
        _diffmj.write_csv(self._record, os.fsdecode(path))

    @classmethod
    def from_npz(cls, path: str | os.PathLike[str]) -> Recording:
        """Reads an NPZ file with one array per quantity, under the names that the columns of
        `from_csv` have without index, and optionally `name`.

        Raises:
            InputError: names the file and the array.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
        except (OSError, ValueError, TypeError, zipfile.BadZipFile) as error:
            raise InputError(f"{os.fsdecode(path)}: no NPZ file of numbers: {error}") from error
        name = str(arrays.pop("name", Path(os.fsdecode(path)).stem))
        try:
            return cls._from_arrays(name, arrays)
        except InputError as error:
            raise InputError(f"{os.fsdecode(path)}: {error}") from None

    def to_npz(self, path: str | os.PathLike[str]) -> None:
        """Writes what `from_npz` reads, bit for bit."""
        arrays = self._arrays() | {"time": self.time, "name": np.array(self.name)}
        try:
            with open(path, "wb") as file:  # numpy would add .npz to a path
                np.savez_compressed(file, **arrays)
        except OSError as error:
            raise InputError(f"{os.fsdecode(path)}: the file cannot be written: {error}") from error

    def validate(self, sim: Simulator) -> Recording:
        """The recording with unit quaternions. Quaternions whose length is within 1e-3 of 1 are
        normalised.

        Raises:
            InputError: it does not fit the model: a wrong width, a sensor, site or body that the
                model does not have, a quaternion of another length.
        """
        return self._from_record(_diffmj.validate_recording_for(sim._model, self._record))

    def with_bodies(self, sim: Simulator, *names: str) -> Recording:
        """The recording with `body_pos` and `body_quat` of these bodies, computed from the recorded
        qpos: for losses on poses. Bodies that have them already keep them.

        Raises:
            InputError: qpos is not recorded, or there is no such body.
        """
        sim._require_one_model("with_bodies")
        return self._from_record(_diffmj.with_bodies(sim._model, self._record, list(names)))

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        names = [name for name in self._arrays() if name != "time"]
        span = self.time[-1] - self.time[0]
        return f"Recording({self.name!r}: {len(self)} rows, {span:g} s; {', '.join(names)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Recording._from_arrays, (self.name, self._arrays())


def estimate_velocities(
    sim: Simulator, recording: Recording, difference: str = "backward"
) -> Recording:
    """Fills in the velocities that are missing, by differences of qpos (mj_differentiatePos).

    Recorded velocities stay. A velocity remains missing where a position that it needs is missing,
    at the first row, with "central" at the last row, and across intervals longer than 1.5 times the
    median.

    Args:
        sim: the model.
        recording: with qpos.
        difference: "backward", from the row before; or "central", from the row before to the row
            after.
    """
    record = _record("estimate_velocities", recording)
    return Recording._from_record(_diffmj.estimate_velocities(sim._model, record, str(difference)))


def resample(sim: Simulator, recording: Recording, dt: float) -> Recording:
    """The recording at times time[0] + k dt.

    Interpolation is linear, and along the shortest rotation for quaternions; ctrl is held. A number
    is missing if one of the two rows that it needs is missing. Everything is missing inside
    intervals that are longer than both 1.5 times the median interval and 1.5 dt.

    Args:
        sim: the model.
        recording: of any times.
        dt: [s] between the new rows, for instance sim.timestep.
    """
    record = _record("resample", recording)
    return Recording._from_record(
        _diffmj.resample(sim._model, record, _number("resample", "dt", dt))
    )


def split(recordings: Sequence[T], share: float, seed: int = 0) -> tuple[list[T], list[T]]:
    """Recordings to fit, and recordings to test the fit on, both in their order.

    Args:
        recordings: or anything else that has a length.
        share: share to hold out, from 0 to below 1. It is rounded to whole recordings, with at
            least one on each side unless it is 0.
        seed: the same gives the same recordings, on every machine.
    """
    training, held_out = _diffmj.split(
        len(recordings),
        _number("split", "share", share),
        to_integer("split", "seed", seed, most=2**32 - 1),
    )
    return [recordings[i] for i in training], [recordings[i] for i in held_out]


def _record(who: str, recording: Any) -> _diffmj.Recording:
    if not isinstance(recording, Recording):
        raise InputError(f"{who}: {recording!r} is not a diffmj.Recording")
    return recording._record


def _number(who: str, name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{who}: {name} is {value!r}, expected a number") from None


def _mapping(who: str, name: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(x, str) for x in value):
        raise InputError(f"{who}: {name} is {value!r}, expected a dictionary by name")
    return value


def _filled(who: str, name: str, value: Any) -> Array:
    """A copy, in which masked entries are NaN."""
    if np.ma.isMaskedArray(value):
        value = np.ma.filled(value.astype(np.float64), np.nan)
    return np.array(to_array(who, name, value), order="C")


def _rows(who: str, name: str, value: npt.ArrayLike, n: int) -> Array:
    array = _filled(who, name, value)
    if array.ndim == 1 and len(array) == n:
        array = array[:, None]
    if array.ndim != 2 or len(array) != n:
        raise InputError(
            f"{who}: {name} has shape {array.shape}, expected ({n}, width), one row per time"
        )
    return array


def _weights(who: str, name: str, value: npt.ArrayLike, n: int) -> Array:
    array = _filled(who, f"weights of {name}", value)
    if array.ndim == 0:
        return array.reshape(1, 1)
    if array.ndim == 1 and len(array) == n:
        return array[:, None]
    if array.ndim == 2 and array.shape[0] == 1 and array.shape[1] > 1:
        return np.repeat(array, n, axis=0)
    if array.ndim != 2 or (len(array) != n and array.shape != (1, 1)):
        raise InputError(
            f"{who}: weights of {name} have shape {array.shape}, expected a number, ({n},) for the "
            f"rows, or ({n}, k) or (1, k) for k residuals"
        )
    return array


def _both_sensors(name: str) -> InputError:
    return InputError(
        f"recording '{name}': there are sensordata and single sensors; give one of them"
    )
