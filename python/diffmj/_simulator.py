"""Simulator: a model and the functions on it."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, Input, common_batch, common_nstep, to_array, to_integer
from ._cfd import Cfd
from ._check import CheckReport
from ._errors import (
    DivergedError,
    FallbackWarning,
    InputError,
    RolloutError,
    StepBudgetError,
    StepSizeError,
)
from ._field_values import field_values
from ._trajectory import Trajectory
from ._warnings import report_warnings

# what rollout takes: the dimensions of one row, and whether it may differ between steps
_ROWS: dict[str, tuple[tuple[str, ...], bool]] = {
    "qpos": (("nq",), False),
    "qvel": (("nv",), False),
    "act": (("na",), False),
    "ctrl": (("nu",), True),
    "qfrc_applied": (("nv",), True),
    "xfrc_applied": (("nbody", "6"), True),
    "mocap_pos": (("nmocap", "3"), False),
    "mocap_quat": (("nmocap", "4"), False),
    "time": ((), False),
}


# explicit Runge-Kutta methods
_METHODS = (
    "tsit5", "dopri5", "dopri8", "bosh3", "heun", "midpoint", "ralston", "explicit_euler",
)  # fmt: skip

# options of theirs that are several numbers
_TUPLES = {"pid": ("p", "i", "d"), "step_ratio": ("shrink", "grow")}

# what a single rollout that failed raises
_FAILURES = {
    "not finite": DivergedError,
    "budget exhausted": StepBudgetError,
    "step too small": StepSizeError,
}


@dataclass(frozen=True, eq=False)
class State:
    """A state to start a rollout from: `sim.rollout(**vars(state), nstep=100)`.

    Attributes:
        time: [s]
        qpos: (nq,)
        qvel: (nv,)
        act: (na,)
        ctrl: (nu,), of the keyframe; a rollout holds it. Zeros in the default state.
        mocap_pos: (nmocap, 3); None: the model's.
        mocap_quat: (nmocap, 4); None: the model's.
    """

    time: float
    qpos: Array
    qvel: Array
    act: Array
    ctrl: Array
    mocap_pos: Array | None = None
    mocap_quat: Array | None = None


class Simulator:
    """A MuJoCo model, with rollouts and their gradients.

    Several threads may use one Simulator at once.
    """

    _theta: Array | None = None  # of ParametricSimulator.at

    def __init__(
        self,
        model: mujoco.MjModel | str | os.PathLike[str],
        integrator: str = "model",
        nthread: int = 0,
        fallback: bool = True,
        path: str = "analytic",
        muscle_smoothing: float = 0.0,
        *,
        collisions: str = "mujoco",
        smoothness: float = 1e-3,
        cfd: Cfd | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        max_steps: int | None = None,
        step: float | None = None,
        interval: float | None = None,
        control: str | None = None,
        events: bool | None = None,
        adjoint: str | None = None,
        checkpoints: int | None = None,
        adjoint_rtol: float | None = None,
        adjoint_atol: float | None = None,
        min_step: float | None = None,
        max_step: float | None = None,
        pid: tuple[float, float, float] | None = None,
        safety: float | None = None,
        step_ratio: tuple[float, float] | None = None,
    ):
        """
        The arguments after cfd apply only to the explicit Runge-Kutta methods. With these, a
        rollout of nstep rows has nstep intervals, each with as many steps as it needs.

        Args:
            model: an MjModel, which is copied (later changes to it have no effect); the path of an
                MJCF (.xml), URDF (.urdf) or MJB (.mjb) file; or an MJCF string, which begins with
                '<'.
            integrator: "model" keeps what the model says; otherwise one of MuJoCo's, "Euler",
                "RK4", "implicit", "implicitfast" or "discrete"; or an explicit Runge-Kutta method
                with adaptive steps, "tsit5", "dopri5", "dopri8", "bosh3", "heun", "midpoint",
                "ralston", or with constant steps only, "explicit_euler".
            nthread: threads that a batch runs on; 0: one per core. Results do not depend on it.
            fallback: if the model has a feature that `path` does not support, take a slower
                gradient path and give a FallbackWarning that names the feature. If False, raise an
                UnsupportedError instead.
            path: the fastest gradient path that the model may take (see `gradient_path`):
                "analytic", "oracle" or "differences"; the slower ones are for comparison.
            muscle_smoothing: width over which the curves of muscles are smoothed in the backward
                pass, in units of the muscle's optimal length, of its largest velocity and of
                activation. Flat pieces of the curves then have a slope near their ends. The
                gradient is a surrogate; rollouts do not depend on it. 0: the exact gradient.
            collisions: "mujoco"; "smooth", colliders whose contacts have no jumps or kinks in the
                geoms' poses and sizes, forward and backward; "smooth-backward", MuJoCo's contacts
                and forces with the derivatives of the smooth ones; or "smooth-field", the
                derivative of the dynamics with smooth contacts, solved again at every state of the
                backward pass. With the last two, rollouts have the same bits as with "mujoco", and
                the gradient is a surrogate. Pairs of shapes without a smooth collider keep
                MuJoCo's, with a FallbackWarning that names them (fallback=False: an
                UnsupportedError).
            smoothness: width [m] over which the cases of a collider are blended. As it goes to 0,
                contacts converge to MuJoCo's. Not used by "mujoco".
            cfd: contacts from distance apply contact forces before geoms touch, in the backward
                pass only. The gradient is a surrogate that points towards contact. None: the
                ordinary gradient.
            rtol, atol: tolerances for the error of a step in (tangent) positions, velocities and
                activations; default 1e-6 and 1e-8.
            max_steps: limit of accepted and rejected steps of a rollout; default 100 000.
            step: take constant steps of this size [s] instead of adaptive ones; a little less, if
                an interval is not a whole number of them.
            interval: time between rows of the trajectory and of ctrl [s]; default: the timestep.
            control: "hold" (default) keeps a row of ctrl over its interval, as MuJoCo does;
                "linear" interpolates linearly from each row to the next and holds the last.
            events: end steps where a contact or limit becomes active, and include the jump of the
                forces there in the gradient; default True. False is for comparison.
            adjoint: "discrete" (default) reverses the accepted steps, exactly; "interpolated"
                solves the adjoint equation along their dense output; "backsolve" solves the states
                backwards together with it, which is unstable with damped contacts.
            checkpoints: number of states inside the rollout that are kept for the backward pass.
                The steps between them are recomputed, with the same bits. None: all steps are kept
                with their Runge-Kutta stages.
            adjoint_rtol, adjoint_atol: tolerances of "interpolated" and "backsolve"; default: rtol
                and atol.
            min_step, max_step: bounds of a step [s]; default 1e-12 and none. Adaptive steps also
                stay within the stability limit of the method, whatever these bounds are.
            pid: coefficients (p, i, d) of the step controller; default (0.2, 0.4, 0).
            safety: factor on the step that the controller proposes; default 0.9.
            step_ratio: bounds (shrink, grow) of the ratio of a step to the one before; default
                (0.2, 10).

        Raises:
            InputError: no such file, unknown integrator or path, a negative muscle_smoothing, a
                model without degrees of freedom, an option out of range, or an option of the
                explicit Runge-Kutta methods with another integrator.
            MujocoError: the model does not compile.
            UnsupportedError: the model uses a feature without a derivative, or, with fallback=False
                or muscle_smoothing > 0, one that `path` does not support; the message names it.
        """
        self.nthread = nthread
        adaptive = dict(
            rtol=rtol,
            atol=atol,
            max_steps=max_steps,
            step=step,
            interval=interval,
            control=control,
            events=events,
            adjoint=adjoint,
            checkpoints=checkpoints,
            adjoint_rtol=adjoint_rtol,
            adjoint_atol=adjoint_atol,
            min_step=min_step,
            max_step=max_step,
            pid=pid,
            safety=safety,
            step_ratio=step_ratio,
        )
        self._options = _options(
            str(integrator),
            str(path),
            bool(fallback),
            float(muscle_smoothing),
            str(collisions),
            float(smoothness),
            adaptive,
            cfd,
        )
        self._model = _load(model, self._options)
        self._models: list[_diffmj.Model] = []  # one for every rollout of a batch
        if self.gradient_path != path:
            warnings.warn(
                f"gradients of this model take the path '{self.gradient_path}', slower than "
                f"'{path}': {self.gradient_path_reason}; fallback=False refuses such models",
                FallbackWarning,
                stacklevel=2,
            )
        if self.collisions_notice:
            warnings.warn(
                f"MuJoCo's own colliders are used, without smoothing, for "
                f"{self.collisions_notice}; fallback=False refuses such models",
                FallbackWarning,
                stacklevel=2,
            )

    @property
    def nthread(self) -> int:
        """Threads that a batch runs on; 0: one per core."""
        return self._nthread

    @nthread.setter
    def nthread(self, value: int) -> None:
        self._nthread = to_integer("Simulator", "nthread", value)

    @property
    def nq(self) -> int:
        """Position coordinates."""
        return self._model.nq

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return self._model.nv

    @property
    def na(self) -> int:
        """Activations."""
        return self._model.na

    @property
    def nu(self) -> int:
        """Controls."""
        return self._model.nu

    @property
    def nbody(self) -> int:
        """Bodies, the world included."""
        return self._model.nbody

    @property
    def nmocap(self) -> int:
        """Mocap bodies."""
        return self._model.nmocap

    @property
    def nsite(self) -> int:
        """Sites."""
        return self._model.nsite

    @property
    def nsensordata(self) -> int:
        """Numbers that the sensors measure."""
        return self._model.nsensordata

    @property
    def ngeom(self) -> int:
        """Geoms."""
        return self._model.ngeom

    @property
    def timestep(self) -> float:
        """The model's step of time [s]."""
        return self._model.timestep

    @property
    def interval(self) -> float:
        """Time between rows of a trajectory [s]: the timestep, unless set otherwise."""
        return self._model.interval

    @property
    def adjoint(self) -> str:
        """The adjoint of adaptive steps: "discrete", "interpolated" or "backsolve"."""
        return self._model.adaptive.adjoint

    @property
    def muscle_smoothing(self) -> float:
        """Width over which muscles are smoothed in the backward pass; 0: the exact gradient."""
        return self._model.muscle_smoothing

    @property
    def collisions(self) -> str:
        """Which colliders are used: "mujoco", "smooth", "smooth-backward" or "smooth-field"."""
        return self._model.collisions

    @property
    def smoothness(self) -> float:
        """Width of smooth colliders [m]; not used by "mujoco"."""
        return self._model.smoothness

    @property
    def collisions_notice(self) -> str:
        """Names the pairs of shapes that keep MuJoCo's collider although smooth ones were
        requested; empty if there are none.
        """
        return self._model.collisions_notice

    @property
    def integrator(self) -> str:
        """Name of the integrator: "Euler", "RK4", "implicit", ..., "tsit5", ..."""
        return self._model.integrator

    @property
    def gradient_path(self) -> str:
        """How a step is differentiated: "analytic", by reverse sweeps over MuJoCo's stages;
        "oracle", by implicit differentiation of the constraint solver and differences of inverse
        dynamics; or "differences", by differences of mj_step itself.
        """
        return self._model.gradient_path

    @property
    def gradient_path_reason(self) -> str:
        """The feature of the model that requires a slower path than requested; empty if there is
        none."""
        return self._model.gradient_path_reason

    def default_state(self) -> State:
        """The model's default state: qpos0, at rest, with zero controls."""
        x = self._model.default_state()
        return State(x.time, x.qpos, x.qvel, x.act, np.zeros(self.nu))

    def keyframe_state(self, key: str | int) -> State:
        """The keyframe with this name or number."""
        index = self._model.keyframe(key) if isinstance(key, str) else operator.index(key)
        frame = self._model.load_keyframe(index)
        return State(
            time=frame.state.time,
            qpos=frame.state.qpos,
            qvel=frame.state.qvel,
            act=frame.state.act,
            ctrl=frame.ctrl,
            mocap_pos=frame.mocap_pos if self.nmocap else None,
            mocap_quat=frame.mocap_quat if self.nmocap else None,
        )

    def tightened(self) -> Simulator:
        """The same model with the constraint solver run to machine precision and no warm start.

        Use it for finite differences; otherwise they measure the noise of the constraint solver.
        """
        tight = self._like(self._model.tightened(), [x.tightened() for x in self._models])
        tight._theta = self._theta
        return tight

    def with_parameters(self, params: Mapping[str, npt.ArrayLike]) -> Simulator:
        """The same model with other values in some fields of mjModel.

            heavy = sim.with_parameters({"body_mass": 2 * model.body_mass})

        This is cheap: all other arrays and the scratch memory of rollouts are shared. Each field is
        changed alone. The mass matrix and the masses of subtrees follow, but values that MuJoCo's
        compiler derives from it (body_invweight0, ...) do not. `ParametricSimulator` updates these,
        too.

        Args:
            params: values by the name of the field (`diffmj.parameter_names()`), each with the
                field's shape, or (B, ...) with separate values for every rollout. Rollouts of the
                simulator are then batches of B, and rollout i has the values i.

        Raises:
            InputError: an unknown field, a wrong shape, or a number that is not finite.
        """
        who = "with_parameters"
        self._require_one_model(who)
        rows, is_batch = field_values(who, self._model, params)
        models = [self._model.with_parameters(row) for row in rows]
        return self._like(models[0], models if is_batch else ())

    def _like(self, model: _diffmj.Model, models: Sequence[_diffmj.Model] = ()) -> Simulator:
        """A simulator with the same options; models: one for every rollout of a batch."""
        copy = object.__new__(Simulator)
        copy.nthread = self.nthread
        copy._options = self._options
        copy._model = model
        copy._models = list(models)
        return copy

    def _require_one_model(self, who: str) -> None:
        if self._models:
            raise InputError(
                f"{who}: the simulator has parameters of its own for each of {len(self._models)} "
                "rollouts, expected one set"
            )

    def _mujoco_model(self) -> mujoco.MjModel:
        """A copy of the model for MuJoCo's own functions."""
        return mujoco.MjModel.from_binary_path("m.mjb", {"m.mjb": self._model.to_bytes()})

    def __reduce__(self) -> tuple[Any, ...]:
        # the compiled model and the options: a copy in another process gives the same bits
        models = [x.to_bytes() for x in self._models or [self._model]]
        return _restore, (models, bool(self._models), self._options, self.nthread)

    def rollout(
        self,
        qpos: npt.ArrayLike | None = None,
        qvel: npt.ArrayLike | None = None,
        act: npt.ArrayLike | None = None,
        ctrl: npt.ArrayLike | None = None,
        qfrc_applied: npt.ArrayLike | None = None,
        xfrc_applied: npt.ArrayLike | None = None,
        mocap_pos: npt.ArrayLike | None = None,
        mocap_quat: npt.ArrayLike | None = None,
        time: npt.ArrayLike = 0.0,
        nstep: int | None = None,
        steps_of: Trajectory | None = None,
        sensors: bool = False,
    ) -> Trajectory:
        """Runs and records nstep calls of mj_step; with an explicit Runge-Kutta method, nstep
        intervals.

        For a batch, give any argument a leading dimension B; arguments without it are shared. The
        rollouts of a batch run on threads and are independent. A ctrl or qfrc_applied with two
        dimensions is always (nstep, n).

        Args:
            qpos: (nq,) or (B, nq), initial position; default: the model's qpos0.
            qvel: (nv,) or (B, nv), initial velocity; default 0.
            act: (na,) or (B, na), initial activations; default 0.
            ctrl: (nu,) held, (nstep, nu) or (B, nstep, nu), controls; default 0.
            qfrc_applied: (nv,) held, (nstep, nv) or (B, nstep, nv), generalised forces; default 0.
            xfrc_applied: (nbody, 6) held, (nstep, nbody, 6) or (B, nstep, nbody, 6), force and
                torque on each body; default 0.
            mocap_pos: (nmocap, 3) or (B, nmocap, 3), held; default: the model's.
            mocap_quat: (nmocap, 4) or (B, nmocap, 4), held; default: the model's.
            time: initial time [s], a number or (B,).
            nstep: number of steps; may be left out if an argument has one row per step.
            steps_of: a single rollout by an explicit Runge-Kutta method. Its steps are taken
                instead of choosing new ones, so that the result is a smooth function of the
                arguments.
            sensors: record what the sensors measure during the rollout. Without it,
                `Trajectory.sensordata` gives the same numbers but evaluates every state a second
                time.

        Raises:
            InputError: a wrong shape, a number that is not finite.
            RolloutError: a single rollout diverged (DivergedError), needed too many adaptive steps
                (StepBudgetError) or too small ones (StepSizeError), or MuJoCo raised an error. Its
                attribute `trajectory` holds the completed steps. With a batch nothing is raised: a
                RuntimeWarning names the rollouts that failed, and the trajectory's ok and message
                describe them.
            OutOfMemoryError: the record does not fit in memory.
            UnsupportedError: a global MuJoCo callback is set.
            KeyboardInterrupt: Ctrl-C.

        Warns:
            GradientWarning: the gradient is unreliable at events of adaptive steps, because
                contacts or limits begin or end too slowly (GrazingWarning) or too often
                (ChatterWarning). At most one warning of each category is given; the texts are also
                in the trajectory's warnings.
        """
        who = "rollout"
        inputs = self._inputs(
            who,
            qpos=qpos,
            qvel=qvel,
            act=act,
            ctrl=ctrl,
            qfrc_applied=qfrc_applied,
            xfrc_applied=xfrc_applied,
            mocap_pos=mocap_pos,
            mocap_quat=mocap_quat,
            time=time,
        )
        batch = common_batch(who, inputs)
        if self._models:
            if batch not in (None, len(self._models)):
                raise InputError(
                    f"{who}: the arguments are a batch of {batch}, but the simulator has "
                    f"parameters for {len(self._models)} rollouts"
                )
            batch = len(self._models)
        steps = common_nstep(who, inputs, nstep)
        arrays = _input_arrays(inputs)
        if steps_of is not None and not isinstance(steps_of, Trajectory):
            raise InputError(
                f"{who}: steps_of is a {type(steps_of).__name__}, expected a Trajectory"
            )
        if steps_of is not None and steps_of.batch is not None:
            raise InputError(f"{who}: steps_of is a batch, expected a single rollout")
        given = None if steps_of is None else steps_of._record
        if batch is None:
            record = _diffmj.rollout(self._model, arrays, steps, given, bool(sensors))
        else:
            record = _diffmj.rollout_batch(
                self._model, arrays, batch, steps, self.nthread, given, bool(sensors), self._models
            )
        trajectory = Trajectory(self, record, batch is not None, xfrc_applied is not None)
        report_warnings(record, trajectory.batch)
        _report_failures(trajectory, record)
        return trajectory

    def linearize(
        self,
        qpos: npt.ArrayLike | None = None,
        qvel: npt.ArrayLike | None = None,
        act: npt.ArrayLike | None = None,
        ctrl: npt.ArrayLike | None = None,
        qfrc_applied: npt.ArrayLike | None = None,
        xfrc_applied: npt.ArrayLike | None = None,
        mocap_pos: npt.ArrayLike | None = None,
        mocap_quat: npt.ArrayLike | None = None,
        time: npt.ArrayLike = 0.0,
        sensors: bool = False,
    ) -> tuple[Array, Array] | tuple[Array, Array, Array, Array]:
        """Derivatives of one step, as mjd_transitionFD gives them.

        The state is (position in the tangent space, velocity, activation), 2 nv + na numbers.

        Args: as for `rollout`, with one row of controls and forces each, and
            sensors: also return the derivatives of the sensors at the start of the step.

        For a batch, give any argument a leading dimension B; every result then has it, too. A batch
        runs on threads. `Trajectory.linearize` gives the derivatives of all steps of a rollout.

        Returns:
            A: (2 nv + na, 2 nv + na), next state by state.
            B: (2 nv + na, nu), next state by control.
            C: (nsensordata, 2 nv + na), sensors by state; with `sensors` only.
            D: (nsensordata, nu), sensors by control; with `sensors` only.

        Raises:
            InputError: a wrong argument, or the step fails.
            UnsupportedError: `sensors`, and a sensor of the model has no derivative.
        """
        who = "linearize"
        self._require_one_model(who)
        given = {
            "qpos": qpos,
            "qvel": qvel,
            "act": act,
            "ctrl": ctrl,
            "qfrc_applied": qfrc_applied,
            "xfrc_applied": xfrc_applied,
            "mocap_pos": mocap_pos,
            "mocap_quat": mocap_quat,
            "time": time,
        }
        # rows of a batch, not of steps
        for name in ("ctrl", "qfrc_applied", "xfrc_applied"):
            if given[name] is not None:
                x = to_array(who, name, given[name])
                if x.ndim == len(_ROWS[name][0]) + 1:
                    x = x[:, None]
                given[name] = x
        inputs = self._inputs(who, **given)
        batch = common_batch(who, inputs)
        steps = common_nstep(who, inputs, 1 if all(x.nstep is None for x in inputs) else None)
        if steps != 1:
            raise InputError(f"{who}: the arguments have {steps} steps, expected one")
        out = _diffmj.linearize(
            self._model,
            _input_arrays(inputs),
            1 if batch is None else batch,
            bool(sensors),
            self.nthread,
        )
        A, B, C, D = out if batch is not None else (x[0] for x in out)
        return (A, B, C, D) if sensors else (A, B)

    def check(
        self,
        qpos: npt.ArrayLike | None = None,
        qvel: npt.ArrayLike | None = None,
        act: npt.ArrayLike | None = None,
        ctrl: npt.ArrayLike | None = None,
        qfrc_applied: npt.ArrayLike | None = None,
        xfrc_applied: npt.ArrayLike | None = None,
        mocap_pos: npt.ArrayLike | None = None,
        mocap_quat: npt.ArrayLike | None = None,
        time: float = 0.0,
        nstep: int | None = None,
        directions: int = 8,
        seed: int = 1,
        tolerance: float = 1e-5,
        progress: Callable[[float], object] | None = None,
    ) -> CheckReport:
        """Is the gradient right at this state? Compares the adjoint of a short rollout with
        differences of mj_step, which have an error bar; `print(report)` prints the certificate.
        With an explicit Runge-Kutta method the discrete adjoint is compared with differences of the
        same steps.

        At every contact, limit and clamp the gradient belongs to the side that the rollout is on,
        and differences count only if they stay on that side. `report.reason` names what prevents
        this, or the cause of a gradient that differs.

        Args: as for `rollout`, without a batch, and
            nstep: length of the rollout. None: as many steps as ctrl, qfrc_applied or xfrc_applied
                have rows, or 10 if none of them has one row per step.
            directions: random directions in (qpos, qvel, act, every ctrl).
            seed: of directions and cotangents.
            tolerance: largest relative error of a direction that agrees; above 0.
            progress: called with the share of the work that is done, from 0 to 1.

        Raises:
            InputError: a wrong argument, or the rollout itself fails.
            KeyboardInterrupt: Ctrl-C.
        """
        who = "check"
        inputs = self._inputs(
            who,
            qpos=qpos,
            qvel=qvel,
            act=act,
            ctrl=ctrl,
            qfrc_applied=qfrc_applied,
            xfrc_applied=xfrc_applied,
            mocap_pos=mocap_pos,
            mocap_quat=mocap_quat,
            time=time,
        )
        if common_batch(who, inputs) is not None:
            raise InputError(f"{who}: checks one rollout; give arguments without a batch dimension")
        self._require_one_model(who)
        if nstep is None and all(x.nstep is None for x in inputs):
            nstep = 10
        nstep = common_nstep(who, inputs, nstep)
        report = _diffmj.check_gradient(
            self._model,
            _input_arrays(inputs),
            nstep=nstep,
            directions=to_integer(who, "directions", directions, least=1),
            seed=to_integer(who, "seed", seed, most=2**32 - 1),
            tolerance=float(tolerance),
            progress=progress,
        )
        return CheckReport.from_record(report, nstep=nstep, tolerance=tolerance)

    def _inputs(self, who: str, single_row: bool = False, **arguments: Any) -> list[Input]:
        """The arguments that were given, checked."""
        inputs = []
        for name, value in arguments.items():
            if value is None:
                continue
            dimensions, steps = _ROWS[name]
            row = {d: int(d) if d.isdigit() else getattr(self, d) for d in dimensions}
            x = Input(who, name, value, row, steps)
            if single_row and (x.nstep is not None or x.batch is not None):
                shape = tuple(row.values())
                raise InputError(f"{who}: {name} has shape {x.array.shape}, expected {shape}")
            inputs.append(x)
        return inputs

    def __repr__(self) -> str:
        return (
            f"Simulator(nq={self.nq}, nv={self.nv}, na={self.na}, nu={self.nu}, "
            f"timestep={self.timestep:g}, integrator='{self.integrator}', "
            f"gradient_path='{self.gradient_path}')"
        )


