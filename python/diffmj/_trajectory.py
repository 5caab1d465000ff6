"""Trajectory: the record of a rollout, and its backward pass."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _diffmj, _linearize
from ._arrays import Array, require_finite, to_array, to_index
from ._cfd import warn_capped
from ._errors import InputError
from ._linearize import Tangents
from ._option_values import did_you_mean
from ._recorded import OUTPUT_ROWS, Recorded
from ._records import Gradient
from ._warnings import shown_numbers

if TYPE_CHECKING:
    from ._simulator import Simulator


def parameter_names() -> list[str]:
    """Fields of mjModel that have a gradient: "body_mass", "opt.gravity", ... `Trajectory.backward`
    takes them as `params`.

    Examples:
        >>> "geom_friction" in diffmj.parameter_names()
        True
    """
    return _diffmj.parameter_names()


class Trajectory(Recorded):
    """The record of `Simulator.rollout`. With a batch, B is the first dimension of every array,
    and the rows that a failed rollout did not reach are NaN. Arrays are read-only: they are what
    `backward` reads.

    Examples:
        >>> sim = diffmj.Simulator("pendulum.xml")
        >>> sim.rollout(qpos=[0.5], nstep=100).qpos.shape
        (101, 1)
        >>> batch = sim.rollout(qpos=[[0.1], [0.2], [0.3]], nstep=100)
        >>> batch.batch, batch.qpos.shape
        (3, (3, 101, 1))
    """

    def backward(
        self,
        qpos: npt.ArrayLike | None = None,
        qpos_tangent: npt.ArrayLike | None = None,
        qvel: npt.ArrayLike | None = None,
        act: npt.ArrayLike | None = None,
        xpos: npt.ArrayLike | None = None,
        xquat: npt.ArrayLike | None = None,
        site_xpos: npt.ArrayLike | None = None,
        subtree_com: npt.ArrayLike | None = None,
        sensordata: npt.ArrayLike | Mapping[str, npt.ArrayLike] | None = None,
        params: Iterable[str] = (),
        efc_force: (
            Mapping[int, npt.ArrayLike] | Sequence[Mapping[int, npt.ArrayLike] | None] | None
        ) = None,
        geom_xpos: npt.ArrayLike | None = None,
        xmat: npt.ArrayLike | None = None,
        site_xmat: npt.ArrayLike | None = None,
        geom_xmat: npt.ArrayLike | None = None,
        body_linvel: npt.ArrayLike | None = None,
        body_angvel: npt.ArrayLike | None = None,
        site_linvel: npt.ArrayLike | None = None,
        site_angvel: npt.ArrayLike | None = None,
        final: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Gradient:
        """Pulls d(loss)/d(states), d(loss)/d(poses) and d(loss)/d(constraint forces) back to
        d(loss)/d(inputs). This is the derivative of the steps that were taken, with the constraint
        solver at its converged solution, unless the simulator's `adjoint` is a continuous one.

        Every array has one row per state, nstep + 1 rows, like the arrays of this trajectory (with
        a batch, B comes first). If the loss depends only on the final state, pass the last row as
        `final`:

            grad = traj.backward(final={"qpos": dloss_dqpos_final})  # (nq,)

        Args:
            qpos: (nstep + 1, nq), derivatives with respect to MuJoCo's coordinates.
            qpos_tangent: (nstep + 1, nv), in the tangent space; adds to qpos.
            qvel: (nstep + 1, nv).
            act: (nstep + 1, na).
            xpos: (nstep + 1, nbody, 3), of the positions of bodies.
            xquat: (nstep + 1, nbody, 4), of their orientations.
            site_xpos: (nstep + 1, nsite, 3), of the positions of sites.
            subtree_com: (nstep + 1, nbody, 3), of the centres of mass of subtrees.
            sensordata: (nstep + 1, nsensordata), of what the sensors measure; or a dict from the
                name of a sensor to an array (nstep + 1, dim), also (nstep + 1,) if dim is 1.
                Quaternions and unit vectors are taken as free numbers.
            params: names of fields of MjModel whose gradient is computed too, a list;
                `diffmj.parameter_names()` lists all names.
            efc_force: of the constraint forces (`constraint_forces`), a dict from the number of a
                step to an array (nefc,) with the rows of that step; other steps are zero. With a
                batch, a list of dicts, one per rollout, or None where it is zero.
            geom_xpos: (nstep + 1, ngeom, 3), of the positions of geoms.
            xmat: (nstep + 1, nbody, 3, 3), of the rotation matrices of bodies: derivatives as if
                the nine numbers of a matrix were free. Only the part along rotations has an effect.
            site_xmat: (nstep + 1, nsite, 3, 3), of those of sites.
            geom_xmat: (nstep + 1, ngeom, 3, 3), of those of geoms.
            body_linvel: (nstep + 1, nbody, 3), of the velocities of bodies, in world axes.
            body_angvel: (nstep + 1, nbody, 3), of their angular velocities.
            site_linvel: (nstep + 1, nsite, 3), of the velocities of sites, in world axes.
            site_angvel: (nstep + 1, nsite, 3), of their angular velocities.
            final: for the last state only: a dict from the names above (except params and
                efc_force) to one row, for example {"qpos": x} with shape (nq,), with a batch (B,
                nq). It is added to arrays of all rows, if both are given.

        Raises:
            InputError: a wrong shape, a number that is not finite, no cotangent at all, an unknown
                parameter or name in `final`, no such step, or a single rollout that failed.
            UnsupportedError: params or efc_force, and the model's gradient path is "differences";
                efc_force, and the integrator is RK4 or an explicit Runge-Kutta method;
                sensordata, and a sensor whose cotangent is not zero has no derivative (a
                rangefinder, a contact sensor, ...): it is named.
            RolloutError: the gradient is not finite, or a continuous adjoint cannot be solved
                within its tolerance. With a batch nothing is raised: a RuntimeWarning names the
                rollouts, whose gradients are NaN.
            KeyboardInterrupt: Ctrl-C.
        """
        names = _parameters(params)
        out = self._pull_back(
            *self._cotangents(
                qpos=qpos,
                qpos_tangent=qpos_tangent,
                qvel=qvel,
                act=act,
                xpos=xpos,
                xquat=xquat,
                site_xpos=site_xpos,
                subtree_com=subtree_com,
                sensordata=sensordata,
                efc_force=efc_force,
                geom_xpos=geom_xpos,
                xmat=xmat,
                site_xmat=site_xmat,
                geom_xmat=geom_xmat,
                body_linvel=body_linvel,
                body_angvel=body_angvel,
                site_linvel=site_linvel,
                site_angvel=site_angvel,
                final=final,
            ),
            names,
        )
        return self._gradient(out, names, single=not self._batched)

    def _cotangents(
        self, *, sensordata: Any = None, efc_force: Any = None, final: Any = None, **given: Any
    ) -> tuple[dict[str, Array], bool, list[dict[int, Array]]]:
        """The arguments of `backward`, checked: rows by name, whether they are of the last state
        alone, and those of forces."""
        for name in given:
            if name not in OUTPUT_ROWS:
                raise InputError(
                    f"backward: there is no {name!r}, expected names among {', '.join(OUTPUT_ROWS)}"
                    + did_you_mean(name, OUTPUT_ROWS)
                )
        given["sensordata"] = self._sensor_cotangents(sensordata)
        rows = {name: self._cotangent(name, x) for name, x in given.items() if x is not None}
        last = self._final_cotangents(final)
        if not rows and not last and efc_force is None:
            raise InputError(
                f"backward: give at least one of {', '.join(OUTPUT_ROWS)}, final and efc_force"
            )
        final_row = bool(last) and not rows
        forces = [] if efc_force is None else self._force_cotangents(efc_force)
        return last if final_row else self._with_last(rows, last), final_row, forces

    def _pull_back(
        self,
        rows: dict[str, Array],
        final_row: bool,
        forces: list[dict[int, Array]],
        names: list[str],
    ) -> _diffmj.GradientBatch:
        sim = self._sim
        cotangents = _diffmj.CotangentArrays(
            rows, final_row=final_row, efc_force=forces, nstep=self.nstep, params=names
        )
        if self._batched:
            return _diffmj.rollout_pullback_batch(
                sim._model, self._record, cotangents, nthread=sim.nthread, models=sim._models
            )
        return _diffmj.rollout_pullback(sim._model, self._record, cotangents)

    def _gradient(self, out: _diffmj.GradientBatch, names: list[str], single: bool) -> Gradient:
        """Arrays in the user's shapes, and warnings at the caller of the caller. single: without
        the dimension of the batch; arrays that are None were left out."""
        sim = self._sim
        failed = [i for i, ok in enumerate(self._record.ok) if ok and out.message[i]]
        if failed:
            warnings.warn(
                f"gradients of {len(failed)} of {self.batch} rollouts are NaN (rollout "
                f"{shown_numbers(failed)}); the first: {out.message[failed[0]]}",
                RuntimeWarning,
                stacklevel=3,
            )

        counts = (int(np.sum(x)) for x in (out.cfd_evaluations, out.cfd_capped))
        warn_capped(_diffmj.CfdCounts(*counts), stacklevel=4)

        def shaped(x: Array | None, *shape: int) -> Any:
            if x is None:
                return None
            x = x.reshape(len(x), *shape)
            return x[0] if single else x

        nstep = self.nstep
        return Gradient(
            qpos=shaped(out.qpos, sim.nq),
            qpos_tangent=shaped(out.qpos_tangent, sim.nv),
            qvel=shaped(out.qvel, sim.nv),
            act=shaped(out.act, sim.na),
            ctrl=shaped(out.ctrl, nstep, sim.nu),
            qfrc_applied=shaped(out.qfrc_applied, nstep, sim.nv),
            xfrc_applied=(
                shaped(out.xfrc_applied, nstep, sim.nbody, 6) if self._xfrc_applied else None
            ),
            params={name: shaped(out.param(name), *self._parameter_shape(name)) for name in names},
            statistics={
                word: x[0] if single else x
                for word, x in (
                    ("recomputed", out.nrecomputed),
                    ("accepted", out.naccepted),
                    ("rejected", out.nrejected),
                    ("evaluations", out.nevaluation),
                )
                if sim._model.is_adaptive
            },
        )

    def forward(
        self,
        qpos: npt.ArrayLike | None = None,
        qpos_tangent: npt.ArrayLike | None = None,
        qvel: npt.ArrayLike | None = None,
        act: npt.ArrayLike | None = None,
        ctrl: npt.ArrayLike | None = None,
        qfrc_applied: npt.ArrayLike | None = None,
        params: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Tangents:
        """Pushes tangents of the inputs through the rollout: the derivatives of its states along
        them, as exact as `backward`. K tangents at once cost hardly more than one.

            tangents = traj.forward(qvel=np.eye(sim.nv))  # K = nv
            tangents.qpos[k, -1]  # the derivative of the last position in qvel[k]

        Use it for few inputs and many outputs; `backward` is for one loss and many inputs.

        Args:
            qpos: (K, nq), of the initial position in MuJoCo's coordinates. For quaternions only the
                part along rotations has an effect.
            qpos_tangent: (K, nv), of the same in the tangent space; adds to qpos.
            qvel: (K, nv).
            act: (K, na).
            ctrl: (K, nstep, nu).
            qfrc_applied: (K, nstep, nv).
            params: a dict from names of fields of MjModel (`diffmj.parameter_names()`) to arrays
                (K, *shape of the field).

        Without the dimension K they are one tangent. With a batch, B comes first.

        Raises:
            InputError: a wrong shape, a number that is not finite, no tangent at all, an unknown
                parameter, or a rollout that failed.
            UnsupportedError: params, and the steps are adaptive or differentiated by differences.
            RolloutError: a tangent is not finite.
            KeyboardInterrupt: Ctrl-C.
        """
        return _linearize.forward(
            self,
            params,
            qpos=qpos,
            qpos_tangent=qpos_tangent,
            qvel=qvel,
            act=act,
            ctrl=ctrl,
            qfrc_applied=qfrc_applied,
        )

    def linearize(self) -> tuple[Array, ...]:
        """Derivatives of every step, as `Simulator.linearize` gives them for one. Contacts and
        tendon paths that the rollout kept are not recomputed, and steps run on threads.

        Returns:
            A: (nstep, 2 nv + na, 2 nv + na), next state by state.
            B: (nstep, 2 nv + na, nu), next state by the controls of the step.
            B_end: (nstep, 2 nv + na, nu), next state by the controls of the next row; only where
                controls are linear between rows (`Simulator(control="linear")`).

        Raises:
            InputError: a rollout that failed.
            KeyboardInterrupt: Ctrl-C.
        """
        return _linearize.linearize(self)

    def _parameter_shape(self, name: str) -> tuple[int, ...]:
        """The shape of a field of MjModel."""
        nrow, width = self._sim._model.parameter_shape(name)
        if name.startswith("opt."):
            return (width,)
        return (nrow,) if width == 1 else (nrow, width)

    def _cotangent(self, name: str, value: npt.ArrayLike, final: bool = False) -> Array:
        """Two dimensions: one row per rollout."""
        label = f"final[{name!r}]" if final else name
        array = to_array("backward", label, value)
        expected, dims = self._row(name), list(OUTPUT_ROWS[name])
        if not final:
            expected, dims = (self.nstep + 1, *expected), ["nstep + 1", *dims]
        if self._batched:
            expected, dims = (len(self._record), *expected), ["B", *dims]
        if array.shape != expected:
            words = ", ".join(dims) + ("," if len(dims) == 1 else "")
            raise InputError(
                f"backward: {label} has shape {array.shape}, expected ({words}) = {expected}: "
                + (
                    "the row of the last state"
                    if final
                    else "one row per state; for a loss of the final state only, use "
                    f"final={{{name!r}: ...}}"
                )
            )
        # the rows that a failed rollout of a batch did not reach are NaN, and so is its gradient
        counts = np.asarray(self._record.ok).reshape(-1, *(1,) * len(expected[1:]))
        require_finite("backward", label, array, counts if self._batched else True)
        return array.reshape(len(self._record), -1)

    def _sensor_cotangents(self, value: Any, final: bool = False) -> Any:
        """Cotangents by name become an array of all sensors."""
        if not isinstance(value, Mapping):
            return value
        who = "backward"
        dimensions = {"B": len(self._record)} if self._batched else {}
        if not final:
            dimensions["nstep + 1"] = self.nstep + 1
        lead = tuple(dimensions.values())
        out = np.zeros((*lead, self._sim.nsensordata))
        for name, numbers in value.items():
            label = f"{'final: ' if final else ''}sensordata['{name}']"
            begin, size = self._sensor_range(f"{who}: sensordata", name)
            array = to_array(who, label, numbers)
            if size == 1 and array.shape == lead:
                array = array[..., None]
            if array.shape != (*lead, size):
                words = ", ".join((*dimensions, "dim"))
                raise InputError(
                    f"{who}: {label} has shape {array.shape}, expected ({words}) = {(*lead, size)}"
                )
            out[..., begin : begin + size] += array
        return out

    def _final_cotangents(self, final: Any) -> dict[str, Array]:
        if final is None:
            return {}
        if not isinstance(final, Mapping):
            raise InputError(
                f"backward: final is a {type(final).__name__}, expected a dict from names to rows, "
                "for example {'qpos': x}"
            )
        for name in final:
            if name not in OUTPUT_ROWS:
                raise InputError(
                    f"backward: final has {name!r}, expected names among {', '.join(OUTPUT_ROWS)}"
                    + did_you_mean(name, OUTPUT_ROWS)
                )
        given = dict(final)
        given["sensordata"] = self._sensor_cotangents(given.get("sensordata"), final=True)
        return {
            name: self._cotangent(name, x, final=True) for name, x in given.items() if x is not None
        }

    def _with_last(self, rows: dict[str, Array], last: dict[str, Array]) -> dict[str, Array]:
        """Cotangents of all rows, with those of the last row added."""
        out = dict(rows)
        for name, x in last.items():
            nrollout, width = x.shape
            whole = np.zeros((nrollout, self.nstep + 1, width))
            if name in rows:
                whole += rows[name].reshape(whole.shape)
            whole[:, -1] += x
            out[name] = whole.reshape(nrollout, -1)
        return out

    def _force_cotangents(self, value: Any) -> list[dict[int, Array]]:
        """For each rollout, arrays by the number of their step."""
        who, one = "backward", "a dict from the number of a step to an array of nefc numbers"
        if not self._batched:
            if not isinstance(value, Mapping):
                raise InputError(f"{who}: efc_force is a {type(value).__name__}, expected {one}")
            return [self._force_rows("efc_force", value, 0)]
        batch = len(self._record)
        words = f"expected a list with one entry per rollout, B = {batch}: {one}, or None"
        if not isinstance(value, Sequence):
            raise InputError(f"{who}: efc_force is a {type(value).__name__}, {words}")
        if len(value) != batch:
            raise InputError(f"{who}: efc_force has {len(value)} entries, {words}")
        out = []
        for i, rows in enumerate(value):
            if rows is not None and not isinstance(rows, Mapping):
                raise InputError(
                    f"{who}: efc_force[{i}] is a {type(rows).__name__}, expected {one}, or None"
                )
            out.append(self._force_rows(f"efc_force[{i}]", rows or {}, i))
        return out

    def _force_rows(self, name: str, rows: Mapping[Any, Any], rollout: int) -> dict[int, Array]:
        who = "backward"
        by_step = {to_index(who, f"a step of {name}", k, self.nstep): x for k, x in rows.items()}
        if not self._record.ok[rollout]:
            return {}  # its gradient is NaN, whatever the cotangent
        nefc = self.steps.nefc[rollout] if self._batched else self.steps.nefc
        out = {}
        for step, value in by_step.items():
            array = to_array(who, f"{name}[{step}]", value)
            if array.shape != (nefc[step],):
                raise InputError(
                    f"{who}: {name}[{step}] has shape {array.shape}, expected (nefc,) = "
                    f"({nefc[step]},): one number per constraint row of the step"
                )
            require_finite(who, f"{name}[{step}]", array)
            out[step] = array
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        record = self._record
        return _restore, (
            self._sim,
            record.to_bytes(self._sim._model, self._sim._models),
            record.nstep,
            self._batched,
            self._xfrc_applied,
        )

    def __repr__(self) -> str:
        batch = f"batch={self.batch}, " if self._batched else ""
        outcome = f"{np.sum(self.ok)} ok" if self._batched else self.outcome
        return f"Trajectory({batch}nstep={self.nstep}, {outcome})"


def _restore(
    sim: Simulator, record: list[bytes], nstep: int, batched: bool, xfrc_applied: bool
) -> Trajectory:
    """What pickle makes a Trajectory with."""
    return Trajectory(
        sim,
        _diffmj.TrajectoryBatch.from_bytes(sim._model, record, nstep, sim._models),
        batched,
        xfrc_applied,
    )


def _parameters(params: Iterable[str]) -> list[str]:
    if isinstance(params, str):
        raise InputError(f"backward: params is a string, expected a list: params=['{params}']")
    try:
        names = list(params)
    except TypeError:
        raise InputError(
            f"backward: params is {params!r}, expected a list of names of fields of MjModel"
        ) from None
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"backward: params contains {name!r}, expected names of fields")
    return names
