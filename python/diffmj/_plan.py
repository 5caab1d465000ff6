"""Planner and run_mpc: controls that make a cost small."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, to_array, to_integer
from ._cost import Cost, OwnCost, Term
from ._errors import InputError
from ._simulator import Simulator, _input_arrays
from .view import LiveView

if TYPE_CHECKING:
    from .ray import Pool

_DECISIONS = ("ctrl", "qfrc_applied", "qvel")
_NOT_OPTIONS = ("self", "sim", "cost", "nthread", "pool")  # arguments of Planner


@dataclass(frozen=True)
class PlanIteration:
    """An iteration of a plan.

    Attributes:
        iteration: its number, from 0.
        cost: the smallest until then.
        latest: the smallest of this iteration; NaN if all of its rollouts diverged.
        seconds: since planning began.
        rollouts: how many it made.
        diverged: how many of them diverged and were left out.
        sampled: without gradients.
    """

    iteration: int
    cost: float
    latest: float
    seconds: float
    rollouts: int
    diverged: int
    sampled: bool


def _iteration(x: _diffmj.PlanIteration) -> PlanIteration:
    return PlanIteration(
        x.iteration, x.cost, x.latest, x.seconds, x.nrollout, x.ndiverged, x.sampled
    )


@dataclass(frozen=True, eq=False)
class Plan:
    """What `Planner.plan` found.

    Attributes:
        ctrl: (horizon, nu)
        qfrc_applied: (horizon, nv); None if it was not decided.
        qvel: (nv,), of the start; None if it was not decided.
        cost: of the plan.
        terms: shares of the cost's terms by name.
        history: a list of `PlanIteration`.
        rollouts: how many were made.
        diverged: how many of them diverged and were left out.
        message: why the first of them did.
        interrupted: it was stopped by Ctrl-C; the plan is the best until then.
        seconds: that planning took.
        gains: of "ilqr" without knots, (horizon, nu, 2 nv + na): K of ctrl + K (x - x_plan), the
            difference in the tangent space, by which controls follow a state beside the plan's.
            None otherwise, or if no iteration lowered the cost.
    """

    ctrl: Array
    qfrc_applied: Array | None
    qvel: Array | None
    cost: float
    terms: dict[str, float]
    history: list[PlanIteration] = field(repr=False)
    rollouts: int
    diverged: int
    message: str
    interrupted: bool
    seconds: float
    gains: Array | None = field(default=None, repr=False)


class Planner:
    """Plans for a simulator's model. It keeps its last plan, from which the next one starts.

    planner = diffmj.Planner(sim, cost, method="hybrid", horizon=128, knots=16, samples=32)
    plan = planner.plan(qpos, qvel, act)
    plan.ctrl, plan.cost, plan.history
    """

    def __init__(
        self,
        sim: Simulator,
        cost: Cost | Sequence[Term | OwnCost],
        method: str = "gradient",
        horizon: int = 100,
        iterations: int = 32,
        *,
        decide: Sequence[str] | str = "ctrl",
        timestep: float | None = None,
        knots: int | None = None,
        interpolation: str = "linear",
        rounds: int = 1,
        seconds: float | None = None,
        rate: float = 0.05,
        betas: tuple[float, float] = (0.9, 0.99),
        keep_moments: bool = False,
        clip: float = 3.0,
        starts: int = 1,
        rate_factor: float = 1.0,
        regularization: float = 1e-4,
        samples: int = 64,
        noise: str = "pink",
        sigma: float = 0.3,
        elites: int = 1,
        refined: int = 3,
        force_scale: float = 1.0,
        force_limit: float = float("inf"),
        velocity_scale: float = 1.0,
        seed: int = 0,
        nthread: int | None = None,
        pool: Pool | None = None,
    ):
        """
        Args:
            sim: whose model is planned with. Its options count: cfd, collisions, integrator.
            cost: a `Cost`, or a list of terms.
            method: "gradient", Adam with the best iterate kept; "sampling", predictive sampling;
                "hybrid", samples of which the best few are refined by Adam; or "ilqr", iterative
                LQR with Gauss-Newton Hessians, of ctrl alone and without own costs.
            horizon: steps of the planning model.
            iterations: of Adam or iLQR, which ends where it no longer lowers the cost; of sampling,
                rounds of samples; of hybrid, of Adam in each round.
            decide: what is decided: "ctrl", "qfrc_applied" (forces on all joints), "qvel" (the
                velocity of the start), or several.
            timestep: of the planning model [s]; None: as the simulator's.
            knots: of a spline over the horizon; None: one value per step.
            interpolation: between knots: "zero", "linear" or "cubic".
            rounds: of hybrid.
            seconds: time budget of a plan; no iteration is begun that would end after it. None:
                none. Results then depend on the machine.
            rate, betas: of Adam; the rate is in units of half of ctrlrange (1 where there is none).
            keep_moments: of "gradient": Adam's moments go on from plan to plan, shifted with it, so
                that few iterations a plan descend as many would.
            clip: a gradient longer than this times the median of those before it is shortened; 0:
                never.
            starts: of "gradient": the last plan and others around it, at once. Of "ilqr": these, of
                which it goes on with the best.
            rate_factor: each start has this times the rate of the one before. With sigma=0 they
                differ in that alone.
            regularization: of "ilqr": what is added to the Hessian in the controls at first, as a
                share of its mean diagonal.
            samples: in each round.
            noise: "white", "pink" or "brown".
            sigma: standard deviation of the noise, in the units of the rate.
            elites: of "sampling": how many of the best the next round starts from the mean of.
            refined: of "hybrid": how many samples are refined, beside the last plan.
            force_scale, velocity_scale: units of the rate and sigma for qfrc_applied and qvel.
            force_limit: bound of qfrc_applied.
            seed: the same seed gives the same plan, for any number of threads.
            nthread: None: the simulator's.
            pool: a `diffmj.ray.Pool`, whose workers evaluate samples and gradients instead of
                threads, with the same bits. Not for "ilqr". It pays where an iteration has many
                rollouts, or long ones.

        Raises:
            InputError: an option that makes no sense, or a term that does not fit the model.
            UnsupportedError: a sensor in the cost has no derivative, or "ilqr" has an own cost.
        """
        given = {k: x for k, x in locals().items() if k not in _NOT_OPTIONS}
        who = "Planner"
        options = _diffmj.PlanOptions()
        decided = [decide] if isinstance(decide, str) else [str(x) for x in decide]
        for x in decided:
            if x not in _DECISIONS:
                raise InputError(f"{who}: decide has {x!r}, expected among {', '.join(_DECISIONS)}")
        options.method, options.interpolation, options.noise = (
            str(method),
            str(interpolation),
            str(noise),
        )
        options.controls, options.forces, options.velocity = (x in decided for x in _DECISIONS)
        for name, value, least in (
            ("horizon", horizon, 1),
            ("iterations", iterations, 0),
            ("knots", 0 if knots is None else knots, 0),
            ("rounds", rounds, 1),
            ("starts", starts, 1),
            ("samples", samples, 1),
            ("elites", elites, 1),
            ("refined", refined, 0),
            ("nthread", sim.nthread if nthread is None else nthread, 0),
        ):
            setattr(options, name, to_integer(who, name, value, least=least))
        options.seed = to_integer(who, "seed", seed, most=2**32 - 1)
        options.timestep = 0.0 if timestep is None else float(timestep)
        options.seconds = 0.0 if seconds is None else float(seconds)
        options.rate, options.clip, options.sigma = float(rate), float(clip), float(sigma)
        options.beta1, options.beta2 = (float(x) for x in betas)
        options.keep_moments = bool(keep_moments)
        options.rate_factor = float(rate_factor)
        options.force_scale, options.force_limit = float(force_scale), float(force_limit)
        options.velocity_scale = float(velocity_scale)
        options.regularization = float(regularization)
        self._cost = cost if isinstance(cost, Cost) else Cost(cost)
        bound = self._cost._bind(sim, gradient=options.method != "sampling")
        self._names = bound.names
        self._options = options
        self._sim = sim
        sim._require_one_model("Planner")
        if pool is not None:
            options.evaluate_by(pool._plan_values(sim, self._cost, given))
        self._planner = _diffmj.Planner(sim._model, bound, options)

    @property
    def cost(self) -> Cost:
        """The cost."""
        return self._cost

    @property
    def simulator(self) -> Simulator:
        """The planning model, with the planning timestep."""
        return self._sim._like(self._planner.model)

    def plan(
        self,
        qpos: npt.ArrayLike | None = None,
        qvel: npt.ArrayLike | None = None,
        act: npt.ArrayLike | None = None,
        ctrl: npt.ArrayLike | None = None,
        *,
        qfrc_applied: npt.ArrayLike | None = None,
        xfrc_applied: npt.ArrayLike | None = None,
        mocap_pos: npt.ArrayLike | None = None,
        mocap_quat: npt.ArrayLike | None = None,
        time: float = 0.0,
        progress: Callable[[PlanIteration], object] | None = None,
    ) -> Plan:
        """A plan from this state.

        Args:
            qpos, qvel, act: the state; default as of `Simulator.rollout`.
            ctrl: where the search starts, (horizon, nu) or (nu,) to hold; default: the last plan,
                at first 0 or the control next to it in ctrlrange.
            qfrc_applied: likewise if it is decided; otherwise it acts throughout.
            xfrc_applied, mocap_pos, mocap_quat, time: as of `Simulator.rollout`.
            progress: called with every `PlanIteration`.

        Raises:
            InputError: a wrong shape, or a number that is not finite.
            RolloutError: every rollout diverged.

        Warns:
            RuntimeWarning: some rollouts diverged and were left out.

        Ctrl-C ends planning with the best until then.
        """
        inputs = self._inputs(
            "plan",
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
        told = None if progress is None else lambda x: progress(_iteration(x))
        found = self._planner.plan(inputs, told)
        if found.ndiverged:
            warnings.warn(
                f"{found.ndiverged} of {found.nrollout} rollouts of the plan diverged and were "
                f"left out; the first: {found.message}",
                RuntimeWarning,
                stacklevel=2,
            )
        rows, sim = self._options.horizon, self._sim
        return Plan(
            ctrl=found.ctrl.reshape(rows, sim.nu) if len(found.ctrl) else np.zeros((rows, sim.nu)),
            qfrc_applied=found.qfrc_applied.reshape(rows, sim.nv) if self._options.forces else None,
            qvel=found.qvel if self._options.velocity else None,
            cost=found.cost,
            terms=_by_name(self._names, found.terms),
            history=[_iteration(x) for x in found.history],
            rollouts=found.nrollout,
            diverged=found.ndiverged,
            message=found.message,
            interrupted=found.interrupted,
            seconds=found.seconds,
            gains=found.gains.reshape(rows, sim.nu, -1) if len(found.gains) else None,
        )

    def shift(self, seconds: float) -> None:
        """Moves the last plan by this time: its first part is over. `run_mpc` does it by itself."""
        self._planner.shift(float(seconds))

    def reset(self) -> None:
        """Forgets the last plan, and begins again with the first seed."""
        self._planner.reset()

    def _inputs(self, who: str, **arguments: Any) -> _diffmj.InputArrays:
        inputs = self._sim._inputs(who, **arguments)
        for x in inputs:
            if x.batch is not None:
                raise InputError(f"{who}: {x.name} has shape {x.array.shape}, a batch; give one")
        return _input_arrays(inputs)


def _by_name(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Terms with the same name add up."""
    out: dict[str, float] = {}
    for name, value in zip(names, values, strict=True):
        out[name] = out.get(name, 0.0) + value
    return out


