"""Arrays of the user, checked and brought to the shape the extension takes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ._errors import InputError, OutOfMemoryError

Array = npt.NDArray[np.float64]

_MAX_NSTEP = 2**31 - 2  # the extension counts steps in int, and has nstep + 1 rows


def to_array(who: str, name: str, value: Any) -> Array:
    """A float64 array in C order, or InputError."""
    if np.ma.is_masked(value):
        count = np.ma.getmaskarray(value).sum()
        raise InputError(
            f"{who}: {name} has {count} masked entries, which have no value "
            "here; fill them first, for example with numpy.ma.filled(x, 0)"
        )
    try:
        if np.iscomplexobj(value):
            raise TypeError("it is complex")
        return np.asarray(value, dtype=np.float64, order="C")
    except Exception as error:  # whatever the object's __array__ raises
        raise InputError(
            f"{who}: {name} cannot be converted to an array of float64: {error}"
        ) from error


def require_finite(who: str, name: str, array: Array, among: Any = True) -> None:
    """InputError that names the first entry that is not finite, among those that count."""
    bad = np.argwhere(~np.isfinite(array) & among)
    if len(bad):
        where = ", ".join(map(str, bad[0]))
        raise InputError(
            f"{who}: {name}[{where}] is {array[tuple(bad[0])]}, expected finite numbers"
        )


def to_integer(who: str, name: str, value: Any, least: int = 0, most: int = 2**31 - 1) -> int:
    """A number from least to most, or InputError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{who}: {name} is {value!r}, expected an integer") from None
    if not least <= number <= most:
        raise InputError(f"{who}: {name} is {number}, expected {least} to {most}")
    return number


def to_threads(who: str, value: Any) -> int | None:
    """A number of threads; None, also for 0: one per core."""
    return None if value is None else to_integer(who, "nthread", value) or None


def to_nstep(who: str, value: Any) -> int:
    """A number of steps that fits the extension's int, or an error."""
    try:
        nstep = operator.index(value)
    except TypeError:
        raise InputError(f"{who}: nstep is {value!r}, expected an integer") from None
    if nstep < 0:
        raise InputError(f"{who}: nstep is {nstep}, expected >= 0")
    if nstep > _MAX_NSTEP:
        raise OutOfMemoryError(
            f"{who}: nstep is {nstep}, but a record has at most {_MAX_NSTEP} steps; use fewer "
            "steps, or several shorter rollouts"
        )
    return nstep


def to_index(who: str, name: str, value: Any, size: int) -> int:
    """A number from 0 to size - 1, or InputError."""
    try:
        index = operator.index(value)
    except TypeError:
        raise InputError(f"{who}: {name} is {value!r}, expected an integer") from None
    if not 0 <= index < size:
        expected = f"expected 0 to {size - 1}" if size > 0 else "but there is none"
        raise InputError(f"{who}: {name} is {index}, {expected}")
    return index


class Input:
    """One argument of a rollout: where its batch and step dimensions are, if it has them."""

    def __init__(self, who: str, name: str, value: Any, row: dict[str, int], steps: bool):
        """row: names and sizes of the dimensions of one row; steps: may differ between steps."""
        self.who, self.name, self.row, self.steps = who, name, row, steps
        self.array = to_array(who, name, value)
        sizes = tuple(row.values())
        extra = self.array.ndim - len(sizes)
        if not 0 <= extra <= 1 + steps or self.array.shape[extra:] != sizes:
            raise self.shape_error()
        self.nstep = self.array.shape[extra - 1] if steps and extra > 0 else None
        self.batch = self.array.shape[0] if extra == 1 + steps else None

    def shape_error(self, nstep: int | None = None) -> InputError:
        """Names the argument, its shape and the shapes it may have."""
        leading = [[], ["nstep"], ["B", "nstep"]] if self.steps else [[], ["B"]]
        shapes = [", ".join(x + list(self.row)) for x in leading]
        shapes = [f"({x}{'' if ',' in x else ','})" if x else "a number" for x in shapes]
        known = [f"{name} = {size}" for name, size in self.row.items() if name != str(size)]
        known += [f"nstep = {nstep}"] if nstep is not None else []
        return InputError(
            f"{self.who}: {self.name} has shape {self.array.shape}, expected "
            f"{', '.join(shapes[:-1])} or {shapes[-1]}{' with ' if known else ''}{', '.join(known)}"
        )

    def rows(self) -> Array:
        """Two dimensions: one row per rollout, or one that the batch shares."""
        return self.array.reshape(1 if self.batch is None else self.batch, -1)


def common_batch(who: str, inputs: Sequence[Input]) -> int | None:
    """The size of the batch, None without; InputError if two arguments disagree."""
    batched = [x for x in inputs if x.batch is not None]
    for x in batched:
        if x.batch != batched[0].batch:
            raise InputError(
                f"{who}: {x.name} has shape {x.array.shape}, a batch of {x.batch}, but "
                f"{batched[0].name} has shape {batched[0].array.shape}, a batch of "
                f"{batched[0].batch}"
            )
        if x.batch == 0:
            raise InputError(f"{who}: {x.name} has shape {x.array.shape}: the batch is empty")
    return batched[0].batch if batched else None


def common_nstep(who: str, inputs: Sequence[Input], nstep: Any) -> int:
    """The number of steps: as given, or from the arguments with one row per step."""
    stepped = [x for x in inputs if x.nstep is not None]
    if nstep is not None:
        nstep = to_nstep(who, nstep)
        for x in stepped:
            if x.nstep != nstep:
                raise x.shape_error(nstep)
        return int(nstep)
    if not stepped:
        raise InputError(
            f"{who}: nstep is not given, and no argument has one row per step to take it from; "
            "give nstep, or ctrl with shape (nstep, nu)"
        )
    for x in stepped:
        if x.nstep != stepped[0].nstep:
            raise InputError(
                f"{who}: {x.name} has shape {x.array.shape}, {x.nstep} steps, but "
                f"{stepped[0].name} has shape {stepped[0].array.shape}, {stepped[0].nstep} steps"
            )
    return to_nstep(who, stepped[0].nstep)
