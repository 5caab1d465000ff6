"""A racket on a prosthesis returns a ball to a hand of muscles: gradients, sampling, and both.

The ball flies sideways and misses both hands. The cost is its distance from a place at the hand of
muscles, and nothing else: without contacts from distance it has no gradient. Solved: within 50 mm
for 0.25 s. `--quick` makes the first plans alone.
"""

import sys

from experiments import comparison


def main(argv=None):
    return comparison.main(__file__, __doc__, argv, "a ball returned and caught")


if __name__ == "__main__":
    sys.exit(main())
