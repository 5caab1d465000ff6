"""Beside mujoco.sysid: the same problems, with its differences and with diffmj's derivatives.

1. What the muscles of MyoSuite's hand can do, from one recorded motion with noisy sensors: one
   Jacobian of the residual by mujoco.sysid's differences and by diffmj, and one gradient by diffmj,
   over the number of parameters.
2. Fits of few and of many of these parameters from the same start: time, evaluations, error.
3. The tossed cube (experiments/tossed_cube.py): its side alone from starts that are far off, and
   all its parameters together, judged by whole tosses that no fit has seen.
Times are of one run on one machine: their ratios count. The checks look at errors alone.
"""

import contextlib
import io
import os
import sys
import time

import diffmj.sysid
import numpy as np
from mujoco import minimize, sysid

from experiments import common, tossed_cube
from experiments.beside_sysid import cube, hand
from experiments.beside_sysid.draw import draw, draw_cube
from experiments.beside_sysid.watched import TimeIsUp, Watched

# noise decides whether a limit of a joint is touched a step too early: residuals beyond three
# standard deviations count less
ROBUST = {"loss": "cauchy", "f_scale": 3.0}
OPTIMIZERS = {
    "diffmj-lbfgs": (diffmj.sysid.optimize, "diffmj-lbfgs"),
    "diffmj": (diffmj.sysid.optimize, "scipy"),
    "mujoco.sysid": (sysid.optimize, "scipy_parallel_fd"),
}
ITERATIONS = {"diffmj-lbfgs": 400, "diffmj": 30, "mujoco.sysid": 30}
PATIENCE = 5  # mujoco.sysid is stopped after so many times the time of diffmj-lbfgs


def seconds(function, repeats):
    """The shortest of several, and what the last returned."""
    best = np.inf
    for i in range(repeats):
        begin = time.perf_counter()
        out = function(i)
        best = min(best, time.perf_counter() - begin)
    return best, out


def costs(number, nstep, repeats, nthread):
    """Of derivatives at one point, after the first."""
    params, _, residual_fn = hand.problem(number, nstep, nthread=nthread)
    x = params.as_vector()
    ours = diffmj.sysid.derivatives(params, residual_fn, nthread=nthread)

    def flat(x):
        return np.concatenate(residual_fn(x, params)[0])

    def differences(i):
        at = (x + 1e-3 * i)[:, None]
        return minimize.jacobian_fd(flat, at, flat(at), np.sqrt(np.finfo(float).eps), 0)[0]

    ours.gradient(x)
    row = {"parameters": number}
    row["gradient"], (_, gradient) = seconds(lambda i: ours.gradient(x + 1e-3 * i), repeats)
    row["jacobian"], J = seconds(lambda i: ours.jacobian(x + 1e-3 * i), repeats)
    row["differences"], numeric = seconds(differences, repeats)
    row["differences / gradient"] = row["differences"] / row["gradient"]
    at = x + 1e-3 * (repeats - 1)
    # where the constraint solver iterates once more or less, its noise is over a step of 1e-8
    apart = np.abs(numeric - J) / np.abs(J).max()
    row["typical error of differences"] = float(np.median(apart))
    row["largest error of differences"] = float(apart.max())
    expected = J.T @ ours.residual(at)
    row["gradient and Jacobian"] = float(np.abs(gradient - expected).max() / np.abs(expected).max())
    print(row)
    return row


