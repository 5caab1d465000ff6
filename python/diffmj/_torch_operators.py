"""The operators rollout and rollout_pullback of PyTorch: kernels, shapes, batches."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from . import _diffmj
from ._array_function import INPUTS, NGRADIENT
from ._errors import InputError, OutOfMemoryError

if TYPE_CHECKING:
    from .torch import _Function

# Operators know their function by its handle: numbers are all that a compiled graph can hold.
functions: weakref.WeakValueDictionary[int, _Function] = weakref.WeakValueDictionary()


def find(handle: int) -> _Function:
    found = functions.get(int(handle))
    if found is None:
        raise InputError(
            f"the Rollout or Step number {handle} that this compiled function calls no longer "
            "exists; keep it alive as long as the function"
        )
    return found


# the extension's
rollout_call = _diffmj.ArrayRollout.rollout
pullback_call = _diffmj.ArrayRollout.pullback

# Of every tensor the last dimension holds the numbers of one rollout; those before it are a batch,
# in which an input of size 1 is shared. given: what the inputs are, as places in INPUTS and, after
# them, the params. outputs: which ones the cotangents are of. wanted: inputs whose gradients are
# returned.
library = torch.library.Library("diffmj", "DEF")
library.define(
    "rollout(int handle, SymInt nstep, Tensor[] inputs, int[] given, bool keep_tape) -> Tensor[]",
    tags=(torch.Tag.needs_contiguous_strides,),
)
library.define(
    "rollout_pullback(int handle, SymInt nstep, Tensor[] inputs, int[] given, Tensor tape, "
    "Tensor[] cotangents, int[] outputs, int[] wanted) -> Tensor[]",
    tags=(torch.Tag.needs_contiguous_strides,),
)
rollout = torch.ops.diffmj.rollout.default
rollout_pullback = torch.ops.diffmj.rollout_pullback.default


def _batch(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """torch.broadcast_shapes takes ten times as long."""
    if tensors[0].dim() == 1:
        return ()
    out = [1] * (tensors[0].dim() - 1)
    for x in tensors:
        for k, n in enumerate(x.shape[:-1]):
            if n != 1:
                out[k] = n
    return tuple(out)


def _empty_outputs(
    handle: int, nstep: int, inputs: list[torch.Tensor], given: list[int], keep_tape: bool
) -> list[torch.Tensor]:
    *sizes, flag, tape = find(handle).sizes(nstep, keep_tape)
    batch = _batch(inputs)
    out = [inputs[0].new_empty((*batch, n)) for n in sizes]
    out.append(inputs[0].new_empty((*batch, flag), dtype=torch.bool))
    return [*out, inputs[0].new_empty((*batch, tape), dtype=torch.int32)]


def _empty_gradients(
    handle: int,
    nstep: int,
    inputs: list[torch.Tensor],
    given: list[int],
    tape: torch.Tensor,
    cotangents: list[torch.Tensor],
    outputs: list[int],
    wanted: list[int],
) -> list[torch.Tensor]:
    batch = _batch([*inputs, tape, *cotangents])
    return [inputs[k].new_empty((*batch, inputs[k].shape[-1])) for k in wanted]


def numbers(tensor: torch.Tensor) -> np.ndarray:
    """In place if the tensor is contiguous."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor.contiguous().numpy()


def placed(
    tensors: Sequence[torch.Tensor],
    places: Sequence[int],
    count: int,
    batch: tuple[int, ...] | None = None,
) -> list[Any]:
    """Arrays at their places; the others have no numbers. Without a batch: flat."""
    out: list[Any] = [None if batch is None else np.empty((*batch, 0))] * count
    for k, x in zip(places, tensors, strict=True):
        out[k] = numbers(x).reshape(-1) if batch is None else numbers(x)
    return out


def gradient_places(given: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Among the inputs that have a gradient and the params."""
    nconstant = len(INPUTS) - NGRADIENT
    return [given[k] if given[k] < NGRADIENT else given[k] - nconstant for k in wanted]


def _run_rollout(
    handle: int, nstep: int, inputs: list[torch.Tensor], given: list[int], keep_tape: bool
) -> list[torch.Tensor]:
    function = find(handle)
    try:
        out = _empty_outputs(handle, nstep, inputs, given, keep_tape)
    except RuntimeError as error:  # of PyTorch's allocator
        raise OutOfMemoryError(f"rollout: {error}") from error
    shared = (1,) * (inputs[0].dim() - 1)
    arrays = placed(inputs, given, len(INPUTS) + len(function.params), shared)
    rollout_call(function.array, nstep, arrays, [x.numpy() for x in out])
    return out


def _run_pullback(
    handle: int,
    nstep: int,
    inputs: list[torch.Tensor],
    given: list[int],
    tape: torch.Tensor,
    cotangents: list[torch.Tensor],
    outputs: list[int],
    wanted: list[int],
) -> list[torch.Tensor]:
    function = find(handle)
    out = _empty_gradients(handle, nstep, inputs, given, tape, cotangents, outputs, wanted)
    shared = (1,) * (inputs[0].dim() - 1)
    nparam = len(function.params)
    arrays = placed(inputs, given, len(INPUTS) + nparam, shared)
    arrays.append(numbers(tape))
    arrays += placed(cotangents, outputs, len(function.outputs), shared)
    batch = _batch([*inputs, tape, *cotangents])
    gradients = placed(out, gradient_places(given, wanted), NGRADIENT + nparam, batch)
    pullback_call(function.array, nstep, arrays, gradients)
    return out


library.impl("rollout", _run_rollout, "CPU")
library.impl("rollout_pullback", _run_pullback, "CPU")
torch.library.register_fake("diffmj::rollout", _empty_outputs, lib=library)
torch.library.register_fake("diffmj::rollout_pullback", _empty_gradients, lib=library)


def _batch_first(tensors: Sequence[torch.Tensor], dims: Sequence[int | None]) -> list[torch.Tensor]:
    return [
        x.unsqueeze(0) if dim is None else x.movedim(dim, 0)
        for x, dim in zip(tensors, dims, strict=True)
    ]


@torch.library.register_vmap("diffmj::rollout", lib=library)
def _rollout_vmap(
    info: Any, in_dims: Any, handle: int, nstep: int, inputs: Any, given: list[int], keep: bool
) -> Any:
    out = rollout(handle, nstep, _batch_first(inputs, in_dims[2]), given, keep)
    return out, [0] * len(out)


@torch.library.register_vmap("diffmj::rollout_pullback", lib=library)
def _pullback_vmap(
    info: Any,
    in_dims: Any,
    handle: int,
    nstep: int,
    inputs: Any,
    given: list[int],
    tape: Any,
    cotangents: Any,
    outputs: list[int],
    wanted: list[int],
) -> Any:
    out = rollout_pullback(
        handle,
        nstep,
        _batch_first(inputs, in_dims[2]),
        given,
        _batch_first([tape], in_dims[4:5])[0],
        _batch_first(cotangents, in_dims[5]),
        outputs,
        wanted,
    )
    return out, [0] * len(out)