def _adaptive_options(integrator: str, **given: Any) -> _diffmj.AdaptiveOptions:
    out = _diffmj.AdaptiveOptions()
    given = {name: value for name, value in given.items() if value is not None}
    if given and integrator not in _METHODS:
        raise InputError(
            f"Simulator: {', '.join(given)} {'is' if len(given) == 1 else 'are'} for the explicit "
            f"Runge-Kutta methods "
            f"({', '.join(_METHODS)}), but integrator is '{integrator}'"
        )
    for name, parts in _TUPLES.items():
        if name in given:
            values = given.pop(name)
            try:
                numbers = [float(x) for x in values]
            except (TypeError, ValueError):
                numbers = []
            if len(numbers) != len(parts):
                raise InputError(f"Simulator: {name} is {values!r}, expected {len(parts)} numbers")
            for part, number in zip(parts, numbers, strict=True):
                setattr(out, part, number)
    for name, value in given.items():
        if name in ("max_steps", "checkpoints"):
            setattr(out, name, to_integer("Simulator", name, value, least=1))
        elif name == "events":
            out.events = bool(value)
        elif name in ("control", "adjoint"):
            setattr(out, name, str(value))
        else:
            try:
                number = float(value)
            except (TypeError, ValueError):
                raise InputError(f"Simulator: {name} is {value!r}, expected a number") from None
            if name in ("step", "interval") and not number > 0:  # there 0 is the default
                raise InputError(f"Simulator: {name} is {number:g}, expected a time > 0")
            setattr(out, name, number)
    return out


