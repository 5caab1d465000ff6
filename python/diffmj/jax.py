"""Rollouts as functions of JAX: `jit`, `vmap`, `grad`, `jacrev`, `scan`, `checkpoint`.

    rollout = diffmj.jax.Rollout(sim, outputs=("qpos", "site_xpos"))

    @jax.jit
    def loss(ctrl):
        return jnp.sum(rollout(ctrl=ctrl).site_xpos[-1, 0] ** 2)

    jax.grad(loss)(ctrl)
    jax.vmap(jax.grad(loss))(many)  # one call, on the simulator's threads

MuJoCo runs on the CPU as ever: nothing of it is compiled, and no Python runs in a call. Numbers are
those of `Simulator.rollout` and `Trajectory.backward`, to the last bit in double precision
(`jax.config.update("jax_enable_x64", True)`). With single precision, arguments and results are
rounded to it; what happens between them is not.
"""

from __future__ import annotations

import contextlib
import re
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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
from ._arrays import to_nstep
from ._errors import Error, InputError, UnsupportedError
from ._simulator import _ROWS as _INPUT_ROWS
from ._simulator import Simulator
from ._trajectory import _ROWS as _OUTPUT_ROWS

for _name, _target in _diffmj_jax.targets(_diffmj.array_calls()).items():
    jax.ffi.register_ffi_target(_name, _target, platform="cpu")

_INPUTS: tuple[str, ...] = _diffmj.ARRAY_INPUTS
_WITH_GRADIENT = _INPUTS[:6]
# what an output may be: rows of a trajectory, but for cotangents in the tangent space
_OUTPUTS = {name: row for name, row in _OUTPUT_ROWS.items() if name != "qpos_tangent"}

_MESSAGE = re.compile(r"diffmj\.(\w+): (.*)", re.DOTALL)


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Inside, what diffmj raises within a compiled function is diffmj's exception again.

        with diffmj.jax.errors():
            jax.block_until_ready(jax.grad(loss)(ctrl))

    JAX makes one exception of its own, `jax.errors.JaxRuntimeError`, of everything that happens
    when a compiled function runs; diffmj's text is in it. It is raised where the result is waited
    for, so wait inside.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        found = _MESSAGE.search(str(error))
        kind = getattr(_errors, found[1], None) if found else None
        if found is None or kind is None or not issubclass(kind, Error):
            raise
        raise kind(found[2]) from error


class State(NamedTuple):
    """What a `Step` starts from and leads to: the carry of a `jax.lax.scan`.

    Attributes:
        qpos: (nq,)
        qvel: (nv,)
        act: (na,)
        qacc_warmstart: (nv,), what the constraint solver starts from. It decides on the last bits
            of a step only, and has no gradient.
    """

    qpos: jax.Array
    qvel: jax.Array
    act: jax.Array
    qacc_warmstart: jax.Array


