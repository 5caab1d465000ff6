"""Values of fields of mjModel, for all rollouts of a batch or for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._errors import InputError


def field_values(
    who: str, model: _diffmj.Model, params: Any
) -> tuple[list[dict[str, list[float]]], bool]:
    """Flat values by name: of all rollouts, or of each; and whether it is of each."""
    if not isinstance(params, Mapping):
        raise InputError(f"{who}: params is a {type(params).__name__}, expected a dict")
    arrays: dict[str, npt.NDArray[np.float64]] = {}
    sizes: dict[str, int] = {}
    for name, value in params.items():
        nrow, width = model.parameter_shape(name)
        shape = (width,) if name.startswith("opt.") else (nrow,) if width == 1 else (nrow, width)
        array = np.asarray(value, dtype=float)
        if array.ndim == len(shape) + 1 and array.shape[1:] == shape and len(array) > 0:
            sizes[name] = len(array)
        elif array.shape != shape:
            raise InputError(
                f"{who}: {name} has shape {array.shape}, expected {shape}, or (B, ...) with values "
                "for every rollout"
            )
        arrays[name] = array
    batch = common_size(who, sizes)
    rows = [
        {name: (x[i] if name in sizes else x).ravel().tolist() for name, x in arrays.items()}
        for i in range(1 if batch is None else batch)
    ]
    return rows, batch is not None


def common_size(who: str, sizes: Mapping[str, int]) -> int | None:
    """Of batches; None: there is none."""
    if len(set(sizes.values())) > 1:
        raise InputError(f"{who}: batches differ: {dict(sizes)}")
    return next(iter(sizes.values()), None)
