"""ParametricSimulator: simulators as a function of attributes of an MJCF, and gradients in them."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, to_threads
from ._errors import InputError
from ._field_values import common_size
from ._option_values import did_you_mean
from ._simulator import Simulator
from ._trajectory import Trajectory

Build = Callable[[dict[str, float]], "mujoco.MjModel | mujoco.MjSpec"]


class _Maker:
    """A function of a dict of numbers as one of an array."""

    def __init__(self, build: Build, names: list[str]):
        self._build, self._names = build, names

    def __call__(self, theta: npt.ArrayLike) -> mujoco.MjModel:
        made = self.make(theta)
        if isinstance(made, mujoco.MjSpec):
            made = made.compile()
        if not isinstance(made, mujoco.MjModel):
            raise InputError(
                f"ParametricSimulator: the function returned a {type(made).__name__}, expected a "
                "mujoco.MjModel or MjSpec"
            )
        return made

    def make(self, theta: npt.ArrayLike) -> mujoco.MjModel | mujoco.MjSpec:
        numbers = (float(x) for x in np.asarray(theta))
        return self._build(dict(zip(self._names, numbers, strict=True)))


def _call(maker: weakref.ref[_Maker], theta: npt.ArrayLike) -> mujoco.MjModel:
    alive = maker()
    assert alive is not None  # the ParametricSimulator has it
    return alive(theta)


class ParametricSimulator:
    """A simulator for every value of some parameters, and gradients in them.

        family = diffmj.ParametricSimulator("robot.xml", ["elbow/damping", "cube/size"])
        sim = family.at({"elbow/damping": 0.3})
        traj = sim.rollout(qpos, qvel, ctrl=ctrl)
        family.backward(traj, qpos=dloss_dqpos)   # {"elbow/damping": ..., "cube/size[0]": ...}

    Parameters are attributes of an MJCF, or the arguments of a function that builds a model. The
    gradient includes everything that MuJoCo's compiler derives from them (masses, inertias, frames,
    invweight0, ...): dL/dθ = Σ dL/dfield · dfield/dθ over the fields of mjModel that change. The
    second factor is a central difference of the compiler. If a field changes and acts on the motion
    but has no gradient, an error names it.

    Examples:
        >>> family = diffmj.ParametricSimulator("pendulum.xml", {"hinge/damping": 0.2})
        >>> traj = family.at({"hinge/damping": 0.3}).rollout(qpos=[0.5], nstep=50)
        >>> list(family.backward(traj, final={"qpos": [1.0]}))
        ['hinge/damping[0]']
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Build,
        start: Iterable[str] | Mapping[str, float],
        *,
        nthread: int | None = None,
        **simulator: Any,
    ):
        """
        Args:
            model: the path of an MJCF file, an MJCF string, or a function from a dict of numbers to
                a mujoco.MjModel or MjSpec. All models must have the same structure.
            start: for an MJCF, names of attributes, or a dict that gives them values to start from:
                "elbow/damping", "cube/size[0]"; "geom:cube/pos[0]" where several kinds of elements
                have that name; "default.geom/solref[0]", "default(toe).geom/friction[0]";
                "option/gravity[2]". Without an index, an attribute with several numbers stands for
                all of them that are not 0. Names and units are those of mjSpec. For a function, a
                dict of its arguments.
            nthread: as for `Simulator`.
            simulator: further arguments of `Simulator`: integrator, cfd, ...

        Raises:
            InputError: an attribute that is not in the MJCF; the message lists the available names.
            MujocoError: the model does not compile.
        """
        self.nthread = to_threads("ParametricSimulator", nthread)
        self._jacobian: tuple[bytes, Any] | None = None
        self._allow_idle = False  # parameters that change nothing in the model
        if isinstance(start, str):
            raise InputError(
                f"ParametricSimulator: start is a string, expected a list: ['{start}']"
            )
        values = dict(start) if isinstance(start, Mapping) else {}
        names = list(start)
        if callable(model):
            if not values:
                raise InputError(
                    "ParametricSimulator: start is not a dict; give the function's arguments "
                    "values to start from"
                )
            self._is_function = True
            # a weak reference: the extension's objects take no part in garbage collection, and the
            # function may lead back to this one
            self._maker = _Maker(model, names)
            first = np.array([float(values[name]) for name in names])
            self._base = Simulator(self._maker(first), nthread=nthread, **simulator)
            self._family = _diffmj.ParametricModel.from_function(
                functools.partial(_call, weakref.ref(self._maker)), first, names, self._base._model
            )
            values = {}
        else:
            self._is_function = False
            text = os.fsdecode(model) if isinstance(model, os.PathLike) else model
            self._base = Simulator(text, nthread=nthread, **simulator)
            self._family = _diffmj.ParametricModel.from_attributes(text, names, self._base._model)
        self._start = np.array(self._family.start)
        if values:
            self._start = self._theta("ParametricSimulator", values)

    @property
    def names(self) -> list[str]:
        """Names of the parameters; attributes with several numbers have one name each,
        "cube/size[0]"."""
        return list(self._family.names)

    @property
    def start(self) -> dict[str, float]:
        """The values to start from."""
        return dict(zip(self.names, self._start.tolist(), strict=True))

    def at(self, values: Mapping[str, float] | npt.ArrayLike | None = None) -> Simulator:
        """The simulator for these parameters: a dict of some of them (others as at the start), or
        an array of all, in the order of `names`. This is cheap: simulators share everything except
        numbers.

        With a leading dimension B, every rollout has its own parameters:

            sim = family.at({"elbow/damping": rng.uniform(0.1, 0.5, 64)})
            traj = sim.rollout(qpos, qvel, ctrl=ctrl)     # a batch of 64

        Raises:
            InputError: a wrong name or shape, or a model with another structure.
            MujocoError: the model does not compile with these values.
        """
        theta = self._theta("at", {} if values is None else values)
        models = [self._family.at(row) for row in np.atleast_2d(theta)]
        sim = self._base._like(models[0], models if theta.ndim == 2 else ())
        sim._theta = theta
        return sim

    def backward(self, trajectory: Trajectory, **cotangents: Any) -> dict[str, float | Array]:
        """d(loss)/d(parameter) for a trajectory of a simulator from `at(...)`, by name; with a
        batch, arrays.

        Args:
            trajectory: of a simulator from `at`.
            cotangents: as for `Trajectory.backward`, without params.

        Raises:
            UnsupportedError: a parameter changes a field of mjModel that has no gradient.
        """
        theta = getattr(trajectory._sim, "_theta", None)
        if theta is None:
            raise InputError(
                "backward: the trajectory is not of a simulator that ParametricSimulator.at gave"
            )
        if "params" in cotangents:
            raise InputError("backward: params is chosen by the parameters; leave it out")
        if theta.ndim == 2:
            jacobians = [
                self._family.jacobian(row, self.nthread, self._allow_idle) for row in theta
            ]
        else:
            jacobians = [self._jacobian_at(theta)]
        fields = sorted({name for x in jacobians for name in x.fields})
        gradient = trajectory.backward(**cotangents, params=fields)
        batch = 1 if trajectory.batch is None else trajectory.batch
        rows = {
            name: np.ascontiguousarray(x).reshape(batch, -1) for name, x in gradient.params.items()
        }
        if theta.ndim == 2:
            numbers = np.concatenate(
                [
                    x.pullback({name: row[i : i + 1] for name, row in rows.items()}, 1)
                    for i, x in enumerate(jacobians)
                ]
            )
        else:
            numbers = jacobians[0].pullback(rows, batch)
        out = numbers if trajectory.batch is not None else numbers[0]
        return {
            name: out[..., i] if trajectory.batch is not None else float(out[i])
            for i, name in enumerate(self.names)
        }

    def _spec(self, values: Mapping[str, float]) -> mujoco.MjSpec:
        """The model of these parameters as an MjSpec."""
        theta = self._theta("spec", values)
        if not self._is_function:
            return mujoco.MjSpec.from_string(self._family.mjcf(theta))
        made = self._maker.make(theta)
        if not isinstance(made, mujoco.MjSpec):
            raise InputError(
                "spec: the function makes an MjModel, which has no MJCF; let it return the MjSpec"
            )
        return made

    def _mjcf(self, values: Mapping[str, float]) -> str:
        if not self._is_function:
            return self._family.mjcf(self._theta("mjcf", values))
        spec = self._spec(values)
        spec.compile()  # only a model that compiles is written
        return str(spec.to_xml())

    def _jacobian_at(self, theta: Array) -> Any:
        key = theta.tobytes()
        if self._jacobian is None or self._jacobian[0] != key:
            self._jacobian = (
                key,
                self._family.jacobian(theta, self.nthread, self._allow_idle),
            )
        return self._jacobian[1]

    def _theta(self, who: str, values: Mapping[str, float] | npt.ArrayLike) -> Array:
        names = self.names
        if not isinstance(values, Mapping):
            theta = np.ascontiguousarray(values, dtype=float)
            if theta.ndim not in (1, 2) or theta.shape[-1] != len(names) or len(theta) == 0:
                raise InputError(
                    f"{who}: the parameters have shape {theta.shape}, expected ({len(names)},), or "
                    f"(B, {len(names)}) with values for every rollout"
                )
            return theta
        given: list[tuple[list[int], Array]] = []
        sizes: dict[str, int] = {}
        for name, value in values.items():
            # an attribute of several numbers, or the only one of them
            matches = [i for i, x in enumerate(names) if x == name or x.startswith(f"{name}[")]
            if not matches:
                raise InputError(
                    f"{who}: there is no parameter '{name}'; there are {names}"
                    + did_you_mean(name, names)
                )
            n = len(matches)
            numbers = np.asarray(value, dtype=float)
            if numbers.ndim == 1 and n == 1 and len(numbers) > 1:
                numbers = numbers[:, None]
            if numbers.ndim == 2 and numbers.shape[1] == n and len(numbers) > 0:
                sizes[name] = len(numbers)
            elif numbers.shape not in ((), (n,)):
                raise InputError(
                    f"{who}: {name} has shape {numbers.shape}, expected a number, ({n},), or "
                    + (f"(B, {n})" if n > 1 else "(B,)")
                    + " with values for every rollout"
                )
            given.append((matches, numbers))
        batch = common_size(who, sizes)
        theta = self._start.copy() if batch is None else np.tile(self._start, (batch, 1))
        for matches, numbers in given:
            theta[..., matches] = numbers
        return theta

    def __repr__(self) -> str:
        return f"ParametricSimulator({self.start})"
