"""A toss and its simulation, side by side before and after a fit."""

import warnings

import mujoco
import numpy as np

from experiments import tossed_cube
from experiments.cube_all import fits
from experiments.cube_all.run import load
from experiments.film import Motion, stage
from experiments.tossed_cube import SIDE, TUNED

APART = 0.36  # [m] between the two pairs
REAL, SIMULATED = "0.9 0.42 0.05 1", "0.1 0.45 0.8 0.55"


def scene():
    """Two pairs of cubes; each cube is put where it is to be seen."""
    cubes = "".join(
        f'<body name="{name}"><freejoint/>'
        f'<geom name="{name}" type="box" size="{SIDE / 2} {SIDE / 2} {SIDE / 2}" rgba="{colour}"/>'
        "</body>"
        for name, colour in {
            "real, before": REAL,
            "before": SIMULATED,
            "real, after": REAL,
            "after": SIMULATED,
        }.items()
    )
    return mujoco.MjSpec.from_string(
        '<mujoco><worldbody><geom name="table" type="plane" size="3 3 0.1"/>'
        f"{cubes}</worldbody></mujoco>"
    )


def turned(qpos, real):
    """About the vertical, such that the real cube comes from behind and passes the middle."""
    first, last = real[0, :2], real[-1, :2]
    angle = -np.arctan2(*(last - first)[::-1])
    out = qpos.copy()
    c, s = np.cos(angle), np.sin(angle)
    out[:, :2] = (qpos[:, :2] - (first + last) / 2) @ np.array([[c, s], [-s, c]])
    turn = np.array([np.cos(angle / 2), 0, 0, np.sin(angle / 2)])
    for row in out:
        mujoco.mju_mulQuat(row[3:], turn, row[3:].copy())
    return out


def film():
    """Of the tosses that the fit has not seen, one with the median error afterwards."""
    data, fitted, unseen = load(quick=True)
    _, *_, model = fits.MODELS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no motion tells the mass
        fit = fits.fit(tossed_cube.weighted(fitted), model, TUNED, 4, [(None, 0.08, 20)])
    before = tossed_cube.simulator(TUNED, "pyramidal")
    after = tossed_cube.simulator(fit.values, fits.MODELS[model][0])
    each = tossed_cube.whole_tosses(after, unseen).each
    toss = unseen[np.argsort(each)[len(each) // 2]]

    real = toss.qpos[1:]
    pairs = []
    for sim, place in ((before, -APART / 2), (after, APART / 2)):
        for qpos in (real, tossed_cube.replay(sim, [toss])[0]):
            shown = turned(qpos, real)
            shown[:, 1] += place
            pairs.append(shown)
    last = float(toss.time[-1] - toss.time[1])
    name = "synthetic" if data.synthetic else "real"
    return Motion(
        stage(scene(), "table", "real, after"),
        toss.time[1:] - toss.time[1],
        np.hstack(pairs),
        lookat=(0.1, 0, 0.02),
        distance=1.05,
        elevation=-35,
        slower=5,
        moments=tuple(np.linspace(0, last, 5)),
        label=f"orange: {name}, blue: simulated\nleft: before the fit, right: after",
    )
