"""Simulator: a model and the functions on it."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import mujoco
import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, Input, common_batch, common_nstep, to_threads
from ._cfd import Cfd
from ._check import CheckReport
from ._errors import FallbackWarning, InputError
from ._failures import report_failures
from ._field_values import field_values
from ._inputs import ROWS, State, input_arrays
from ._linearize import linearize_step
from ._model_properties import ModelProperties
from ._option_values import filled, reject_unknown
from ._options import Options, RungeKutta, Smooth
from ._trajectory import Trajectory
from ._warnings import report_warnings

_OPTION_NAMES = frozenset(x.name for x in _diffmj.model_options())


class Simulator(ModelProperties):
    """A MuJoCo model, with rollouts and their gradients.

    Several threads may use one Simulator at once.

    Examples:
        >>> sim = diffmj.Simulator("pendulum.xml")
        >>> sim.nq, sim.nu, sim.gradient_path
        (1, 1, 'analytic')
        >>> traj = sim.rollout(qpos=[0.5], nstep=100)
        >>> grad = traj.backward(final={"qpos": [1.0]})
        >>> grad.qpos.shape, grad.ctrl.shape
        ((1,), (100, 1))
    """

    _theta: Array | None = None  # of ParametricSimulator.at

    def __init__(
        self,
        model: mujoco.MjModel | str | os.PathLike[str],
        integrator: str | RungeKutta | None = None,
        nthread: int | None = None,
        fallback: bool | None = None,
        gradient_path: str | None = None,
        muscle_smoothing: float | None = None,
        *,
        collisions: str | Smooth | None = None,
        smoothness: float | None = None,
        cfd: Cfd | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        max_steps: int | None = None,
        step: float | None = None,
        interval: float | None = None,
        control: str | None = None,
        events: bool | None = None,
        onset: float | None = None,
        adjoint: str | None = None,
        checkpoints: int | None = None,
        adjoint_rtol: float | None = None,
        adjoint_atol: float | None = None,
        min_step: float | None = None,
        max_step: float | None = None,
        pid: tuple[float, float, float] | None = None,
        safety: float | None = None,
        step_ratio: tuple[float, float] | None = None,
        **unknown: NoReturn,
    ):
        """
        None stands for the default of every argument.

        Args:
            model: an MjModel, which is copied (later changes to it have no effect); the path of an
                MJCF (.xml), URDF (.urdf) or MJB (.mjb) file; or an MJCF string, which begins with
                '<'.
            integrator: "model" (default) keeps what the model says; otherwise one of MuJoCo's,
                "Euler", "RK4", "implicit", "implicitfast" or "discrete"; or a Runge-Kutta method
                with its options, such as `diffmj.Auto(rtol=1e-6, interval=0.02)`. Its name may be
                given instead ("auto", "tsit5", "rodas4p", "dopri5", "dopri8", "bosh3", "heun",
                "midpoint", "ralston", "explicit_euler"), and its options as the keywords from rtol
                on, which `RungeKutta` explains.
            nthread: threads that a batch runs on; default (also 0): one per core. Results do not
                depend on it.
            fallback: if the model has a feature that `gradient_path` does not support, take a
                slower one and give a FallbackWarning that names the feature; default true. If
                False, raise an UnsupportedError instead.
            gradient_path: the fastest gradient path that the model may take, "analytic" (default),
                "oracle" or "differences"; the slower ones are for comparison. The attribute
                `gradient_path` is the one that the model takes.
            muscle_smoothing: width over which the curves of muscles are smoothed in the backward
                pass, in units of the muscle's optimal length, of its largest velocity and of
                activation. Flat pieces of the curves then have a slope near their ends. The
                gradient is a surrogate; rollouts do not depend on it. Default 0, which
                gives the exact gradient.
            collisions: "mujoco" (default), or smooth colliders: `diffmj.Smooth(1e-3)`, forward and
                backward; `diffmj.SmoothBackward(1e-3)` and `diffmj.SmoothField(1e-3)`, in the
                gradient only. Pairs of shapes without a smooth collider keep MuJoCo's, with a
                FallbackWarning that names them (fallback=False: an UnsupportedError). Their names
                may be given instead ("smooth", "smooth-backward", "smooth-field"), together with
            smoothness: width [m] over which the cases of a collider are blended; default 0.001. Not
                used by "mujoco".
            cfd: contacts from distance apply contact forces before geoms touch, in the backward
                pass only. The gradient is a surrogate that points towards contact. None: the
                ordinary gradient.

        Raises:
            InputError: no such file, a model without degrees of freedom, an option that is unknown
                or out of range, an option of the Runge-Kutta methods with another integrator, or an
                option that is given both in an object and as a keyword.
            MujocoError: the model does not compile.
            UnsupportedError: the model uses a feature without a derivative, or, with fallback=False
                or muscle_smoothing > 0, one that `gradient_path` does not support; the message
                names it.
        """
        given = {name: value for name, value in locals().items() if name in _OPTION_NAMES}
        reject_unknown("Simulator", unknown, {*_OPTION_NAMES, "model", "nthread", "cfd"})
        self.nthread = nthread
        self._options = Options(given, cfd)
        options = self._options.record()
        self._model = _load(model, options)
        self._models: list[_diffmj.Model] = []  # one for every rollout of a batch
        requested = options.get("gradient_path")
        if self.gradient_path != requested:
            warnings.warn(
                f"gradients of this model take the path '{self.gradient_path}', slower than "
                f"'{requested}': {self.gradient_path_reason}; fallback=False refuses such models",
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
    def nthread(self) -> int | None:
        """Threads that a batch runs on; None: one per core."""
        return self._nthread

    @nthread.setter
    def nthread(self, value: int | None) -> None:
        self._nthread = to_threads("Simulator", value)

    def default_state(self) -> State:
        """The model's default state: qpos0, at rest, with zero controls."""
        x = self._model.default_state()
        return State(x.time, x.qpos, x.qvel, x.act, np.zeros(self.nu))

    def keyframe_state(self, key: str | int) -> State:
        """The keyframe with this name or number.

        Examples:
            >>> sim = diffmj.Simulator("pendulum.xml")
            >>> sim.keyframe_state("tilted").qpos
            array([0.3])
        """
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
            GradientWarning: the gradient is unreliable, because MuJoCo's constraint solver stopped
                before it had converged (SolverWarning), or, with adaptive steps, because contacts
                or limits begin or end too slowly (GrazingWarning) or too often (ChatterWarning), or
                a collider exchanges contacts that carry force (JumpWarning). At most one warning of
                each category is given; the texts are also in the trajectory's warnings.
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
        arrays = input_arrays(inputs)
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
        report_failures(trajectory, record)
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
        self._require_one_model("linearize")
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
        return linearize_step(self, given, bool(sensors))

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
        directions: int | None = None,
        seed: int | None = None,
        tolerance: float | None = None,
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
            directions: number of random directions in (qpos, qvel, act, every ctrl); default 8.
            seed: of directions and cotangents; default 1.
            tolerance: largest relative error of a direction that agrees, above 0; default 1e-05.
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
        options = filled(
            who,
            _diffmj.CheckOptions(),
            {"directions": directions, "seed": seed, "tolerance": tolerance},
        )
        if nstep is not None or any(x.nstep is not None for x in inputs):
            options.nstep = common_nstep(who, inputs, nstep)
        report = _diffmj.check_gradient(self._model, input_arrays(inputs), options, progress)
        return CheckReport.from_record(report, tolerance=options.tolerance)

    def _inputs(self, who: str, single_row: bool = False, **arguments: Any) -> list[Input]:
        """The arguments that were given, checked."""
        inputs = []
        for name, value in arguments.items():
            if value is None:
                continue
            dimensions, steps = ROWS[name]
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


def _load(model: Any, options: _diffmj.ModelOptions) -> _diffmj.Model:
    if isinstance(model, mujoco.MjModel):
        return _diffmj.Model.from_address(model._address, options)
    if isinstance(model, str) and model.lstrip("\ufeff \t\r\n").startswith("<"):
        return _diffmj.Model.from_xml(model, options)
    if isinstance(model, (str, os.PathLike)):
        return _diffmj.Model.from_file(os.fsdecode(model), options)
    hint = "; call its compile() first" if isinstance(model, mujoco.MjSpec) else ""
    raise InputError(
        f"Simulator: model is a {type(model).__name__}, expected a mujoco.MjModel, the path of an "
        f"MJCF, URDF or MJB file, or an MJCF string{hint}"
    )


def _restore(models: list[bytes], many: bool, options: Options, nthread: int | None) -> Simulator:
    """What pickle makes a Simulator with; its FallbackWarning was given when it was first made."""
    sim = object.__new__(Simulator)
    sim.nthread = nthread
    sim._options = options
    record = options.record()
    made = [_diffmj.Model.from_bytes(x, record) for x in models]
    sim._model = made[0]
    sim._models = made if many else []
    return sim
