"""The residual of mujoco.sysid and its derivatives, from rollouts by diffmj.

With the predicted signals y = (sensordata, states) of one measured rollout,

    r = F(y(θ), θ),     J = ∂F/∂y · dy/dθ + ∂F/∂θ,     ∇ ½|r|² = (dy/dθ)ᵀ (∂F/∂y)ᵀ r + (∂F/∂θ)ᵀ r

F windows, resamples, weights and normalises: mujoco.sysid's own functions. dy/dθ is diffmj's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mujoco
import numpy as np
from mujoco import sysid

from . import _diffmj
from ._arrays import Array
from ._errors import InputError, RolloutError, UnsupportedError
from ._parametric import ParametricSimulator
from ._sysid_signals import SignalMap, coordinates
from ._trajectory import Trajectory

_FULL = int(mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
# relative; what is differentiated so is a function of arrays, not a simulation
_STEP = 1e-6


class Rollouts:
    """Measured rollouts of one model and of one length."""

    def __init__(
        self,
        family: ParametricSimulator,
        measured: Sequence[sysid.SystemTrajectory],
        numbers: Sequence[int],
        controls: Sequence[Array],
    ):
        self.family, self.measured, self.numbers = family, measured, numbers
        state = np.stack([x.initial_state for x in measured])
        sim = family._base
        cuts = np.cumsum([1, sim.nq, sim.nv])
        self.time = state[:, 0]
        self.qpos, self.qvel, self.act = np.split(state[:, 1:], cuts[1:] - 1, axis=1)
        self.ctrl = np.stack(controls)

    def rollout(self, x: Array) -> Trajectory:
        return self.family.at(x).rollout(
            self.qpos,
            self.qvel,
            self.act if self.act.shape[1] else None,
            ctrl=self.ctrl,
            time=self.time,
            nstep=self.ctrl.shape[1],
            sensors=True,
        )


class Group:
    """Of one ModelSequences: its models as a function of the parameters, and its rollouts."""

    def __init__(self, sequences: Any, params: Any, options: dict[str, Any], nthread: int | None):
        self.options = options
        self.params = params.copy()
        self.last: mujoco.MjModel | None = None

        def build(values: dict[str, float]) -> mujoco.MjModel:
            self.params.update_from_vector(np.array(list(values.values())))
            self.last = options["build_model"](self.params, sequences.spec)
            return self.last

        self.signal_maps: dict[int, SignalMap | None] = {}  # None: there is none
        self.direct = _direct(options["modify_residual"], params)
        names = params.get_non_frozen_parameter_names()
        start = dict(zip(names, params.as_vector().tolist(), strict=True))
        self.family = ParametricSimulator(build, start, nthread=nthread)
        self.family._allow_idle = True  # a delay, or a parameter of another group
        model = self.model = self.last
        if mujoco.mj_stateSize(model, _FULL) != 1 + model.nq + model.nv + model.na:
            raise UnsupportedError(
                "the state of the model has a history (delayed controls or sensors), or a plugin's "
                "state, which diffmj cannot differentiate"
            )
        qpos, qvel, act, _ = sysid.TimeSeries.compute_all_state_mappings(model)
        self.state_mapping = qpos | qvel | act
        self.sensor_mapping = sysid.TimeSeries.compute_all_sensor_mapping(model)
        self.measured = list(sequences.measured_rollout)
        controls = []
        for one in self.measured:
            control = one.control
            if options["resample_true"]:
                control = control.resample(target_dt=model.opt.timestep)
            controls.append(control.data[:-1])
        # rollouts of one length run together, on threads
        lengths = [len(x) for x in controls]
        self.rollouts = [
            Rollouts(
                self.family,
                [self.measured[i] for i in of_length],
                of_length,
                [controls[i] for i in of_length],
            )
            for length in sorted(set(lengths))
            for of_length in [[i for i, n in enumerate(lengths) if n == length]]
        ]

    def signals_to_residual(
        self, number: int, x: Array, model: mujoco.MjModel, state: Array, sensordata: Array
    ) -> Array:
        """F of the measured rollout with this number; state: (nstep, 1 + nq + nv + na)."""
        options, measured = self.options, self.measured[number].sensordata
        predicted = sysid.TimeSeries(state[:, 0], sensordata, self.sensor_mapping)
        if options["modify_residual"] is not None:
            self.params.update_from_vector(x)
            modified = options["modify_residual"](
                self.params, predicted, measured, model, options["return_pred_all"], state=state
            )
            return np.asarray(modified[0]).ravel()
        states = sysid.TimeSeries(state[:, 0], state[:, 1:], self.state_mapping)
        measured, predicted = sysid.construct_ts_from_defaults(
            states, predicted, measured, options["enabled_observations"]
        )
        if options["resample_true"]:
            measured = sysid.apply_delayed_ts_window(measured, predicted, 0.0, 0.0)
            predicted = predicted.resample(measured.times)
            data = measured.data
        else:
            data = measured.data[1:]
        residual = sysid.weighted_diff(
            predicted_data=predicted.data,
            measured_data=data,
            model=model,
            sensor_weights=options["sensor_weights"],
        )
        return sysid.normalize_residual(residual, data).ravel()


class Signals:
    """What one rollout predicts: rows of mujoco.rollout, sensors at the state before each step and
    the state after it."""

    def __init__(self, trajectory: Trajectory, i: int, model: mujoco.MjModel):
        rows = (trajectory.time, trajectory.qpos, trajectory.qvel, trajectory.act)
        self.state = np.column_stack([x[i, 1:] for x in rows])
        self.sensordata = trajectory.sensordata[i, :-1]
        self.model = model


class Problem:
    """All of them: the residual, its Jacobian and the gradient of half its square."""

    def __init__(self, params: Any, options: dict[str, Any], nthread: int | None):
        self.groups = [Group(x, params, options, nthread) for x in options["models_sequences"]]
        self.evaluations = {"residual": 0, "jacobian": 0, "gradient": 0}
        self._kept: tuple[bytes, list[Any]] | None = None
        lower, upper = params.get_bounds()
        span = np.where(np.isfinite(upper - lower), upper - lower, 0.0)
        self._span = np.maximum(1e-3 * span, 1e-3 * np.minimum(1.0, np.abs(params.as_vector())))

    def _rollouts(self, x: Array) -> list[tuple[Group, Rollouts, Trajectory, list[Signals]]]:
        """Kept for the next call: a Jacobian follows the residual at the same point."""
        key = x.tobytes()
        if self._kept is None or self._kept[0] != key:
            out = []
            for group in self.groups:
                for rollouts in group.rollouts:
                    trajectory = rollouts.rollout(x)
                    if not np.all(trajectory.ok):
                        first = int(np.flatnonzero(~np.asarray(trajectory.ok))[0])
                        raise RolloutError(trajectory.message[first])
                    model = group.last
                    signals = [Signals(trajectory, i, model) for i in range(trajectory.batch)]
                    out.append((group, rollouts, trajectory, signals))
            self._kept = (key, out)
        return self._kept[1]

    def _in_order(self, parts: dict[tuple[int, int], Array]) -> Array:
        """Of all rollouts, in the order of mujoco.sysid."""
        return np.concatenate([parts[key] for key in sorted(parts)])

    def residual(self, x: Array) -> Array:
        self.evaluations["residual"] += 1
        parts = {}
        for group, rollouts, _, signals in self._rollouts(x):
            for number, y in zip(rollouts.numbers, signals, strict=True):
                parts[self.groups.index(group), number] = group.signals_to_residual(
                    number, x, y.model, y.state, y.sensordata
                )
        return self._in_order(parts)

    def jacobian(self, x: Array) -> Array:
        """(number of residuals, number of parameters): tangents of all parameters, pushed through
        the rollouts at once."""
        self.evaluations["jacobian"] += 1
        parts = {}
        for group, rollouts, trajectory, signals in self._rollouts(x):
            maps = [
                self._linear_map(group, number, x, y)
                for number, y in zip(rollouts.numbers, signals, strict=True)
            ]
            if all(maps):
                needed = np.unique(np.concatenate([one.sensors for one in maps]))
            else:
                needed = needed_sensors(group, rollouts.numbers[0], x, signals[0])
            steps = single_steps(
                rollouts.family, trajectory, rollouts.ctrl, needed, signals[0].model
            )
            tangents = steps.forwards(signals)
            for number, y, one, dots in zip(rollouts.numbers, signals, maps, tangents, strict=True):
                parts[self.groups.index(group), number] = (
                    one.pushforward(*dots) if one else self._directional(group, number, x, y, *dots)
                )
        return self._in_order(parts)

    def _linear_map(self, group: Group, number: int, x: Array, y: Signals) -> SignalMap | None:
        """F of one rollout, found once, if it is linear in signals and depends on nothing else."""
        if group.direct:
            return None
        if number not in group.signal_maps:
            try:
                group.signal_maps[number] = SignalMap(
                    lambda state, sensordata: group.signals_to_residual(
                        number, x, y.model, state, sensordata
                    ),
                    y.state,
                    y.sensordata,
                )
            except UnsupportedError:
                group.signal_maps[number] = None
        return group.signal_maps[number]

    def _directional(
        self, group: Group, number: int, x: Array, y: Signals, state_dot: Array, sensor_dot: Array
    ) -> Array:
        """Derivatives of F along the tangents (n, rows, numbers) of its arguments, by differences
        of F alone."""
        columns = []
        for k in range(x.size):
            # without parameters of its own F is affine in signals: every step is exact
            step = _STEP * max(abs(x[k]), self._span[k]) if group.direct else 1.0
            moved = np.zeros(x.size)
            moved[k] = step
            ends = [
                group.signals_to_residual(
                    number,
                    x + sign * moved if group.direct else x,
                    y.model,
                    y.state + sign * step * state_dot[k],
                    y.sensordata + sign * step * sensor_dot[k],
                )
                for sign in (1, -1)
            ]
            columns.append((ends[0] - ends[1]) / (2 * step))
        return np.column_stack(columns)

    def gradient(self, x: Array, loss: str = "linear", f_scale: float = 1.0) -> tuple[float, Array]:
        """½|r|², or ½ Σ s² ρ(r²/s²) of another loss of scipy.optimize.least_squares with s =
        f_scale, and its gradient: one backward pass, whatever the number of parameters."""
        rho = _losses(loss)
        self.evaluations["gradient"] += 1
        value, total = 0.0, np.zeros(x.size)
        for group, rollouts, trajectory, signals in self._rollouts(x):
            bars = {"sensordata": np.zeros(trajectory.sensordata.shape)}
            for name in ("qpos", "qvel", "act"):
                bars[name] = np.zeros(getattr(trajectory, name).shape)
            for i, (number, y) in enumerate(zip(rollouts.numbers, signals, strict=True)):

                def bent(residual: Array) -> tuple[float, Array]:
                    values, slopes = rho((residual / f_scale) ** 2)
                    return 0.5 * f_scale**2 * float(np.sum(values)), slopes * residual

                of_rollout, direct = self._add_cotangents(group, number, x, y, bars, i, bent)
                value += of_rollout
                total += direct
            given = {name: bar for name, bar in bars.items() if bar.any()}
            if given:
                rows = rollouts.family.backward(trajectory, **given)
                total += np.array([np.sum(rows[name]) for name in rollouts.family.names])
        return value, total

    def _add_cotangents(
        self,
        group: Group,
        number: int,
        x: Array,
        y: Signals,
        bars: dict[str, Array],
        i: int,
        bent: Callable[[Array], tuple[float, Array]],
    ) -> tuple[float, Array]:
        """The loss of one rollout, and its derivative in parameters beside those of signals."""

        def function(state: Array, sensordata: Array, at: Array = x) -> Array:
            return group.signals_to_residual(number, at, y.model, state, sensordata)

        value, residual_bar = bent(function(y.state, y.sensordata))
        signals = self._linear_map(group, number, x, y)
        if signals is None:
            signals = SignalMap(function, y.state, y.sensordata)
        direct = np.zeros(x.size)
        for k in group.direct:
            moved = np.zeros(x.size)
            moved[k] = _STEP * max(abs(x[k]), self._span[k])
            ends = [function(y.state, y.sensordata, x + s * moved) for s in (1, -1)]
            direct[k] = residual_bar @ (ends[0] - ends[1]) / (2 * moved[k])
        state_bar, sensor_bar = signals.pullback(residual_bar)
        bars["sensordata"][i, :-1] += sensor_bar
        nq, nv = bars["qpos"].shape[-1], bars["qvel"].shape[-1]
        for name, part in zip(
            ("qpos", "qvel", "act"), np.split(state_bar[:, 1:], [nq, nq + nv], axis=1), strict=True
        ):
            bars[name][i, 1:] += part
        return value, direct


def _losses(name: str) -> Callable[[Array], tuple[Array, Array]]:
    """ρ(u) and ρ'(u), by the names of scipy.optimize.least_squares."""
    known: dict[str, Callable[[Array], tuple[Array, Array]]] = {
        "linear": lambda u: (u, np.ones_like(u)),
        "soft_l1": lambda u: (2 * (np.sqrt(1 + u) - 1), 1 / np.sqrt(1 + u)),
        "huber": lambda u: (
            np.where(u <= 1, u, 2 * np.sqrt(u) - 1),
            1 / np.sqrt(np.maximum(u, 1)),
        ),
        "cauchy": lambda u: (np.log1p(u), 1 / (1 + u)),
        "arctan": lambda u: (np.arctan(u), 1 / (1 + u**2)),
    }
    if name not in known:
        raise InputError(f"gradient: loss is {name!r}, expected one of {', '.join(known)}")
    return known[name]


