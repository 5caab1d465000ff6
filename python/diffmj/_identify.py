"""identify: fits parameters of a model to recordings, by gradients."""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _diffmj
from ._arrays import Array, to_threads
from ._cfd import warn_capped
from ._errors import InputError
from ._fit import Fit, FitIteration, _Parts, undetermined_text
from ._option_values import did_you_mean, filled, to_pair
from ._parametric import Build, ParametricSimulator
from ._recording import Recording, split
from ._segments import segments

if TYPE_CHECKING:
    from .ray import Pool

_METHODS = ("adam", "lm", "lbfgs")


def identify(
    model: str | os.PathLike[str] | Build | ParametricSimulator,
    start: Sequence[str] | Mapping[str, float] | None = None,
    recordings: Recording | Sequence[Recording] = (),
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    segment: int = 4,
    stride: int | None = None,
    rule: str | None = None,
    targets: Sequence[str] | None = None,
    held_out: float = 0.0,
    method: str | None = None,
    loss: str | None = None,
    loss_scale: float | None = None,
    iterations: int | None = None,
    rate: float | None = None,
    betas: tuple[float, float] | None = None,
    minibatch: int | None = None,
    seed: int | None = None,
    estimate_starts: bool = False,
    errors: bool = True,
    nthread: int | None = None,
    pool: Pool | None = None,
    simulator: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | Callable[[int, float], object] | None = None,
) -> Fit:
    """Fits parameters of a model to recordings.

        fit = diffmj.identify("robot.xml", {"elbow/damping": 0.1}, recordings,
                              bounds={"elbow/damping": (0, 10)}, segment=10)
        print(fit)

    Recordings are cut into short segments, and each simulation starts at a recorded state. The loss
    is the mean over segments of ½ Σ weight residual² (or of another `loss`). Its gradient includes
    everything that MuJoCo's compiler derives from the parameters.

    Args:
        model: an MJCF, a function from a dict of numbers to a model, or a `ParametricSimulator`.
        start: as for `ParametricSimulator`.
        recordings: one or several `Recording`.
        bounds: lowest and highest value of parameters by name; ±inf where there is none. They are
            enforced by a change of variables: logistic between two bounds, softplus at a single
            bound.
        segment: length of a segment, in recorded intervals.
        stride, rule, targets: as for `segments`.
        held_out: share of the recordings to keep for `Fit.held_out`.
        method: "adam" (default); "lm", Levenberg-Marquardt (Eigen's), which needs few iterations if
            there are few parameters or the segments are short; or "lbfgs" (scipy's L-BFGS-B), for
            many parameters. The last two use all segments in every iteration, and converge faster
            near the minimum if the loss is smooth there.
        loss: "linear" (default) is least squares. "soft_l1", "huber" and "cauchy" give residuals
            beyond `loss_scale` less influence, so that a few large ones do not dominate; they
            occur, for example, where noise makes a contact begin a step too early. The formulas are
            those of scipy's least_squares.
        loss_scale: in units of residuals times the square roots of their weights; 2 to 3 is usual
            if weights are 1/variance.
        iterations: maximum number of iterations; default 100.
        rate, betas: of Adam. The rate is relative to the sizes of the parameters at the start.
        minibatch: segments per iteration of Adam; None: all.
        seed: for minibatches and for the choice of held-out recordings.
        estimate_starts: with "lm", fit the starting state of each segment, too; its first row is
            then a measurement like any other. Use it if noise of the starting state matters in a
            short segment.
        errors: compute standard errors and correlations, and warn about parameters that the data do
            not determine. This needs derivatives of single residuals, which may take longer than a
            short fit. If False, they are NaN.
        nthread: number of threads; None: one per core. Results do not depend on it. A function that
            builds models is called only from the calling thread.
        pool: a `diffmj.ray.Pool`, whose workers simulate the segments of "adam" and "lbfgs" instead
            of threads, with the same bits. Standard errors are computed on threads here.
        simulator: arguments of `Simulator`: integrator, cfd, ...
        checkpoint: path of a file that "adam" and "lm" write every second and at the end.
        resume: continue from the checkpoint, if it exists: "adam" as if it had not been stopped,
            bit for bit; "lm" from the parameters that it had reached. `iterations` counts from the
            first start.
        progress: True shows a line on standard error; None does so if that is a terminal; or a
            function that is called with the iteration and the loss.

    Raises:
        InputError: a wrong argument, a recording that does not fit the model, or a bound that
            excludes the start.
        UnsupportedError: a parameter acts through a field of mjModel that has no gradient.

    Warns:
        RuntimeWarning: the data do not determine some parameters, or an error ended the fit early,
            with the best values so far.

    Ctrl-C ends the fit and returns the best values so far.
    """
    who = "identify"
    nthread = to_threads(who, nthread)
    options = filled(
        who,
        _diffmj.FitOptions(),
        {
            "iterations": iterations,
            "rate": rate,
            "minibatch": minibatch,
            "seed": seed,
            "estimate_starts": estimate_starts,
            "nthread": nthread,
            "checkpoint": None if checkpoint is None else os.fsdecode(checkpoint),
            "resume": resume,
        },
    )
    if betas is not None:
        options.beta1, options.beta2 = to_pair(who, "betas", betas)
    if method is None:
        method = options.method
    if method not in _METHODS:
        raise InputError(
            f"{who}: method is {method!r}, expected one of {', '.join(_METHODS)}"
            + did_you_mean(method, _METHODS)
        )
    if pool is not None and method == "lm":
        raise InputError(
            f"{who}: method 'lm' runs on threads; use 'adam' or 'lbfgs' with a pool, or leave the "
            "pool out"
        )
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
    training, test = split(records, held_out, options.seed) if held_out > 0 else (records, [])

    def objective(which: Sequence[Recording]) -> _diffmj.Objective:
        cut = segments(family.at(), which, segment, stride, rule, targets=targets)
        if not cut:
            raise InputError(
                f"{who}: the recordings have no segment of {segment} intervals; use shorter ones, "
                "or another rule"
            )
        weighting = filled(who, _diffmj.ResidualLoss(), {"kind": loss, "scale": loss_scale})
        out = _diffmj.Objective(family._family, [x._record for x in cut], weighting)
        if pool is not None:
            out.evaluate_by(
                pool._segment_values(family._base, cut, (weighting.kind, weighting.scale))
            )
        return out

    training_objective = objective(training)
    test_objective = objective(test) if test else None
    count = options.iterations
    with _Progress(count, progress) as show:
        if method == "lbfgs":
            if estimate_starts or minibatch is not None or checkpoint is not None:
                raise InputError(
                    f"{who}: method 'lbfgs' has no estimate_starts, minibatch and checkpoint; use "
                    "'lm' or 'adam'"
                )
            result = _lbfgs(training_objective, names, theta, limits, count, nthread, show)
        else:
            options.method = method
            result = training_objective.fit(theta, limits, options, show)
    if result.message:
        warnings.warn(
            f"the fit ended after iteration {result.history[-1].iteration}: {result.message}; the "
            "values are the best until then",
            RuntimeWarning,
            stacklevel=2,
        )
    if result.warning and not result.interrupted:
        warnings.warn(result.warning, RuntimeWarning, stacklevel=2)
    warn_capped(result.cfd, stacklevel=3)
    best = np.array(result.theta)
    moves = np.array(result.moves)
    if errors:
        deviations, correlation, unknown = training_objective.uncertainty(best, moves, nthread)
    else:
        n = len(names)
        deviations, correlation, unknown = np.full(n, np.nan), np.full((n, n), np.nan), []
    undetermined = [
        {name: w for name, w in zip(names, x, strict=True) if abs(w) > 1e-3} for x in unknown
    ]
    for x in undetermined:
        warnings.warn(undetermined_text(x), RuntimeWarning, stacklevel=2)
    described = (
        f"{len(names)} parameters, {len(training)} recordings in {training_objective.nsegment} "
        f"segments of {segment} intervals, method {method}."
    )
    return Fit(
        values=dict(zip(names, best.tolist(), strict=True)),
        errors=dict(zip(names, deviations.tolist(), strict=True)),
        correlation=correlation,
        undetermined=undetermined,
        loss=result.loss,
        held_out=None
        if test_objective is None
        else (
            test_objective.evaluate(theta, False, nthread)[0],
            test_objective.evaluate(best, False, nthread)[0],
        ),
        history=[
            FitIteration(
                x.iteration, x.loss, dict(zip(names, x.theta, strict=True)), x.seconds, x.nfailed
            )
            for x in result.history
        ],
        starts=moves.reshape(training_objective.nsegment, -1) if len(moves) else None,
        converged=result.converged,
        interrupted=result.interrupted,
        message=result.message,
        family=family,
        _parts=_Parts(training_objective, test_objective, theta, limits, result, described),
    )


