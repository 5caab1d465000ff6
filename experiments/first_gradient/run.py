"""Where does a tossed cube land, and how does that depend on the speed of the throw?

A cube is thrown at the floor with vertical speed u0 and tumbles for one second; the loss is its
final y. One backward pass through every toss of a batch gives d(loss)/d(u0), compared here with
central differences of the loss. Twice: with hard contacts, whose time constant is 2.5 steps, and
with softer ones of 10 steps. The gradient of the steps is exact in both; only in the second do the
steps resolve the contact, so that it also tells where the motion goes.
"""

import sys

import diffmj
import matplotlib.pyplot as plt
import numpy as np

from experiments import common

CUBE = """
<mujoco model="cube toss">
  <option timestep="0.002" gravity="0 0 -2" cone="pyramidal" solver="Newton">
    <flag refsafe="disable" eulerdamp="disable"/>
  </option>
  <default><geom {contact}/></default>
  <worldbody>
    <geom name="floor" type="plane" size="3 3 0.1" contype="0" conaffinity="1" condim="3"/>
    <body name="cube">
      <freejoint/>
      <geom name="cube" type="box" size="0.05 0.05 0.05" euler="60 0 0" density="100"/>
    </body>
  </worldbody>
</mujoco>
"""
CONTACTS = {
    "hard": 'solref="0.005 1" solimp="0 0.95 0.001 0.5 2"',
    "soft": 'solref="0.02 1" solimp="0 0.95 0.01 0.5 2"',
}
TITLES = {
    "hard": "hard contacts: time constant 5 ms = 2.5 steps",
    "soft": "softer contacts: time constant 20 ms = 10 steps",
}
NSTEP = 500  # 1 s
SPEEDS = np.linspace(-3, -1, 61)  # [m/s]
CONVERGED = 1e-3  # differences whose error bar is larger say nothing
FLOOR = 0.01  # errors are relative to max(|gradient|, FLOOR)


def toss(sim, u0):
    """One rollout per speed. Returns the final y of each, and the trajectories."""
    qvel = np.zeros((len(u0), 6))
    qvel[:, 1], qvel[:, 2] = -0.1, u0
    trajectory = sim.rollout(qpos=[0, 0, 0.2, 1, 0, 0, 0], qvel=qvel, nstep=NSTEP)
    return trajectory.qpos[:, -1, 1], trajectory


def adjoint(trajectory):
    """d(final y)/d(u0) of every toss, by one backward pass each."""
    dloss = np.zeros_like(trajectory.qpos)
    dloss[:, -1, 1] = 1
    return trajectory.backward(qpos=dloss).qvel[:, 2]


def differences(sim, u0):
    """The same by central differences: of three sizes of the step the two that agree best; how far
    they are apart is the error bar."""
    tight = sim.tightened()  # or the noise of the constraint solver is measured
    d = [(toss(tight, u0 + h)[0] - toss(tight, u0 - h)[0]) / (2 * h) for h in (1e-7, 1e-8, 1e-9)]
    bars = np.abs(np.diff(d, axis=0))
    best = np.argmin(bars, axis=0)
    column = np.arange(len(u0))
    return np.array(d)[best + 1, column], bars[best, column]


def relative(x, a, b):
    return np.abs(x) / np.maximum(np.maximum(np.abs(a), np.abs(b)), FLOOR)


def measure(sim, nfine):
    """Curves, and how far the adjoint is from differences where these converged."""
    y, trajectory = toss(sim, SPEEDS)
    gradient = adjoint(trajectory)
    numeric, bar = differences(sim, SPEEDS)
    fine = np.linspace(SPEEDS[0], SPEEDS[-1], nfine)
    error = relative(gradient - numeric, gradient, numeric)
    smooth = relative(bar, gradient, numeric) < CONVERGED
    curves = (fine, toss(sim, fine)[0], y, gradient, numeric, smooth)
    summary = {
        "speeds": len(SPEEDS),
        "converged": int(smooth.sum()),
        "worst": float(np.max(error[smooth])),
        "median": float(np.median(error[smooth])),
    }
    return curves, summary


def draw(results):
    blue, orange = common.BLUE, common.VERMILION
    figure, axes = plt.subplots(2, 2, figsize=(12, 7.5), sharex=True)
    for column, (name, result) in enumerate(results.items()):
        fine, curve, y, gradient, numeric, smooth = result
        top, bottom = axes[:, column]
        top.set_title(TITLES[name])
        top.plot(fine, curve, color="0.6", linewidth=0.8, label=f"loss at {len(fine)} speeds")
        top.plot(SPEEDS, y, ".", color=blue, label=f"{len(SPEEDS)} of them, differentiated below")
        top.set_ylabel("loss: final y [m]")
        top.legend(loc="upper left")

        style = {"color": orange, "linestyle": "none"}
        bottom.axhline(0, color="0.85", linewidth=0.8, zorder=0)
        bottom.plot(SPEEDS, gradient, color=blue, linewidth=0.8, alpha=0.4)
        bottom.plot(SPEEDS, gradient, "o", color=blue, markersize=7, mfc="none")
        bottom.plot(SPEEDS[smooth], numeric[smooth], marker=".", markersize=6, **style)
        bottom.plot(SPEEDS[~smooth], numeric[~smooth], marker="x", markersize=6, **style)
        bottom.set_xlabel("speed of the throw u0 [m/s]")
        bottom.set_ylabel("d(final y) / d(u0) [s]")
    axes[1, 0].set_yscale("symlog", linthresh=1)
    axes[1, 0].set_ylim(-1e3, 1e3)
    axes[1, 0].set_title("logarithmic beyond ±1", loc="left", fontsize=9, color="0.4")
    axes[1, 1].set_title("linear", loc="left", fontsize=9, color="0.4")
    keys = [
        plt.Line2D([], [], color=blue, linewidth=1, marker="o", markersize=7, mfc="none"),
        plt.Line2D([], [], marker=".", markersize=6, **style),
        plt.Line2D([], [], marker="x", markersize=6, **style),
    ]
    names = ["adjoint (diffmj)", "finite differences", "finite differences, not converged"]
    figure.legend(keys, names, loc="outside lower center", ncols=3)
    figure.suptitle("A tossed cube: one backward pass against finite differences")
    return figure


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    curves, numbers, table = {}, {}, {"u0 [m/s]": SPEEDS}
    for name, contact in CONTACTS.items():
        sim = diffmj.Simulator(CUBE.format(contact=contact), nthread=options.nthread)
        curves[name], numbers[name] = measure(sim, 401 if options.quick else 1201)
        x = numbers[name]
        print(f"  {TITLES[name]}: error {x['worst']:.1e} at worst, {x['median']:.1e} in the median")
        checks.above(f"{name}, speeds with differences", x["converged"], expected["converged"])
        checks.below(f"{name}, worst error", x["worst"], expected["worst"])
        checks.below(f"{name}, median error", x["median"], expected["median"])
        columns = ("final y [m]", "adjoint [s]", "differences [s]", "converged")
        table |= {f"{name}, {c}": v for c, v in zip(columns, curves[name][2:], strict=True)}
    folder, figure = options.out / "first_gradient", draw(curves)
    common.write(folder, numbers, checks, {"cube_toss": table}, cube_toss=figure)
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