def _direct(modify_residual: Any, params: Any) -> list[int]:
    """Numbers of the parameters that the residual may depend on beside the signals: those of
    delays, gains and biases of a SignalTransform; any, of a function of the user's."""
    if modify_residual is None:
        return []
    transform = getattr(modify_residual, "__self__", None)
    own = type(transform) is sysid.SignalTransform and modify_residual == transform.apply
    free = [name for name, x in params.items() if not x.frozen for _ in range(x.size)]
    try:
        used = [x[1] for x in (*transform._delays, *transform._gains, *transform._biases)]
    except AttributeError:
        own = False
    return [k for k, name in enumerate(free) if not own or name in used]


class Steps:
    """Tangents X (B, T + 1, n, p) of the states of B rollouts of T steps by p parameters, in the
    tangent space, and derivatives C (B, T, m, n) and d (B, T, m, p) of the sensors that matter.
    """

    def __init__(self, needed: Array, X: Array, C: Array, d: Array):
        self.needed, self.X, self.C, self.d = needed, X, C, d

    def forwards(self, signals: Sequence[Signals]) -> Iterator[tuple[Array, Array]]:
        """Of each rollout the tangents (p, rows, numbers) of states and sensors."""
        for y, X, C, d in zip(signals, self.X, self.C, self.d, strict=True):
            out = np.zeros((X.shape[-1], *y.sensordata.shape))
            out[:, :, self.needed] = np.moveaxis(C @ X[:-1] + d, 2, 0)
            yield coordinates(y.model, y.state, X[1:]), out


