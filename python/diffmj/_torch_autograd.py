"""Gradients of the operators of PyTorch, and of calls without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from ._array_function import INPUTS, NGRADIENT, REFUSED
from ._errors import UnsupportedError
from ._torch_operators import find, library, rollout, rollout_pullback

if TYPE_CHECKING:
    from .torch import _Function

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_eager(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether a call computes numbers at once, with nothing that records, batches or transforms
    operators: without these it costs half as much."""
    return (
        not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and torch._C._len_torch_dispatch_stack() == 0
        and forward_ad._current_level < 0
        and all(type(x) in _PLAIN for x in tensors)
    )


def _hooks_are_active() -> bool:
    """Whether saved tensors are packed, for instance by torch.utils.checkpoint."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


class RolloutFunction(torch.autograd.Function):
    """The operator `rollout` with its gradient, for transformations of `torch.func`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        handle: int, nstep: int, given: tuple[int, ...], keep_tape: bool, *inputs: torch.Tensor
    ) -> Any:
        return tuple(rollout(handle, nstep, list(inputs), list(given), keep_tape))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        handle, nstep, given, _, *tensors = inputs
        function = find(handle)
        _keep(ctx, function, nstep, given, tensors, output[-1])
        function.mark_constant(ctx, output)

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        *inputs, tape = ctx.saved_tensors
        gradients: list[Any] = [None] * len(inputs)
        outputs = [k for k, bar in enumerate(bars[:-2]) if bar is not None]
        wanted = _wanted(ctx)
        if outputs and wanted:
            cotangents = [bars[k] for k in outputs]
            places = ctx.given, tuple(outputs), tuple(wanted)
            if torch._C._are_functorch_transforms_active():
                tensors = (*inputs, tape, *cotangents)
                found = _Pullback.apply(ctx.function.handle, ctx.nstep, *places, *tensors)
            else:
                found = _pull(ctx.function.handle, ctx.nstep, *places, inputs, tape, cotangents)
            for k, gradient in zip(wanted, found, strict=True):
                # what a batch shares has the sum of its gradients
                gradients[k] = gradient.sum_to_size(inputs[k].shape)
        return None, None, None, None, *gradients

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise UnsupportedError(_NO_FORWARD_MODE)


class _RolloutAlone(torch.autograd.Function):
    """The same without `torch.func`: PyTorch spends much less on a Function of this form."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            out = RolloutFunction.forward(*inputs)
        RolloutFunction.setup_context(ctx, inputs, out)
        return out

    backward = staticmethod(RolloutFunction.backward)
    jvp = staticmethod(RolloutFunction.jvp)


class RolloutEager(torch.autograd.Function):
    """A call without operators."""

    @staticmethod
    def forward(
        ctx: Any,
        function: _Function,
        nstep: int,
        dtype: torch.dtype,
        given: list[int],
        *tensors: torch.Tensor,
    ) -> Any:
        keep = function.keeps_rollouts and not _hooks_are_active()
        *out, tape = function.run(
            nstep, dtype, given, tensors, keep_tape=not keep, keep_rollout=keep
        )
        _keep(ctx, function, nstep, given, tensors, tape)
        function.mark_constant(ctx, out)
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        *tensors, tape = ctx.saved_tensors
        gradients: list[Any] = [None] * len(tensors)
        outputs = [k for k, bar in enumerate(bars[:-1]) if bar is not None]
        wanted = _wanted(ctx)
        if outputs and wanted:
            cotangents = [bars[k] for k in outputs]
            if not torch.is_grad_enabled() and is_eager(cotangents):
                found = ctx.function.pull(
                    ctx.nstep, ctx.given, tensors, tape, cotangents, outputs, wanted
                )
            else:
                flat = [x.reshape(-1) for x in (*tensors, tape, *cotangents)]
                places = tuple(ctx.given), tuple(outputs), tuple(wanted)
                found = _Pullback.apply(ctx.function.handle, ctx.nstep, *places, *flat)
                found = [g.reshape(tensors[k].shape) for k, g in zip(wanted, found, strict=True)]
            for k, gradient in zip(wanted, found, strict=True):
                gradients[k] = gradient
        return None, None, None, None, *gradients

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise UnsupportedError(_NO_FORWARD_MODE)


def _keep(
    ctx: Any,
    function: _Function,
    nstep: int,
    given: Sequence[int],
    tensors: Sequence[torch.Tensor],
    tape: torch.Tensor,
) -> None:
    """What the backward pass needs."""
    ctx.function = function  # alive until then
    for k, is_needed, x in zip(given, ctx.needs_input_grad[4:], tensors, strict=True):
        name = INPUTS[k] if k < len(INPUTS) else ""
        if is_needed and name in REFUSED and x.shape[-1] > 0:
            raise UnsupportedError(
                f"{function.who}: there is no gradient in {name}; pass {name}.detach() if it "
                "is to be a constant"
            )
    ctx.nstep, ctx.given = nstep, given
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors, tape)


def _wanted(ctx: Any) -> list[int]:
    """The inputs whose gradients are needed."""
    return [
        k
        for k, is_needed in enumerate(ctx.needs_input_grad[4:])
        if is_needed and not NGRADIENT <= ctx.given[k] < len(INPUTS)
    ]


def _pull(
    handle: int,
    nstep: int,
    given: tuple[int, ...],
    outputs: tuple[int, ...],
    wanted: tuple[int, ...],
    inputs: Sequence[torch.Tensor],
    tape: torch.Tensor,
    cotangents: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    return rollout_pullback(
        handle,
        nstep,
        list(inputs),
        list(given),
        tape,
        list(cotangents),
        list(outputs),
        list(wanted),
    )


class _Pullback(torch.autograd.Function):
    """The operator `rollout_pullback`, which has no derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        handle: int,
        nstep: int,
        given: tuple[int, ...],
        outputs: tuple[int, ...],
        wanted: tuple[int, ...],
        *tensors: torch.Tensor,
    ) -> Any:
        n = len(given)
        places = given, outputs, wanted
        return tuple(_pull(handle, nstep, *places, tensors[:n], tensors[n], tensors[n + 1 :]))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        raise UnsupportedError(_NO_SECOND_DERIVATIVE)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise UnsupportedError(_NO_SECOND_DERIVATIVE)


