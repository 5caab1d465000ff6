"""What `diffmj.jax` and `diffmj.torch` share: a rollout as a function of arrays, with the checks of
its arguments, the shapes and the result. A framework adds how it makes arrays and calls diffmj."""

from __future__ import annotations

import copyreg
import math
from collections import namedtuple
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

from . import _diffmj
from ._arrays import to_nstep
from ._errors import InputError
from ._inputs import ROWS as _INPUT_ROWS
from ._option_values import did_you_mean
from ._recorded import OUTPUT_ROWS
from ._simulator import Simulator

INPUTS: tuple[str, ...] = _diffmj.ARRAY_INPUTS
NGRADIENT: int = _diffmj.ARRAY_GRADIENT_COUNT  # the first of them have a gradient
# inputs whose gradient is refused; the warm start of the solver has the gradient 0
REFUSED = ("mocap_pos", "mocap_quat")
# what an output may be: rows of a trajectory, but for cotangents in the tangent space
_OUTPUTS = {name: row for name, row in OUTPUT_ROWS.items() if name != "qpos_tangent"}


class State(NamedTuple):
    """The state before and after a `Step`: the carry of a loop.

    Attributes:
        qpos: (nq,)
        qvel: (nv,)
        act: (na,)
        qacc_warmstart: (nv,), starting point of the constraint solver. It affects only the last
            bits of a step and has no gradient.
    """

    qpos: Any
    qvel: Any
    act: Any
    qacc_warmstart: Any


