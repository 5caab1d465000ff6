"""identify: parameters of a model from recordings, by gradients."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, to_integer
from ._errors import InputError
from ._parametric import Build, ParametricSimulator
from ._recording import Recording, segments, split
from ._simulator import Simulator

_METHODS = ("adam", "lbfgs")


@dataclass(frozen=True)
class FitIteration:
    """An iteration of a fit.

    Attributes:
        iteration: its number, from 0.
        loss: mean over segments of ½ Σ weight residual².
        values: the parameters by name.
        seconds: since the fit began.
        failed: segments whose rollout failed; they do not count in the loss.
    """

    iteration: int
    loss: float
    values: dict[str, float]
    seconds: float
    failed: int


@dataclass(frozen=True, eq=False)
class Fit:
    """What `identify` found.

    Attributes:
        values: the fitted parameters by name.
        errors: their standard errors; infinite where the data say nothing.
        correlation: (p, p), of the estimates.
        undetermined: combinations of parameters that the data do not determine, each a dict from
            names to weights relative to the parameters' sizes.
        loss: mean over segments of ½ Σ weight residual², at the values.
        held_out: the same of segments that were not used, at the start and at the values; None if
            nothing was held out.
        history: a list of `FitIteration`.
        interrupted: it was stopped by Ctrl-C; the values are the best until then.
        family: the `ParametricSimulator`.
    """

    values: dict[str, float]
    errors: dict[str, float]
    correlation: Array
    undetermined: list[dict[str, float]]
    loss: float
    held_out: tuple[float, float] | None
    history: list[FitIteration] = field(repr=False)
    interrupted: bool
    family: ParametricSimulator = field(repr=False)

    @property
    def simulator(self) -> Simulator:
        """The simulator of the fitted values."""
        return self.family.at(self.values)

    def __str__(self) -> str:
        lines = [
            f"{name:30s} {value:12.6g} ± {self.errors[name]:.2g}"
            for name, value in self.values.items()
        ]
        lines.append(f"loss {self.history[0].loss:.4g} -> {self.loss:.4g}")
        if self.held_out is not None:
            lines.append(f"held out {self.held_out[0]:.4g} -> {self.held_out[1]:.4g}")
        lines += [
            "not determined: " + " ".join(f"{w:+.2g} {name}" for name, w in x.items())
            for x in self.undetermined
        ]
        return "\n".join(lines)


def identify(
    model: str | os.PathLike[str] | Build | ParametricSimulator,
    start: Sequence[str] | Mapping[str, float] | None = None,
    recordings: Recording | Sequence[Recording] = (),
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    segment: int = 4,
    stride: int | None = None,
    rule: str = "all",
    targets: Sequence[str] | None = None,
    held_out: float = 0.0,
    method: str = "adam",
    iterations: int = 100,
    rate: float = 0.03,
    betas: tuple[float, float] = (0.5, 0.9),
    minibatch: int | None = None,
    seed: int = 0,
    nthread: int = 0,
    simulator: Mapping[str, Any] | None = None,
    progress: Callable[[int, float], object] | None = None,
) -> Fit:
    """Fits parameters of a model to recordings.

        fit = diffmj.identify("robot.xml", {"elbow/damping": 0.1}, recordings,
                              bounds={"elbow/damping": (0, 10)}, segment=10)
        print(fit)

    Recordings are cut into short segments. Each starts at a recorded state; the loss is the mean
    over segments of ½ Σ weight residual², and its gradient goes through all that MuJoCo's compiler
    derives from the parameters.

    Args:
        model: an MJCF, a function from a dict of numbers to a model, or a `ParametricSimulator`.
        start: as of `ParametricSimulator`.
        recordings: one or several `Recording`.
        bounds: lowest and highest value of parameters by name; ±inf where there is none. They are
            kept by a change of variables: logistic within two bounds, softplus at one.
        segment: recorded intervals of a segment.
        stride, rule, targets: as of `segments`.
        held_out: share of the recordings to keep for `Fit.held_out`.
        method: "adam", or "lbfgs" (scipy's L-BFGS-B: all segments in every iteration; faster near
            the end, if the loss is smooth there).
        iterations: at most.
        rate, betas: of Adam; the rate is relative to the parameters' sizes at the start.
        minibatch: segments per iteration of Adam; None: all.
        seed: of minibatches and of what is held out.
        nthread: 0: as many as there are cores. Results do not depend on it.
        simulator: arguments of `Simulator`: integrator, cfd, ...
        progress: called with the iteration and the loss.

    Raises:
        InputError: a wrong argument, a recording that does not fit the model, or a bound that
            excludes the start.
        UnsupportedError: a parameter acts through a field of mjModel that has no gradient.

    Warns:
        RuntimeWarning: parameters that the data do not determine.

    Ctrl-C ends the fit with the best values until then.
    """
    who = "identify"
    if method not in _METHODS:
        raise InputError(f"{who}: method is {method!r}, expected one of {', '.join(_METHODS)}")
    if isinstance(model, ParametricSimulator):
        if start is not None or simulator is not None:
            raise InputError(f"{who}: start and simulator belong to the ParametricSimulator")
        family = model
    else:
        if start is None:
            raise InputError(f"{who}: start is not given; name the parameters to fit")
        family = ParametricSimulator(model, start, nthread=nthread, **dict(simulator or {}))
    names = family.names
    theta = np.array(list(family.start.values()))
    limits = _bounds(who, names, bounds)
    records = [recordings] if isinstance(recordings, Recording) else list(recordings)
    if not records:
        raise InputError(f"{who}: there are no recordings")
    training, test = split(records, held_out, seed) if held_out > 0 else (records, [])

    def objective(which: Sequence[Recording]) -> _diffmj.Objective:
        cut = segments(family.at(), which, segment, stride, rule, targets=targets)
        if not cut:
            raise InputError(
                f"{who}: the recordings have no segment of {segment} intervals; use shorter ones, "
                "or another rule"
            )
        return _diffmj.Objective(family._family, [x._record for x in cut])

    training_objective = objective(training)
    test_objective = objective(test) if test else None
    count = to_integer(who, "iterations", iterations, least=0)
    # a Python function builds models in this thread alone
    threads = 1 if family._is_function else nthread
    if method == "adam":
        found, loss, steps, interrupted = training_objective.fit(
            theta,
            limits,
            iterations=count,
            rate=float(rate),
            beta1=float(betas[0]),
            beta2=float(betas[1]),
            minibatch=0 if minibatch is None else to_integer(who, "minibatch", minibatch, least=1),
            seed=to_integer(who, "seed", seed, most=2**32 - 1),
            nthread=threads,
            progress=progress,
        )
        history = [
            FitIteration(
                x.iteration, x.loss, dict(zip(names, x.theta, strict=True)), x.seconds, x.nfailed
            )
            for x in steps
        ]
    else:
        found, loss, history, interrupted = _lbfgs(
            training_objective, names, theta, limits, count, threads, progress
        )
    best = np.asarray(found, dtype=float)
    errors, correlation, unknown = training_objective.uncertainty(best)
    undetermined = [
        {name: w for name, w in zip(names, x, strict=True) if abs(w) > 1e-3} for x in unknown
    ]
    for x in undetermined:
        warnings.warn(
            f"the recordings do not determine {', '.join(x)}: the loss does not change with "
            + " ".join(f"{w:+.2g} {name}" for name, w in x.items())
            + " (relative to their sizes); leave one of them out, or record a motion in which it "
            "matters",
            RuntimeWarning,
            stacklevel=2,
        )
    return Fit(
        values=dict(zip(names, best.tolist(), strict=True)),
        errors=dict(zip(names, errors.tolist(), strict=True)),
        correlation=correlation,
        undetermined=undetermined,
        loss=loss,
        held_out=None
        if test_objective is None
        else tuple(test_objective.evaluate(x, False, threads)[0] for x in (theta, best)),
        history=history,
        interrupted=interrupted,
        family=family,
    )


def _bounds(
    who: str, names: list[str], bounds: Mapping[str, tuple[float, float]] | None
) -> list[tuple[float, float]]:
    out = {name: (-math.inf, math.inf) for name in names}
    for key, value in (bounds or {}).items():
        matches = [name for name in names if name == key or name.startswith(f"{key}[")]
        if not matches:
            raise InputError(f"{who}: bounds has '{key}', expected names among {names}")
        try:
            low, high = (float(x) for x in value)
        except (TypeError, ValueError):
            raise InputError(
                f"{who}: the bounds of {key} are {value!r}, expected two numbers"
            ) from None
        out |= dict.fromkeys(matches, (low, high))
    return list(out.values())


def _lbfgs(
    objective: _diffmj.Objective,
    names: list[str],
    theta: npt.NDArray[np.float64],
    limits: list[tuple[float, float]],
    iterations: int,
    nthread: int,
    progress: Callable[[int, float], object] | None,
) -> tuple[Array, float, list[FitIteration], bool]:
    try:
        import scipy.optimize
    except ImportError:
        raise InputError(
            "identify: method 'lbfgs' needs scipy; install it, or use method='adam'"
        ) from None
    import time

    variables = _diffmj.FitVariables(theta, limits, names)
    begin = time.perf_counter()
    history: list[FitIteration] = []
    best: list[Any] = [math.inf, theta]

    def value(z: Array) -> tuple[float, Array]:
        at = variables.theta(z)
        loss, gradient, failed = objective.evaluate(at, True, nthread)
        if loss < best[0]:
            best[:] = [loss, at]
        latest[:] = [loss, failed]
        if not history:
            record(z)
        return loss, gradient * variables.slope(z)

    def record(z: Array) -> None:
        history.append(
            FitIteration(
                len(history),
                latest[0],
                dict(zip(names, variables.theta(z).tolist(), strict=True)),
                time.perf_counter() - begin,
                latest[1],
            )
        )
        if progress is not None:
            progress(history[-1].iteration, history[-1].loss)

    latest: list[Any] = [math.inf, 0]
    interrupted = False
    try:
        if iterations == 0:
            value(np.zeros(len(theta)))
        else:
            scipy.optimize.minimize(
                value,
                np.zeros(len(theta)),
                jac=True,
                method="L-BFGS-B",
                callback=record,
                options={"maxiter": iterations, "ftol": 1e-15, "gtol": 1e-12},
            )
    except KeyboardInterrupt:
        interrupted = True
    return best[1], best[0], history, interrupted
