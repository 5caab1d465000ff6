"""Recorded: what a rollout wrote down."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, to_index
from ._errors import InputError
from ._records import ConstraintForces, Contact, Event, IntegratorRecord
from ._warnings import Warning, to_warnings

if TYPE_CHECKING:
    from ._simulator import Simulator

_STEP_DTYPE = np.dtype([("ncon", np.int32), ("nefc", np.int32), ("solver_niter", np.int32)])

# what backward takes: the dimensions of one row
OUTPUT_ROWS: dict[str, tuple[str, ...]] = {
    "qpos": ("nq",),
    "qpos_tangent": ("nv",),
    "qvel": ("nv",),
    "act": ("na",),
    "xpos": ("nbody", "3"),
    "xquat": ("nbody", "4"),
    "site_xpos": ("nsite", "3"),
    "subtree_com": ("nbody", "3"),
    "geom_xpos": ("ngeom", "3"),
    "xmat": ("nbody", "3", "3"),
    "site_xmat": ("nsite", "3", "3"),
    "geom_xmat": ("ngeom", "3", "3"),
    "body_linvel": ("nbody", "3"),
    "body_angvel": ("nbody", "3"),
    "site_linvel": ("nsite", "3"),
    "site_angvel": ("nsite", "3"),
    "sensordata": ("nsensordata",),
}


class Recorded:
    """States, poses, sensors and outcomes of rollouts. Arrays are read-only."""

    def __init__(
        self, sim: Simulator, record: _diffmj.TrajectoryBatch, batched: bool, xfrc_applied: bool
    ):
        """Made by `Simulator.rollout`."""
        self._sim = sim
        self._record = record
        self._batched = batched
        self._xfrc_applied = xfrc_applied

    def _array(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return x if self._batched else x[0]

    @property
    def batch(self) -> int | None:
        """Size of the batch, None for a single rollout."""
        return len(self._record) if self._batched else None

    @property
    def nstep(self) -> int:
        """Number of steps in the arrays; of a single rollout, the steps that were completed."""
        return self._record.nstep

    @cached_property
    def time(self) -> Array:
        """(nstep + 1,) [s]"""
        return self._array(self._record.time[..., 0])

    @cached_property
    def qpos(self) -> Array:
        """(nstep + 1, nq): row 0 is the initial position."""
        return self._array(self._record.qpos)

    @cached_property
    def qvel(self) -> Array:
        """(nstep + 1, nv)"""
        return self._array(self._record.qvel)

    @cached_property
    def act(self) -> Array:
        """(nstep + 1, na)"""
        return self._array(self._record.act)

    @cached_property
    def qacc(self) -> Array:
        """(nstep, nv): MuJoCo's qacc after each step; with an explicit Runge-Kutta method the
        acceleration at the start of each interval.
        """
        return self._array(self._record.qacc)

    @cached_property
    def integrator(self) -> IntegratorRecord | list[IntegratorRecord] | None:
        """The steps of an explicit Runge-Kutta method, a list with a batch; None with MuJoCo's
        integrators.
        """
        if not self._sim._model.is_adaptive:
            return None
        out = []
        for i in range(len(self._record)):
            x = self._record.integrator(i)
            out.append(
                IntegratorRecord(
                    time=x.time,
                    first_step=x.first_step,
                    implicit=x.implicit.astype(bool),
                    accepted=x.naccepted,
                    rejected=x.nrejected,
                    evaluations=x.nevaluation,
                    smallest_step=x.smallest_step,
                    largest_step=x.largest_step,
                    seconds=x.seconds,
                    events=[
                        Event(
                            time=e.time,
                            interval=e.interval,
                            step=e.step,
                            what=e.what,
                            count=e.count,
                            release=e.release,
                            rate=e.rate,
                            jump=e.jump,
                            grazing=e.grazing,
                            at_rest=e.at_rest,
                        )
                        for e in x.events
                    ],
                    end_time=x.end_time,
                    end_qpos=x.end_qpos,
                    end_qvel=x.end_qvel,
                    end_act=x.end_act,
                )
            )
        return out if self._batched else out[0]

    def _row(self, name: str) -> tuple[int, ...]:
        """The shape of one row of a state or pose."""
        return tuple(int(d) if d.isdigit() else getattr(self._sim, d) for d in OUTPUT_ROWS[name])

    def _pose(self, name: str) -> Array:
        x = _diffmj.poses(self._sim._model, self._record, name, self._sim._models)
        return self._array(x.reshape(*x.shape[:2], *self._row(name)))

    @cached_property
    def xpos(self) -> Array:
        """(nstep + 1, nbody, 3): positions of the bodies at each state, as mj_kinematics gives
        them [m]. Each array of poses or velocities is computed when it is first read.
        """
        return self._pose("xpos")

    @cached_property
    def xquat(self) -> Array:
        """(nstep + 1, nbody, 4): orientations of the bodies at each state."""
        return self._pose("xquat")

    @cached_property
    def site_xpos(self) -> Array:
        """(nstep + 1, nsite, 3): positions of the sites at each state [m]."""
        return self._pose("site_xpos")

    @cached_property
    def subtree_com(self) -> Array:
        """(nstep + 1, nbody, 3): centre of mass of each body and those below it, at each state, as
        mj_comPos gives it [m]; that of body 0 is the whole model's.
        """
        return self._pose("subtree_com")

    @cached_property
    def sensordata(self) -> Array:
        """(nstep + 1, nsensordata): what the sensors measure at each state, in the order of
        MuJoCo's sensordata. Row i has the controls of step i, the last row those of the last step.

        It is recorded by `rollout(..., sensors=True)`; otherwise every state is evaluated again
        when it is first read, with the same result.

        Raises:
            UnsupportedError: a sensor has a delay or an interval, or is a callback or a plugin.
        """
        x = self._array(_diffmj.sensordata(self._sim._model, self._record, self._sim._models))
        x.flags.writeable = False
        return x

    def sensor(self, name: str) -> Array:
        """(nstep + 1, dim): the part of `sensordata` that belongs to the sensor of this name."""
        begin, size = self._sensor_range("sensor", name)
        return self.sensordata[..., begin : begin + size]

    def _sensor_range(self, who: str, name: Any) -> tuple[int, int]:
        if not isinstance(name, str):
            raise InputError(f"{who}: {name!r} is not the name of a sensor")
        try:
            return _diffmj.sensor_range(self._sim._model, name)
        except InputError as error:
            raise InputError(f"{who}: {error}") from None

    @cached_property
    def geom_xpos(self) -> Array:
        """(nstep + 1, ngeom, 3): positions of the geoms at each state [m]."""
        return self._pose("geom_xpos")

    @cached_property
    def xmat(self) -> Array:
        """(nstep + 1, nbody, 3, 3): rotation matrices of the bodies at each state; columns are the
        axes of the body in the world.
        """
        return self._pose("xmat")

    @cached_property
    def site_xmat(self) -> Array:
        """(nstep + 1, nsite, 3, 3): rotation matrices of the sites at each state."""
        return self._pose("site_xmat")

    @cached_property
    def geom_xmat(self) -> Array:
        """(nstep + 1, ngeom, 3, 3): rotation matrices of the geoms at each state."""
        return self._pose("geom_xmat")

    @cached_property
    def body_linvel(self) -> Array:
        """(nstep + 1, nbody, 3): velocity of the point xpos of each body, in world axes, as
        mj_objectVelocity gives it for mjOBJ_XBODY [m/s].
        """
        return self._pose("body_linvel")

    @cached_property
    def body_angvel(self) -> Array:
        """(nstep + 1, nbody, 3): angular velocity of each body, in world axes [rad/s]."""
        return self._pose("body_angvel")

    @cached_property
    def site_linvel(self) -> Array:
        """(nstep + 1, nsite, 3): velocity of each site, in world axes [m/s]."""
        return self._pose("site_linvel")

    @cached_property
    def site_angvel(self) -> Array:
        """(nstep + 1, nsite, 3): angular velocity of each site, in world axes [rad/s]."""
        return self._pose("site_angvel")

    @cached_property
    def steps(self) -> np.recarray[Any, Any]:
        """(nstep,) records of each step: steps.ncon contacts, steps.nefc constraint rows,
        steps.solver_niter iterations; -1 for steps that a failed rollout of a batch did not reach.
        """
        records = self._record.steps.view(_STEP_DTYPE)[..., 0].view(np.recarray)
        return self._array(records)  # type: ignore[return-value]

    @property
    def completed(self) -> int | npt.NDArray[np.int64]:
        """Number of completed steps: an integer, with a batch an array."""
        return np.array(self._record.completed) if self._batched else self._record.completed[0]

    @property
    def ok(self) -> bool | npt.NDArray[np.bool_]:
        """Whether the last step was reached: a bool, with a batch an array."""
        return np.array(self._record.ok) if self._batched else self._record.ok[0]

    @property
    def outcome(self) -> str | list[str]:
        """'success', 'not finite' or 'MuJoCo error'; with adaptive steps also 'budget exhausted'
        and 'step too small'. With a batch a list.
        """
        return self._record.outcome if self._batched else self._record.outcome[0]

    @property
    def message(self) -> str | list[str]:
        """What went wrong, at which step, time and joint; empty if nothing did. With a batch a
        list.
        """
        return self._record.message if self._batched else self._record.message[0]

    @property
    def warnings(self) -> list[Warning] | list[list[Warning]]:
        """Warnings of MuJoCo, and of diffmj about the gradient; with a batch a list of lists."""
        all_warnings = [to_warnings(one) for one in self._record.warnings]
        return all_warnings if self._batched else all_warnings[0]

    def constraint_forces(self, step: int, rollout: int | None = None) -> ConstraintForces:
        """Constraint forces at the start of a step: the forces that belong to its recorded
        acceleration.

            forces = traj.constraint_forces(10)
            forces.contacts[0].force[0]  # the normal force of the first contact [N]

        `backward(efc_force={10: dloss_dforce})` differentiates a loss of them. The number of rows
        varies between steps; it is steps.nefc.

        Args:
            step: from 0 to nstep - 1.
            rollout: which one of a batch.

        Raises:
            InputError: no such step, a step that a failed rollout did not complete, or no such
                rollout.
            UnsupportedError: the integrator is RK4, or the model's gradient path is "differences":
                the recorded acceleration does not determine the forces of the step.
        """
        who, sim = "constraint_forces", self._sim
        if self._batched:
            if rollout is None:
                raise InputError(
                    f"{who}: rollout is not given; say which one of the batch of {self.batch}"
                )
            which = to_index(who, "rollout", rollout, len(self._record))
        elif rollout is not None:
            raise InputError(f"{who}: rollout is {rollout!r}, but there is no batch; leave it out")
        else:
            which = 0
        at = to_index(who, "step", step, self._record.completed[which])
        x = _diffmj.constraint_forces(sim._model, self._record, which, at, sim._models)
        return ConstraintForces(
            force=x.force,
            type=x.type,
            id=x.id,
            contacts=[Contact(c.geom, c.pos, c.frame, c.row, c.dim, c.force) for c in x.contacts],
        )