def needed_sensors(group: Group, number: int, x: Array, y: Signals) -> Array:
    """Numbers of sensordata that the residual depends on."""
    here = group.signals_to_residual(number, x, y.model, y.state, y.sensordata)
    out = []
    for j in range(y.sensordata.shape[1]):
        moved = y.sensordata.copy()
        moved[:, j] += 1
        there = group.signals_to_residual(number, x, y.model, y.state, moved)
        if not np.array_equal(here, there):
            out.append(j)
    return np.array(out, dtype=int)


def single_steps(
    family: ParametricSimulator,
    trajectory: Trajectory,
    ctrl: Array,
    needed: Array,
    model: mujoco.MjModel,
) -> Steps:
    """Tangents of all parameters go through every rollout once; sensors that are no numbers of the
    state take one pullback each."""
    sim = trajectory._sim
    batch, nstep = trajectory.batch, trajectory.nstep
    jacobian = family._jacobian_at(sim._theta)
    p, n = len(family.names), 2 * sim.nv + sim.na
    parts = _diffmj.rollout_pushforward(
        sim._model,
        trajectory._record,
        p,
        {},
        jacobian.tangents(sim._model),
        sim.nthread,
        sim._models,
    )
    X = np.moveaxis(np.concatenate(parts, axis=-1), 1, -1)  # (B, nstep + 1, n, p)
    C = np.zeros((batch, nstep, len(needed), n))
    d = np.zeros((batch, nstep, len(needed), p))
    known = _joint_sensors(model)
    for k, j in enumerate(needed):
        if j in known:
            C[:, :, k, known[j]] = 1
    others = [(k, j) for k, j in enumerate(needed) if j not in known]
    if not others:
        return Steps(needed, X, C, d)

    # all states as the starts of rollouts of one step
    begin = {
        name: getattr(trajectory, name)[:, :-1].reshape(batch * nstep, -1)
        for name in ("qpos", "qvel", "act")
        if getattr(trajectory, name).shape[-1]
    }
    ones = sim.rollout(
        **begin,
        ctrl=ctrl.reshape(batch * nstep, 1, -1),
        time=trajectory.time[:, :-1].reshape(-1),
        nstep=1,
    )
    rows = len(ones.time)
    for k, j in others:
        bar = np.zeros((rows, 2, sim.nsensordata))
        bar[:, 0, j] = 1
        g = ones.backward(sensordata=bar, params=jacobian.fields)
        fields = {key: np.ascontiguousarray(v).reshape(rows, -1) for key, v in g.params.items()}
        C[:, :, k] = np.hstack([g.qpos_tangent, g.qvel, g.act]).reshape(batch, nstep, n)
        d[:, :, k] = jacobian.pullback(fields, rows).reshape(batch, nstep, p)
    return Steps(needed, X, C, d)


def _joint_sensors(model: mujoco.MjModel) -> dict[int, int]:
    """Numbers of sensordata that are one of the state, by its number in the tangent space."""
    out = {}
    scalar = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    for i in range(model.nsensor):
        kind, joint = model.sensor_type[i], model.sensor_objid[i]
        shift = {
            int(mujoco.mjtSensor.mjSENS_JOINTPOS): 0,
            int(mujoco.mjtSensor.mjSENS_JOINTVEL): model.nv,
        }.get(int(kind))
        # a cutoff clamps it
        if shift is not None and model.jnt_type[joint] in scalar and model.sensor_cutoff[i] == 0:
            out[int(model.sensor_adr[i])] = int(model.jnt_dofadr[joint]) + shift
    return out
