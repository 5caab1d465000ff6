"""Five bodies over the speed of the throw: MuJoCo's Euler steps against adaptive ones."""

import time

import diffmj
import matplotlib.pyplot as plt
import numpy as np

from experiments import common

BODIES = ("sphere", "box", "capsule", "cylinder", "ellipsoid")
STEP = 2e-4  # [m/s], of the differences: a fiftieth of the distance between speeds
KINDS = {
    "Euler": "MuJoCo's Euler",
    "discrete": "Tsit5, discrete adjoint",
    "interpolated": "Tsit5, interpolated adjoint",
    "smooth": "the same, smooth colliders",
}


def variation(x):
    """Total variation: how far a curve goes up and down."""
    return float(np.sum(np.abs(np.diff(x))))


def measure(body, speeds, tolerance, nthread=0):
    """Losses, gradients and differences at every speed."""
    scene = f"toss/{body}.xml"
    adjoint_tolerance = 10 * tolerance  # one digit less is not seen here, and saves time
    out = {}
    euler = diffmj.Simulator(common.SCENARIOS / scene, integrator="Euler", nthread=nthread)
    trajectory = common.toss(euler, speeds)
    out["Euler loss"] = common.final_y(trajectory)
    out["Euler"] = common.final_y_gradient(trajectory)
    for kind in ("smooth", "discrete", "interpolated"):
        sim = common.adaptive(
            scene,
            tolerance,
            adjoint="discrete" if kind == "discrete" else "interpolated",
            adjoint_rtol=adjoint_tolerance,
            adjoint_atol=adjoint_tolerance,
            collisions="smooth" if kind == "smooth" else "mujoco",
            nthread=nthread,
        )
        trajectory = common.toss(sim, speeds)
        out[kind] = common.final_y_gradient(trajectory)
        out["smooth loss" if kind == "smooth" else "loss"] = common.final_y(trajectory)
        del trajectory  # its record is the largest thing here
    out["differences"] = common.final_y_differences(sim, speeds, STEP)
    return out


def summary(result):
    """Of each gradient: oscillation, its total variation in units of that of differences; and the
    distance from differences, in units of their largest, in the median and the 95th percentile."""
    numeric = result["differences"]
    out = {}
    for kind in KINDS:
        distance = np.abs(result[kind] - numeric) / np.max(np.abs(numeric))
        out[kind] = {
            "oscillation": variation(result[kind]) / variation(numeric),
            "median": float(np.median(distance)),
            "95 %": float(np.percentile(distance, 95)),
        }
    return out


def run(speeds, tolerance, nthread=0):
    """Measures and prints. Returns curves and their summaries by body."""
    print(
        f"\n{len(speeds)} speeds, Tsit5 at {common.power(tolerance)}, Euler at 2 ms\n"
        "  oscillation: total variation of the gradient over the speeds / that of differences\n"
        "  distance from differences / their largest: median, 95th percentile\n"
        f"  {'':<11}" + "".join(f"{name:<33}" for name in KINDS.values())
    )
    curves, summaries = {}, {}
    for body in BODIES:
        start = time.perf_counter()
        curves[body] = measure(body, speeds, tolerance, nthread)
        summaries[body] = summary(curves[body])
        line = f"  {body:<11}"
        for x in summaries[body].values():
            line += f"{x['oscillation']:8.2f}  {x['median']:8.1e}  {x['95 %']:8.1e}     "
        print(f"{line.rstrip()}   ({time.perf_counter() - start:.0f} s)", flush=True)
    return curves, summaries


def columns(speeds, curves):
    """For the CSV: a column per body and curve."""
    return {"u0 [m/s]": speeds} | {
        f"{body}, {name}": values for body, x in curves.items() for name, values in x.items()
    }


def check(summaries, expected, checks):
    """Against the bounds of every body, or those set for one by its name."""
    for body, kinds in summaries.items():
        for kind, bounds in expected.items():
            compare = checks.above if kind == "Euler" else checks.below
            for quantity, bound in (bounds | bounds.get(body, {})).items():
                if not isinstance(bound, dict):
                    what = f"{body}, {quantity} of {KINDS[kind]}"
                    compare(what, kinds[kind][quantity], bound)


def draw(speeds, curves):
    figure, axes = plt.subplots(3, len(BODIES), figsize=(15.5, 9), sharex=True)
    for (loss, rough, smooth), body in zip(axes.T, BODIES, strict=True):
        x = curves[body]
        loss.set_title(body)
        loss.plot(speeds, x["Euler loss"], color=common.ORANGE, linewidth=0.9)
        loss.plot(speeds, x["loss"], color=common.BLUE, linewidth=1.8)

        rough.plot(speeds, x["Euler"], color=common.ORANGE, linewidth=0.9)
        rough.plot(speeds, x["differences"], color=common.BLACK, linewidth=1.2)
        rough.set_ylim(*_limits(x["Euler"], 1.5))  # the largest spikes would hide the rest

        smooth.plot(speeds, x["differences"], ".", color=common.BLACK, markersize=5)
        smooth.plot(speeds, x["discrete"], color=common.SKY, linewidth=1)
        smooth.plot(speeds, x["interpolated"], color=common.VERMILION, linewidth=1.2)
        smooth.plot(speeds, x["smooth"], "--", color=common.GREEN, linewidth=1.2)
        smooth.set_ylim(*_limits(x["differences"], 0.0))
        smooth.set_xlabel("speed of the throw u0 [m/s]")
    axes[0, 0].set_ylabel("loss: final y [m]")
    axes[1, 0].set_ylabel("d(final y)/d(u0) [s]\nMuJoCo's Euler, spikes cut")
    axes[2, 0].set_ylabel("d(final y)/d(u0) [s]\nTsit5")
    figure.align_ylabels(axes[:, 0])
    keys = {
        "MuJoCo's Euler, steps of 2 ms": plt.Line2D([], [], color=common.ORANGE),
        "Tsit5, loss": plt.Line2D([], [], color=common.BLUE, linewidth=1.8),
        "Tsit5, discrete adjoint": plt.Line2D([], [], color=common.SKY),
        "Tsit5, interpolated adjoint": plt.Line2D([], [], color=common.VERMILION),
        "the same, smooth colliders": plt.Line2D([], [], color=common.GREEN, linestyle="--"),
        "differences of the loss of Tsit5": plt.Line2D([], [], color=common.BLACK, marker="."),
    }
    figure.legend(keys.values(), keys.keys(), loc="outside lower center", ncols=len(keys))
    figure.suptitle("Five bodies thrown at the floor: where they are after 1 s, and its derivative")
    return figure


def _limits(x, outliers):
    """Limits that leave out this percentage at either end, with some room."""
    low, high = np.percentile(x, [outliers, 100 - outliers])
    room = 0.1 * (high - low)
    return low - room, high + room
