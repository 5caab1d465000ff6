"""Poses through the ends of a collider's cases: MuJoCo's colliders against smooth ones.

A body is put into poses along a path. Shown are its acceleration there, what contacts make of the
pose, and the derivative of that along the path, by one backward pass per pose.
"""

import sys

import diffmj
import matplotlib.pyplot as plt
import numpy as np

from experiments import common
from experiments.collisions.paths import ASSETS, FIGURES, Path

STEP = 1e-4  # [s], of the one step that tells the acceleration
WIDTHS = {"mujoco": None, "1 mm": 1e-3, "1 cm": 1e-2}
COLORS = {"mujoco": common.ORANGE, "1 mm": common.BLUE, "1 cm": common.GREEN}


def simulator(path: Path, width):
    # at rest without friction, and soft: a contact that another one pushes open ends with a kink
    contact = 'solimp="0 .95 .01"' if any(path.qvel) else 'solimp="0 .05 .01" condim="1"'
    xml = f"""<mujoco><option timestep="{STEP}" gravity="0 0 0"><flag refsafe="disable"/></option>
      <default><geom solref=".01 1" {contact} density="500"/></default>{ASSETS}
      <worldbody>{path.fixed}<body><freejoint/>{path.free}</body></worldbody></mujoco>"""
    options = {} if width is None else {"collisions": "smooth", "smoothness": width}
    return diffmj.Simulator(xml, "Euler", fallback=False, **options).tightened()


def measure(path: Path, npose):
    """Acceleration and its derivative along a path, by width."""
    s = np.linspace(*path.span, npose)
    qpos, tangent = path.poses(s)
    out = {"s": s}
    for kind, width in WIDTHS.items():
        traj = simulator(path, width).rollout(qpos, path.qvel, nstep=1)
        bar = np.zeros_like(traj.qvel)
        bar[:, 1, path.component] = 1 / STEP
        out[kind] = (traj.qvel[:, 1, path.component] - path.qvel[path.component]) / STEP
        out[f"{kind} derivative"] = traj.backward(qvel=bar).qpos_tangent @ tangent
    return out


def summary(x, kind):
    """Along a path: the largest jump of the derivative between neighbouring poses, in units of its
    range; and how far its integral is from the acceleration, in units of the range of that."""
    slope, value = x[f"{kind} derivative"], x[kind]
    rises = np.diff(x["s"]) * (slope[1:] + slope[:-1]) / 2
    missed = np.abs(np.cumsum(rises) - (value[1:] - value[0])).max()
    return {
        "jump": float(np.abs(np.diff(slope)).max() / max(np.ptp(slope), 1e-9)),
        "missed": float(missed / np.ptp(value)),
        "change": float(np.abs(value - x["mujoco"]).mean() / np.abs(x["mujoco"]).max()),
    }


def draw(paths, curves):
    figure, axes = plt.subplots(2, len(paths), figsize=(19, 7), sharex="col")
    for (top, bottom), (name, path) in zip(axes.T, paths.items(), strict=True):
        x = curves[name]
        top.set_title(name)
        for kind in WIDTHS:
            look = {"color": COLORS[kind], "linewidth": 2.2 if kind == "mujoco" else 1.3}
            top.plot(x["s"], x[kind], **look)
            bottom.plot(x["s"], x[f"{kind} derivative"], **look)
        bottom.set_xlabel(path.label)
        bottom.locator_params(axis="x", nbins=5)
        smooth = np.concatenate([x[f"{kind} derivative"] for kind in ("1 mm", "1 cm")])
        room = 0.1 * np.ptp(smooth)
        bottom.set_ylim(smooth.min() - room, smooth.max() + room)
    axes[0, 0].set_ylabel("acceleration [m/s², rad/s²]")
    axes[1, 0].set_ylabel("its derivative along the path")
    keys = {
        ("MuJoCo's collider" if kind == "mujoco" else f"smooth, width {kind}"): plt.Line2D(
            [], [], color=color
        )
        for kind, color in COLORS.items()
    }
    figure.legend(keys.values(), keys.keys(), loc="outside lower center", ncols=len(keys))
    return figure


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    npose = 301 if options.quick else 3001
    paths = {name: path for figure in FIGURES.values() for name, path in figure.items()}
    curves = {name: measure(path, npose) for name, path in paths.items()}
    numbers = {}
    print(
        "jump: of the derivative between poses / its range\n"
        "missed: by its integral / range of the acceleration\n"
        "change: of the acceleration, in the mean / largest"
    )
    for name, x in curves.items():
        numbers[name] = {kind: summary(x, kind) for kind in WIDTHS}
        line = f"  {name:<28}"
        for kind, of in numbers[name].items():
            line += f"{kind:>8}:" + "".join(f" {value:8.1e}" for value in of.values())
        print(line)
        exact, smooth = numbers[name]["mujoco"], numbers[name]["1 mm"]
        if paths[name].mujoco:
            found = max(exact["jump"], exact["missed"])
            checks.above(f"{name}, MuJoCo's", found, expected["mujoco"])
        for quantity, bound in (expected["smooth"] | expected.get(name, {})).items():
            # few poses do not resolve a millimetre
            if quantity == "change" or not options.quick:
                checks.below(f"{name}, {quantity} at 1 mm", smooth[quantity], bound)
    # one file a figure: columns by path, quantity and width
    tables = {
        figure: {f"{name}, {quantity}": x for name in of for quantity, x in curves[name].items()}
        for figure, of in FIGURES.items()
    }
    figures = {figure: draw(of, curves) for figure, of in FIGURES.items()}
    common.write(options.out / "collisions", numbers, checks, tables, **figures)
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