@dataclass(frozen=True, eq=False)
class MpcPlan:
    """A plan of a run, and what came of it.

    Attributes:
        step: of the execution at which planning began.
        time: [s] of the execution from which it was planned; in real time later than that.
        cost: of the plan.
        executed_cost: of the states from here to the next plan.
        seconds: of planning.
        expected: what the prediction took that to be.
        late: it took longer, and the first part of the plan was not executed.
        history: a list of `PlanIteration`.
        rollouts, diverged, message: as of `Plan`.
    """

    step: int
    time: float
    cost: float
    executed_cost: float
    seconds: float
    expected: float
    late: bool
    history: list[PlanIteration] = field(repr=False)
    rollouts: int
    diverged: int
    message: str


def _mpc_plan(x: _diffmj.MpcPlan) -> MpcPlan:
    return MpcPlan(
        x.step,
        x.time,
        x.cost,
        x.executed_cost,
        x.seconds,
        x.expected,
        x.late,
        [_iteration(i) for i in x.history],
        x.nrollout,
        x.ndiverged,
        x.message,
    )


@dataclass(frozen=True, eq=False)
class MpcRun:
    """What `run_mpc` planned and executed.

    Attributes:
        time: (nstep + 1,) [s]
        qpos, qvel, act: (nstep + 1, n)
        ctrl: (nstep, nu), as executed.
        plans: a list of `MpcPlan`.
        seconds: of planning, all plans.
        simulated: [s] of motion.
        done: the function `done` said so.
        interrupted: it was stopped by Ctrl-C; this is what was done until then.
        message: why it ended early, if the execution or all rollouts of a plan diverged.

    `run_mpc(..., resume=run)` goes on with it, also after `save` and `load`.
    """

    time: Array
    qpos: Array
    qvel: Array
    act: Array
    ctrl: Array
    plans: list[MpcPlan] = field(repr=False)
    seconds: float
    simulated: float
    done: bool
    interrupted: bool
    message: str
    _run: _diffmj.MpcRun = field(repr=False)

    def save(self, path: str | os.PathLike) -> None:
        """Writes it to a file, with all bits.

        Raises:
            InputError: the file cannot be written.
        """
        self._run.save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike) -> MpcRun:
        """Reads what `save` wrote.

        Raises:
            InputError: it is not such a file.
        """
        return _mpc_run(_diffmj.MpcRun.load(os.fspath(path)))

    @property
    def nstep(self) -> int:
        """Steps executed."""
        return len(self.ctrl)

    @property
    def costs(self) -> Array:
        """Of the plans, (plans,)."""
        return np.array([x.cost for x in self.plans])


