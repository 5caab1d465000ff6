"""Plans in real time: the world does not wait for them.

1. An arm of seven joints reaches, with a new plan every 10 ms.
2. MyoSuite's hand, 39 muscles, turns a die by a quarter about three axes, with a new plan every
   80 ms. Without the package myosuite this part is left out.

So that the numbers do not depend on the machine, a plan is taken to last exactly as long as that
(plan_seconds of run_mpc). How long it lasted on the clock is reported beside it. With --clock the
plans of the die last as long as they do on the clock, and turns are counted without a bound.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from experiments import common
from experiments.real_time import arm, die

COLOURS = (common.BLUE, common.ORANGE, common.GREEN, common.VERMILION, common.PURPLE)


def planning(runs) -> float:
    """Median over the plans of runs of the time on the clock [ms]."""
    return 1000 * float(np.median([x.seconds for run in runs for x in run.plans]))


def draw_arm(axis, reached):
    for (run, errors), colour in zip(reached, COLOURS, strict=False):
        axis.semilogy(run.time, 1000 * errors, color=colour)
    axis.set(
        title="arm, 100 plans a second",
        xlabel="time [s]",
        ylabel="tool from its goal [mm]",
        ylim=(1e-2, None),
    )


def draw_die(axis, name, turns):
    for (run, angles, _, solved), colour in zip(turns, COLOURS, strict=False):
        axis.plot(run.time, angles, color=colour, ls="-" if solved else ":")
    axis.axhline(die.ANGLE, color=common.GREY, lw=0.8)
    axis.set(
        title=f"die about {name}, 12 plans a second",
        xlabel="time [s]",
        ylabel="angle from the target [rad]",
        ylim=(0, 2.2),
    )


def own_arguments(parser):
    parser.add_argument("--clock", action="store_true", help="plans of the die on the clock")
    parser.add_argument("--first-start", type=int, default=0, help="of the die; default: 0")


def main(argv=None):
    options = common.arguments(__doc__, argv, own_arguments)
    expected, checks = common.expected(__file__), common.Checks()
    bounds = expected["quick" if options.quick else "full"]
    reached = [arm.reach(seed, options.nthread) for seed in range(bounds["goals"])]
    worst = max(float(errors[-1]) for _, errors in reached)
    numbers = {"arm": {"error": worst, "planning": planning(run for run, _ in reached)}}
    print(f"arm: at most {1000 * worst:.2g} mm off, {numbers['arm']['planning']:.1f} ms a plan")
    checks.below("arm: distance at the end [m]", worst, expected["error"])

    turns = {}
    if die.available():
        hand = die.Die()
        seeds = range(options.first_start, options.first_start + bounds["starts"])
        for axis in bounds["axes"]:
            turns[axis] = [
                hand.turn(axis, seed, bounds["seconds"], options.nthread, options.clock)
                for seed in seeds
            ]
            solved = [x[-1] for x in turns[axis] if x[-1]]
            numbers[f"die_{axis}"] = {
                "solved": len(solved),
                "seconds": float(np.median(solved)) if solved else None,
                "planning": planning(x[0] for x in turns[axis]),
            }
            print(
                f"die about {axis}: {len(solved)} of {len(seeds)} solved, {numbers[f'die_{axis}']}"
            )
            if not options.clock:
                checks.above(f"die about {axis}: solved", len(solved), bounds["solved"] - 0.5)
    else:
        numbers["note"] = "Without the package myosuite there is no die."

    figure, axes = plt.subplots(1, 1 + len(turns), figsize=(5 * (1 + len(turns)), 4), squeeze=False)
    draw_arm(axes[0, 0], reached)
    for axis, name in zip(axes[0, 1:], turns, strict=True):
        draw_die(axis, name, turns[name])
    runs = [("arm", seed, 1000 * e[-1], run.time[-1]) for seed, (run, e) in enumerate(reached)]
    for name, x in turns.items():
        runs += [(f"die about {name}", k, a[-1], run.time[-1]) for k, (run, a, *_) in enumerate(x)]
    head = ("task", "seed", "error at the end [mm or rad]", "time [s]")
    common.write(
        options.out / "real_time",
        numbers,
        checks,
        {"runs": dict(zip(head, zip(*runs, strict=True), strict=True))},
        real_time=figure,
    )
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
