"""Poses through the ends of a collider's cases: MuJoCo's colliders against smooth ones.

A body is put into poses along a path. Shown are its acceleration there, what contacts make of the
pose, and the derivative of that along the path, by one backward sweep a pose.
"""

import sys

import diffmj
import matplotlib.pyplot as plt
import numpy as np

from experiments import common

STEP = 1e-4  # [s], of the one step that tells the acceleration
WIDTHS = {"mujoco": None, "1 mm": 1e-3, "1 cm": 1e-2}
COLORS = {"mujoco": common.ORANGE, "1 mm": common.BLUE, "1 cm": common.GREEN}

CYLINDER = '<geom type="cylinder" size=".09 .12"/>'
CAPSULE = '<geom type="capsule" size=".07 .12"/>'
FLOOR = '<geom type="plane" size="3 3 1"/>'


def turned(axis, angle):
    """Quaternions of turns about an axis."""
    half = np.asarray(angle)[..., None] / 2
    return np.concatenate([np.cos(half), np.sin(half) * np.array(axis)], -1)


def path(s, place=(0, 0, 0), move=(0, 0, 0), axis=(0, 0, 1), angle=0.0, turn=0.0):
    """Poses at s: a place and an angle about an axis that change at constant rates, and those rates
    as a tangent."""
    pos = np.array(place) + s[:, None] * np.array(move)
    tangent = np.concatenate([move, turn * np.array(axis)])
    return np.concatenate([pos, turned(axis, angle + turn * s)], -1), tangent


# of each: the scene, the path over s, the range of s and its name, the component that is shown, and
# the velocity of all poses
PATHS = {
    "cylinder that stands": (
        FLOOR, CYLINDER,
        lambda s: path(s, place=(0, 0, 0.1197), axis=(0.6, 0.8, 0), turn=1),
        (-0.02, 0.02), "tilt [rad]", 3, (0.3, 0.1, 0, 0, 0, 5),
    ),
    "capsules that are parallel": (
        CAPSULE.replace("/>", ' euler="0 90 0"/>'), CAPSULE.replace("/>", ' euler="0 90 0"/>'),
        lambda s: path(s, place=(0.03, 0, 0.138), axis=(0, 1, 0), turn=1),
        (-0.02, 0.02), "angle [rad]", 4, (0,) * 6,
    ),
    "sphere over a box's edge": (
        '<geom type="box" size=".1 .1 .1"/>', '<geom size=".05"/>',
        lambda s: path(s, place=(0, 0.02, 0.148), move=(1, 0, 0)),
        (0.08, 0.12), "place [m]", 0, (0,) * 6,
    ),
    "sphere inside a box": (
        '<geom type="box" size=".1 .1 .1"/>', '<geom size=".05"/>',
        lambda s: path(s, place=(0.06, 0.02, 0), move=(0, 0, 1)),
        (0.03, 0.09), "place [m]", 0, (0,) * 6,
    ),
    "sphere over a cylinder's rim": (
        CYLINDER, '<geom size=".05"/>',
        lambda s: path(s, place=(0, 0.02, 0.168), move=(1, 0, 0)),
        (0.06, 0.11), "place [m]", 0, (0,) * 6,
    ),
}  # fmt: skip


def simulator(fixed, free, width):
    xml = f"""<mujoco><option timestep="{STEP}" gravity="0 0 0"><flag refsafe="disable"/></option>
      <default><geom solref=".01 1" solimp="0 .95 .01" density="500"/></default>
      <worldbody>{fixed}<body><freejoint/>{free}</body></worldbody></mujoco>"""
    options = {} if width is None else {"collisions": "smooth", "smoothness": width}
    return diffmj.Simulator(xml, "Euler", fallback=False, **options).tightened()


def measure(name, npose):
    """Acceleration and its derivative along a path, by width."""
    fixed, free, poses, (low, high), _, component, qvel = PATHS[name]
    s = np.linspace(low, high, npose)
    qpos, tangent = poses(s)
    out = {"s": s}
    for kind, width in WIDTHS.items():
        traj = simulator(fixed, free, width).rollout(qpos, qvel, nstep=1)
        bar = np.zeros_like(traj.qvel)
        bar[:, 1, component] = 1 / STEP
        out[kind] = (traj.qvel[:, 1, component] - qvel[component]) / STEP
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


def draw(curves):
    figure, axes = plt.subplots(2, len(PATHS), figsize=(19, 7), sharex="col")
    for (top, bottom), (name, x) in zip(axes.T, curves.items(), strict=True):
        top.set_title(name)
        for kind in WIDTHS:
            look = {"color": COLORS[kind], "linewidth": 2.2 if kind == "mujoco" else 1.3}
            top.plot(x["s"], x[kind], **look)
            bottom.plot(x["s"], x[f"{kind} derivative"], **look)
        bottom.set_xlabel(PATHS[name][4])
        smooth = np.concatenate([x[f"{kind} derivative"] for kind in ("1 mm", "1 cm")])
        room = 0.1 * np.ptp(smooth)
        bottom.set_ylim(smooth.min() - room, smooth.max() + room)
    axes[0, 0].set_ylabel("acceleration")
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
    curves = {name: measure(name, npose) for name in PATHS}
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
        checks.above(f"{name}, MuJoCo's", max(exact["jump"], exact["missed"]), expected["mujoco"])
        for quantity, bound in expected["smooth"].items():
            # few poses do not resolve a millimetre
            if quantity == "change" or not options.quick:
                checks.below(f"{name}, {quantity} at 1 mm", smooth[quantity], bound)
    # one file: columns by path, quantity and width
    table = {
        f"{name}, {quantity}": column
        for name, x in curves.items()
        for quantity, column in x.items()
    }
    common.write(
        options.out / "collisions",
        numbers,
        checks,
        {"paths": table},
        paths=draw(curves),
    )
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