def _options(
    integrator: str,
    path: str,
    fallback: bool,
    muscle_smoothing: float,
    collisions: str,
    smoothness: float,
    adaptive: dict[str, Any],
    cfd: Cfd | None,
) -> tuple[Any, ...]:
    """What every constructor of the extension's Model takes, but in types that can be pickled."""
    if cfd is not None and not isinstance(cfd, Cfd):
        raise InputError(f"Simulator: cfd is {cfd!r}, expected a diffmj.Cfd or None")
    return (
        integrator, path, fallback, muscle_smoothing, collisions, smoothness, adaptive, cfd,
    )  # fmt: skip


def _records(options: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same in the extension's types."""
    *plain, adaptive, cfd = options
    return (
        *plain,
        _adaptive_options(options[0], **adaptive),
        None if cfd is None else cfd._record(),
    )


def _load(model: Any, given: tuple[Any, ...]) -> _diffmj.Model:
    options = _records(given)
    if isinstance(model, mujoco.MjModel):
        return _diffmj.Model.from_address(model._address, *options)
    if isinstance(model, str) and model.lstrip("\ufeff \t\r\n").startswith("<"):
        return _diffmj.Model.from_xml(model, *options)
    if isinstance(model, (str, os.PathLike)):
        return _diffmj.Model.from_file(os.fsdecode(model), *options)
    hint = "; call its compile() first" if isinstance(model, mujoco.MjSpec) else ""
    raise InputError(
        f"Simulator: model is a {type(model).__name__}, expected a mujoco.MjModel, the path of an "
        f"MJCF, URDF or MJB file, or an MJCF string{hint}"
    )


def _restore(models: list[bytes], many: bool, options: tuple[Any, ...], nthread: int) -> Simulator:
    """What pickle makes a Simulator with; its FallbackWarning was given when it was first made."""
    sim = object.__new__(Simulator)
    sim.nthread = nthread
    sim._options = options
    made = [_diffmj.Model.from_bytes(x, *_records(options)) for x in models]
    sim._model = made[0]
    sim._models = made if many else []
    return sim


def _input_arrays(inputs: list[Input]) -> _diffmj.InputArrays:
    return _diffmj.InputArrays(**{x.name: x.rows() for x in inputs})


def _report_failures(trajectory: Trajectory, record: _diffmj.TrajectoryBatch) -> None:
    failed = [i for i, ok in enumerate(record.ok) if not ok]
    if not failed:
        return
    if trajectory.batch is None:
        failure = _FAILURES.get(record.outcome[0], RolloutError)
        raise failure(f"rollout: {record.message[0]}", trajectory)
    shown = ", ".join(str(i) for i in failed[:10]) + (", ..." if len(failed) > 10 else "")
    warnings.warn(
        f"{len(failed)} of {trajectory.batch} rollouts failed (rollout {shown}); the first: "
        f"{record.message[failed[0]]}",
        RuntimeWarning,
        stacklevel=3,
    )
