"""Step size against time: small at impacts, large between them.

1. The cube toss at several tolerances, under the height of the cube's lowest corner.
2. Twenty balls that fly at the floor from twenty heights, one batch [Paulus26, app. D]: each
   rollout chooses its own steps, so that an impact in one does not slow down the others.
"""

import sys

import diffmj
import matplotlib.pyplot as plt
import mujoco
import numpy as np
from matplotlib.colors import ListedColormap

from experiments import common

SPEED = -2.0  # [m/s], of the cube
TOLERANCES = {1e-4: common.SKY, 1e-7: common.BLUE, 1e-10: common.BLACK}
RADIUS = 0.05  # [m], of the balls, which fly at 1 m/s
HEIGHTS = np.linspace(0.1, 1.05, 20)  # [m]: impacts at 0.05 s, 0.1 s, ...
DURATION = 1.2  # [s]
MAX_STEP = 0.1  # [s]: in free flight a step has no error, and nothing else would bound it


def lowest_corner(trajectory):
    """Of the cube, over the rows of a trajectory [m]."""
    model = mujoco.MjModel.from_xml_path(str(common.SCENARIOS / "toss/box.xml"))
    data = mujoco.MjData(model)
    out = []
    for qpos in trajectory.qpos:
        data.qpos = qpos
        mujoco.mj_kinematics(model, data)
        down = np.abs(data.geom("box").xmat[6:]) @ model.geom("box").size
        out.append(data.geom("box").xpos[2] - down)
    return np.array(out)


def cube(expected, checks):
    trajectories = {}
    for tolerance in TOLERANCES:
        # one interval: no step is cut short by a row of the trajectory
        sim = common.adaptive("toss/box.xml", tolerance, interval=1.0, max_step=MAX_STEP)
        trajectories[tolerance] = trajectory = common.toss(sim, SPEED)
        steps = trajectory.solver
        print(
            f"  cube at {common.power(tolerance)}: {steps.accepted} steps, {steps.rejected} "
            f"rejected, from {steps.smallest_step:.1e} s to {steps.largest_step:.1e} s"
        )
        if tolerance < 1e-5:
            ratio = steps.smallest_step / steps.largest_step
            checks.below(
                f"cube at {common.power(tolerance)}, smallest step / largest",
                ratio,
                expected["smallest"],
            )
    return trajectories


def drops(nthread):
    """The twenty, as a batch; and each alone."""
    sim = common.adaptive("drop.xml", 1e-6, interval=DURATION, max_step=MAX_STEP, nthread=nthread)
    start = sim.keyframe_state("drop")
    qpos = np.tile(start.qpos, (len(HEIGHTS), 1))
    qpos[:, 2] = HEIGHTS
    batch = sim.rollout(qpos, start.qvel, nstep=1)
    return batch, [sim.rollout(x, start.qvel, nstep=1) for x in qpos]


def check_drops(batch, singles, expected, checks):
    impacts = HEIGHTS - RADIUS  # at 1 m/s
    counts = [steps.accepted for steps in batch.solver]
    late = [
        abs(steps.time[np.argmin(np.diff(steps.time))] - impact)
        for steps, impact in zip(batch.solver, impacts, strict=True)
    ]
    same = all(
        np.array_equal(steps.time, single.solver.time)
        for steps, single in zip(batch.solver, singles, strict=True)
    )
    print(
        f"  twenty drops: {min(counts)} to {max(counts)} steps each; smallest steps within "
        f"{1e3 * max(late):.1f} ms of the impacts; alone, each takes "
        f"{'the same' if same else 'OTHER'} steps"
    )
    checks.below("drops, smallest step from impact", max(late), expected["impact"])
    checks.below("drops, most steps / fewest", max(counts) / min(counts), expected["step_counts"])
    checks.above("drops, steps in a batch are those alone", same, 0)
    return {"steps": counts, "impact_to_smallest_step": late}


def draw_cube(trajectories):
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(10, 6.5), sharex=True, height_ratios=(1, 2))
    fine = common.toss(common.adaptive("toss/box.xml", 1e-9, interval=1e-3), SPEED)
    top.axhline(0, color=common.GREY, linewidth=1)
    top.plot(fine.time, lowest_corner(fine), color=common.VERMILION)
    top.set_ylabel("height of the\nlowest corner [m]")
    for tolerance, trajectory in trajectories.items():
        label = f"{common.power(tolerance)}: {trajectory.solver.accepted} steps"
        diffmj.plot_steps(trajectory, bottom, color=TOLERANCES[tolerance], label=label)
    top.margins(x=0.01)
    bottom.legend(title="tolerance of Tsit5", loc="lower right")
    figure.suptitle("The cube toss: steps are small where a corner meets the floor")
    return figure


def draw_drops(batch):
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
    expected, checks = common.expected(__file__), common.Checks()
    print("Steps of Tsit5")
    trajectories = cube(expected["cube"], checks)
    batch, singles = drops(options.nthread)
    numbers = {
        "cube": {
            common.power(tolerance): {
                "accepted": x.solver.accepted,
                "rejected": x.solver.rejected,
                "smallest": x.solver.smallest_step,
                "largest": x.solver.largest_step,
            }
            for tolerance, x in trajectories.items()
        },
        "drops": check_drops(batch, singles, expected["drops"], checks),
    }
    common.write(
        options.out / "steps",
        numbers,
        checks,
        cube=draw_cube(trajectories),
        drops=draw_drops(batch),
    )
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
