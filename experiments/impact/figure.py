"""The figure of docs/gradients.md: `make docs-figures` writes it.

usage: python -m experiments.impact.figure FOLDER
"""

import sys
from pathlib import Path

import numpy as np

from experiments.impact import ball

if __name__ == "__main__":
    heights = np.linspace(*ball.HEIGHTS, 300)
    figure = ball.draw(heights, *ball.measure(heights, ball.STEPS))
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "impact.png", dpi=85)
