"""Derivatives of steps as matrices, and tangents of rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, common_batch, common_nstep, to_array
from ._errors import InputError
from ._inputs import ROWS, input_arrays

if TYPE_CHECKING:
    from ._simulator import Simulator
    from ._trajectory import Trajectory


@dataclass(frozen=True)
class Tangents:
    """Derivatives of the states of a rollout along tangents of its inputs: the result of
    `Trajectory.forward`. With several tangents, their number K is the first dimension; with a
    batch, the first dimensions are B and K.
    """

    qpos: Array  # (nstep + 1, nq), of MuJoCo's coordinates
    qpos_tangent: Array  # (nstep + 1, nv), in the tangent space
    qvel: Array  # (nstep + 1, nv)
    act: Array  # (nstep + 1, na)


def _scalars(model: _diffmj.Model) -> tuple[list[int], list[int]]:
    """Indices in qpos and qvel of all coordinates that are not part of a quaternion."""
    q, v = set(range(model.nq)), set(range(model.nv))
    for at_q, at_v in model.quaternions:
        q -= set(range(at_q, at_q + 4))
        v -= set(range(at_v, at_v + 3))
    return sorted(q), sorted(v)


def _product(p: Array, q: Array) -> Array:
    """Of quaternions, in the last dimension."""
    w1, v1, w2, v2 = p[..., :1], p[..., 1:], q[..., :1], q[..., 1:]
    w = w1 * w2 - np.sum(v1 * v2, axis=-1, keepdims=True)
    return np.concatenate([w, w1 * v2 + w2 * v1 + np.cross(v1, v2)], axis=-1)


def to_tangent(model: _diffmj.Model, qpos: Array, rate: Array) -> Array:
    """nv numbers of a change of the nq coordinates; of quaternions the part along rotations."""
    out = np.zeros((*rate.shape[:-1], model.nv))
    q, v = _scalars(model)
    out[..., v] = rate[..., q]
    for at_q, at_v in model.quaternions:
        unit = qpos[..., at_q : at_q + 4]
        size = np.linalg.norm(unit, axis=-1, keepdims=True)
        conjugate = unit / size * np.array([1, -1, -1, -1])
        turn = _product(conjugate, rate[..., at_q : at_q + 4] / size)
        out[..., at_v : at_v + 3] = 2 * turn[..., 1:]
    return out


def to_ambient(model: _diffmj.Model, qpos: Array, tangent: Array) -> Array:
    """The change of the nq coordinates that nv numbers are."""
    shape = np.broadcast_shapes(qpos.shape[:-1], tangent.shape[:-1])
    out = np.zeros((*shape, model.nq))
    q, v = _scalars(model)
    out[..., q] = tangent[..., v]
    for at_q, at_v in model.quaternions:
        unit = np.broadcast_to(qpos[..., at_q : at_q + 4], (*shape, 4))
        turn = np.broadcast_to(tangent[..., at_v : at_v + 3], (*shape, 3))
        pure = np.concatenate([np.zeros((*shape, 1)), turn], axis=-1)
        out[..., at_q : at_q + 4] = 0.5 * _product(unit, pure)
    return out


class _Given:
    """The tangents a caller gave: all with a first dimension K, or all without."""

    def __init__(self, trajectory: Trajectory):
        self.trajectory = trajectory
        self.count: int | None = None
        self.single: bool | None = None

    def add(self, name: str, value: npt.ArrayLike, row: tuple[int, ...]) -> Array:
        """(B, K, *row)"""
        array = to_array("forward", name, value)
        batch = (self.trajectory.batch,) if self.trajectory.batch is not None else ()
        before = array.shape[: array.ndim - len(row)]
        single = before == batch
        if array.shape[array.ndim - len(row) :] != row or not (
            single or (len(before) == len(batch) + 1 and before[: len(batch)] == batch)
        ):
            one = ", ".join(str(size) for size in row)
            first = "".join(f"{size}, " for size in batch)
            raise InputError(
                f"forward: {name} has shape {array.shape}, expected ({first}K, {one}) for K "
                f"tangents, or {(*batch, *row)} for one"
            )
        count = 1 if single else before[-1]
        if self.count is None:
            self.count, self.single = count, single
        if (count, single) != (self.count, self.single):
            raise InputError(
                f"forward: {name} has {'no' if single else count} "
                f"{'dimension of tangents' if single else 'tangents'}, other arguments have "
                f"{'none' if self.single else self.count}; give all the same number"
            )
        return array.reshape(len(self.trajectory._record), count, *row)


def forward(
    trajectory: Trajectory,
    params: Mapping[str, npt.ArrayLike] | None,
    **arguments: npt.ArrayLike | None,
) -> Tangents:
    """`Trajectory.forward`."""
    sim, nstep = trajectory._sim, trajectory.nstep
    rows = {
        "qpos": (sim.nq,),
        "qpos_tangent": (sim.nv,),
        "qvel": (sim.nv,),
        "act": (sim.na,),
        "ctrl": (nstep, sim.nu),
        "qfrc_applied": (nstep, sim.nv),
    }
    given = _Given(trajectory)
    arrays = {
        name: given.add(name, value, rows[name])
        for name, value in arguments.items()
        if value is not None
    }
    known = _diffmj.parameter_names()
    fields = {}
    if params is not None and not isinstance(params, Mapping):
        raise InputError(
            f"forward: params is a {type(params).__name__}, expected a dict from names of fields "
            "to tangents"
        )
    for name, value in (params or {}).items():
        if name not in known:
            raise InputError(
                f"forward: there is no parameter {name!r}; the names are {', '.join(known)}"
            )
        fields[name] = given.add(f"params[{name!r}]", value, trajectory._parameter_shape(name))
    if given.count is None:
        raise InputError(f"forward: give at least one of {', '.join(rows)} and params")
    states = trajectory._record.qpos  # (B, nstep + 1, nq)
    if "qpos" in arrays:
        change = to_tangent(sim._model, states[:, None, 0], arrays.pop("qpos"))
        arrays["qpos_tangent"] = arrays.get("qpos_tangent", 0) + change

    def flat(x: Array) -> Array:
        return np.ascontiguousarray(x.reshape(len(x), -1), dtype=float)

    qpos_tangent, qvel, act = _diffmj.rollout_pushforward(
        sim._model,
        trajectory._record,
        given.count,
        {name: flat(x) for name, x in arrays.items()},
        {name: flat(x) for name, x in fields.items()},
        sim.nthread,
        sim._models,
    )
    qpos = to_ambient(sim._model, states[:, None], qpos_tangent)

    def shaped(x: Array) -> Any:
        return trajectory._array(x[:, 0] if given.single else x)

    return Tangents(
        qpos=shaped(qpos),
        qpos_tangent=shaped(qpos_tangent),
        qvel=shaped(qvel),
        act=shaped(act),
    )


def linearize(trajectory: Trajectory) -> tuple[Array, ...]:
    """`Trajectory.linearize`."""
    sim = trajectory._sim
    A, B, B_end = _diffmj.linearize_trajectories(
        sim._model, trajectory._record, sim.nthread, sim._models
    )
    out = (A, B) if B_end.shape[1] == 0 else (A, B, B_end)
    return tuple(trajectory._array(x) for x in out)


def linearize_step(
    sim: Simulator, given: dict[str, Any], sensors: bool
) -> tuple[Array, Array] | tuple[Array, Array, Array, Array]:
    """A and B of one step, or of a batch of single steps; with sensors also C and D."""
    who = "linearize"
    # rows of a batch, not of steps
    for name in ("ctrl", "qfrc_applied", "xfrc_applied"):
        if given[name] is not None:
            x = to_array(who, name, given[name])
            if x.ndim == len(ROWS[name][0]) + 1:
                x = x[:, None]
            given[name] = x
    inputs = sim._inputs(who, **given)
    batch = common_batch(who, inputs)
    steps = common_nstep(who, inputs, 1 if all(x.nstep is None for x in inputs) else None)
    if steps != 1:
        raise InputError(f"{who}: the arguments have {steps} steps, expected one")
    size = 1 if batch is None else batch
    out = _diffmj.linearize(sim._model, input_arrays(inputs), size, sensors, sim.nthread)
    A, B, C, D = out if batch is not None else (x[0] for x in out)
    return (A, B, C, D) if sensors else (A, B)
