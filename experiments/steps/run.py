"""Step size against time on the cube toss, at several tolerances: small at impacts, large between
them.
"""

import sys

import diffmj
import matplotlib.pyplot as plt
import mujoco
import numpy as np

from experiments import common

SPEED = -2.0  # [m/s], of the cube
TOLERANCES = {1e-4: common.SKY, 1e-7: common.BLUE, 1e-10: common.BLACK}
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
        steps = trajectory.integrator
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


def draw(trajectories):
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(10, 6.5), sharex=True, height_ratios=(1, 2))
    fine = common.toss(common.adaptive("toss/box.xml", 1e-9, interval=1e-3), SPEED)
    top.axhline(0, color=common.GREY, linewidth=1)
    top.plot(fine.time, lowest_corner(fine), color=common.VERMILION)
    top.set_ylabel("height of the\nlowest corner [m]")
    for tolerance, trajectory in trajectories.items():
        label = f"{common.power(tolerance)}: {trajectory.integrator.accepted} steps"
        diffmj.plot_steps(trajectory, bottom, color=TOLERANCES[tolerance], label=label)
    top.margins(x=0.01)
    bottom.legend(title="tolerance of Tsit5", loc="lower right")
    figure.suptitle("The cube toss: steps are small where a corner meets the floor")
    return figure


def main(argv=None):
    options = common.arguments(__doc__, argv)
    checks = common.Checks()
    print("Steps of Tsit5")
    trajectories = cube(common.expected(__file__), checks)
    numbers = {
        common.power(tolerance): {
            "accepted": x.integrator.accepted,
            "rejected": x.integrator.rejected,
            "smallest": x.integrator.smallest_step,
            "largest": x.integrator.largest_step,
            "largest_to_smallest": x.integrator.largest_step / x.integrator.smallest_step,
        }
        for tolerance, x in trajectories.items()
    }
    table = common.step_table("tolerance", trajectories)
    common.write(options.out / "steps", numbers, checks, {"cube": table}, cube=draw(trajectories))
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
