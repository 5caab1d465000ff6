"""A quadruped crosses a gap and climbs a step: gradients, sampling, both together, and iLQR.

The robot is Google's Barkour vB of MuJoCo Menagerie, whose folder the environment variable
DIFFMJ_MENAGERIE names. Every planner plans again every 40 ms of the motion, from five starts.
Solved: the trunk is within 0.1 m and 0.3 rad of its place on the other side for 0.25 s. `--quick`
makes the first plans alone.
"""

import sys

from experiments import comparison


def main(argv=None):
    return comparison.main(__file__, __doc__, argv, "a quadruped")


if __name__ == "__main__":
    sys.exit(main())
