"""The figure of README.md: `make docs-figures` writes it.

usage: python -m experiments.first_gradient.figure FOLDER
"""

import sys
from pathlib import Path

import diffmj
from PIL import Image

from experiments.first_gradient import run

if __name__ == "__main__":
    sims = {x: diffmj.Simulator(run.CUBE.format(contact=y)) for x, y in run.CONTACTS.items()}
    figure = run.draw({name: run.measure(sim, 401)[0] for name, sim in sims.items()})
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "first_gradient.png"
    figure.savefig(path, dpi=70)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the size