class _Function:
    """Arrays in, arrays out: the part that Rollout and Step share."""

    def __init__(
        self,
        who: str,
        sim: Simulator,
        outputs: Sequence[str],
        params: Sequence[str],
        on_failure: str,
        last: bool,
    ):
        if not isinstance(sim, Simulator):
            raise InputError(f"{who}: sim is a {type(sim).__name__}, expected a Simulator")
        sim._require_one_model(who)
        if on_failure not in ("raise", "nan"):
            raise InputError(f"{who}: on_failure is {on_failure!r}, expected 'raise' or 'nan'")
        self.who, self.sim, self.last = who, sim, last
        self.outputs = _names(who, "outputs", outputs)
        self.params = _names(who, "params", params)
        self.raises = on_failure == "raise"
        for name in self.outputs:
            if name not in _OUTPUTS and not (last and name == "qacc_warmstart"):
                raise InputError(
                    f"{who}: outputs has {name!r}, expected names among {', '.join(_OUTPUTS)}"
                )
        self.array = _diffmj.ArrayRollout(
            sim._model,
            outputs=self.outputs,
            params=self.params,
            last=last,
            raises=self.raises,
            nthread=sim.nthread,
        )
        self._compiled: dict[tuple[int, np.dtype[Any]], Callable[..., Any]] = {}

    def input_shape(self, name: str) -> tuple[int, ...]:
        dimensions = ("nv",) if name == "qacc_warmstart" else _INPUT_ROWS[name][0]
        return tuple(int(d) if d.isdigit() else getattr(self.sim, d) for d in dimensions)

    def output_shape(self, name: str) -> tuple[int, ...]:
        dimensions = ("nv",) if name == "qacc_warmstart" else _OUTPUTS[name]
        return tuple(int(d) if d.isdigit() else getattr(self.sim, d) for d in dimensions)

    def param_shape(self, name: str) -> tuple[int, ...]:
        nrow, width = self.sim._model.parameter_shape(name)
        if name.startswith("opt."):
            return (width,)
        return (nrow,) if width == 1 else (nrow, width)

    def __call__(
        self, given: Mapping[str, Any], params: Mapping[str, Any] | None, nstep: int | None
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        """The outputs by name, and whether the rollout succeeded."""
        arrays = {name: jnp.asarray(x) for name, x in given.items() if x is not None}
        steps = self._nstep(arrays, nstep)
        values = self._params(params)
        dtype = _common_dtype([*arrays.values(), *values])
        flat = []
        for name in _INPUTS:
            x = arrays.get(name)
            flat.append(
                jnp.zeros(0, dtype) if x is None else self._input(name, x, steps).astype(dtype)
            )
        flat += [x.reshape(-1).astype(dtype) for x in values]
        is_concrete = not any(isinstance(x, jax.core.Tracer) for x in flat)
        with errors() if is_concrete else contextlib.nullcontext():
            *out, ok = self._function(steps, dtype)(*flat)
            if is_concrete:
                jax.block_until_ready(out)  # an error belongs to this call
        rows = () if self.last else (steps + 1,)
        shaped = {}
        for name, x in zip(self.outputs, out, strict=True):
            lead = () if name == "qacc_warmstart" else rows
            shaped[name] = x.reshape(*lead, *self.output_shape(name))
        return shaped, ok[0]

    def _nstep(self, arrays: Mapping[str, jax.Array], nstep: int | None) -> int:
        """Of the arguments that have a row per step, which must agree."""
        found = None if nstep is None else to_nstep(self.who, nstep)
        source = "nstep"
        for name, x in arrays.items():
            row = self.input_shape(name)
            has_rows = name in _INPUT_ROWS and _INPUT_ROWS[name][1] and not self.last
            if x.shape == row:
                continue
            if not has_rows or x.shape[1:] != row or x.ndim != len(row) + 1:
                expected = f"{row}" + (f" to hold, or (nstep, {str(row)[1:]}" if has_rows else "")
                raise InputError(
                    f"{self.who}: {name} has shape {x.shape}, expected {expected}; for a batch use "
                    "jax.vmap"
                )
            if found is not None and len(x) != found:
                raise InputError(
                    f"{self.who}: {name} has {len(x)} rows, but {source} has {found} steps"
                )
            found, source = len(x), name
        if found is None:
            raise InputError(f"{self.who}: give nstep, or an argument with a row per step")
        return found

    def _input(self, name: str, x: jax.Array, nstep: int) -> jax.Array:
        if name in _INPUT_ROWS and _INPUT_ROWS[name][1] and x.shape == self.input_shape(name):
            x = jnp.broadcast_to(x, (nstep, *x.shape))  # held
        return x.reshape(-1)

    def _params(self, params: Mapping[str, Any] | None) -> list[jax.Array]:
        given = {} if params is None else params
        if not isinstance(given, Mapping):
            raise InputError(
                f"{self.who}: params is a {type(params).__name__}, expected a dict from names of "
                "fields to arrays"
            )
        if set(given) != set(self.params):
            raise InputError(
                f"{self.who}: params has {sorted(given)}, expected what it was made with, "
                f"{sorted(self.params)}"
            )
        out = []
        for name in self.params:
            x, shape = jnp.asarray(given[name]), self.param_shape(name)
            if x.shape != shape:
                raise InputError(
                    f"{self.who}: {name} has shape {x.shape}, expected {shape}; for a batch use "
                    "jax.vmap"
                )
            out.append(x)
        return out

    def _function(self, nstep: int, dtype: np.dtype[Any]) -> Callable[..., Any]:
        key = (nstep, dtype)
        if key not in self._compiled:
            self._compiled[key] = _differentiable(self, nstep, dtype)
        return self._compiled[key]


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
        for name, x in zip(_INPUTS, args, strict=False):
            if x.perturbed and name in ("mocap_pos", "mocap_quat") and x.value.size:
                raise UnsupportedError(
                    f"{f.who}: there is no gradient in {name}; put jax.lax.stop_gradient around it "
                    "if it is to be a constant"
                )
        values = tuple(x.value for x in args)
        *out, tape = evaluate(values, array.tape_size(nstep))
        return tuple(out), (values, tape)

    def backward(saved: Any, bars: Sequence[Any]) -> tuple[jax.Array, ...]:
        values, tape = saved
        n = len(_INPUTS)
        nothing = jnp.zeros(0, dtype)
        given = [nothing if isinstance(bar, SymbolicZero) else bar for bar in bars[:-1]]
        wanted = [*values[: len(_WITH_GRADIENT)], *values[n:]]
        shapes = [jax.ShapeDtypeStruct(x.shape, dtype) for x in wanted]
        out = call("diffmj_rollout_pullback", shapes, *values, tape, *given)
        constant = [jnp.zeros_like(x) for x in values[len(_WITH_GRADIENT) : n]]
        return (*out[: len(_WITH_GRADIENT)], *constant, *out[len(_WITH_GRADIENT) :])

    rollout.defvjp(forward, backward, symbolic_zeros=True)
    return rollout


class Rollout:
    """A rollout of the simulator as a function of JAX.

    Called, it returns a named tuple of the outputs; with on_failure="nan" its last field is `ok`.
    """

    def __init__(
        self,
        sim: Simulator,
        outputs: Sequence[str] = ("qpos", "qvel"),
        params: Sequence[str] = (),
        on_failure: str = "raise",
    ):
        """
        Args:
            sim: whose model, integrator and number of threads are used.
            outputs: names among "qpos", "qvel", "act", "sensordata", poses and velocities
                ("site_xpos", "xquat", "body_linvel", ...), with the shapes that they have as
                attributes of a Trajectory.
            params: fields of MjModel that a call takes values of (`diffmj.parameter_names()`).
            on_failure: "raise" makes an error of a rollout that fails; "nan" gives NaN in all its
                outputs, and the field `ok`. Its gradient is NaN, too, but 0 if the loss does not
                depend on it: `jnp.where(out.ok, loss, 0)` is safe.

        Raises:
            InputError: an unknown name, or a simulator with parameters for each rollout of a batch.
        """
        self._call = _Function("Rollout", sim, outputs, params, on_failure, last=False)
        fields = [*outputs, *(() if self._call.raises else ("ok",))]
        self._result = namedtuple("RolloutResult", fields)

    def __call__(
        self,
        qpos: Any = None,
        qvel: Any = None,
        act: Any = None,
        ctrl: Any = None,
        qfrc_applied: Any = None,
        params: Mapping[str, Any] | None = None,
        *,
        xfrc_applied: Any = None,
        mocap_pos: Any = None,
        mocap_quat: Any = None,
        nstep: int | None = None,
    ) -> Any:
        """One rollout; `jax.vmap` makes a batch of it.

        The result has the common type of the arguments, float32 or float64.

        Args:
            qpos, qvel, act: initial state, (nq,), (nv,), (na,); default: the model's, at rest.
            ctrl, qfrc_applied, xfrc_applied: (nstep, ...), or one row that is held; default 0.
            params: values by the names that Rollout was made with, each with the field's shape.
            mocap_pos, mocap_quat: held; they have no gradient.
            nstep: number of steps; may be left out if an argument has one row per step.

        Raises:
            InputError: a wrong shape, also while JAX traces.
            jax.errors.JaxRuntimeError: within `jit` or a gradient, of everything that depends on
                the numbers; `diffmj.jax.errors` makes diffmj's own exceptions of it. A call with
                plain arrays raises these by itself.
        """
        given = {
            "qpos": qpos,
            "qvel": qvel,
            "act": act,
            "ctrl": ctrl,
            "qfrc_applied": qfrc_applied,
            "xfrc_applied": xfrc_applied,
            "mocap_pos": mocap_pos,
            "mocap_quat": mocap_quat,
        }
        out, ok = self._call(given, params, nstep)
        return self._result(**out, **({} if self._call.raises else {"ok": ok}))


class Step:
    """One step of the simulator, for closed loops.

        step = diffmj.jax.Step(sim, outputs=("site_xpos",))
        state, out = step(step.state(), ctrl)

    In a `jax.lax.scan` with the state as carry it gives the same bits as a `Rollout`.
    """

    def __init__(
        self,
        sim: Simulator,
        outputs: Sequence[str] = (),
        params: Sequence[str] = (),
        on_failure: str = "raise",
    ):
        """Args and Raises: as of `Rollout`; outputs are those at the state that the step leads
        to. With explicit Runge-Kutta methods a step is an interval."""
        extra = _names("Step", "outputs", outputs)
        names = [*State._fields, *(x for x in extra if x not in State._fields)]
        self._call = _Function("Step", sim, names, params, on_failure, last=True)
        self._extra = extra
        fields = [*extra, *(() if self._call.raises else ("ok",))]
        self._result = namedtuple("StepResult", fields)

    def state(self, qpos: Any = None, qvel: Any = None, act: Any = None) -> State:
        """A state to start from; default: the model's, at rest."""
        sim = self._call.sim
        default = sim.default_state()
        given = {"qpos": qpos, "qvel": qvel, "act": act}
        arrays = {name: jnp.asarray(x) for name, x in given.items() if x is not None}
        dtype = _common_dtype(list(arrays.values()))
        start = {
            name: jnp.asarray(arrays.get(name, getattr(default, name)), dtype) for name in given
        }
        return State(**start, qacc_warmstart=jnp.zeros(sim.nv, dtype))

    def __call__(
        self,
        state: State,
        ctrl: Any = None,
        qfrc_applied: Any = None,
        params: Mapping[str, Any] | None = None,
        *,
        xfrc_applied: Any = None,
        mocap_pos: Any = None,
        mocap_quat: Any = None,
    ) -> tuple[State, Any]:
        """The next state, and a named tuple of the outputs there.

        Args: as of `Rollout`, with one row of each, and
            state: what `state` or the step before gave.
        """
        if not isinstance(state, State):
            raise InputError(
                f"Step: state is a {type(state).__name__}, expected a diffmj.jax.State, as state() "
                "makes it"
            )
        given = {
            **state._asdict(),
            "ctrl": ctrl,
            "qfrc_applied": qfrc_applied,
            "xfrc_applied": xfrc_applied,
            "mocap_pos": mocap_pos,
            "mocap_quat": mocap_quat,
        }
        out, ok = self._call(given, params, 1)
        result = {name: out[name] for name in self._extra}
        if not self._call.raises:
            result["ok"] = ok
        return State(*(out[name] for name in State._fields)), self._result(**result)


def _names(who: str, what: str, names: Any) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"{who}: {what} is {names!r}, expected a tuple of names")
    out = list(names)
    if not all(isinstance(name, str) for name in out) or len(set(out)) != len(out):
        raise InputError(f"{who}: {what} is {names!r}, expected names, each of them once")
    return out


def _common_dtype(arrays: Sequence[jax.Array]) -> np.dtype[Any]:
    """float64 if one of them has it, or of integers alone JAX's default; else float32."""
    floats = [x.dtype for x in arrays if jnp.issubdtype(x.dtype, jnp.floating)]
    common = jnp.result_type(*floats) if floats else jnp.result_type(float)
    return np.dtype(np.float64 if common == np.float64 else np.float32)
