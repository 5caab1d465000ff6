"""The read-only properties of a Simulator."""

from __future__ import annotations

from . import _diffmj


class ModelProperties:
    """Sizes of the model, and how it is simulated and differentiated."""

    _model: _diffmj.Model

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
        return self._model.adjoint

    @property
    def muscle_smoothing(self) -> float:
        """Width over which muscles are smoothed in the backward pass; 0: the exact gradient."""
        value: float = self._model.options.get("muscle_smoothing")  # type: ignore[assignment]
        return value

    @property
    def collisions(self) -> str:
        """Which colliders are used: "mujoco", "smooth", "smooth-backward" or "smooth-field"."""
        value: str = self._model.options.get("collisions")  # type: ignore[assignment]
        return value

    @property
    def smoothness(self) -> float:
        """Width of smooth colliders [m]; not used by "mujoco"."""
        value: float = self._model.options.get("smoothness")  # type: ignore[assignment]
        return value

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
