"""Cost: the function that a plan minimises, a sum of terms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, require_finite, to_array
from ._errors import InputError
from ._recorded import OUTPUT_ROWS
from ._simulator import Simulator
from ._trajectory import Trajectory

_KINDS = ("site", "body", "geom", "com")


@dataclass(frozen=True, eq=False)
class Reference:
    """Targets that move: numbers at times, linear between them, constant before the first and after
    the last. Wherever a term takes a point, a quaternion or a target, it takes a Reference, too.

        angle = 2 * np.pi * time / 5
        circle = diffmj.Reference(time, np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1))
        diffmj.Distance("site:ball", "body:palm", to_pos=circle)

    Attributes:
        time: (n,), increasing [s]; `MjData.time` of the states, which goes on from plan to plan.
        values: (n, k), the numbers at each time; (n,) for a single one.
    """

    time: npt.ArrayLike
    values: npt.ArrayLike

    def _record(self, who: str, name: str, size: int | None = None) -> _diffmj.Reference:
        time = to_array(who, f"{name}.time", self.time)
        values = to_array(who, f"{name}.values", self.values)
        require_finite(who, f"{name}.time", time)
        require_finite(who, f"{name}.values", values)
        if values.ndim == 1:
            values = values[:, None]
        width = values.shape[1] if size is None and values.ndim == 2 else size
        if time.ndim != 1 or len(time) == 0 or values.shape != (len(time), width):
            raise InputError(
                f"{who}: {name} has times of shape {time.shape} and values of shape "
                f"{values.shape}, expected (n,) and (n, {'k' if size is None else size})"
            )
        return _diffmj.Reference(time.tolist(), values.ravel().tolist())


_NONE = _diffmj.Reference([], [])

FrameLike = str | npt.ArrayLike | Reference


def _numbers(who: str, name: str, value: Any, size: int | None = None) -> list[float]:
    array = to_array(who, name, value)
    require_finite(who, name, array)
    if array.ndim != 1 or (size is not None and array.size != size):
        expected = "one dimension" if size is None else f"({size},)"
        raise InputError(f"{who}: {name} has shape {array.shape}, expected {expected}")
    return [float(x) for x in array]


def _names(value: str | Sequence[str] | None) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(x) for x in value]


def _frame(
    who: str, name: str, value: FrameLike, pos: Any = (0, 0, 0), quat: Any = (1, 0, 0, 0)
) -> _diffmj.Frame:
    """ "site:tip", "body:box", "geom:bob", "com:torso", or a point of the world."""
    if not isinstance(value, str):
        point, path = _fixed_or_moving(who, name, value, 3, (0, 0, 0))
        orientation, turns = _fixed_or_moving(who, name, quat, 4, (1, 0, 0, 0))
        return _diffmj.Frame("fixed", "", point, orientation, path, turns)
    kind, colon, element = value.partition(":")
    if not colon or kind not in _KINDS:
        raise InputError(
            f"{who}: {name} is {value!r}, expected a point, or a name such as 'site:tip'; before "
            f"the colon is one of {', '.join(_KINDS)}"
        )
    point, path = _fixed_or_moving(who, f"{name}_pos", pos, 3, (0, 0, 0))
    return _diffmj.Frame(kind, element, point, [1.0, 0.0, 0.0, 0.0], path, _NONE)


def _fixed_or_moving(
    who: str, name: str, value: Any, size: int, default: Sequence[float]
) -> tuple[list[float], _diffmj.Reference]:
    """Numbers, or the default and a reference."""
    if isinstance(value, Reference):
        return [float(x) for x in default], value._record(who, name, size)
    return _numbers(who, name, value, size), _NONE


@dataclass(frozen=True, kw_only=True)
class Term(ABC):
    """Base class of all terms. A term with residual r contributes to the cost

        weight · mean over the states after each step of norm(r) + terminal · norm(r at the end)

    For controls and forces the mean is over the steps, and there is no terminal part.

    Attributes:
        norm: "squared", |r|²; "l2", √(|r|² + scale²) - scale; "huber", |r|² up to |r| = scale and
            linear beyond; or "cosh", 2 scale² Σ (cosh(r_i / scale) - 1).
        scale: in units of the residual; not used by "squared".
        weight: of the mean over the steps.
        terminal: of the last state.
        name: for records; None: a descriptive default.
    """

    norm: str = "squared"
    scale: float = 0.1
    weight: float = 1.0
    terminal: float = 0.0
    name: str | None = None

    @abstractmethod
    def _of(self) -> Any:
        """What its residual is of, as the extension takes it."""

    def _record(self) -> _diffmj.CostTerm:
        return _diffmj.CostTerm(
            self._of(),
            norm=str(self.norm),
            scale=float(self.scale),
            weight=float(self.weight),
            terminal=float(self.terminal),
            name=self.name or "",
        )


@dataclass(frozen=True)
class Distance(Term):
    """The vector between two points [m].

    Attributes:
        of, to: "site:tip", "body:box", "geom:bob", "com:torso" (centre of mass of a body and its
            subtree), or a point of the world, (3,), also over time (`Reference`).
        axes: factors on the axes of the world.
        of_pos, to_pos: points in these frames, instead of their origins, also over time.
    """

    of: FrameLike
    to: FrameLike
    axes: Sequence[float] = (1, 1, 1)
    of_pos: Sequence[float] | Reference = (0, 0, 0)
    to_pos: Sequence[float] | Reference = (0, 0, 0)

    def _of(self) -> Any:
        who = type(self).__name__
        return _diffmj.Distance(
            _frame(who, "of", self.of, self.of_pos),
            _frame(who, "to", self.to, self.to_pos),
            _numbers(who, "axes", self.axes, 3),
        )


@dataclass(frozen=True)
class SiteDistance(Term):
    """The vector between two sites, or from a site to a point (3,) [m]."""

    of: str
    to: FrameLike

    def _of(self) -> Any:
        who = "SiteDistance"
        to = f"site:{self.to}" if isinstance(self.to, str) else self.to
        return _diffmj.Distance(
            _frame(who, "of", f"site:{self.of}"), _frame(who, "to", to), [1.0, 1.0, 1.0]
        )


@dataclass(frozen=True)
class Orientation(Term):
    """The rotation between two frames, axis times angle [rad], of length at most π.

    Attributes:
        of: "site:tip", "body:box" or "geom:bob".
        to: likewise, or a quaternion (4,), w first, also over time (`Reference`).
    """

    of: str
    to: FrameLike

    def _of(self) -> Any:
        who = "Orientation"
        if isinstance(self.to, str):
            to = _frame(who, "to", self.to)
        else:
            to = _frame(who, "to", (0, 0, 0), quat=self.to)
        return _diffmj.Orientation(_frame(who, "of", self.of), to)


@dataclass(frozen=True)
class JointPosition(Term):
    """Joint positions relative to their targets: 1 number for a hinge or slide, 3 for a ball joint,
    6 for a free joint.

    Attributes:
        joints: a name, several, or None: all.
        target: qpos of these joints, also over time (`Reference`); None: qpos0.
    """

    joints: str | Sequence[str] | None = None
    target: npt.ArrayLike | Reference | None = None

    def _of(self) -> Any:
        return _diffmj.JointPosition(_names(self.joints), *_target("JointPosition", self.target))


@dataclass(frozen=True)
class JointVelocity(Term):
    """Joint velocities relative to their targets.

    Attributes:
        joints: a name, several, or None: all.
        target: qvel of these joints, also over time (`Reference`); None: 0.
    """

    joints: str | Sequence[str] | None = None
    target: npt.ArrayLike | Reference | None = None

    def _of(self) -> Any:
        return _diffmj.JointVelocity(_names(self.joints), *_target("JointVelocity", self.target))


@dataclass(frozen=True)
class FrameVelocity(Term):
    """The velocity of "site:tip" or "body:box" in world axes, relative to its target.

    Attributes:
        of: the frame.
        angular: [rad/s] instead of [m/s].
        target: (3,), also over time (`Reference`).
    """

    of: str
    angular: bool = False
    target: Sequence[float] | Reference = (0, 0, 0)

    def _of(self) -> Any:
        who = "FrameVelocity"
        return _diffmj.FrameVelocity(
            _frame(who, "of", self.of),
            bool(self.angular),
            *_fixed_or_moving(who, "target", self.target, 3, (0, 0, 0)),
        )


@dataclass(frozen=True)
class ControlEffort(Term):
    """Controls relative to their targets.

    Attributes:
        actuators: a name, several, or None: all.
        target: their controls, also over time (`Reference`); None: 0.
    """

    actuators: str | Sequence[str] | None = None
    target: npt.ArrayLike | Reference | None = None

    def _of(self) -> Any:
        return _diffmj.ControlEffort(_names(self.actuators), *_target("ControlEffort", self.target))


@dataclass(frozen=True)
class ControlRate(Term):
    """Change of controls from step to step, divided by the timestep [1/s].

    Attributes:
        actuators: a name, several, or None: all.
    """

    actuators: str | Sequence[str] | None = None

    def _of(self) -> Any:
        return _diffmj.ControlRate(_names(self.actuators))


@dataclass(frozen=True)
class ForceEffort(Term):
    """qfrc_applied, where it is a decision variable."""

    def _of(self) -> Any:
        return _diffmj.ForceEffort()


@dataclass(frozen=True)
class SensorValue(Term):
    """A sensor value relative to its target. For contact forces use touch and force sensors.

    Attributes:
        sensor: its name.
        target: its values, also over time (`Reference`); None: 0.
    """

    sensor: str
    target: npt.ArrayLike | Reference | None = None

    def _of(self) -> Any:
        return _diffmj.SensorValue(str(self.sensor), *_target("SensorValue", self.target))


def _target(
    who: str, value: npt.ArrayLike | Reference | None
) -> tuple[list[float], _diffmj.Reference]:
    if isinstance(value, Reference):
        return [], value._record(who, "target")
    return [] if value is None else _numbers(who, "target", np.atleast_1d(value)), _NONE


@dataclass(frozen=True, eq=False)
class CostBatch:
    """The argument of an own cost: a batch of B trajectories, all with nstep steps.

    Attributes:
        arrays: by name; time (B, nstep + 1), qpos (B, nstep + 1, nq), qvel, act, ctrl
            (B, nstep, nu), qfrc_applied, and the observables and sensordata that were requested.
        nstep: steps.
        gradient: whether cotangents are needed; if not, they need not be computed.
    """

    arrays: dict[str, Array]
    nstep: int
    gradient: bool

    def __getattr__(self, name: str) -> Array:
        try:
            array: Array = self.__dict__["arrays"][name]
        except KeyError:
            raise AttributeError(name) from None
        return array


@dataclass(frozen=True, eq=False)
class OwnCost:
    """A cost of whole trajectories, by a function over a batch.

        def lift(batch):
            z = batch.site_xpos[:, -1, ball, 2]
            bar = np.zeros_like(batch.site_xpos)
            bar[:, -1, ball, 2] = -1
            return -z, {"site_xpos": bar}

        diffmj.OwnCost(lift, observables=["site_xpos"])

    Attributes:
        function: takes a `CostBatch`, returns values (B,) and a dict of cotangents with the shapes
            of their arrays; qpos_tangent (B, nstep + 1, nv) is allowed, too. Functions in JAX or
            PyTorch can use jax.grad or backward().
        observables: arrays it reads in addition to states and controls: "site_xpos", "xmat", ...
        sensors: whether it reads sensordata.
        name: for records.
    """

    function: Callable[[CostBatch], tuple[npt.ArrayLike, Mapping[str, npt.ArrayLike]]]
    observables: Sequence[str] = ()
    sensors: bool = False
    name: str = "own"

    def _record(self, sim: Simulator) -> _diffmj.OwnCost:
        names = [str(x) for x in self.observables]

        def shape(name: str, nstep: int) -> tuple[int, ...]:
            if name in ("ctrl", "qfrc_applied"):
                return nstep, sim.nu if name == "ctrl" else sim.nv
            row = OUTPUT_ROWS[name]
            return nstep + 1, *(int(x) if x.isdigit() else getattr(sim, x) for x in row)

        def call(
            flat: dict[str, Array], nstep: int, gradient: bool
        ) -> tuple[Array, dict[str, Array]]:
            who = f"own cost '{self.name}'"
            size = len(flat["time"])
            arrays = {"time": flat.pop("time")}
            for key, x in flat.items():
                whole = (size, *shape(key, nstep))
                if key in ("ctrl", "qfrc_applied") and x.shape[1] != nstep * whole[2]:
                    # an input that is held, or not there
                    held = x if x.shape[1] else np.zeros((size, whole[2]))
                    arrays[key] = np.broadcast_to(held[:, None], whole)
                else:
                    arrays[key] = x.reshape(whole)
            values, bars = self.function(CostBatch(arrays, nstep, gradient))
            value = to_array(who, "the value", values)
            if value.shape != (size,):
                raise InputError(
                    f"{who}: the values have shape {value.shape}, expected ({size},), one per "
                    "trajectory"
                )
            out = {}
            for key, bar in (bars or {}).items() if gradient else ():
                known = [*(x for x in flat), "qpos_tangent"]
                if key not in known:
                    raise InputError(
                        f"{who}: there is a cotangent of {key!r}, expected names among {known}"
                    )
                array = to_array(who, f"the cotangent of {key}", bar)
                expected = (size, *shape(key, nstep))
                if array.shape != expected:
                    raise InputError(
                        f"{who}: the cotangent of {key} has shape {array.shape}, expected "
                        f"{expected}"
                    )
                out[key] = np.ascontiguousarray(array.reshape(size, -1))
            return np.ascontiguousarray(value[:, None]), out

        return _diffmj.OwnCost(call, names, bool(self.sensors), str(self.name))


@dataclass(frozen=True, eq=False)
class Cost:
    """A sum of terms.

        cost = diffmj.Cost([
            diffmj.SiteDistance("ball", "goal", norm="huber", scale=0.05, terminal=1.0),
            diffmj.ControlEffort(weight=1e-3),
        ])

    Each term adds its weight times the mean of its norm over the steps, and `terminal` times its
    norm at the last state.
    """

    terms: Sequence[Term | OwnCost] = field()

    def __post_init__(self) -> None:
        if isinstance(self.terms, Term | OwnCost):
            object.__setattr__(self, "terms", [self.terms])
        for x in self.terms:
            if not isinstance(x, Term | OwnCost):
                raise InputError(
                    f"Cost: a term is a {type(x).__name__}, expected for instance a SiteDistance"
                )
        # a name such as "sites" is refused here, not where the cost is used
        for x in self.terms:
            if isinstance(x, Term):
                x._record()

    def evaluate(self, trajectory: Trajectory) -> Array:
        """Contributions of the terms for a trajectory: (terms,), or (B, terms) for a batch. Own
        costs come last; rollouts that failed have NaN.
        """
        sim = trajectory._sim
        sim._require_one_model("Cost.evaluate")
        out = self._bind(sim, gradient=False).evaluate(sim._model, trajectory._record)
        return out[0] if trajectory.batch is None else out

    def names(self, sim: Simulator) -> list[str]:
        """Names of the terms, in the order of `evaluate` and `Plan.terms`."""
        return self._bind(sim, gradient=False).names

    def _bind(self, sim: Simulator, gradient: bool) -> _diffmj.Cost:
        return _diffmj.Cost(
            sim._model,
            [x._record() for x in self.terms if isinstance(x, Term)],
            [x._record(sim) for x in self.terms if isinstance(x, OwnCost)],
            gradient,
        )
