"""The side of a real cube from its tosses, by gradients, from starts that are far off.

Segments of four recorded intervals are predicted from their first row; the loss compares positions
and rotation matrices [Paulus26, fig. 7 and app. E.2]. Mass and contact parameters are the paper's.
Adam starts from 60, 80, 120 and 140 mm, with gradients of MuJoCo's Euler steps and of Tsit5, each
without and with contacts from distance. At 60 mm hardly a simulated cube reaches the table.

The tosses: see experiments/tossed_cube.py.
"""

import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import diffmj
import matplotlib.pyplot as plt
import numpy as np

from experiments import common, tossed_cube

STARTS = (60, 80, 120, 140)  # [mm]
SEGMENT, STRIDE, TOSSES = 4, 12, 48  # 416 segments of the real tosses
PUBLISHED = 5.0  # [s] of a gradient step of DiffMJX at four intervals [Paulus26, app. E.2]
CFD = diffmj.Cfd(width=1, d_c=0, d_0=0.01, midpoint=1, power=4)
TSIT5 = {"integrator": "tsit5", "rtol": 1e-4, "atol": 1e-4, "interval": tossed_cube.INTERVAL}
KINDS = {
    "Euler": {"integrator": "Euler"},
    "Euler with CFD": {"integrator": "Euler", "cfd": CFD},
    "Tsit5": TSIT5,
    "Tsit5 with CFD": TSIT5 | {"cfd": CFD},
}
COLOURS = dict(
    zip(STARTS, (common.BLUE, common.GREEN, common.ORANGE, common.VERMILION), strict=True)
)


def fit(recordings, kind, start, iterations, progress=None):
    """Fits the side alone, from `start` [mm]; one core."""
    return diffmj.identify(
        tossed_cube.build(),
        {"side": start / 1e3},
        recordings,
        bounds={"side": (0, np.inf)},
        segment=SEGMENT,
        stride=STRIDE,
        targets=["qpos"],
        iterations=iterations,
        rate=0.05,
        errors=False,  # they would take longer than the fit
        nthread=1,
        simulator=KINDS[kind],
        progress=progress,
    )


def seconds_per_gradient(recordings, kind, iterations):
    """[s] of one core: the median over a fit's iterations, near the answer."""
    at = []
    fit(recordings, kind, 110, iterations, lambda *_: at.append(time.process_time()))
    return statistics.median(np.diff(at))


def paths(recordings, kinds, iterations, nthread):
    """All fits, several at once: the side [mm] at every iteration, and that of the least loss."""
    with ThreadPoolExecutor(nthread or os.cpu_count()) as pool:
        jobs = {
            (kind, start): pool.submit(fit, recordings, kind, start, iterations)
            for kind in kinds
            for start in STARTS
        }
        fits = {key: job.result() for key, job in jobs.items()}
    path = {key: [1e3 * x.values["side"] for x in y.history] for key, y in fits.items()}
    return path, {key: 1e3 * y.values["side"] for key, y in fits.items()}


def draw(path, side, note):
    kinds = list(dict.fromkeys(kind for kind, _ in path))
    figure, axes = plt.subplots(1, len(kinds), figsize=(4 * len(kinds), 4.4), sharey=True)
    for axis, kind in zip(axes, kinds, strict=True):
        axis.axhspan(0.99 * side, 1.01 * side, color="0.88", zorder=0)
        for start, colour in COLOURS.items():
            axis.plot(path[kind, start], color=colour, linewidth=1.8)
        axis.set(title=kind, xlabel="gradient step")
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel("side of the cube [mm]")
    axes[0].annotate(
        f"{side:.1f} mm ± 1 %", (0.98, 0.99 * side - 1), xycoords=("axes fraction", "data"),
        ha="right", va="top", fontsize=10,
    )  # fmt: skip
    figure.suptitle(note)
    return figure


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    begin = time.perf_counter()
    truth = tossed_cube.TUNED | {"side": tossed_cube.SIDE}
    data = tossed_cube.tosses(7 if options.quick else TOSSES, truth, "pyramidal")
    print(data.note)
    recordings = tossed_cube.weighted(data.recordings)
    bounds = expected["quick" if options.quick else "full"]

    iterations = 18 if options.quick else 22
    path, found = paths(recordings, KINDS, iterations, options.nthread)
    side = 1e3 * tossed_cube.SIDE
    print(f"\n{'start [mm]':>14}" + "".join(f"{kind:>18}" for kind in KINDS))
    for start in STARTS:
        print(f"{start:14d}" + "".join(f"{found[kind, start]:18.2f}" for kind in KINDS))
    within = {
        kind: sum(abs(found[kind, start] / side - 1) < bounds["within"] for start in STARTS)
        for kind in KINDS
    }
    for kind in KINDS:
        least = 4 if kind.endswith("CFD") else 3
        what = f"{kind}: starts that end within {bounds['within']:.0%} of {side:.1f} mm"
        checks.above(what, within[kind], least - 0.5)

    family = diffmj.ParametricSimulator(tossed_cube.build(), {"side": 0.1})
    nsegment = len(diffmj.segments(family.at(), recordings, SEGMENT, STRIDE, targets=["qpos"]))
    seconds = {
        kind: seconds_per_gradient(recordings, kind, 3 if options.quick else 8)
        for kind in ("Euler", "Tsit5")
    }
    # to as many segments as are compared
    faster = {kind: PUBLISHED / (x * 400 / nsegment) for kind, x in seconds.items()}
    for kind, ratio in faster.items():
        print(f"{kind}: {seconds[kind]:.3f} s of one core for a gradient over {nsegment} segments")
        checks.above(f"{kind}: published 5 s / a gradient of 400", ratio, expected["faster"][kind])

    numbers = {
        "note": data.note,
        "data": data.name,
        "segments": nsegment,
        "found": {kind: {str(s): found[kind, s] for s in STARTS} for kind in KINDS},
        "last": {kind: {str(s): path[kind, s][-1] for s in STARTS} for kind in KINDS},
        "within": within,
        "gradient_seconds": seconds,
        "faster": faster,
        "seconds": time.perf_counter() - begin,
    }
    print(f"{numbers['seconds']:.0f} s in all")
    table = {"gradient step": range(iterations + 1)} | {
        f"{kind}, from {start} mm": x for (kind, start), x in path.items()
    }
    title = (
        f"{'Synthetic tosses' if data.synthetic else 'Tosses of ContactNets'}, {nsegment} segments"
    )
    common.write(
        options.out / "cube_side", numbers, checks, {"side": table}, side=draw(path, side, title)
    )
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
