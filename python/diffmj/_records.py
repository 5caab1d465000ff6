"""Results of a Trajectory: contacts, events, steps, gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import Array
from ._errors import InputError
from ._tree_sum import tree_sum


@dataclass(frozen=True, eq=False)
class Contact:
    """A contact of a step, in MuJoCo's terms.

    Attributes:
        geom: numbers of the two geoms; the normal points from the first to the second. -1: a flex.
        pos: (3,), between the surfaces [m].
        frame: (3, 3), rows: the normal and two tangents.
        row: first of its rows in `ConstraintForces`; -1: it has none.
        dim: 1 (no friction), 3, 4 or 6.
        force: (6,), on the second geom, in the frame: normal, two tangents [N], then torques about
            them [Nm], as mj_contactForce gives it.
    """

    geom: tuple[int, int]
    pos: Array
    frame: Array
    row: int
    dim: int
    force: Array


@dataclass(frozen=True, eq=False)
class ConstraintForces:
    """Constraint forces at the start of a step; made by `Trajectory.constraint_forces`.

    Attributes:
        force: (nefc,), MuJoCo's efc_force. A contact with the pyramidal cone has one number for
            each edge of the pyramid.
        type: (nefc,), the mujoco.mjtConstraint of each row.
        id: (nefc,), the equality, dof, joint, tendon or contact that each row belongs to.
        contacts: the contacts, a list of `Contact`.
    """

    force: Array
    type: npt.NDArray[np.int32]
    id: npt.NDArray[np.int32]
    contacts: list[Contact]


@dataclass(frozen=True)
class Event:
    """Contacts or limits that became active together at the end of a step, or that were released
    while they carried force.

    Attributes:
        time: [s]
        interval: row of the trajectory before the event.
        step: number of the step that ends there.
        what: the first of the constraints, "contact of geom 'ball' and geom 'floor'", "end of
            contact of ...".
        count: number of constraints.
        release: whether they ceased to be active.
        rate: mean rate of their violation [m/s or rad/s]; negative, or positive for a release.
        jump: norm of the change of qacc.
        grazing: the rate is so small that the motion may miss the event after a small change.
        at_rest: a contact or limit at rest on its margin: the rate is 0 up to rounding. The
            gradient is then one-sided, without a term for the event.
    """

    time: float
    interval: int
    step: int
    what: str
    count: int
    release: bool
    rate: float
    jump: float
    grazing: bool
    at_rest: bool


@dataclass(frozen=True, eq=False)
class IntegratorRecord:
    """The steps of a Runge-Kutta method in a rollout; `plot_steps` draws them.

    Attributes:
        time: where each accepted step began, and where the last one ended [s].
        first_step: (nstep + 1,), number of the first step of each interval; the last entry is the
            number of steps.
        implicit: for each step whether it is linearly implicit: all of `Rodas4p`, some of `Auto`.
        accepted, rejected: number of steps.
        evaluations: number of evaluations of MuJoCo's forward dynamics.
        smallest_step, largest_step: of the accepted ones [s].
        seconds: wall time by stage of MuJoCo ("position", "velocity", "actuation", "acceleration",
            "constraint") over all evaluations, and "total".
        events: where contacts and limits became active, a list of `Event`.
        end_time, end_qpos, end_qvel, end_act: where the rollout ended; if it failed, this is beyond
            the last row of the trajectory.
    """

    time: Array
    first_step: npt.NDArray[np.int32]
    implicit: npt.NDArray[np.bool_]
    accepted: int
    rejected: int
    evaluations: int
    smallest_step: float
    largest_step: float
    seconds: dict[str, float]
    events: list[Event]
    end_time: float
    end_qpos: Array
    end_qvel: Array
    end_act: Array


@dataclass(frozen=True, eq=False)
class Gradient:
    """d(loss)/d(input) of a rollout. With a batch, B is the first dimension of every array; the
    entries of a rollout that failed are NaN.

    Attributes:
        qpos: (nq,), of the initial position, in MuJoCo's coordinates. For a quaternion this is the
            gradient of the function that normalises it first; it is orthogonal to the quaternion.
        qpos_tangent: (nv,), the same in the tangent space (the convention of mj_integratePos).
        qvel: (nv,), of the initial velocity.
        act: (na,), of the initial activations.
        ctrl: (nstep, nu), of the controls of every step. If one control (nu,) was held, its
            gradient is the sum over the steps: grad.ctrl.sum(axis=-2).
        qfrc_applied: (nstep, nv), of generalised forces, also if none were given.
        xfrc_applied: (nstep, nbody, 6), of Cartesian forces; None if the rollout was given none.
        params: of the requested fields of MjModel, by name, each with the field's shape. Each field
            is changed alone: the masses of subtrees follow body_mass, but values that the compiler
            derives (body_invweight0, ...) do not. For rows that are unit vectors (quaternions,
            jnt_axis) this is the gradient of the function that normalises them first.
        statistics: for explicit Runge-Kutta methods: "recomputed", the number of recomputed steps
            between checkpoints; "accepted", "rejected" and "evaluations" of continuous adjoints.
            With a batch, lists.
    """

    qpos: Array
    qpos_tangent: Array
    qvel: Array
    act: Array
    ctrl: Array
    qfrc_applied: Array
    xfrc_applied: Array | None
    params: dict[str, Array]
    statistics: dict[str, Any] = field(default_factory=dict)

    def sum(self) -> Gradient:
        """The sum over the batch, for inputs that its rollouts share. It is NaN if a rollout
        failed. Sums are taken as a binary tree over the numbers of the rollouts, so that
        `diffmj.ray.PoolTrajectory.backward(sum=True)` has the same bits.

        Raises:
            InputError: the gradient is of a single rollout.
        """
        if self.qpos.ndim == 1:
            raise InputError("Gradient.sum: the gradient is of a single rollout, expected a batch")
        return Gradient(
            **{x: tree_sum(getattr(self, x)) for x in _ARRAYS},
            xfrc_applied=None if self.xfrc_applied is None else tree_sum(self.xfrc_applied),
            params={name: tree_sum(x) for name, x in self.params.items()},
            statistics={name: sum(x) for name, x in self.statistics.items()},
        )


_ARRAYS = ("qpos", "qpos_tangent", "qvel", "act", "ctrl", "qfrc_applied")
