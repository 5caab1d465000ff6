"""Tosses of a cube onto a table, as the ContactNets paper published them, as recordings.

The data (github.com/DAIRLab/contact-nets, data/tosses_processed, BSD-3) are not part of this
repository; `read(folder)` takes the folder that has the files 0.pt, 1.pt, ...

Each file is a tensor of shape (1, T, 19) in PyTorch's format before version 1.6: three pickles
(magic number, protocol, sizes of types), one that describes the tensor and names its storage, one
with the list of storages, then for each an int64 count and its little-endian numbers. PyTorch is
not needed: the pickles are read by an unpickler that knows no class and calls nothing, whatever
they name.

Columns of a row, at 148 Hz:
    0:3    position of the cube's centre, in units of half its side
    3:7    orientation, w first
    7:10   linear velocity in the world frame, in these units per second
    10:13  angular velocity in the frame of the cube [rad/s]
    13:19  applied wrench, zero
MuJoCo's free joint has the same order and the same frames.
"""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path
from typing import Any

import diffmj
import numpy as np

LENGTH = 0.0524  # [m] the publishers' unit of length, half the side of the cube
INTERVAL = 1 / 148  # [s] between rows

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_COLUMNS = 19
_STORAGE = ("torch", "DoubleStorage")
_REBUILD = ("torch._utils", "_rebuild_tensor_v2")


class _Named:
    """Stands in for whatever a pickle names; calling it only notes the arguments."""

    def __init__(self, *name: str):
        self.name = name

    def __call__(self, *arguments: Any) -> _Call:
        return _Call(self.name, arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError(f"a state of {'.'.join(self.name)}")


class _Call:
    def __init__(self, name: tuple[str, ...], arguments: tuple[Any, ...]):
        self.name, self.arguments = name, arguments

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError(f"a state of {'.'.join(self.name)}")


class _Inert(pickle.Unpickler):
    """Reads a pickle without importing or running anything that it names."""

    def find_class(self, module: str, name: str) -> Any:
        return _Named(module, name)

    def persistent_load(self, pid: Any) -> Any:
        return pid


def _load(file: io.BytesIO) -> Any:
    return _Inert(file).load()


def read_tensor(path: str | Path) -> np.ndarray:
    """The float64 tensor of a file in PyTorch's old format.

    Raises:
        diffmj.InputError: the file is none, or has something else in it.
    """

    def require(good: bool, what: str) -> None:
        if not good:
            raise diffmj.InputError(
                f"{path}: {what}; expected one float64 tensor in PyTorch's "
                "format before version 1.6"
            )

    content = Path(path).read_bytes()
    file = io.BytesIO(content)
    try:
        require(_load(file) == _MAGIC, "the magic number is wrong")
        require(_load(file) == _PROTOCOL, "the protocol is not 1001")
        sizes = _load(file)
        require(
            isinstance(sizes, dict) and sizes.get("little_endian") is True,
            "the numbers are not little-endian",
        )
        tensor = _load(file)
        keys = _load(file)
    except diffmj.InputError:
        raise
    except Exception as error:  # a damaged pickle raises anything
        raise diffmj.InputError(f"{path}: it cannot be read: {error}") from error

    require(
        isinstance(tensor, _Call) and tensor.name == _REBUILD and len(tensor.arguments) >= 4,
        "it is not a tensor",
    )
    storage, offset, shape, strides = tensor.arguments[:4]
    require(
        isinstance(storage, tuple)
        and len(storage) >= 5
        and storage[0] == "storage"
        and isinstance(storage[1], _Named)
        and storage[1].name == _STORAGE,
        "its numbers are not float64",
    )
    key, count = storage[2], storage[4]
    require(keys == [key], "it has more than one storage")
    begin = file.tell()
    require(len(content) >= begin + 8, "it ends early")
    stored = int(np.frombuffer(content, "<i8", count=1, offset=begin)[0])
    require(stored == count, f"it has {stored} numbers, but names {count}")
    require(len(content) == begin + 8 + 8 * stored, "its size is wrong")
    require(
        all(
            isinstance(x, tuple) and all(isinstance(i, int) and i >= 0 for i in x)
            for x in (shape, strides)
        )
        and len(shape) == len(strides)
        and isinstance(offset, int)
        and offset >= 0,
        "its shape is damaged",
    )
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    require(math.prod(shape) > 0 and last < stored, "its shape exceeds its numbers")
    numbers = np.frombuffer(content, "<f8", count=stored, offset=begin + 8)[offset:]
    view = np.lib.stride_tricks.as_strided(numbers, shape, [8 * x for x in strides])
    return view.astype(np.float64)


def read_toss(path: str | Path) -> diffmj.Recording:
    """One toss in SI units, with qpos and qvel of a free joint; its name is that of the file."""
    rows = read_tensor(path)
    if rows.ndim != 3 or rows.shape[0] != 1 or rows.shape[2] != _COLUMNS:
        raise diffmj.InputError(f"{path}: it has shape {rows.shape}, expected (1, T, {_COLUMNS})")
    if np.any(rows[0, :, 13:]):
        raise diffmj.InputError(f"{path}: there is an applied wrench, expected none")
    position, quaternion, linear, angular = np.split(rows[0, :, :13], [3, 7, 10], axis=1)
    return diffmj.Recording(
        INTERVAL * np.arange(rows.shape[1]),
        qpos=np.hstack([LENGTH * position, quaternion]),
        qvel=np.hstack([LENGTH * linear, angular]),
        name=f"toss {Path(path).stem}",
    )


def read(folder: str | Path) -> list[diffmj.Recording]:
    """All tosses of a folder, in the order of their numbers."""
    files = [x for x in Path(folder).glob("*.pt") if x.stem.isdigit()]
    if not files:
        raise diffmj.InputError(f"{folder}: there are no files 0.pt, 1.pt, ...")
    return [read_toss(x) for x in sorted(files, key=lambda x: int(x.stem))]