def _mpc_run(x: _diffmj.MpcRun) -> MpcRun:
    return MpcRun(
        time=x.time,
        qpos=x.qpos,
        qvel=x.qvel,
        act=x.act,
        ctrl=x.ctrl,
        plans=[_mpc_plan(p) for p in x.plans],
        seconds=x.seconds,
        simulated=x.simulated,
        done=x.done,
        interrupted=x.interrupted,
        message=x.message,
        _run=x,
    )


def run_mpc(
    planner: Planner,
    qpos: npt.ArrayLike | None = None,
    qvel: npt.ArrayLike | None = None,
    act: npt.ArrayLike | None = None,
    ctrl: npt.ArrayLike | None = None,
    *,
    nstep: int,
    execute: int = 16,
    sim: Simulator | None = None,
    realtime: bool = False,
    latency: float | None = None,
    plan_seconds: float | None = None,
    predict_timestep: float | None = None,
    ctrl_noise: float = 0.0,
    seed: int = 0,
    disturbance: npt.ArrayLike | None = None,
    mocap_pos: npt.ArrayLike | None = None,
    mocap_quat: npt.ArrayLike | None = None,
    time: float = 0.0,
    resume: MpcRun | None = None,
    view: bool = False,
    progress: Callable[[MpcPlan], object] | None = None,
    done: Callable[[MpcRun], bool] | None = None,
) -> MpcRun:
    """Plans, executes the first part, and plans again from where that led.

    The planner keeps its last plan: a second call from the last state of a run goes on with it.

    Args:
        planner: makes the plans.
        qpos, qvel, act: where the execution starts; default as of `Simulator.rollout`.
        ctrl: where the first plan starts; in real time also the control, (nu,), until it is ready.
        nstep: steps to execute.
        execute: steps from plan to plan; in real time at least.
        sim: what is executed on, if not the planner's simulator: another timestep, other
            parameters or options, with the same state and controls.
        realtime: the world does not wait. It goes on with the controls there are while a plan is
            made, as long as that took, and the planner plans from the state it predicts for the
            moment at which the plan will be ready.
        latency: [s] that the first plan is expected to take; None: its time budget.
        plan_seconds: [s] that every plan is taken to last in real time, whatever the clock says,
            so that results are reproducible; None: the clock.
        predict_timestep: [s] of the planner's model while it predicts, which may be finer than
            that of planning; None: as it plans.
        ctrl_noise: standard deviation of noise on executed controls, in units of half of ctrlrange.
        seed: of this noise.
        disturbance: (nstep, nbody, 6), forces in the execution that no plan knows of.
        mocap_pos, mocap_quat, time: as of `Simulator.rollout`.
        resume: a run to go on with, in place of qpos, qvel and act. The result has its part, too,
            and nstep counts it. The planner must have the same options. Where no clock decides,
            the bits are those of one uninterrupted run.
        view: shows the motion in a window of MuJoCo's viewer, at its own pace or that of planning.
        progress: called with every `MpcPlan`.
        done: called with the `MpcRun` after the states of a plan were executed; true ends it.

    Raises:
        InputError: a wrong argument.

    Ctrl-C, an execution that diverges and a plan all of whose rollouts diverge end the run: what
    was done is returned.
    """
    who = "run_mpc"
    execution = planner._sim if sim is None else sim
    execution._require_one_model(who)
    inputs = planner._inputs(
        who,
        qpos=qpos,
        qvel=qvel,
        act=act,
        ctrl=ctrl,
        mocap_pos=mocap_pos,
        mocap_quat=mocap_quat,
        time=time,
    )
    count = to_integer(who, "nstep", nstep)
    push = None
    if disturbance is not None:
        push = to_array(who, "disturbance", disturbance)
        if push.shape != (count, execution.nbody, 6):
            raise InputError(
                f"{who}: disturbance has shape {push.shape}, expected "
                f"({count}, {execution.nbody}, 6) (nstep, nbody, 6)"
            )
        push = push.reshape(1, -1)
    with LiveView(execution) if view else nullcontext() as window:
        return _mpc_run(
            _diffmj.run_mpc(
                planner._planner,
                execution._model,
                inputs,
                nstep=count,
                execute=to_integer(who, "execute", execute, least=1),
                realtime=bool(realtime),
                latency=0.0 if latency is None else float(latency),
                plan_seconds=0.0 if plan_seconds is None else float(plan_seconds),
                predict_timestep=0.0 if predict_timestep is None else float(predict_timestep),
                ctrl_noise=float(ctrl_noise),
                seed=to_integer(who, "seed", seed, most=2**32 - 1),
                disturbance=push,
                resume=None if resume is None else resume._run,
                progress=None if progress is None else lambda x: progress(_mpc_plan(x)),
                view=None if window is None else window.show,
                done=None if done is None else lambda x: bool(done(_mpc_run(x))),
            )
        )
