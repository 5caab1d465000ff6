"""The tossed cube (experiments/tossed_cube.py) as a problem of mujoco.sysid."""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Mapping, Sequence

import diffmj
import numpy as np
from mujoco import sysid

from experiments import tossed_cube
from experiments.beside_sysid.watched import TimeIsUp, Watched
from experiments.cube_all import fits as cube_all
from experiments.cube_all.run import HOLLOW
from experiments.cube_side import run as cube_side
from experiments.tossed_cube import BOUNDS, INTERVAL, SUBSTEPS, TUNED

CONE = "pyramidal"  # of the fits of the side alone, as in experiments/cube_side
STRIDE = 24  # rows between starts of segments
PATIENCE = 5

# position, and the columns of the rotation matrix; weights are those of tossed_cube.weighted
SENSORS = ("FRAMEPOS", "FRAMEXAXIS", "FRAMEYAXIS", "FRAMEZAXIS")
WEIGHTS = np.array([1 / 0.05] * 3 + [1.0] * 9)


def problem(
    recordings: Sequence[diffmj.Recording],
    start: Mapping[str, float],
    segment: int,
    stride: int,
    cone: str,
    nthread: int,
):
    """Parameters at the start, and the residual of the segments that `diffmj.identify` compares,
    with its weights."""
    describe = tossed_cube.describe(cone, sensors=SENSORS)
    spec = describe(dict(start))
    model = spec.compile()
    step, nstep = model.opt.timestep, segment * SUBSTEPS
    params = sysid.ParameterDict()
    for name, value in start.items():
        params.add(sysid.Parameter(name, value, *BOUNDS[name]))

    def build_model(params, spec):
        return describe({name: float(params[name].value[0]) for name in start}).compile()

    # rows of sensors are those of the state before a step, and have the time after it
    times = INTERVAL * np.arange(1, segment + 1) + step
    steps = step * np.arange(nstep + 2)
    controls = sysid.TimeSeries(steps, np.zeros((len(steps), model.nu)))
    names, states, measured = [], [], []
    for one in diffmj.segments(
        diffmj.Simulator(model, "Euler"), recordings, segment, stride, targets=["qpos"]
    ):
        x, row = recordings[one.recording], one.first
        rows = slice(row + 1, row + segment + 1)
        matrix = tossed_cube.rotation_entries(x.qpos[rows, 3:]).reshape(-1, 3, 3)
        columns = np.moveaxis(matrix, 2, 1).reshape(-1, 9)
        names.append(f"{x.name}, row {row}")
        states.append(np.concatenate([[0], x.qpos[row], x.qvel[row]]))
        signals = np.hstack([x.qpos[rows, :3], columns])
        measured.append(sysid.TimeSeries.from_names(times, signals, model))

    def weighted(params, predicted, measured, model, return_pred_all, state=None):
        # weights of mujoco.sysid's own SignalTransform are for sensors of one number
        signals = sysid.TimeSeries(predicted.times, predicted.data, measured.signal_mapping)
        signals = signals.resample(measured.times)
        return WEIGHTS * (measured.data - signals.data), signals, measured

    sequences = sysid.ModelSequences(
        "tosses", spec, names, states, [controls] * len(names), measured
    )
    residual = sysid.build_residual_fn(
        models_sequences=[sequences],
        build_model=build_model,
        modify_residual=weighted,
        n_threads=nthread,
    )
    return params, residual


def by_sysid(params, residual_fn, iterations: int, most_seconds: float = np.inf) -> dict:
    """mujoco.sysid's fit, or the best point that it reached in the given time."""
    watched = Watched(residual_fn, most_seconds)
    begin = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(TimeIsUp):
        sysid.optimize(params, watched, "mujoco", verbose=False, max_iters=iterations)
    names = params.get_non_frozen_parameter_names()
    return {
        "seconds": time.perf_counter() - begin,
        "evaluations": watched.count,
        "values": dict(zip(names, watched.best.tolist(), strict=True)),
    }


def side_from(start: float, recordings, stride: int, iterations: int, nthread: int) -> dict:
    """The side alone, from `start` [mm], as in experiments/cube_side with contacts from distance;
    mujoco.sysid has so many iterations, and PATIENCE times the time of diffmj."""
    values = {"side": start / 1e3}
    begin = time.perf_counter()
    fit = diffmj.identify(
        tossed_cube.build(CONE),
        values,
        tossed_cube.weighted(recordings),
        bounds={"side": (0, np.inf)},
        segment=cube_side.SEGMENT,
        stride=stride,
        targets=["qpos"],
        iterations=22,
        rate=0.05,
        errors=False,
        nthread=nthread,
        simulator=cube_side.KINDS["Euler with CFD"],
    )
    ours = {
        "seconds": time.perf_counter() - begin,
        "evaluations": len(fit.history),
        "values": fit.values,
    }
    params, residual_fn = problem(recordings, values, cube_side.SEGMENT, stride, CONE, nthread)
    theirs = by_sysid(params, residual_fn, iterations, PATIENCE * ours["seconds"])
    out = {"mujoco.sysid": theirs, "diffmj": ours}
    for row in out.values():
        row["side"] = 1e3 * row["values"]["side"]
    print(f"side from {start} mm:", out, flush=True)
    return out


def together(recordings, unseen, quick: bool, nthread: int) -> dict:
    """All parameters of the hollow cube, from the paper's."""
    model = list(cube_all.MODELS)[-1]
    cone = cube_all.MODELS[model][0]
    values = TUNED | {"inertia": 1.0}
    stages = cube_all.plan(quick)[f"{model}, N = 4"][3]
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no motion tells the mass
        found = cube_all.fit(
            tossed_cube.weighted(recordings), model, TUNED, 4, stages, STRIDE, nthread
        )
    ours = {
        "seconds": time.perf_counter() - begin,
        "evaluations": len(found.path),
        "values": found.values,
    }
    params, residual_fn = problem(recordings, values, 4, STRIDE, cone, nthread)
    out = {
        "diffmj": ours,
        "mujoco.sysid, same time": by_sysid(params, residual_fn, 50, ours["seconds"]),
    }
    if not quick:
        out["mujoco.sysid, ten times the time"] = by_sysid(
            params, residual_fn, 50, 10 * ours["seconds"]
        )
    out["start"] = {"values": values}
    for name, row in out.items():
        judged = tossed_cube.whole_tosses(
            tossed_cube.simulator(row["values"], cone, nthread=nthread), unseen
        )
        row |= {"error": judged.error, "position": judged.position}
        print(f"all parameters, {name}: {row}", flush=True)
    return out


def fits(quick: bool, nthread: int) -> dict:
    """Both."""
    truth = TUNED | {"side": tossed_cube.SIDE}
    one = tossed_cube.tosses(3 if quick else cube_side.TOSSES, truth, CONE)
    starts, stride, iterations = (
        ((120,), STRIDE, 4) if quick else (cube_side.STARTS, cube_side.STRIDE, 30)
    )
    count, fitted = (8, 3) if quick else (60, 20)
    data = tossed_cube.tosses(count, HOLLOW, "elliptic")
    some, unseen = data.recordings[-fitted:], data.recordings[:-fitted]
    return {
        "data": data.name,
        "side": {str(x): side_from(x, one.recordings, stride, iterations, nthread) for x in starts},
        "all": together(some, unseen, quick, nthread),
    }
