"""Rollouts as functions of PyTorch: `backward`, `torch.func`, `torch.compile`.

    rollout = diffmj.torch.Rollout(sim, outputs=("qpos", "site_xpos"))

    def loss(ctrl):
        return rollout(ctrl=ctrl).site_xpos[-1, 0].square().sum()

    loss(ctrl).backward()
    torch.func.vmap(loss)(many).sum().backward()  # one call, on the simulator's threads

MuJoCo runs on the CPU. For tensors in double precision, results equal those of `Simulator.rollout`
and `Trajectory.backward` to the last bit, and diffmj reads and writes their memory in place. In
single precision, arguments and results are rounded, but the computation between them is in double
precision.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

try:
    import torch
    from torch.autograd import forward_ad
except ImportError as error:
    raise ImportError(
        "diffmj.torch needs PyTorch: pip install 'diffmj[torch]', or pip install torch"
    ) from error

import numpy as np

from . import _diffmj
from ._array_function import INPUTS, NGRADIENT, REFUSED, ArrayFunction, RolloutBase, State, StepBase
from ._errors import InputError, OutOfMemoryError, UnsupportedError

__all__ = ["Rollout", "State", "Step"]

# torch.compile keeps what it compiled until the process has ended
_diffmj.set_leak_warnings(False)

# Operators know their function by its handle: numbers are all that a compiled graph can hold.
_functions: weakref.WeakValueDictionary[int, _Function] = weakref.WeakValueDictionary()


def _find(handle: int) -> _Function:
    found = _functions.get(int(handle))
    if found is None:
        raise InputError(
            f"the Rollout or Step number {handle} that this compiled function calls no longer "
            "exists; keep it alive as long as the function"
        )
    return found


class _Function(ArrayFunction):
    vmap = "torch.func.vmap"

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        widths = (math.prod(self.output_shapes[name]) for name in self.outputs)
        single = (self.last or name == "qacc_warmstart" for name in self.outputs)
        self._output_sizes = list(zip(widths, single, strict=True))
        self._constant = [k for k, name in enumerate(self.outputs) if name == "qacc_warmstart"]
        self._tape_row: int = self.array.tape_size(0)
        # A rollout is kept whole for its backward pass, unless that has to run it again anyway.
        # The many single steps of a loop are not: their tapes take less memory.
        self.keeps_rollouts = self._tape_row > 0 and not self.last
        _functions[self.handle] = self

    def sizes(self, nstep: int, keep_tape: bool) -> list[int]:
        """Of the outputs, the flag and the tape; nstep may be a symbol."""
        out = [width if single else width * (nstep + 1) for width, single in self._output_sizes]
        return [*out, 1, self._tape_row * (nstep + 1) if keep_tape else 0]

    def asarray(self, name: str, x: Any) -> torch.Tensor:
        # a copy of what is no tensor: arrays of diffmj are read-only, which PyTorch does not know
        tensor = x if isinstance(x, torch.Tensor) else self._copied(name, x)
        if tensor.device.type != "cpu":
            raise InputError(
                f"{self.who}: {name} is on the device {tensor.device}, but MuJoCo runs on the CPU; "
                f"pass {name}.cpu(), and move results with .to({str(tensor.device)!r}): gradients "
                "pass through both"
            )
        if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
            raise InputError(
                f"{self.who}: {name} is a sparse, nested or quantized tensor, expected a dense one "
                f"of numbers; pass {name}.to_dense(), or whatever makes it so"
            )
        if tensor.is_complex():
            raise InputError(f"{self.who}: {name} has complex numbers, expected real ones")
        return tensor

    def _copied(self, name: str, x: Any) -> torch.Tensor:
        try:
            return torch.tensor(x, device="cpu")
        except (TypeError, ValueError, RuntimeError) as error:
            raise self.not_numbers(name, x) from error

    def common_dtype(self, arrays: Sequence[torch.Tensor]) -> torch.dtype:
        """float64 if one of them has it, or of integers alone PyTorch's default; else float32."""
        floats = [x.dtype for x in arrays if x.dtype.is_floating_point]
        found = floats if floats else [torch.get_default_dtype()]
        return torch.float64 if torch.float64 in found else torch.float32

    def cast(self, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return x.to(dtype)

    def zeros(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(size, dtype=dtype, device="cpu")

    def broadcast(self, x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return x.expand(shape)

    def evaluate_shaped(
        self,
        nstep: int,
        dtype: torch.dtype,
        arrays: Mapping[str, torch.Tensor],
        params: Sequence[torch.Tensor],
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        if not _is_eager([*arrays.values(), *params]):
            return super().evaluate_shaped(nstep, dtype, arrays, params)
        given, tensors = [], []
        for name, x in arrays.items():
            given.append(_INDEX[name])
            tensors.append(self.rows(name, x, nstep) if name in self.row_inputs else x)
        given += [len(INPUTS) + k for k in range(len(params))]
        tensors += params
        if any(x.dtype != dtype for x in tensors):
            tensors = [x.to(dtype) for x in tensors]
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            *out, ok = _RolloutEager.apply(self, nstep, dtype, given, *tensors)
        else:
            *out, ok, _ = self.run(nstep, dtype, given, tensors)
        return out, ok

    def mark_constant(self, ctx: Any, out: Sequence[torch.Tensor]) -> None:
        """What of the outputs, and of what follows them, has no gradient."""
        ctx.mark_non_differentiable(*(out[k] for k in self._constant), *out[len(self.outputs) :])

    def run(
        self,
        nstep: int,
        dtype: torch.dtype,
        given: Sequence[int],
        tensors: Sequence[torch.Tensor],
        *,
        keep_tape: bool = False,
        keep_rollout: bool = False,
    ) -> list[torch.Tensor]:
        """The operator `rollout` without PyTorch around it: every tensor has its own shape. A
        rollout that is kept is an attribute of the tape, which may be empty."""
        try:
            out = [torch.empty(x, dtype=dtype, device="cpu") for x in self.shapes(nstep)]
            size = self._tape_row * (nstep + 1) if keep_tape else 0
            out.append(torch.empty((), dtype=torch.bool, device="cpu"))
            out.append(torch.empty(size, dtype=torch.int32, device="cpu"))
        except RuntimeError as error:  # of PyTorch's allocator
            raise OutOfMemoryError(f"rollout: {error}") from error
        arrays = _placed(tensors, given, len(INPUTS) + len(self.params))
        flat = [x.numpy().reshape(-1) for x in out]
        setattr(out[-1], _KEPT, _rollout_call(self.array, nstep, arrays, flat, keep_rollout))
        return out

    def pull(
        self,
        nstep: int,
        given: Sequence[int],
        tensors: Sequence[torch.Tensor],
        tape: torch.Tensor,
        cotangents: Sequence[torch.Tensor],
        outputs: Sequence[int],
        wanted: Sequence[int],
    ) -> list[torch.Tensor]:
        """The operator `rollout_pullback`, likewise."""
        out = [torch.empty(tensors[k].shape, dtype=tensors[k].dtype) for k in wanted]
        nparam = len(self.params)
        arrays = _placed(tensors, given, len(INPUTS) + nparam)
        arrays.append(_numbers(tape))
        arrays += _placed(cotangents, outputs, len(self.outputs))
        gradients = _placed(out, _gradient_places(given, wanted), NGRADIENT + nparam)
        _pullback_call(self.array, nstep, arrays, gradients, getattr(tape, _KEPT, None))
        return out

    def evaluate(
        self,
        nstep: int,
        dtype: torch.dtype,
        inputs: dict[str, torch.Tensor],
        params: list[torch.Tensor],
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        if not inputs and not params:
            inputs = {"qpos": torch.zeros(0, dtype=dtype, device="cpu")}  # says the type
        # only what is given, with its place: every tensor costs PyTorch some microseconds
        given = [_INDEX[name] for name in inputs]
        given += [len(INPUTS) + k for k in range(len(params))]
        flat = [*inputs.values(), *params]
        keep_tape = torch.is_grad_enabled()
        if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
            # PyTorch compiles a batch of operators, but not one of autograd.Functions
            out = _rollout(self.handle, nstep, flat, given, keep_tape)
        else:
            # and torch.func differentiates these, but not operators
            out = _Rollout.apply(self.handle, nstep, tuple(given), keep_tape, *flat)
        *outputs, ok, _ = out
        return outputs, ok


_INDEX = {name: k for k, name in enumerate(INPUTS)}
# An attribute of a tensor that is saved for the backward pass lives as long as that.
_KEPT = "_diffmj_kept"
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _is_eager(tensors: Sequence[torch.Tensor]) -> bool:
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


# the extension's
_rollout_call = _diffmj.ArrayRollout.rollout
_pullback_call = _diffmj.ArrayRollout.pullback

# Of every tensor the last dimension holds the numbers of one rollout; those before it are a batch,
# in which an input of size 1 is shared. given: what the inputs are, as places in INPUTS and, after
# them, the params. outputs: which ones the cotangents are of. wanted: inputs whose gradients are
# returned.
_library = torch.library.Library("diffmj", "DEF")
_library.define(
    "rollout(int handle, SymInt nstep, Tensor[] inputs, int[] given, bool keep_tape) -> Tensor[]",
    tags=(torch.Tag.needs_contiguous_strides,),
)
_library.define(
    "rollout_pullback(int handle, SymInt nstep, Tensor[] inputs, int[] given, Tensor tape, "
    "Tensor[] cotangents, int[] outputs, int[] wanted) -> Tensor[]",
    tags=(torch.Tag.needs_contiguous_strides,),
)
_rollout = torch.ops.diffmj.rollout.default
_rollout_pullback = torch.ops.diffmj.rollout_pullback.default


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
    *sizes, flag, tape = _find(handle).sizes(nstep, keep_tape)
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


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    """In place if the tensor is contiguous."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor.contiguous().numpy()


def _placed(
    tensors: Sequence[torch.Tensor],
    places: Sequence[int],
    count: int,
    batch: tuple[int, ...] | None = None,
) -> list[Any]:
    """Arrays at their places; the others have no numbers. Without a batch: flat."""
    out: list[Any] = [None if batch is None else np.empty((*batch, 0))] * count
    for k, x in zip(places, tensors, strict=True):
        out[k] = _numbers(x).reshape(-1) if batch is None else _numbers(x)
    return out


def _gradient_places(given: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Among the inputs that have a gradient and the params."""
    nconstant = len(INPUTS) - NGRADIENT
    return [given[k] if given[k] < NGRADIENT else given[k] - nconstant for k in wanted]


def _run_rollout(
    handle: int, nstep: int, inputs: list[torch.Tensor], given: list[int], keep_tape: bool
) -> list[torch.Tensor]:
    function = _find(handle)
    try:
        out = _empty_outputs(handle, nstep, inputs, given, keep_tape)
    except RuntimeError as error:  # of PyTorch's allocator
        raise OutOfMemoryError(f"rollout: {error}") from error
    shared = (1,) * (inputs[0].dim() - 1)
    arrays = _placed(inputs, given, len(INPUTS) + len(function.params), shared)
    _rollout_call(function.array, nstep, arrays, [x.numpy() for x in out])
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
    function = _find(handle)
    out = _empty_gradients(handle, nstep, inputs, given, tape, cotangents, outputs, wanted)
    shared = (1,) * (inputs[0].dim() - 1)
    nparam = len(function.params)
    arrays = _placed(inputs, given, len(INPUTS) + nparam, shared)
    arrays.append(_numbers(tape))
    arrays += _placed(cotangents, outputs, len(function.outputs), shared)
    batch = _batch([*inputs, tape, *cotangents])
    gradients = _placed(out, _gradient_places(given, wanted), NGRADIENT + nparam, batch)
    _pullback_call(function.array, nstep, arrays, gradients)
    return out


_library.impl("rollout", _run_rollout, "CPU")
_library.impl("rollout_pullback", _run_pullback, "CPU")
torch.library.register_fake("diffmj::rollout", _empty_outputs, lib=_library)
torch.library.register_fake("diffmj::rollout_pullback", _empty_gradients, lib=_library)


def _batch_first(tensors: Sequence[torch.Tensor], dims: Sequence[int | None]) -> list[torch.Tensor]:
    return [
        x.unsqueeze(0) if dim is None else x.movedim(dim, 0)
        for x, dim in zip(tensors, dims, strict=True)
    ]


@torch.library.register_vmap("diffmj::rollout", lib=_library)
def _rollout_vmap(
    info: Any, in_dims: Any, handle: int, nstep: int, inputs: Any, given: list[int], keep: bool
) -> Any:
    out = _rollout(handle, nstep, _batch_first(inputs, in_dims[2]), given, keep)
    return out, [0] * len(out)


@torch.library.register_vmap("diffmj::rollout_pullback", lib=_library)
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
    out = _rollout_pullback(
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


class _Rollout(torch.autograd.Function):
    """The operator `rollout` with its gradient, for transformations of `torch.func`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        handle: int, nstep: int, given: tuple[int, ...], keep_tape: bool, *inputs: torch.Tensor
    ) -> Any:
        return tuple(_rollout(handle, nstep, list(inputs), list(given), keep_tape))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        handle, nstep, given, _, *tensors = inputs
        function = _find(handle)
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
            out = _Rollout.forward(*inputs)
        _Rollout.setup_context(ctx, inputs, out)
        return out

    backward = staticmethod(_Rollout.backward)
    jvp = staticmethod(_Rollout.jvp)


class _RolloutEager(torch.autograd.Function):
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
            if not torch.is_grad_enabled() and _is_eager(cotangents):
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
    return _rollout_pullback(
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
        return _rollout(handle, nstep, inputs, given, keep_tape)


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
        return _rollout_pullback(handle, nstep, inputs, given, tape, cotangents, outputs, wanted)


_library.impl("rollout", _rollout_autograd, "Autograd")
_library.impl("rollout_pullback", _pullback_autograd, "Autograd")


class Rollout(RolloutBase):
    """A rollout of the simulator as a differentiable PyTorch function.

    A call returns a named tuple of the outputs; with on_failure="nan" its last field is `ok`.
    Arguments may be tensors on the CPU, arrays or lists. It can be an attribute of a Module, and is
    copied and pickled with it.
    """

    _function: ClassVar = _Function


class Step(StepBase):
    """One step of the simulator, for closed loops.

        step = diffmj.torch.Step(sim, outputs=("site_xpos",))
        state, out = step(step.state(), ctrl)

    A loop that passes the state on gives the same bits as a `Rollout`.
    """

    _function: ClassVar = _Function
