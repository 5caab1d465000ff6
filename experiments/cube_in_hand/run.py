"""A hand of 39 muscles turns a die in place: gradients, sampling, and both together.

Quarter turns about the axes of the world, and a half turn about the vertical, from five starts,
with a new plan every 20 ms of the motion. Solved: within 0.2 rad and 15 mm for 0.25 s. `--quick`
makes the first plans alone.
"""

import sys

from experiments import comparison


def main(argv=None):
    return comparison.main(__file__, __doc__, argv, "a die turned in the hand")


if __name__ == "__main__":
    sys.exit(main())
