"""MuJoCo's default contacts: the derivative of the steps is not the derivative of the motion.

With solimp's default d0 = 0.9 almost the whole force is there at first touch. How long it acts
depends on the moment of touch, and no step of a given size knows that moment: its derivative stays
wrong as steps get smaller. Events have the term.
1. A ball thrown at the floor: Euler at falling steps, Tsit5 with and without events, differences.
2. The five tossed bodies with the default solimp, over the speed of the throw.
"""

import sys

import numpy as np

from experiments import common
from experiments.impact import ball, tosses
from experiments.toss.speeds import BODIES


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    heights = np.linspace(*ball.HEIGHTS, 60 if options.quick else 300)
    steps = tuple(ball.SHOWN) if options.quick else ball.STEPS
    curves, differences, errors = ball.measure(heights, steps, options.nthread)
    for name, error in errors.items():
        kind = f"Tsit5, {name}" if isinstance(name, str) else f"Euler, steps of {name:g} s"
        print(f"  ball, {kind}: error {error:.2g} in the median")
        if name == "events":
            checks.below(f"ball, error of {kind}", error, expected["ball"]["events"])
        else:
            checks.above(f"ball, error of {kind}", error, expected["ball"]["steps"])

    u0 = np.linspace(-3, -1, 20 if options.quick else 200)
    bodies = ("sphere",) if options.quick else BODIES
    results, counts = tosses.run(bodies, u0, 1e-10, options.nthread)
    for body, x in counts.items():
        if body in expected["agreeing"]:
            checks.above(f"{body}, agreeing", x["agreeing"], expected["agreeing"][body])
        checks.above(f"{body}, error without events", x["without"], expected["without"])
    euler = {f"{name:g}": x for name, x in errors.items() if not isinstance(name, str)}
    numbers = {
        "ball": {"events": errors["events"], "without": errors["no events"], "Euler": euler},
        "smallest": errors[min(steps)],
        "tosses": counts,
    }
    common.write(
        options.out / "impact",
        numbers,
        checks,
        {
            "ball": ball.columns(heights, curves, differences),
            "tosses": tosses.columns(u0, results),
        },
        ball=ball.draw(heights, curves, differences, errors),
        tosses=tosses.draw(u0, results),
    )
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
