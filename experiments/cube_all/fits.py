"""Fits of all parameters of the tossed cube, by model and by start."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import diffmj
import numpy as np

from experiments import tossed_cube
from experiments.tossed_cube import BOUNDS, TUNED

STRIDE = 24  # rows between starts of segments
CFD = diffmj.Cfd(width=1, d_c=0, d_0=0.01, midpoint=1, power=4)  # the paper's

# cone of friction, and whether the inertia is free or that of a solid cube
MODELS = {
    "the paper's": ("pyramidal", False),
    "round cone": ("elliptic", False),
    "round cone, hollow": ("elliptic", True),
}

# where random starts are drawn from, evenly on a logarithmic scale
RANDOM = {
    "side": (0.06, 0.14),
    "mass": (0.1, 1),
    "solref[0]": (0.01, 0.05),
    "solref[1]": (0.5, 2),
    "solimp[0]": (0.01, 0.3),
    "solimp[1]": (0.7, 0.99),
    "solimp[2]": (0.003, 0.03),
    "solimp[3]": (0.3, 0.7),
    "solimp[4]": (1.5, 3),
    "friction": (0.1, 0.8),
}


def random_start(seed: int) -> dict[str, float]:
    random = np.random.default_rng(seed)
    return {name: float(np.exp(random.uniform(*np.log(ends)))) for name, ends in RANDOM.items()}


@dataclass
class Stages:
    """Fits one after the other, each from where the one before ended.

    Attributes:
        path: the parameters at every gradient step.
        last: the last fit.
    """

    path: list[dict[str, float]]
    last: diffmj.Fit

    @property
    def values(self) -> dict[str, float]:
        return self.last.values


def fit(recordings, model, start, segment, stages, stride=STRIDE, nthread=1) -> Stages:
    """stages: contacts from distance, rate and iterations of each."""
    cone, hollow = MODELS[model]
    values = start | ({"inertia": 1.0} if hollow else {})
    path = []
    for cfd, rate, iterations in stages:
        x = diffmj.identify(
            tossed_cube.build(cone),
            values,
            recordings,
            bounds={name: BOUNDS[name] for name in values},
            segment=segment,
            stride=stride,
            targets=["qpos"],
            iterations=iterations,
            rate=rate,
            nthread=nthread,
            simulator={"integrator": "Euler", "cfd": cfd},
        )
        values = x.values
        path += [y.values for y in x.history]
    return Stages([*path, values], x)


def plan(quick: bool) -> dict:
    """Arguments of `fit` by name.

    A random cube may be too small to touch the table: contacts from distance bring it there. They
    are left out afterwards, because with them the gradient vanishes beside the least loss.
    """
    first, *_, last = MODELS
    stages = [(None, 0.08, 15 if quick else 30), (None, 0.025, 5 if quick else 15)]
    near = [(CFD, 0.1, 12), *stages]
    if quick:
        out = {f"{x}, N = 4": (x, TUNED, 4, stages) for x in (first, last)}
    else:
        out = {f"{x}, N = {n}": (x, TUNED, n, stages) for x in MODELS for n in (4, 10)}
    for model in (first, last):
        for seed in range(1 if quick else 3):
            out[f"{model}, random {seed + 1}"] = (model, random_start(seed), 4, near)
    return out


def all_fits(recordings, planned: dict, nthread: int) -> dict:
    """Fits by name, several at once."""
    with ThreadPoolExecutor(nthread or os.cpu_count()) as pool, warnings.catch_warnings():
        # no motion tells the mass; the fit warns of it, and the page says so
        warnings.simplefilter("ignore", RuntimeWarning)
        jobs = {name: pool.submit(fit, recordings, *x) for name, x in planned.items()}
        return {name: job.result() for name, job in jobs.items()}