class _Progress:
    """A line on standard error that shows how far a fit is, or the caller's function."""

    def __init__(self, iterations: int, wanted: bool | Callable[[int, float], object] | None):
        self._iterations = iterations
        self._call = wanted if callable(wanted) else None
        self._shown = sys.stderr.isatty() if wanted is None else wanted is True
        self._begin = self._last = time.perf_counter()

    def __enter__(self) -> Callable[[int, float], object]:
        return self._call if self._call is not None else self._show

    def _show(self, iteration: int, loss: float) -> None:
        now = time.perf_counter()
        if not self._shown or (now - self._last < 0.1 and iteration < self._iterations):
            return
        self._last = now
        left = (now - self._begin) / max(iteration, 1) * (self._iterations - iteration)
        filled = 20 * iteration // max(self._iterations, 1)
        bar = "#" * filled + "-" * (20 - filled)
        print(
            f"\r[{bar}] {iteration}/{self._iterations}  loss {loss:.4g}  {left:.0f} s left   ",
            end="",
            file=sys.stderr,
            flush=True,
        )

    def __exit__(self, *_: object) -> None:
        if self._shown and self._call is None:
            print(file=sys.stderr)


def _bounds(
    who: str, names: list[str], bounds: Mapping[str, tuple[float, float]] | None
) -> list[tuple[float, float]]:
    out = {name: (-math.inf, math.inf) for name in names}
    for key, value in (bounds or {}).items():
        matches = [name for name in names if name == key or name.startswith(f"{key}[")]
        if not matches:
            raise InputError(
                f"{who}: bounds has '{key}', expected names among {names}{did_you_mean(key, names)}"
            )
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
    nthread: int | None,
    progress: Callable[[int, float], object],
) -> _diffmj.FitResult:
    try:
        import scipy.optimize
    except ImportError:
        raise InputError(
            "identify: method 'lbfgs' needs scipy; install it, or use method='adam' or 'lm'"
        ) from None
    variables = _diffmj.FitVariables(theta, limits, names)
    begin = time.perf_counter()
    history: list[tuple[int, float, list[float], float, int]] = []
    best: list[Any] = [math.inf, theta]
    latest: list[Any] = [math.inf, 0]
    cfd = [0, 0]

    def value(z: Array) -> tuple[float, Array]:
        at = variables.theta(z)
        loss, gradient, failed, counts = objective.evaluate(at, True, nthread)
        cfd[:] = [sum(x) for x in zip(cfd, counts, strict=True)]
        if loss < best[0]:
            best[:] = [loss, at]
        latest[:] = [loss, failed]
        if not history:
            record(z)
        return loss, gradient * variables.slope(z)

    def record(z: Array) -> None:
        seconds = time.perf_counter() - begin
        history.append((len(history), latest[0], variables.theta(z).tolist(), seconds, latest[1]))
        progress(history[-1][0], history[-1][1])

    interrupted = converged = False
    try:
        if iterations == 0:
            value(np.zeros(len(theta)))
        else:
            found = scipy.optimize.minimize(
                value,
                np.zeros(len(theta)),
                jac=True,
                method="L-BFGS-B",
                callback=record,
                options={"maxiter": iterations, "ftol": 1e-15, "gtol": 1e-12},
            )
            converged = bool(found.success)
    except KeyboardInterrupt:
        if not history:
            raise
        interrupted = True
    return _diffmj.FitResult(
        np.asarray(best[1]).tolist(),
        float(best[0]),
        history,
        converged,
        interrupted,
        (cfd[0], cfd[1]),
    )
