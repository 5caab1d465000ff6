#!/usr/bin/env python3
"""Hashes of the bits of rollouts and gradients, to compare before and after a change that must not
move them.

    PYTHONPATH=build/python scripts/bits.py > before.txt
    ... the change, and a build ...
    PYTHONPATH=build/python scripts/bits.py --against before.txt

One line per model of tests/testdata/zoo and setting: a rollout from the model's keyframe, its
gradient in all inputs and all parameters, its sensors and its linearisation, as a hash. Settings
are the gradient paths, the colliders, contacts from distance and adaptive steps with each adjoint.
A setting that a model does not have is hashed by its error. With --against the lines that differ
are printed, and the exit status is 1 if there are any. Hashes are those of one machine, compiler
and release of MuJoCo.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import warnings
from pathlib import Path

import diffmj
import numpy as np

ZOO = Path(__file__).resolve().parent.parent / "tests" / "testdata" / "zoo"

ADAPTIVE = {"integrator": "tsit5", "rtol": 1e-5, "atol": 1e-7}
SETTINGS = {
    "analytic": {},
    "oracle": {"gradient_path": "oracle"},
    "differences": {"gradient_path": "differences"},
    "rk4": {"integrator": "RK4"},
    "implicitfast": {"integrator": "implicitfast"},
    "muscle_smoothing": {"muscle_smoothing": 0.05},
    "smooth": {"collisions": "smooth"},
    "smooth-backward": {"collisions": "smooth-backward"},
    "smooth-field": {"collisions": "smooth-field"},
    "cfd": {"cfd": diffmj.Cfd(width=0.05)},
    "tsit5": ADAPTIVE,
    "tsit5 oracle": ADAPTIVE | {"gradient_path": "oracle"},
    "tsit5 checkpoints": ADAPTIVE | {"checkpoints": 3},
    "tsit5 no events": ADAPTIVE | {"events": False},
    "tsit5 interpolated": ADAPTIVE | {"adjoint": "interpolated"},
    "tsit5 backsolve": ADAPTIVE | {"adjoint": "backsolve"},
    "tsit5 smooth": ADAPTIVE | {"collisions": "smooth"},
    "tsit5 smooth-field": ADAPTIVE | {"collisions": "smooth-field"},
    "tsit5 cfd": ADAPTIVE | {"cfd": diffmj.Cfd(width=0.05, controls_steps=True)},
    # long enough for contacts to begin and end
    "tsit5 long": ADAPTIVE | {"interval": 0.03},
    "tsit5 long oracle": ADAPTIVE | {"interval": 0.03, "gradient_path": "oracle"},
    "tsit5 long checkpoints": ADAPTIVE | {"interval": 0.03, "checkpoints": 5},
    "tsit5 long interpolated": ADAPTIVE | {"interval": 0.03, "adjoint": "interpolated"},
    "heun linear": ADAPTIVE | {"integrator": "heun", "control": "linear"},
}


class Hash:
    """Of arrays, in the order they are added."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()

    def add(self, name: str, x: object) -> None:
        self._sum.update(name.encode())
        if isinstance(x, str):
            self._sum.update(x.encode())
        else:
            self._sum.update(np.ascontiguousarray(x).tobytes())

    def text(self) -> str:
        return self._sum.hexdigest()[:16]


def hash_of(model: Path, options: dict, nstep: int) -> str:
    """Of all that one model gives with one setting."""
    out = Hash()
    try:
        sim = diffmj.Simulator(model, **options)
        start = {k: v for k, v in vars(sim.keyframe_state("test")).items() if v is not None}
        ctrl = start.get("ctrl")
        if ctrl is not None:
            # every row another one
            start["ctrl"] = ctrl + 1e-3 * np.arange(nstep)[:, None]
        traj = sim.rollout(**start, nstep=nstep)
        for name in ("time", "qpos", "qvel", "act", "qacc", "xpos", "site_xpos"):
            out.add(name, getattr(traj, name))
        if traj.integrator is not None:
            out.add("steps", traj.integrator.time)
            out.add("events", np.array([e.time for e in traj.integrator.events]))
        random = np.random.default_rng(1)
        bars = {
            n: random.normal(size=getattr(traj, n).shape) for n in ("qpos", "qvel", "act", "xpos")
        }
        for params in ([], diffmj.parameter_names()):
            try:
                grad = traj.backward(**bars, params=params)
            except diffmj.UnsupportedError as error:
                out.add("unsupported", str(error))
                continue
            for name in ("qpos", "qpos_tangent", "qvel", "act", "ctrl", "qfrc_applied"):
                out.add(name, getattr(grad, name))
            for name in params:
                out.add(name, grad.params[name])
        start.pop("ctrl", None)
        for name, matrix in zip("AB", sim.linearize(**start), strict=True):
            out.add(name, matrix)
        if sim.nsensordata > 0:
            out.add("sensordata", traj.sensordata)
    except diffmj.Error as error:
        return f"{type(error).__name__} {hashlib.sha256(str(error).encode()).hexdigest()[:16]}"
    return out.text()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--against", type=Path, help="hashes to compare with")
    parser.add_argument("--nstep", type=int, default=6, help="steps of each rollout (default 6)")
    parser.add_argument("--models", default="*", help="pattern of models' names (default: all)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    known = {}
    if arguments.against:
        for line in arguments.against.read_text().splitlines():
            key, value = line.split(": ", 1)
            known[key] = value
    different = 0
    for model in sorted(ZOO.glob(f"{arguments.models}.xml")):
        for setting, options in SETTINGS.items():
            key = f"{model.stem} {setting}"
            value = hash_of(model, options, arguments.nstep)
            if not arguments.against:
                print(f"{key}: {value}", flush=True)
            elif known.get(key) != value:
                different += 1
                print(f"{key}: {value}, before {known.get(key)}", flush=True)
    if arguments.against:
        print(f"{different} of {len(known)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
