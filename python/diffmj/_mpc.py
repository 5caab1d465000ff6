"""run_mpc: plan, execute, plan again."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, to_array, to_integer
from ._cfd import warn_capped
from ._errors import InputError
from ._option_values import filled
from ._plan import PlanIteration, Planner, _iteration
from ._simulator import Simulator
from .view import LiveView


@dataclass(frozen=True, eq=False)
class MpcPlan:
    """A plan of a run, and how it was executed.

    Attributes:
        step: step of the execution at which planning began.
        time: [s] initial time of the plan; in real time, later than that of the step.
        cost: of the plan.
        executed_cost: cost of the states until the next plan.
        seconds: planning time.
        expected: planning time that the prediction assumed [s].
        late: planning took longer, so the first part of the plan was skipped.
        history: a list of `PlanIteration`.
        rollouts, diverged, message: as for `Plan`.
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
    """The result of `run_mpc`.

    Attributes:
        time: (nstep + 1,) [s]
        qpos, qvel, act: (nstep + 1, n)
        ctrl: (nstep, nu), as executed.
        plans: a list of `MpcPlan`.
        seconds: planning time of all plans.
        simulated: [s] of motion.
        done: the function `done` ended the run.
        interrupted: the run was stopped by Ctrl-C; this is the completed part.
        message: why the run ended early: the execution or all rollouts of a plan diverged.

    `run_mpc(..., resume=run)` continues it, also after `save` and `load`.
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file, with all bits.

        Raises:
            InputError: the file cannot be written.
        """
        self._run.save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MpcRun:
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
        """Costs of the plans, (plans,)."""
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
    execute: int | None = None,
    sim: Simulator | None = None,
    realtime: bool | None = None,
    latency: float | None = None,
    plan_seconds: float | None = None,
    predict_timestep: float | None = None,
    ctrl_noise: float | None = None,
    seed: int | None = None,
    disturbance: npt.ArrayLike | None = None,
    mocap_pos: npt.ArrayLike | None = None,
    mocap_quat: npt.ArrayLike | None = None,
    time: float = 0.0,
    resume: MpcRun | None = None,
    view: bool = False,
    progress: Callable[[MpcPlan], object] | None = None,
    done: Callable[[MpcRun], bool] | None = None,
) -> MpcRun:
    """Plans, executes the first part of the plan, then plans again from the state reached.

    The planner keeps its last plan, so that a second call from the last state of a run continues
    it.

    Args:
        planner: makes the plans.
        qpos, qvel, act: initial state of the execution; defaults as for `Simulator.rollout`.
        ctrl: where the search of the first plan starts; in real time also the control, (nu,), that
            is applied until this plan is ready.
        nstep: steps to execute.
        execute: steps between two plans, in real time the minimum; default 16.
        sim: the simulator of the execution, if it is not the planner's. It may have another
            timestep, other parameters and options, but must have the same state and controls.
        realtime: the execution does not wait for plans. It continues with the available controls
            for as long as planning takes, and the planner plans from the state that it predicts
            for the time at which its plan will be ready. Default false.
        latency: expected time of the first plan [s]; default: plan_seconds, or the time budget of a
            plan.
        plan_seconds: assumed time of every plan in real time [s], instead of the clock, so that
            results are reproducible; default: the clock.
        predict_timestep: timestep of the planner's model while it predicts [s], which may be finer
            than that of planning; default: the same.
        ctrl_noise: standard deviation of noise on executed controls, in units of half of ctrlrange;
            default 0.
        seed: of this noise; default 0.
        disturbance: (nstep, nbody, 6), forces in the execution that are unknown to the planner.
        mocap_pos, mocap_quat, time: as for `Simulator.rollout`.
        resume: a run to continue, in place of qpos, qvel and act. The result includes its part, and
            nstep counts it. The planner must have the same options. Unless the clock decides, the
            bits are those of one uninterrupted run.
        view: shows the motion in a window of MuJoCo's viewer, at its own pace or that of planning.
        progress: called with every `MpcPlan`.
        done: called with the `MpcRun` after the states of a plan were executed; true ends the run.

    Raises:
        InputError: a wrong argument.

    Ctrl-C, a diverging execution and a plan whose rollouts all diverge end the run; the completed
    part is returned.
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
        found = _diffmj.run_mpc(
            planner._planner,
            execution._model,
            inputs,
            filled(
                who,
                _diffmj.MpcOptions(),
                {
                    "nstep": count,
                    "execute": execute,
                    "realtime": realtime,
                    "latency": latency,
                    "plan_seconds": plan_seconds,
                    "predict_timestep": predict_timestep,
                    "ctrl_noise": ctrl_noise,
                    "seed": seed,
                },
            ),
            disturbance=push,
            resume=None if resume is None else resume._run,
            progress=None if progress is None else lambda x: progress(_mpc_plan(x)),
            view=None if window is None else window.show,
            done=None if done is None else lambda x: bool(done(_mpc_run(x))),
        )
    counts = [x.cfd for x in found.plans]
    capped = sum(x.capped for x in counts)
    warn_capped(_diffmj.CfdCounts(sum(x.evaluations for x in counts), capped), stacklevel=3)
    return _mpc_run(found)
