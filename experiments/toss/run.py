"""Tossed bodies: do gradients through impacts converge, and do they oscillate over the throw?

The loss is y of a body, 1 s after it was thrown at the floor with vertical speed u0.
1. The cube at u0 = -2 m/s: convergence of loss and gradient over tolerances.
2. Five bodies at 200 speeds: MuJoCo's Euler at its time step, and Tsit5 with two adjoints, against
   central differences of the converged loss [Paulus26, fig. 3 and app. E.1].
"""

import sys
import time

import numpy as np

from experiments import common
from experiments.toss import convergence, speeds


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    start = time.perf_counter()

    tolerances = [10.0**-n for n in (range(4, 11, 2) if options.quick else range(4, 13))]
    rows, reference = convergence.measure(tolerances)
    convergence.table(rows, reference)
    convergence.check(rows, reference, expected["cube"], checks)

    u0 = np.linspace(-3, -1, 40 if options.quick else 200)
    curves, summaries = speeds.run(u0, 1e-8 if options.quick else 1e-9, options.nthread)
    speeds.check(summaries, expected["quick" if options.quick else "bodies"], checks)

    off = common.relative(reference["without_jumps"], reference["differences"])
    numbers = {
        "cube": {"rows": rows, "reference": reference, "without_jumps_error": off},
        "bodies": {"u0": u0, "summaries": summaries, "curves": curves},
        "seconds": time.perf_counter() - start,
    }
    common.write(
        options.out / "toss",
        numbers,
        checks,
        {"convergence": convergence.columns(rows), "speeds": speeds.columns(u0, curves)},
        convergence=convergence.draw(rows, reference),
        speeds=speeds.draw(u0, curves),
    )
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
