"""Twenty balls that fly at the floor from twenty heights, in one batch [Paulus26, app. D].

Each rollout chooses its own steps, so that an impact in one does not slow down the others.
"""

import sys

import diffmj
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from experiments import common

RADIUS = 0.05  # [m], of the balls, which fly at 1 m/s
HEIGHTS = np.linspace(0.1, 1.05, 20)  # [m]: impacts at 0.05 s, 0.1 s, ...
DURATION = 1.2  # [s]
MAX_STEP = 0.1  # [s]: in free flight a step has no error, and nothing else would bound it


def drops(nthread):
    """The twenty, as a batch; and each alone."""
    sim = common.adaptive("drop.xml", 1e-6, interval=DURATION, max_step=MAX_STEP, nthread=nthread)
    start = sim.keyframe_state("drop")
    qpos = np.tile(start.qpos, (len(HEIGHTS), 1))
    qpos[:, 2] = HEIGHTS
    batch = sim.rollout(qpos, start.qvel, nstep=1)
    return batch, [sim.rollout(x, start.qvel, nstep=1) for x in qpos]


def check(batch, singles, expected, checks):
    impacts = HEIGHTS - RADIUS  # at 1 m/s
    counts = [steps.accepted for steps in batch.integrator]
    late = [
        abs(steps.time[np.argmin(np.diff(steps.time))] - impact)
        for steps, impact in zip(batch.integrator, impacts, strict=True)
    ]
    same = all(
        np.array_equal(steps.time, single.integrator.time)
        for steps, single in zip(batch.integrator, singles, strict=True)
    )
    print(
        f"  twenty drops: {min(counts)} to {max(counts)} steps each; smallest steps within "
        f"{1e3 * max(late):.1f} ms of the impacts; alone, each takes "
        f"{'the same' if same else 'OTHER'} steps"
    )
    checks.below("smallest step from impact [s]", max(late), expected["impact"])
    checks.below("most steps / fewest", max(counts) / min(counts), expected["step_counts"])
    checks.above("steps in a batch are those alone", same, 0)
    return {
        "steps": counts,
        "most_steps": max(counts),
        "impact_to_smallest_step": late,
        "furthest_ms": 1e3 * max(late),
        "same_alone": "yes" if same else "no",
    }


def draw(batch):
    figure, axes = plt.subplots(figsize=(11, 5))
    diffmj.plot_steps(batch, axes)
    # plot_steps has ten colours
    colours = ListedColormap(plt.colormaps["viridis"](np.linspace(0, 0.95, len(HEIGHTS))))
    scale = plt.cm.ScalarMappable(plt.Normalize(HEIGHTS[0], HEIGHTS[-1]), colours)
    for line, height in zip(axes.patches, HEIGHTS, strict=True):
        line.set(edgecolor=scale.to_rgba(height), linewidth=1.2)
    figure.colorbar(scale, ax=axes, label="initial height of the ball [m]")
    axes.margins(x=0.01)
    axes.set_title("Twenty ball drops, one batch: every rollout has its own steps")
    return figure


def main(argv=None):
    options = common.arguments(__doc__, argv)
    checks = common.Checks()
    batch, singles = drops(options.nthread)
    numbers = check(batch, singles, common.expected(__file__), checks)
    table = common.step_table("initial height [m]", dict(zip(HEIGHTS, singles, strict=True)))
    common.write(options.out / "drops", numbers, checks, {"drops": table}, drops=draw(batch))
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
