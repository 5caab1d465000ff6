"""Options of a Simulator: single keywords, or objects that hold those that belong together.

Names, ranges and defaults are those of the extension's list of options; nothing is repeated here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from . import _diffmj
from ._cfd import Cfd
from ._errors import InputError
from ._option_values import named_values


@dataclass(frozen=True, kw_only=True)
class RungeKutta:
    """A Runge-Kutta method with its options; use `Auto`, `Tsit5` or another subclass.

    `Simulator(model, integrator=diffmj.Tsit5(rtol=1e-8, interval=0.02))`. A rollout of nstep rows
    has nstep intervals, each with as many steps as it needs. None stands for the default.

    Attributes:
        rtol, atol: tolerances for the error of a step in (tangent) positions, velocities and
            activations; default 1e-06 and 1e-08.
        max_steps: limit of accepted and rejected steps of a rollout; default 100000.
        step: take constant steps of this size [s] instead of adaptive ones; a little less, if an
            interval is not a whole number of them.
        interval: time between rows of the trajectory and of ctrl [s]; default: the timestep.
        control: "hold" (default) keeps a row of ctrl over its interval, as MuJoCo does; "linear"
            interpolates linearly from each row to the next and holds the last.
        events: end steps where a contact or limit becomes active, and include the jump of the
            forces there in the gradient; default true. False is for comparison.
        onset: width [m or rad] over which contacts and limits set in, so that their forces do not
            jump and no step ends there; default 0, at once, as MuJoCo's do. 1e-4 is for
            bodies that stand or roll on default contacts; it must be at least 5 (rtol + atol).
        adjoint: "discrete" (default) reverses the accepted steps, exactly; "interpolated" solves
            the adjoint equation along their dense output; "backsolve" solves the states backwards
            together with it, which is unstable with damped contacts. `Rodas4p` and `Auto` have
            "interpolated" alone.
        checkpoints: number of states inside the rollout that are kept for the backward pass. The
            steps between them are recomputed, with the same bits. Default: all steps are kept with
            their Runge-Kutta stages.
        adjoint_rtol, adjoint_atol: tolerances of "interpolated" and "backsolve"; default: rtol and
            atol.
        min_step, max_step: bounds of a step [s]; default 1e-12 and none. Adaptive steps also stay
            within the stability limit of an explicit method, whatever these bounds are.
        pid: coefficients (p, i, d) of the step controller; default 0.2 0.6 0.
        safety: factor on the step that the controller proposes; default 0.9.
        step_ratio: bounds (shrink, grow) of the ratio of a step to the one before; default 0.2 10.
    """

    method: ClassVar[str] = ""

    rtol: float | None = None
    atol: float | None = None
    max_steps: int | None = None
    step: float | None = None
    interval: float | None = None
    control: str | None = None
    events: bool | None = None
    onset: float | None = None
    adjoint: str | None = None
    checkpoints: int | None = None
    adjoint_rtol: float | None = None
    adjoint_atol: float | None = None
    min_step: float | None = None
    max_step: float | None = None
    pid: tuple[float, float, float] | None = None
    safety: float | None = None
    step_ratio: tuple[float, float] | None = None


class Tsit5(RungeKutta):
    """Tsitouras' method of order 5(4): the first choice of the explicit ones. See
    `RungeKutta` for its options.

    Examples:
        >>> steps = diffmj.Tsit5(rtol=1e-8, interval=0.02)
        >>> sim = diffmj.Simulator("pendulum.xml", integrator=steps)
        >>> traj = sim.rollout(qpos=[0.5], nstep=50)
        >>> traj.time[-1].round(12), traj.integrator.accepted > 0
        (np.float64(1.0), True)
    """

    method = "tsit5"


class Dopri5(RungeKutta):
    """Dormand and Prince's method of order 5(4). See `RungeKutta` for its options."""

    method = "dopri5"


class Dopri8(RungeKutta):
    """Dormand and Prince's method of order 8(5), for tight tolerances and smooth motion. See
    `RungeKutta` for its options."""

    method = "dopri8"


