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
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

try:
    import torch
except ImportError as error:
    raise ImportError(
        "diffmj.torch needs PyTorch: pip install 'diffmj[torch]', or pip install torch"
    ) from error

from . import _diffmj, _torch_operators
from ._array_function import INPUTS, NGRADIENT, ArrayFunction, RolloutBase, State, StepBase
from ._errors import InputError, OutOfMemoryError
from ._torch_autograd import RolloutEager, RolloutFunction, is_eager
from ._torch_operators import (
    functions,
    gradient_places,
    numbers,
    placed,
    rollout,
)

__all__ = ["Rollout", "State", "Step"]

# torch.compile keeps what it compiled until the process has ended
_diffmj.set_leak_warnings(False)


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
        functions[self.handle] = self

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
        if not is_eager([*arrays.values(), *params]):
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
            *out, ok = RolloutEager.apply(self, nstep, dtype, given, *tensors)
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
        arrays = placed(tensors, given, len(INPUTS) + len(self.params))
        flat = [x.numpy().reshape(-1) for x in out]
        setattr(
            out[-1],
            _KEPT,
            _torch_operators.rollout_call(self.array, nstep, arrays, flat, keep_rollout),
        )
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
        arrays = placed(tensors, given, len(INPUTS) + nparam)
        arrays.append(numbers(tape))
        arrays += placed(cotangents, outputs, len(self.outputs))
        gradients = placed(out, gradient_places(given, wanted), NGRADIENT + nparam)
        _torch_operators.pullback_call(
            self.array, nstep, arrays, gradients, getattr(tape, _KEPT, None)
        )
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
            out = rollout(self.handle, nstep, flat, given, keep_tape)
        else:
            # and torch.func differentiates these, but not operators
            out = RolloutFunction.apply(self.handle, nstep, tuple(given), keep_tape, *flat)
        *outputs, ok, _ = out
        return outputs, ok


_INDEX = {name: k for k, name in enumerate(INPUTS)}
# An attribute of a tensor that is saved for the backward pass lives as long as that.
_KEPT = "_diffmj_kept"


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