def fit(kind, number, nstep, nthread, most_seconds):
    """One fit: seconds, evaluations, and the largest relative error of a strength."""
    params, truth, residual_fn = hand.problem(number, nstep, nthread=nthread)
    optimize, optimizer = OPTIMIZERS[kind]
    arguments = {"verbose": False, "max_iters": ITERATIONS[kind], "x_scale": "jac"} | ROBUST
    begin = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        if kind == "mujoco.sysid":
            watched = Watched(residual_fn, most_seconds, **ROBUST)
            with contextlib.suppress(TimeIsUp):
                optimize(params, watched, optimizer, **arguments)
            x, evaluations = watched.best, {"residual": watched.count}
        else:
            if kind == "diffmj-lbfgs":
                arguments["final_jacobian"] = False
            _, result = optimize(params, residual_fn, optimizer, nthread=nthread, **arguments)
            x, evaluations = result.x, result.extras["evaluations"]
    strengths = slice(0, min(number, 39))
    error = np.abs(x / truth - 1)
    out = {
        "seconds": time.perf_counter() - begin,
        "evaluations": evaluations,
        "worst strength": float(error[strengths].max()),
        "median strength": float(np.median(error[strengths])),
        "worst of all": float(error.max()),
    }
    print(f"{number} parameters by {kind}: {out}", flush=True)
    return out


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    nthread = options.nthread or os.cpu_count()
    sizes = (5, 10, 20) if options.quick else (10, 39, 78, 156)
    nstep, repeats = (61, 1) if options.quick else (201, 2)
    rows = [costs(number, nstep, repeats, nthread) for number in sizes]
    table = {key: [row[key] for row in rows] for key in rows[0]}
    checks.below("gradient against Jacobian", max(table["gradient and Jacobian"]), 1e-6)
    typical = max(table["typical error of differences"])
    most = expected["differences"]
    checks.below("Jacobian against differences, median of entries", typical, most["median"])
    if options.quick:
        largest = max(table["largest error of differences"])
        checks.below("the same, all entries", largest, most["largest"])
    kinds = ("gradient", "jacobian", "differences")
    growth = {key: table[key][-1] / table[key][0] for key in kinds}
    print(f"from {sizes[0]} to {sizes[-1]} parameters times grow by", growth)

    nstep = 121 if options.quick else 401
    fits = {}
    for name, number in (("few", 5),) if options.quick else (("few", 10), ("many", 78)):
        fits[name], most = {}, np.inf
        for kind in ("diffmj-lbfgs", "mujoco.sysid") if options.quick else OPTIMIZERS:
            fits[name][kind] = fit(kind, number, nstep, nthread, most)
            most = PATIENCE * fits[name]["diffmj-lbfgs"]["seconds"]
        theirs = fits[name]["mujoco.sysid"]["seconds"]
        for kind in fits[name]:
            if kind == "mujoco.sysid":
                continue
            worst = fits[name][kind]["worst strength"]
            checks.below(f"{name}: worst strength by {kind}", worst, expected["strength"])
            fits[name][kind]["times as fast"] = theirs / fits[name][kind]["seconds"]
    last = fits[list(fits)[-1]]
    keys = {"diffmj": "diffmj", "diffmj-lbfgs": "diffmj_lbfgs", "mujoco.sysid": "mujoco_sysid"}

    of_cube = cube.fits(options.quick, nthread)
    side = 1e3 * tossed_cube.SIDE
    for start, row in of_cube["side"].items():
        off = abs(row["diffmj"]["side"] / side - 1)
        checks.below(f"side from {start} mm by diffmj, off by", off, expected["side"])
    ours = of_cube["all"]["diffmj"]["error"]
    theirs = of_cube["all"]["mujoco.sysid, same time"]["error"]
    checks.below("all parameters of the cube: whole tosses by diffmj", ours, expected["tosses"])
    what = "the same, less mujoco.sysid's in the same time"
    checks.below(what, ours - theirs, expected["less"])
    numbers = {
        "growth": growth,
        "ratio": {"least": table["differences / gradient"][0],
                  "most": table["differences / gradient"][-1]},
        "noise": max(table["largest error of differences"]),
        "fits": fits,
        "last": {keys[kind]: row for kind, row in last.items()},
        "cube": of_cube,
        "tosses": {"diffmj": ours, "sysid": theirs},
        "data": of_cube["data"],
    }  # fmt: skip
    common.write(
        options.out / "beside_sysid",
        numbers,
        checks,
        {"costs": table},
        costs=draw(table, fits),
        cube=draw_cube(of_cube),
    )
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