class ArrayFunction:
    """Arrays in, arrays out: the part that Rollout and Step share."""

    vmap: ClassVar[str]  # what the framework calls it

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
        self.outputs = names(who, "outputs", outputs)
        self.params = names(who, "params", params)
        self.raises = on_failure == "raise"
        for name in self.outputs:
            if name not in _OUTPUTS and not (last and name == "qacc_warmstart"):
                raise InputError(
                    f"{who}: outputs has {name!r}, expected names among {', '.join(_OUTPUTS)}"
                    + did_you_mean(name, _OUTPUTS)
                )
        self.array = _diffmj.ArrayRollout(
            sim._model,
            outputs=self.outputs,
            params=self.params,
            last=last,
            raises=self.raises,
            nthread=sim.nthread,
        )
        # plain numbers, which a compiler of Python can read: shapes are those of one row
        self.handle: int = self.array.handle
        self.input_shapes = {name: self._shape(_input_row(name)) for name in INPUTS}
        self.output_shapes = {name: self._shape(_output_row(name)) for name in self.outputs}
        self.param_shapes = {name: self._param_shape(name) for name in self.params}
        self.row_inputs = frozenset(
            name for name in INPUTS if not last and name in _INPUT_ROWS and _INPUT_ROWS[name][1]
        )

    def _shape(self, dimensions: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(int(d) if d.isdigit() else getattr(self.sim, d) for d in dimensions)

    def _param_shape(self, name: str) -> tuple[int, ...]:
        nrow, width = self.sim._model.parameter_shape(name)
        if name.startswith("opt."):
            return (width,)
        return (nrow,) if width == 1 else (nrow, width)

    # what a framework says

    def asarray(self, name: str, x: Any) -> Any:
        """An array of the framework, of any type."""
        raise NotImplementedError

    def not_numbers(self, name: str, x: Any) -> InputError:
        return InputError(f"{self.who}: {name} is {x!r}, expected an array of numbers")

    def common_dtype(self, arrays: Sequence[Any]) -> Any:
        """Double or single precision, for all of a call."""
        raise NotImplementedError

    def cast(self, x: Any, dtype: Any) -> Any:
        raise NotImplementedError

    def zeros(self, size: int, dtype: Any) -> Any:
        raise NotImplementedError

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        raise NotImplementedError

    def evaluate(
        self, nstep: int, dtype: Any, inputs: dict[str, Any], params: list[Any]
    ) -> tuple[list[Any], Any]:
        """From the inputs that are given, and params, to outputs, all of one dimension, and a flag
        of shape (1,)."""
        raise NotImplementedError

    # what follows from it

    def __call__(
        self, given: Mapping[str, Any], params: Mapping[str, Any] | None, nstep: int | None
    ) -> tuple[dict[str, Any], Any]:
        """The outputs by name, and whether the rollout succeeded."""
        arrays = {name: self.asarray(name, x) for name, x in given.items() if x is not None}
        steps = self._nstep(arrays, nstep)
        values = self._params(params)
        dtype = self.common_dtype([*arrays.values(), *values])
        out, ok = self.evaluate_shaped(steps, dtype, arrays, values)
        return dict(zip(self.outputs, out, strict=True)), ok

    def evaluate_shaped(
        self, nstep: int, dtype: Any, arrays: Mapping[str, Any], params: Sequence[Any]
    ) -> tuple[list[Any], Any]:
        """As `evaluate`, but every array has its own shape and type, and the flag none."""
        inputs = {name: self._flat(name, self.cast(x, dtype), nstep) for name, x in arrays.items()}
        flat = [
            self.cast(x, dtype).reshape((math.prod(self.param_shapes[name]),))
            for name, x in zip(self.params, params, strict=True)
        ]
        out, ok = self.evaluate(nstep, dtype, inputs, flat)
        shapes = self.shapes(nstep)
        return [x.reshape(shape) for x, shape in zip(out, shapes, strict=True)], ok[0]

    def shapes(self, nstep: int) -> list[tuple[int, ...]]:
        """Of the outputs."""
        return [
            self.output_shapes[name]
            if self.last or name == "qacc_warmstart"
            else (nstep + 1, *self.output_shapes[name])
            for name in self.outputs
        ]

    def _nstep(self, arrays: Mapping[str, Any], nstep: int | None) -> int:
        """Of the arguments that have a row per step, which must agree."""
        found = None if nstep is None else to_nstep(self.who, nstep)
        source = "nstep"
        for name, x in arrays.items():
            row, shape = self.input_shapes[name], tuple(x.shape)
            has_rows = name in self.row_inputs
            if shape == row:
                continue
            if not has_rows or len(shape) != len(row) + 1 or shape[1:] != row:
                sizes = ", ".join(str(n) for n in row)
                expected = f"{row}" + (f" to hold, or (nstep, {sizes})" if has_rows else "")
                raise InputError(
                    f"{self.who}: {name} has shape {shape}, expected {expected}; for a batch use "
                    f"{self.vmap}"
                )
            if found is not None and shape[0] != found:
                raise InputError(
                    f"{self.who}: {name} has {shape[0]} rows, but {source} has {found} steps"
                )
            found, source = shape[0], name
        if found is None:
            raise InputError(f"{self.who}: give nstep, or an argument with a row per step")
        return found

    def _flat(self, name: str, x: Any, nstep: int) -> Any:
        size = math.prod(self.input_shapes[name])
        if name in self.row_inputs:
            size *= nstep
            x = self.rows(name, x, nstep)
        return x.reshape((size,))

    def rows(self, name: str, x: Any, nstep: int) -> Any:
        """Of an input that has a row per step: what is held has one for all of them."""
        row = self.input_shapes[name]
        return self.broadcast(x, (nstep, *row)) if tuple(x.shape) == row else x

    def _params(self, params: Mapping[str, Any] | None) -> list[Any]:
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
            x, expected = self.asarray(name, given[name]), self.param_shapes[name]
            shape = tuple(x.shape)
            if shape != expected:
                raise InputError(
                    f"{self.who}: {name} has shape {shape}, expected {expected}; for a batch use "
                    f"{self.vmap}"
                )
            out.append(x)
        return out


class RolloutBase:
    """The class Rollout of a framework, which says what its function is."""

    _function: ClassVar[type[ArrayFunction]]

    def __init__(
        self,
        sim: Simulator,
        outputs: Sequence[str] = ("qpos", "qvel"),
        params: Sequence[str] = (),
        on_failure: str = "raise",
    ):
        """
        Args:
            sim: provides the model, the integrator and the number of threads.
            outputs: any of "qpos", "qvel", "act", "sensordata", poses and velocities ("site_xpos",
                "xquat", "body_linvel", ...), with the shapes of the attributes of a Trajectory.
            params: fields of MjModel (`diffmj.parameter_names()`) whose values are arguments of a
                call.
            on_failure: "raise" raises an error if a rollout fails. "nan" returns NaN in all its
                outputs, and a field `ok`. Its gradient is NaN, too, but 0 if the loss does not
                depend on it: `where(out.ok, loss, 0)` is safe.

        Raises:
            InputError: an unknown name, or a simulator with parameters for each rollout of a batch.
        """
        self._call = self._function("Rollout", sim, outputs, params, on_failure, last=False)
        self._arguments = (sim, tuple(outputs), tuple(params), on_failure)
        fields = (*outputs, *(() if self._call.raises else ("ok",)))
        self._result = _result_type("RolloutResult", fields)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), self._arguments

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
        """One rollout; `vmap` makes a batch of it.

        The result has the common type of the arguments, float32 or float64.

        Args:
            qpos, qvel, act: initial state, (nq,), (nv,), (na,); default: the model's, at rest.
            ctrl, qfrc_applied, xfrc_applied: (nstep, ...), or one row that is held; default 0.
            params: values by the names that Rollout was made with, each with the field's shape.
            mocap_pos, mocap_quat: held; they have no gradient.
            nstep: number of steps; may be left out if an argument has one row per step.

        Raises:
            InputError: a wrong shape, also while a framework traces.
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
        values = [out[name] for name in self._call.outputs]
        return self._result(*values) if self._call.raises else self._result(*values, ok)


class StepBase:
    """The class Step of a framework, which says what its function is."""

    _function: ClassVar[type[ArrayFunction]]

    def __init__(
        self,
        sim: Simulator,
        outputs: Sequence[str] = (),
        params: Sequence[str] = (),
        on_failure: str = "raise",
    ):
        """Args and Raises: as for `Rollout`. Outputs are those at the state after the step. With
        explicit Runge-Kutta methods a step is an interval."""
        extra = names("Step", "outputs", outputs)
        all_names = [*State._fields, *(x for x in extra if x not in State._fields)]
        self._call = self._function("Step", sim, all_names, params, on_failure, last=True)
        self._arguments = (sim, tuple(outputs), tuple(params), on_failure)
        self._extra = extra
        fields = (*extra, *(() if self._call.raises else ("ok",)))
        self._result = _result_type("StepResult", fields)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), self._arguments

    def state(self, qpos: Any = None, qvel: Any = None, act: Any = None) -> State:
        """A state to start from; default: the model's default state, at rest."""
        call, default = self._call, self._call.sim.default_state()
        given = {"qpos": qpos, "qvel": qvel, "act": act}
        arrays = {name: call.asarray(name, x) for name, x in given.items() if x is not None}
        dtype = call.common_dtype(list(arrays.values()))
        start = [
            call.cast(
                arrays[name] if name in arrays else call.asarray(name, getattr(default, name)),
                dtype,
            )
            for name in given
        ]
        return State(*start, call.zeros(call.sim.nv, dtype))

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

        Args: as for `Rollout`, with one row of each, and
            state: what `state` or the step before gave.
        """
        if not isinstance(state, State):
            raise InputError(
                f"Step: state is a {type(state).__name__}, expected a State, as state() makes it"
            )
        given = {
            "qpos": state.qpos,
            "qvel": state.qvel,
            "act": state.act,
            "qacc_warmstart": state.qacc_warmstart,
            "ctrl": ctrl,
            "qfrc_applied": qfrc_applied,
            "xfrc_applied": xfrc_applied,
            "mocap_pos": mocap_pos,
            "mocap_quat": mocap_quat,
        }
        out, ok = self._call(given, params, 1)
        values = [out[name] for name in self._extra]
        result = self._result(*values) if self._call.raises else self._result(*values, ok)
        return State(out["qpos"], out["qvel"], out["act"], out["qacc_warmstart"]), result


def _input_row(name: str) -> tuple[str, ...]:
    return ("nv",) if name == "qacc_warmstart" else _INPUT_ROWS[name][0]


def _output_row(name: str) -> tuple[str, ...]:
    return ("nv",) if name == "qacc_warmstart" else _OUTPUTS[name]


def names(who: str, what: str, given: Any) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InputError(f"{who}: {what} is {given!r}, expected a tuple of names")
    out = list(given)
    if not all(isinstance(name, str) for name in out) or len(set(out)) != len(out):
        raise InputError(f"{who}: {what} is {given!r}, expected names, each of them once")
    return out


@cache
def _result_type(name: str, fields: tuple[str, ...]) -> Any:
    """A named tuple; the same class for the same fields, which a process can hand to another."""
    kind = namedtuple(name, fields)
    copyreg.pickle(kind, lambda x: (_result, (name, fields, tuple(x))))
    return kind


def _result(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _result_type(name, fields)(*values)
