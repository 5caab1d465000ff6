"""Two balls in a hand of 39 muscles change places: gradients, sampling, and both together.

Every planner plans again every 40 ms of the motion, from five starts. Solved: both balls are within
15 mm of the other's place for 0.25 s. `--quick` makes the first plans alone.
"""

import sys

from experiments import comparison


def main(argv=None):
    return comparison.main(__file__, __doc__, argv, "two balls change places")


if __name__ == "__main__":
    sys.exit(main())
