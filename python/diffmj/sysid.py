"""`mujoco.sysid` with derivatives by diffmj instead of finite differences.

from mujoco import sysid
params, sequences = ...                              # made for mujoco.sysid, unchanged
residual = sysid.build_residual_fn(models_sequences=[sequences])
params, result = diffmj.sysid.optimize(params, residual)
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ._arrays import Array
from ._errors import Error, FallbackWarning, InputError, RolloutError, UnsupportedError

try:
    from mujoco import sysid as _sysid

    _sysid.build_residual_fn  # noqa: B018  # without its own dependencies the module is empty
except (ImportError, AttributeError) as error:
    raise ImportError(
        "diffmj.sysid needs mujoco.sysid, which this MuJoCo does not have or whose dependencies "
        "are missing; install it with: pip install 'mujoco[sysid]'"
    ) from error

import scipy.optimize
from absl import logging
from mujoco import minimize

from ._sysid_problem import Problem

__all__ = ["derivatives", "jacobian", "optimize"]

_OPTIMIZERS = ("mujoco", "scipy", "scipy_parallel_fd", "diffmj-lbfgs")
# arguments of mujoco.sysid.residual
_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(_sysid.residual).parameters.items()
    if name not in ("x", "params")
}


def optimize(
    initial_params: _sysid.ParameterDict,
    residual_fn: Callable[..., Any],
    optimizer: str = "mujoco",
    verbose: bool = True,
    check_conditioning: bool = False,
    *,
    nthread: int | None = None,
    final_jacobian: bool = True,
    **optimizer_kwargs: Any,
) -> tuple[_sysid.ParameterDict, scipy.optimize.OptimizeResult]:
    """`mujoco.sysid.optimize`, with the residual's derivatives by diffmj.

    Args:
        initial_params: values to start from, and bounds.
        residual_fn: the result of mujoco.sysid.build_residual_fn.
        optimizer: "mujoco", "scipy" and "scipy_parallel_fd" are those of mujoco.sysid, which use
            the Jacobian. "diffmj-lbfgs" (scipy's L-BFGS-B) uses gradients, whose time does not grow
            with the number of parameters; use it if there are many. Its variables are fractions of
            the parameters' ranges, or are scaled by x_scale; "jac" computes one Jacobian at the
            start.
        verbose: log a table of the parameters at the end.
        check_conditioning: warn if cond(JᵀJ) at the start is above 1e12.
        nthread: number of threads for rollouts and pullbacks; None: one per core.
        final_jacobian: with "diffmj-lbfgs", compute the Jacobian at the result, for confidence
            intervals. Without it `jac` is None.
        optimizer_kwargs: for the optimizer: max_iters, verbose, x_scale, gtol, ...; "scipy" and
            "diffmj-lbfgs" also take loss ("soft_l1", "huber", "cauchy", "arctan") and f_scale,
            beyond which residuals count less.

    Returns:
        The parameters, and a scipy.optimize.OptimizeResult with x, jac, grad and extras;
        extras["evaluations"] has the numbers of residuals, Jacobians and gradients.

    Raises:
        InputError: an unknown optimizer.
        UnsupportedError: the residual cannot be differentiated, with "diffmj-lbfgs".

    Warns:
        FallbackWarning: the residual cannot be differentiated, and mujoco.sysid's differences are
            used. The message names the reason: a residual function that is not build_residual_fn's,
            a custom rollout, or a sensor or a parameter without a gradient.
    """
    if optimizer not in _OPTIMIZERS:
        raise InputError(
            f"optimize: optimizer is {optimizer!r}, expected one of {', '.join(_OPTIMIZERS)}"
        )
    x0 = initial_params.as_vector()
    if x0.size == 0:
        return _sysid.optimize(initial_params, residual_fn, "mujoco", verbose)
    gradients = optimizer == "diffmj-lbfgs"
    try:
        problem = _problem(initial_params, residual_fn, nthread)
        first = problem.gradient(x0)[1] if gradients else problem.jacobian(x0)
    except (Error, _Foreign) as reason:
        if gradients:
            raise UnsupportedError(f"optimize: {reason}") from reason
        warnings.warn(
            f"the residual cannot be differentiated: {reason}; mujoco.sysid's differences are "
            "taken instead",
            FallbackWarning,
            stacklevel=2,
        )
        return _sysid.optimize(
            initial_params, residual_fn, optimizer, verbose, check_conditioning, **optimizer_kwargs
        )
    if check_conditioning:
        _check_conditioning(problem.jacobian(x0) if gradients else first)
    _check_bounds(initial_params)
    run = {"mujoco": _by_mujoco, "diffmj-lbfgs": _by_lbfgs}.get(optimizer, _by_scipy)
    if gradients:
        optimizer_kwargs["final_jacobian"] = final_jacobian
    params = initial_params.copy()
    result = run(problem, _residual(problem, residual_fn, params), initial_params, optimizer_kwargs)
    result.extras["evaluations"] = dict(problem.evaluations)
    params.update_from_vector(result.x)
    if verbose:
        table = params.compare_parameters(
            x0, params.as_vector(), measured_params=initial_params.as_nominal_vector()
        )
        logging.info("\n%s", table)
    return params, result


def jacobian(
    params: _sysid.ParameterDict, residual_fn: Callable[..., Any], *, nthread: int | None = None
) -> tuple[Array, Array]:
    """The residual (m,) at the values of the parameters, and its Jacobian (m, n).

    Raises:
        UnsupportedError: the residual cannot be differentiated.
    """
    problem = derivatives(params, residual_fn, nthread=nthread)
    x = params.as_vector()
    return problem.residual(x), problem.jacobian(x)


def derivatives(
    params: _sysid.ParameterDict, residual_fn: Callable[..., Any], *, nthread: int | None = None
) -> Problem:
    """For your own optimizer: an object with `residual(x)`, `jacobian(x)` and `gradient(x)` (½|r|²
    and its gradient), where x is the vector of the parameters that are not frozen.

    Raises:
        UnsupportedError: the residual cannot be differentiated.
    """
    try:
        return _problem(params, residual_fn, nthread)
    except _Foreign as reason:
        raise UnsupportedError(f"derivatives: {reason}") from None


class _Foreign(Exception):
    """A residual that is not made of what diffmj can differentiate."""


def _problem(params: Any, residual_fn: Callable[..., Any], nthread: int | None) -> Problem:
    options = {**_DEFAULTS, **_captured(residual_fn)}
    if options["custom_rollout"] is not None:
        name = getattr(options["custom_rollout"], "__name__", "custom_rollout")
        raise _Foreign(f"custom_rollout ({name}) is not a rollout by MuJoCo's steps")
    problem = Problem(params, options, nthread)
    x = params.as_vector()
    ours, theirs = problem.residual(x), _flat(residual_fn(x, params.copy()))
    scale = max(1.0, float(np.abs(theirs).max(initial=0.0)))
    if ours.shape != theirs.shape or np.abs(ours - theirs).max(initial=0.0) > 1e-8 * scale:
        raise _Foreign(
            "diffmj's rollouts do not reproduce it to 1e-8; does build_model return the same model "
            "for the same parameters?"
        )
    return problem


def _captured(residual_fn: Any) -> dict[str, Any]:
    """The arguments that build_residual_fn, or functools.partial, bound."""
    if isinstance(residual_fn, functools.partial) and residual_fn.func is _sysid.residual:
        if residual_fn.args:
            raise _Foreign("the partial of mujoco.sysid.residual has positional arguments")
        return residual_fn.keywords
    code = getattr(residual_fn, "__code__", None)
    if code is not None and code is _sysid.build_residual_fn().__code__:
        return inspect.getclosurevars(residual_fn).nonlocals["captured_kwargs"]
    name = getattr(residual_fn, "__qualname__", type(residual_fn).__name__)
    raise _Foreign(f"residual_fn ({name}) is not what mujoco.sysid.build_residual_fn returns")


def _flat(out: Any) -> Array:
    return np.concatenate([np.asarray(x).ravel() for x in out[0]])


def _residual(
    problem: Problem, residual_fn: Callable[..., Any], params: Any
) -> Callable[[Array], Array]:
    """Of one point (n,) or (n, 1), or of several (n, k)."""

    def one(x: Array) -> Array:
        try:
            return problem.residual(np.ascontiguousarray(x))
        except RolloutError:
            # a trial step where the simulation diverges: what mujoco.sysid makes of it
            return _flat(residual_fn(x, params))

    def residual(x: Array) -> Array:
        if x.ndim == 1:
            return one(x)
        return np.column_stack([one(x[:, i]) for i in range(x.shape[1])])

    return residual


def _check_conditioning(J: Array, threshold: float = 1e12) -> None:
    condition = float(np.linalg.cond(J)) ** 2
    if condition > threshold:
        logging.warning(
            "cond(J^T J) ~ %.1e at the starting point; the problem may be ill-conditioned. "
            "Consider x_scale='jac' or regularizing.",
            condition,
        )


def _check_bounds(params: Any) -> None:
    x, (lower, upper) = params.as_vector(), params.get_bounds()
    span = upper - lower
    near = np.minimum(x - lower, upper - x) <= 1e-3 * span
    count = int(np.sum(near & (x >= lower) & (x <= upper) & (span > 0)))
    if count:
        logging.warning(
            "%d of %d parameters start at a bound, where the optimization can stall; consider "
            "initial_params.move_off_bounds().",
            count,
            x.size,
        )


def _by_mujoco(
    problem: Problem, residual: Callable[[Array], Array], params: Any, kwargs: dict[str, Any]
) -> scipy.optimize.OptimizeResult:
    shown = kwargs.pop("verbose", True)
    verbosity = minimize.Verbosity.FULLITER if shown else minimize.Verbosity.SILENT
    x, log = minimize.least_squares(
        x0=params.as_vector(),
        residual=residual,
        bounds=params.get_bounds(),
        jacobian=lambda x, r: problem.jacobian(np.ascontiguousarray(x[:, 0])),
        verbose=verbosity,
        max_iter=kwargs.pop("max_iters", 200),
        **kwargs,
    )
    extras: dict[str, Any] = {}
    if shown:
        extras["objective"] = [entry.objective for entry in log]
        extras["candidate"] = [entry.candidate[:, 0] for entry in log]
    return scipy.optimize.OptimizeResult(
        x=x, jac=log[-1].jacobian, grad=log[-1].grad, extras=extras
    )


def _by_scipy(
    problem: Problem, residual: Callable[[Array], Array], params: Any, kwargs: dict[str, Any]
) -> scipy.optimize.OptimizeResult:
    kwargs.pop("diff_step", None)  # there are no differences
    result = scipy.optimize.least_squares(
        residual,
        params.as_vector(),
        jac=lambda x: problem.jacobian(np.ascontiguousarray(x)),
        bounds=params.get_bounds(),
        max_nfev=kwargs.pop("max_iters", 200),
        verbose=2 if kwargs.pop("verbose", True) else 0,
        **kwargs,
    )
    result.extras = {}
    return result


def _by_lbfgs(
    problem: Problem, residual: Callable[[Array], Array], params: Any, kwargs: dict[str, Any]
) -> scipy.optimize.OptimizeResult:
    lower, upper = params.get_bounds()
    x0 = np.clip(params.as_vector(), lower, upper)
    # parameters of different units: in shares of their ranges, or of their sizes
    span = upper - lower
    scale = np.where(np.isfinite(span) & (span > 0), span, np.maximum(np.abs(x0), 1e-3))
    given = kwargs.pop("x_scale", None)
    if isinstance(given, str) and given == "jac":
        norms = np.linalg.norm(problem.jacobian(x0), axis=0)
        # what the residual does not depend on at the start is as the least of what it does
        scale = 1 / np.where(norms > 0, norms, norms[norms > 0].min(initial=1.0))
    elif given is not None:
        scale = np.broadcast_to(np.asarray(given, dtype=float), x0.shape)
    shown = kwargs.pop("verbose", True)
    robust = {name: kwargs.pop(name) for name in ("loss", "f_scale") if name in kwargs}
    extras: dict[str, Any] = {"objective": [], "candidate": []}

    def loss(z: Array) -> tuple[float, Array]:
        try:
            value, gradient = problem.gradient(z * scale, **robust)
        except RolloutError:
            return np.inf, np.zeros(z.size)  # the line search takes a shorter step
        return value, gradient * scale

    def keep(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        extras["objective"].append(float(intermediate_result.fun))
        extras["candidate"].append(intermediate_result.x * scale)
        if shown:
            logging.info(
                "iteration %d: %g", len(extras["objective"]), float(intermediate_result.fun)
            )

    final_jacobian = kwargs.pop("final_jacobian")
    options = {"maxiter": kwargs.pop("max_iters", 200), "maxfun": 10**6, "gtol": 1e-10}
    options.update({"ftol": 1e-14, "maxcor": 30, **kwargs})
    result = scipy.optimize.minimize(
        loss,
        x0 / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(lower / scale, upper / scale),
        callback=keep,
        options=options,
    )
    x = np.clip(result.x * scale, lower, upper)
    return scipy.optimize.OptimizeResult(
        x=x,
        jac=problem.jacobian(x) if final_jacobian else None,
        grad=result.jac / scale,
        fun=result.fun,
        nit=result.nit,
        nfev=result.nfev,
        status=result.status,
        success=result.success,
        message=result.message,
        extras=extras,
    )
