"""Rollouts as functions of JAX: `jit`, `vmap`, `grad`, `jacrev`, `scan`, `checkpoint`.

    rollout = diffmj.jax.Rollout(sim, outputs=("qpos", "site_xpos"))

    @jax.jit
    def loss(ctrl):
        return jnp.sum(rollout(ctrl=ctrl).site_xpos[-1, 0] ** 2)

    jax.grad(loss)(ctrl)
    jax.vmap(jax.grad(loss))(many)  # one call, on the simulator's threads

MuJoCo is not compiled and runs on the CPU; no Python code runs within a call. In double precision
(`jax.config.update("jax_enable_x64", True)`) results equal those of `Simulator.rollout` and
`Trajectory.backward` to the last bit. In single precision, arguments and results are rounded, but
the computation between them is in double precision.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

try:
    import jax
    import jax.numpy as jnp
    from jax.custom_derivatives import SymbolicZero
except ImportError as error:
    raise ImportError(
        "diffmj.jax needs JAX: pip install 'diffmj[jax]', or pip install jax"
    ) from error
try:
    from . import _diffmj_jax
except ImportError as error:
    raise ImportError(
        "this diffmj was built where the headers of jaxlib were not found: install jax, then build "
        "diffmj again (pip install --no-build-isolation --force-reinstall diffmj)"
    ) from error

import numpy as np

from . import _diffmj, _errors
from ._array_function import INPUTS, NGRADIENT, REFUSED, ArrayFunction, RolloutBase, State, StepBase
from ._errors import Error, UnsupportedError

__all__ = ["Rollout", "State", "Step", "errors"]

for _name, _target in _diffmj_jax.targets(_diffmj.array_calls()).items():
    jax.ffi.register_ffi_target(_name, _target, platform="cpu")

_MESSAGE = re.compile(r"diffmj\.(\w+): (.*)", re.DOTALL)


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Inside this context, errors within a compiled function are diffmj's own exceptions.

        with diffmj.jax.errors():
            jax.block_until_ready(jax.grad(loss)(ctrl))

    When a compiled function fails, JAX raises its own `jax.errors.JaxRuntimeError`, which contains
    diffmj's message. It is raised where the program waits for the result, so wait inside the
    context. A call that Ctrl-C stopped raises KeyboardInterrupt.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        found = _MESSAGE.search(str(error))
        if found and found[1] == "KeyboardInterrupt":
            raise KeyboardInterrupt(found[2]) from error
        kind = getattr(_errors, found[1], None) if found else None
        if found is None or kind is None or not issubclass(kind, Error):
            raise
        raise kind(found[2]) from error


class _Function(ArrayFunction):
    vmap = "jax.vmap"

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._compiled: dict[tuple[int, np.dtype[Any]], Callable[..., Any]] = {}

    def asarray(self, name: str, x: Any) -> jax.Array:
        try:
            return jnp.asarray(x)
        except (TypeError, ValueError) as error:
            raise self.not_numbers(name, x) from error

    def common_dtype(self, arrays: Sequence[jax.Array]) -> np.dtype[Any]:
        """float64 if one of them has it, or of integers alone JAX's default; else float32."""
        floats = [x.dtype for x in arrays if jnp.issubdtype(x.dtype, jnp.floating)]
        common = jnp.result_type(*floats) if floats else jnp.result_type(float)
        return np.dtype(np.float64 if common == np.float64 else np.float32)

    def cast(self, x: jax.Array, dtype: np.dtype[Any]) -> jax.Array:
        return x.astype(dtype)

    def zeros(self, size: int, dtype: np.dtype[Any]) -> jax.Array:
        return jnp.zeros(size, dtype)

    def broadcast(self, x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return jnp.broadcast_to(x, shape)

    def evaluate(
        self,
        nstep: int,
        dtype: np.dtype[Any],
        inputs: dict[str, jax.Array],
        params: list[jax.Array],
    ) -> tuple[list[jax.Array], jax.Array]:
        nothing = jnp.zeros(0, dtype)
        flat = [*(inputs.get(name, nothing) for name in INPUTS), *params]
        key = (nstep, dtype)
        if key not in self._compiled:
            self._compiled[key] = _differentiable(self, nstep, dtype)
        is_concrete = not any(isinstance(x, jax.core.Tracer) for x in flat)
        with errors() if is_concrete else contextlib.nullcontext():
            *out, ok = self._compiled[key](*flat)
            if is_concrete:
                jax.block_until_ready(out)  # an error belongs to this call
        return out, ok


def _differentiable(f: _Function, nstep: int, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """From inputs and params to outputs and a flag, all of one dimension."""
    attributes = {"handle": np.int64(f.array.handle), "nstep": np.int64(nstep)}
    sizes = [f.array.output_size(name, nstep) for name in f.outputs]
    array = f.array  # the function keeps the entry of its handle alive

    def call(target: str, shapes: list[jax.ShapeDtypeStruct], *args: Any) -> Any:
        return jax.ffi.ffi_call(target, shapes, vmap_method="expand_dims")(*args, **attributes)

    def evaluate(args: Sequence[Any], tape_size: int) -> list[jax.Array]:
        shapes = [jax.ShapeDtypeStruct((n,), dtype) for n in sizes]
        shapes.append(jax.ShapeDtypeStruct((1,), np.bool_))
        shapes.append(jax.ShapeDtypeStruct((tape_size,), np.uint32))
        return call("diffmj_rollout", shapes, *args)

    @jax.custom_vjp
    def rollout(*args: Any) -> tuple[jax.Array, ...]:
        return tuple(evaluate(args, 0)[:-1])

    def forward(*args: Any) -> tuple[tuple[jax.Array, ...], Any]:
        for name, x in zip(INPUTS, args, strict=False):
            if x.perturbed and name in REFUSED and x.value.size:
                raise UnsupportedError(
                    f"{f.who}: there is no gradient in {name}; put jax.lax.stop_gradient around it "
                    "if it is to be a constant"
                )
        values = tuple(x.value for x in args)
        *out, tape = evaluate(values, array.tape_size(nstep))
        return tuple(out), (values, tape)

    def backward(saved: Any, bars: Sequence[Any]) -> tuple[jax.Array, ...]:
        values, tape = saved
        n = len(INPUTS)
        nothing = jnp.zeros(0, dtype)
        given = [nothing if isinstance(bar, SymbolicZero) else bar for bar in bars[:-1]]
        wanted = [*values[:NGRADIENT], *values[n:]]
        shapes = [jax.ShapeDtypeStruct(x.shape, dtype) for x in wanted]
        out = call("diffmj_rollout_pullback", shapes, *values, tape, *given)
        constant = [jnp.zeros_like(x) for x in values[NGRADIENT:n]]
        return (*out[:NGRADIENT], *constant, *out[NGRADIENT:])

    rollout.defvjp(forward, backward, symbolic_zeros=True)
    return rollout


class Rollout(RolloutBase):
    """A rollout of the simulator as a differentiable JAX function.

    A call returns a named tuple of the outputs; with on_failure="nan" its last field is `ok`.
    Within `jit` or a gradient, failures that depend on the numbers raise
    `jax.errors.JaxRuntimeError`, which `diffmj.jax.errors` turns into diffmj's own exceptions. A
    call with plain arrays raises these directly.
    """

    _function: ClassVar = _Function


class Step(StepBase):
    """One step of the simulator, for closed loops.

        step = diffmj.jax.Step(sim, outputs=("site_xpos",))
        state, out = step(step.state(), ctrl)

    In a `jax.lax.scan` with the state as carry it gives the same bits as a `Rollout`.
    """

    _function: ClassVar = _Function
