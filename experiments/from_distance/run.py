"""Contacts from distance: their law, and why they belong in the backward pass alone.

1. Impedance d and violation rho over the distance r, measured: a ball that is alone with a plane,
   without gravity, has the acceleration -d (B v + K d rho) [Paulus26, fig. 4].
2. A robot dropped on a floor, as MuJoCo has it, and with forces from distance in the forward pass
   too, which diffmj has only to look at: it hovers, as if on foam [Paulus26, fig. 5].
"""

import sys

import diffmj
import matplotlib.pyplot as plt
import numpy as np

from experiments import common

SOLIMP, TIMECONST, SPEED = (0.05, 0.95, 0.01, 0.5, 2), 0.02, 1e-3  # [s], [m/s]
WIDTH = 0.1  # [m]
LAWS = {  # midpoint, power
    "power 1": (1.0, 1.0),
    "power 2": (1.0, 2.0),
    "power 4": (1.0, 4.0),
    "power 3, midpoint ½": (0.5, 3.0),
}
SOFTPLUS = (0, 0.005, 0.02)  # [m]
BALL = f"""<mujoco><option gravity="0 0 0"/>
  <default><geom condim="1" solimp="{" ".join(map(str, SOLIMP))}" solref="{TIMECONST} 1"/></default>
  <worldbody><geom type="plane" size="1 1 1"/>
    <body><joint type="slide" axis="0 0 1"/><geom size="0.1"/></body></worldbody></mujoco>"""
HOVER = {"width": 0.1, "d_0": 0.9, "midpoint": 0.5, "power": 3.0, "softplus": 0.03}
FOOT = 0.028  # [m], radius


def measure(r, **law):
    """d and rho at distances r, from accelerations at rest and at a small speed."""
    cfd = diffmj.Cfd(width=WIDTH, d_0=SOLIMP[0], forward=True, **law)
    sim = diffmj.Simulator(BALL, "tsit5", interval=1e-6, cfd=cfd)
    rest, moving = (
        sim.rollout(0.1 + r[:, None], np.full((len(r), 1), v), nstep=1).qacc[:, 0, 0]
        for v in (0.0, -SPEED)
    )
    stiffness, damping = 1 / (SOLIMP[1] * TIMECONST) ** 2, 2 / (SOLIMP[1] * TIMECONST)
    d = (moving - rest) / (damping * SPEED)
    # beyond the width there is neither
    none = d == 0
    return d, np.where(none, np.nan, -rest / (stiffness * np.where(none, 1, d) ** 2))


def impedance(r, midpoint, power):
    """What is asked for, r > 0."""
    x = 1 - r / WIDTH
    below = x**power / midpoint ** (power - 1)
    above = 1 - (1 - x) ** power / max(1 - midpoint, 1e-9) ** (power - 1)
    return SOLIMP[0] * np.where(x <= midpoint, below, above)


def violation(r, s):
    return np.minimum(r, 0) if s == 0 else -s * np.logaddexp(0, -r / s)


def drop(cfd=None, seconds=2.0):
    """The robot's fall, and the height of its lowest foot over the floor."""
    sim = diffmj.Simulator(common.SCENARIOS / "quadruped.xml", cfd=cfd)
    traj = sim.rollout(nstep=round(seconds / sim.interval))
    return traj, traj.site_xpos[:, :, 2].min(1) - FOOT


def draw_curves(r, curves):
    figure, axes = plt.subplots(1, 3, figsize=(13.5, 4))
    colours = (common.BLUE, common.ORANGE, common.GREEN, common.VERMILION)
    for (name, (d, _)), colour in zip(curves["laws"].items(), colours, strict=True):
        axes[0].plot(100 * r, d, color=colour, label=name)
        near = r > 0
        axes[1].plot(100 * r[near], d[near], color=colour, label=name)
    for (s, (_, rho)), colour in zip(curves["softplus"].items(), colours, strict=False):
        axes[2].plot(100 * r, 100 * rho, color=colour, label=f"s = {1000 * s:g} mm")
    axes[0].set(title="impedance d", ylabel="d")
    axes[1].set(title="the same where nothing touches", ylabel="d")
    axes[2].set(title="violation ρ", ylabel="ρ [cm]")
    for axis in axes:
        axis.axvline(0, color=common.GREY, lw=0.8)
        axis.set_xlabel("distance r [cm]")
    axes[1].legend()
    axes[2].legend()
    return figure


def draw_hovering(time, heights):
    figure, axis = plt.subplots(figsize=(7.5, 3.6))
    colours = (common.BLACK, common.VERMILION)
    for (name, height), colour in zip(heights.items(), colours, strict=True):
        axis.plot(time, 100 * height, color=colour, label=name)
    axis.axhline(0, color=common.GREY, lw=0.8)
    axis.set(xlabel="time [s]", ylabel="lowest foot over the floor [cm]", ylim=(-2, 15))
    axis.legend()
    return figure


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    r = np.linspace(-0.02, 0.105, 126 if options.quick else 1001) + 1e-5
    beyond = (r > 0) & (r < 0.95 * WIDTH)
    laws = {name: measure(r, midpoint=m, power=p, softplus=0) for name, (m, p) in LAWS.items()}
    for name, (d, _) in laws.items():
        error = np.abs(d - impedance(r, *LAWS[name]))[beyond].max() / SOLIMP[0]
        checks.below(f"impedance of {name}", error, expected["impedance"])
    soft = {s: measure(r, softplus=s) for s in SOFTPLUS}
    for s, (_, rho) in soft.items():
        error = np.abs(rho - violation(r, s))[r < 0.5 * WIDTH].max()
        checks.below(f"violation of s = {s:g}", error, expected["violation"])
    edges = np.array([-1e-9, 1e-9, WIDTH - 1e-9, WIDTH + 1e-9])
    d, _ = measure(edges, softplus=0.005)
    gap = max(abs(d[1] - d[0]), abs(np.nan_to_num(d[3]) - d[2]))
    checks.below("jump of the impedance at r = 0 and r = w_c", gap, expected["gap"])

    true, height = drop()
    backward, same = drop(diffmj.Cfd(**HOVER))
    _, hovering = drop(diffmj.Cfd(**HOVER, forward=True))
    print(f"lowest foot at rest: {100 * height[-1]:.2f} cm, hovering {100 * hovering[-1]:.2f} cm")
    checks.below(
        "change by contacts from distance", np.abs(true.qpos - backward.qpos).max(), 1e-300
    )
    checks.below("foot on the floor", abs(height[-1]), expected["resting"])
    checks.above("foot that hovers", hovering[-1], expected["hovering"])
    columns = {"r [m]": r} | {f"d, {name}": x[0] for name, x in laws.items()}
    columns |= {f"rho [m], s = {s:g} m": x[1] for s, x in soft.items()}
    heights = {"MuJoCo, and contacts from distance in the backward pass": same}
    heights["contacts from distance in the forward pass too"] = hovering
    tables = {"curves": columns, "hovering": {"time [s]": true.time} | heights}
    common.write(
        options.out / "from_distance",
        {"hovering": float(hovering[-1]), "resting": float(height[-1]), "gap": float(gap)},
        checks,
        tables,
        curves=draw_curves(r, {"laws": laws, "softplus": soft}),
        hovering=draw_hovering(true.time, heights),
    )
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