class Bosh3(RungeKutta):
    """Bogacki and Shampine's method of order 3(2). See `RungeKutta` for its options."""

    method = "bosh3"


class Heun(RungeKutta):
    """Heun's method of order 2(1). See `RungeKutta` for its options."""

    method = "heun"


class Midpoint(RungeKutta):
    """The explicit midpoint method of order 2(1). See `RungeKutta` for its options."""

    method = "midpoint"


class Ralston(RungeKutta):
    """Ralston's method of order 2(1). See `RungeKutta` for its options."""

    method = "ralston"


class ExplicitEuler(RungeKutta):
    """Euler's method, which has no error estimate and needs a constant `step`. See `RungeKutta` for
    its options."""

    method = "explicit_euler"


class Rodas4p(RungeKutta):
    """Steinebach's linearly implicit method of order 4(3), for stiff motion: its steps have no
    limit of stability. See `RungeKutta` for its options."""

    method = "rodas4p"


class Auto(RungeKutta):
    """`Tsit5`, and `Rodas4p` where the stability of that would limit steps: for any robot. See
    `RungeKutta` for its options."""

    method = "auto"


@dataclass(frozen=True)
class Smooth:
    """Smooth colliders, forward and backward: contacts have no jumps or kinks in the geoms' poses
    and sizes. `Simulator(model, collisions=diffmj.Smooth(1e-3))`.

    Attributes:
        smoothness: width [m] over which the cases of a collider are blended; default 0.001. As it
            goes to 0, contacts converge to MuJoCo's.
    """

    mode: ClassVar[str] = "smooth"

    smoothness: float | None = None


class SmoothBackward(Smooth):
    """MuJoCo's contacts and forces with the derivatives of the smooth ones: a surrogate. Rollouts
    keep the same bits. See `Smooth` for its option."""

    mode = "smooth-backward"


class SmoothField(Smooth):
    """The derivative of the dynamics with smooth contacts, solved again at every state of the
    backward pass: a surrogate. Rollouts keep the same bits. See `Smooth` for its option."""

    mode = "smooth-field"


class Options:
    """The options that a Simulator was given; it can be pickled."""

    def __init__(self, given: Mapping[str, Any], cfd: Cfd | None):
        who = "Simulator"
        given = _together(who, dict(given), "integrator", RungeKutta, "method")
        given = _together(who, given, "collisions", Smooth, "mode")
        if cfd is not None and not isinstance(cfd, Cfd):
            raise InputError(f"{who}: cfd is {cfd!r}, expected a diffmj.Cfd or None")
        self.values = named_values(who, _diffmj.model_options(), given)
        self.cfd = cfd

    def record(self) -> _diffmj.ModelOptions:
        """The same in the extension's type. Raises InputError if an option is out of range."""
        return _diffmj.ModelOptions(self.values, None if self.cfd is None else self.cfd._record())


def _together(
    who: str, given: dict[str, Any], name: str, kind: type, attribute: str
) -> dict[str, Any]:
    """Replaces an object such as Tsit5(rtol=1e-8) by the name of the method and its options."""
    value = given.get(name)
    if isinstance(value, type) and issubclass(value, kind):
        raise InputError(f"{who}: {name} is the class {value.__name__}; use {value.__name__}()")
    if not isinstance(value, kind):
        return given
    called = type(value).__name__
    word = getattr(value, attribute)
    if not word:
        raise InputError(f"{who}: {name} is {called}; use one of its subclasses, such as Tsit5")
    inside = {x.name: getattr(value, x.name) for x in fields(value)}  # type: ignore[arg-type]
    both = [x for x in inside if given.get(x) is not None]
    if both:
        inner = ", ".join(f"{x}={given[x]!r}" for x in both)
        raise InputError(
            f"{who}: {', '.join(both)} {'is' if len(both) == 1 else 'are'} given beside "
            f"{name}={called}(...); give {'it' if len(both) == 1 else 'them'} inside: "
            f"{called}({inner})"
        )
    return {**given, **inside, name: word}
