"""Planner: controls with a small cost."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, to_threads
from ._cfd import warn_capped
from ._cost import Cost, OwnCost, Term
from ._errors import InputError
from ._inputs import input_arrays
from ._option_values import field_names, filled, reject_unknown, to_pair
from ._simulator import Simulator

if TYPE_CHECKING:
    from .ray import Pool

_DECISIONS = ("ctrl", "qfrc_applied", "qvel")
# the options with a keyword of the same name: not those of decide and betas
_OPTION_NAMES = field_names(_diffmj.PlanOptions) - {
    "beta1", "beta2", "controls", "forces", "velocity", "evaluate_by",
}  # fmt: skip
# the arguments that a planner on another machine does not get
_NOT_SHIPPED = ("self", "sim", "cost", "nthread", "pool", "unknown")


@dataclass(frozen=True)
class PlanIteration:
    """An iteration of a plan.

    Attributes:
        iteration: its number, from 0.
        cost: the smallest so far.
        latest: the smallest of this iteration; NaN if all of its rollouts diverged.
        seconds: since planning began.
        rollouts: number of rollouts.
        diverged: number of rollouts that diverged and were ignored.
        sampled: the iteration used samples only, no gradients.
        linearized: an iteration of iLQR, with A and B of every step.
    """

    iteration: int
    cost: float
    latest: float
    seconds: float
    rollouts: int
    diverged: int
    sampled: bool
    linearized: bool


def _iteration(x: _diffmj.PlanIteration) -> PlanIteration:
    return PlanIteration(
        x.iteration,
        x.cost,
        x.latest,
        x.seconds,
        x.nrollout,
        x.ndiverged,
        x.sampled,
        x.linearized,
    )


@dataclass(frozen=True, eq=False)
class Plan:
    """The result of `Planner.plan`.

    Attributes:
        ctrl: (horizon, nu)
        qfrc_applied: (horizon, nv); None if it is not a decision variable.
        qvel: (nv,), initial velocity; None if it is not a decision variable.
        cost: of the plan.
        terms: contributions of the cost's terms by name.
        history: a list of `PlanIteration`.
        rollouts: number of rollouts.
        diverged: number of rollouts that diverged and were ignored.
        message: why the first of them diverged.
        interrupted: planning was stopped by Ctrl-C; the plan is the best one so far.
        seconds: planning time.
        gains: feedback gains K of ctrl + K (x - x_plan), (horizon, nu, 2 nv + na), with x - x_plan
            in the tangent space. Only from "ilqr" without knots, if an iteration lowered the cost;
            None otherwise.
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
    """Plans for a simulator's model. The last plan is the warm start of the next one.

    Examples:
        >>> sim = diffmj.Simulator("pendulum.xml")
        >>> cost = diffmj.Cost([diffmj.JointPosition(["hinge"], target=[0.3])])
        >>> plan = diffmj.Planner(sim, cost, method="ilqr", horizon=30).plan()
        >>> plan.ctrl.shape, plan.cost < plan.history[0].cost
        ((30, 1), True)
    """

    def __init__(
        self,
        sim: Simulator,
        cost: Cost | Sequence[Term | OwnCost],
        method: str | None = None,
        horizon: int | None = None,
        iterations: int | None = None,
        *,
        decide: Sequence[str] | str = "ctrl",
        timestep: float | None = None,
        knots: int | None = None,
        interpolation: str | None = None,
        rounds: int | None = None,
        seconds: float | None = None,
        first_effort: float | None = None,
        rate: float | None = None,
        betas: tuple[float, float] | None = None,
        keep_moments: bool | None = None,
        clip: float | None = None,
        starts: int | None = None,
        rate_factor: float | None = None,
        regularization: float | None = None,
        samples: int | None = None,
        noise: str | None = None,
        sigma: float | None = None,
        elites: int | None = None,
        refined: int | None = None,
        force_scale: float | None = None,
        force_limit: float | None = None,
        velocity_scale: float | None = None,
        seed: int | None = None,
        nthread: int | None = None,
        pool: Pool | None = None,
        **unknown: NoReturn,
    ):
        """
        None stands for the default of every option.

        Args:
            sim: the simulator whose model is planned with, including its options: cfd, collisions,
                integrator.
            cost: a `Cost`, or a list of terms.
            method: "gradient" (default), Adam, which keeps the best iterate; "sampling", predictive
                sampling; "hybrid", samples of which the best few are refined by Adam; or "ilqr",
                iterative LQR with Gauss-Newton Hessians, which decides ctrl only and does not
                support own costs.
            horizon: steps of the planning model; default 100.
            iterations: of Adam or iLQR, which ends when it no longer lowers the cost; for
                "sampling", rounds of samples; for "hybrid", iterations of Adam in each round.
                Default 32.
            decide: the decision variables: "ctrl", "qfrc_applied" (forces on all joints), "qvel"
                (the initial velocity), or several of them.
            timestep: of the planning model [s]; default: the simulator's.
            knots: of a spline over the horizon; default: one value per step.
            interpolation: between knots: "zero", "linear" (default) or "cubic".
            rounds: for "hybrid", rounds of samples and refinement; default 1.
            seconds: time budget of a plan. An iteration that would exceed it is not started. With
                a budget, results depend on the machine. Default: no budget.
            first_effort: factor on the iterations (for "hybrid", the rounds) and the time budget of
                the first plan, which has no earlier plan to start from; default 1.
            rate, betas: of Adam; the rate is in units of half of ctrlrange (1 without a range).
                Default 0.05 and (0.9, 0.99).
            keep_moments: for "gradient", keep Adam's moments from plan to plan, shifted in time
                with the plan, so that a few iterations per plan make as much progress as many.
                Default false.
            clip: a gradient is shortened if it is longer than this factor times the median length
                of the earlier ones; 0: never. Default 3.
            starts: number of starting points: the last plan and random ones around it. "gradient"
                refines all of them; "ilqr" continues with the best. Default 1.
            rate_factor: ratio of the rates of consecutive starts; default 1. With sigma=0 the
                starts differ only in their rate.
            regularization: for "ilqr", initial regularization of the Hessian in the controls,
                relative to its mean diagonal; default 0.0001.
            samples: number of samples in each round; default 64.
            noise: "white", "pink" (default) or "brown".
            sigma: standard deviation of the noise, in the units of the rate; default 0.3.
            elites: for "sampling", the number of best samples whose mean the next round starts
                from; default 1.
            refined: for "hybrid", the number of samples that are refined, in addition to the last
                plan; default 3.
            force_scale, velocity_scale: units of the rate and sigma for qfrc_applied and qvel;
                default 1.
            force_limit: bound of qfrc_applied; default: no bound.
            seed: the same seed gives the same plan, for any number of threads; default 0.
            nthread: number of threads; default: the simulator's.
            pool: a `diffmj.ray.Pool`, whose workers evaluate samples and gradients instead of
                threads, with the same bits. Not for "ilqr". It pays where an iteration has many
                rollouts, or long ones.

        Raises:
            InputError: an option is out of range, or a term does not fit the model.
            UnsupportedError: a sensor in the cost has no derivative, or "ilqr" has an own cost.
        """
        arguments = {name: value for name, value in locals().items() if name not in _NOT_SHIPPED}
        given = {name: value for name, value in arguments.items() if name in _OPTION_NAMES}
        reject_unknown(
            "Planner", unknown, {*_OPTION_NAMES, "sim", "cost", "decide", "betas", "pool"}
        )
        given["nthread"] = sim.nthread if nthread is None else to_threads("Planner", nthread)
        if betas is not None:
            given["beta1"], given["beta2"] = to_pair("Planner", "betas", betas)
        options = filled("Planner", _diffmj.PlanOptions(), given)
        decided = [decide] if isinstance(decide, str) else [str(x) for x in decide]
        for x in decided:
            if x not in _DECISIONS:
                raise InputError(
                    f"Planner: decide has {x!r}, expected one or more of {', '.join(_DECISIONS)}"
                )
        options.controls, options.forces, options.velocity = (x in decided for x in _DECISIONS)
        self._cost = cost if isinstance(cost, Cost) else Cost(cost)
        bound = self._cost._bind(sim, gradient=options.method != "sampling")
        self._names = bound.names
        self._options = options
        self._sim = sim
        sim._require_one_model("Planner")
        if pool is not None:
            options.evaluate_by(pool._plan_values(sim, self._cost, arguments))
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
            qpos, qvel, act: the initial state; defaults as for `Simulator.rollout`.
            ctrl: where the search starts, (horizon, nu), or (nu,) to hold; default: the last plan,
                or, for the first plan, the control nearest to 0 within ctrlrange.
            qfrc_applied: the same if it is a decision variable; otherwise it acts during the whole
                plan.
            xfrc_applied, mocap_pos, mocap_quat, time: as for `Simulator.rollout`.
            progress: called with every `PlanIteration`.

        Raises:
            InputError: a wrong shape, or a number that is not finite.
            RolloutError: every rollout diverged.

        Warns:
            RuntimeWarning: some rollouts diverged and were ignored, or contacts from distance were
                more than max_contacts.

        Ctrl-C ends planning and returns the best plan so far.
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
                f"ignored; the first: {found.message}",
                RuntimeWarning,
                stacklevel=2,
            )
        warn_capped(found.cfd, stacklevel=3)
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
        """Shifts the last plan forward by this time. `run_mpc` does so by itself."""
        self._planner.shift(float(seconds))

    def reset(self) -> None:
        """Forgets the last plan and restarts the sequence of random numbers."""
        self._planner.reset()

    def _inputs(self, who: str, **arguments: Any) -> _diffmj.InputArrays:
        inputs = self._sim._inputs(who, **arguments)
        for x in inputs:
            if x.batch is not None:
                raise InputError(f"{who}: {x.name} has shape {x.array.shape}, a batch; give one")
        return input_arrays(inputs)


def _by_name(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Terms with the same name add up."""
    out: dict[str, float] = {}
    for name, value in zip(names, values, strict=True):
        out[name] = out.get(name, 0.0) + value
    return out
