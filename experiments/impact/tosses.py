"""The five tossed bodies with MuJoCo's default solimp: gradients with and without events, against
differences of converged rollouts."""

import time
import warnings

import diffmj
import matplotlib.pyplot as plt
import mujoco
import numpy as np

from experiments import common

SOLIMP = (0.9, 0.95, 0.001, 0.5, 2)  # MuJoCo's default
BUDGET = 8_000  # steps; a rollout that takes more is one that chatters, and has no result
STEP = 2e-4  # [m/s], of the differences; half of it tells whether they converged
AGREE = 1e-4  # relative


def simulator(body, tolerance, nthread, **options):
    model = mujoco.MjModel.from_xml_path(str(common.SCENARIOS / f"toss/{body}.xml"))
    model.geom_solimp[:] = SOLIMP
    return diffmj.Simulator(
        model,
        integrator="tsit5",
        rtol=tolerance,
        atol=tolerance,
        interval=common.INTERVAL,
        max_steps=BUDGET,
        adjoint="interpolated",
        nthread=nthread,
        **options,
    )


def measure(body, speeds, tolerance, nthread=0):
    """Gradients, differences with their error bars, and the slowest event of every toss."""
    out = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rollouts that failed are NaN
        sim = simulator(body, tolerance, nthread)
        trajectory = common.toss(sim, speeds)
        out["loss"] = np.where(trajectory.ok, common.final_y(trajectory), np.nan)
        out["gradient"] = common.final_y_gradient(trajectory)
        events = [x.events for x in trajectory.integrator]
        out["events"] = np.array([len(x) for x in events])
        out["slowest"] = np.array([min((abs(e.rate) for e in x), default=np.nan) for x in events])
        other = common.toss(simulator(body, tolerance, nthread, events=False), speeds)
        out["without"] = common.final_y_gradient(other)
        del trajectory, other
        tight = simulator(body, tolerance / 100, nthread)
        coarse, fine = (common.final_y_differences(tight, speeds, h) for h in (STEP, STEP / 2))
    out["differences"], out["bar"] = fine, np.abs(fine - coarse)
    return out


def classify(x):
    """A word per toss. Grazing: an event slower than 1 cm/s, where a contact may end under force
    or chatter."""
    scale = np.abs(x["differences"])
    error = np.abs(x["gradient"] - x["differences"])
    words = np.full(len(scale), "differs", dtype=object)
    words[x["slowest"] < 1e-2] = "grazing"
    words[x["bar"] > AGREE * scale] = "no differences"  # a kink, or noise
    words[error < AGREE * scale + x["bar"]] = "agrees"
    words[~np.isfinite(x["gradient"] + x["differences"])] = "budget"
    return words


def run(bodies, speeds, tolerance, nthread=0):
    results, counts = {}, {}
    names = ("agrees", "grazing", "differs", "no differences", "budget")
    print(f"\nDefault solimp, {len(speeds)} speeds, Tsit5 at {common.power(tolerance)}: gradient")
    print(f"  {'':<11}" + "".join(f"{name:>16}" for name in names) + "   without events, error")
    for body in bodies:
        start = time.perf_counter()
        results[body] = x = measure(body, speeds, tolerance, nthread)
        x["class"] = classify(x)
        counts[body] = {name: int(np.sum(x["class"] == name)) for name in names}
        off = float(np.nanmedian(common.relative(x["without"], x["differences"])))
        counts[body] |= {"agreeing": counts[body]["agrees"] / len(speeds), "without": off}
        line = f"  {body:<11}" + "".join(f"{counts[body][name]:16d}" for name in names)
        print(f"{line}   {off:.2g}   ({time.perf_counter() - start:.0f} s)", flush=True)
    return results, counts


def draw(speeds, results):
    size = (max(7, 3.1 * len(results)), 7)
    figure, axes = plt.subplots(2, len(results), figsize=size, sharex=True, squeeze=False)
    for (top, bottom), (body, x) in zip(axes.T, results.items(), strict=True):
        top.set_title(body)
        top.plot(speeds, x["loss"], color=common.BLUE)
        bottom.plot(speeds, x["without"], color=common.SKY, linewidth=1)
        bottom.plot(speeds, x["differences"], ".", color=common.BLACK, markersize=5)
        right = x["class"] == "agrees"
        bottom.plot(speeds[right], x["gradient"][right], "o", color=common.GREEN, mfc="none")
        bottom.plot(speeds[~right], x["gradient"][~right], "x", color=common.VERMILION)
        low, high = np.nanmin(x["differences"]), np.nanmax(x["differences"])
        room = 0.25 * (high - low)
        bottom.set(ylim=(low - room, high + room), xlabel="speed of the throw u0 [m/s]")
    axes[0, 0].set_ylabel("loss: final y [m]")
    axes[1, 0].set_ylabel("d(final y)/d(u0) [s]")
    line = plt.Line2D
    keys = {
        "differences": line([], [], color=common.BLACK, marker=".", linestyle="none"),
        "gradient, within 1e-4 of them": line(
            [], [], color=common.GREEN, marker="o", mfc="none", linestyle="none"
        ),
        "gradient, elsewhere": line([], [], color=common.VERMILION, marker="x", linestyle="none"),
        "without events": line([], [], color=common.SKY),
    }
    figure.legend(keys.values(), keys.keys(), loc="outside lower center", ncols=2)
    figure.suptitle("Thrown at the floor, MuJoCo's default solimp (d0 = 0.9)")
    return figure


def columns(speeds, results):
    """For the CSV."""
    return {"u0 [m/s]": speeds} | {
        f"{body}, {name}": values for body, x in results.items() for name, values in x.items()
    }