_NO_FORWARD_MODE = (
    "Rollout: there is no forward mode (jvp, jacfwd, hessian); use backward, torch.func.grad or "
    "torch.func.jacrev"
)
_NO_SECOND_DERIVATIVE = (
    "Rollout: there is no second derivative; a gradient cannot be differentiated again"
)


def _is_differentiated(tensors: Sequence[torch.Tensor]) -> bool:
    # PyTorch leaves tangents to the operator, and would take 0 without a word
    if forward_ad._current_level >= 0:
        for x in tensors:
            if x.dtype.is_floating_point and forward_ad.unpack_dual(x).tangent is not None:
                raise UnsupportedError(_NO_FORWARD_MODE)
    if not (torch.is_grad_enabled() and any(x.requires_grad for x in tensors)):
        return False
    if torch._C._are_functorch_transforms_active():
        raise UnsupportedError(
            "Rollout: PyTorch cannot compile torch.func.grad of an operator; compile the function "
            "and call backward, or use torch.func.grad without torch.compile"
        )
    return True


def _rollout_autograd(
    handle: int, nstep: int, inputs: list[torch.Tensor], given: list[int], keep_tape: bool
) -> list[torch.Tensor]:
    if _is_differentiated(inputs):
        return list(_RolloutAlone.apply(handle, nstep, tuple(given), keep_tape, *inputs))
    with torch._C._AutoDispatchBelowAutograd():
        return rollout(handle, nstep, inputs, given, keep_tape)


def _pullback_autograd(
    handle: int,
    nstep: int,
    inputs: list[torch.Tensor],
    given: list[int],
    tape: torch.Tensor,
    cotangents: list[torch.Tensor],
    outputs: list[int],
    wanted: list[int],
) -> list[torch.Tensor]:
    if _is_differentiated([*inputs, *cotangents]):
        places = tuple(given), tuple(outputs), tuple(wanted)
        return list(_Pullback.apply(handle, nstep, *places, *inputs, tape, *cotangents))
    with torch._C._AutoDispatchBelowAutograd():
        return rollout_pullback(handle, nstep, inputs, given, tape, cotangents, outputs, wanted)


library.impl("rollout", _rollout_autograd, "Autograd")
library.impl("rollout_pullback", _pullback_autograd, "Autograd")
