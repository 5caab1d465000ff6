"""Two balls follow their targets, the transparent ones: recorded runs."""

import sys

import numpy as np

from experiments import film as pictures
from experiments import manipulation
from experiments.baoding import run, scene
from experiments.baoding.record import Record


def film():
    if needed := manipulation.missing("baoding"):
        sys.exit(f"the scene needs {needed}")
    kept, out = Record.load(), []
    for kind, motion in kept.motions.items():
        seed = motion.seed
        model, qpos = scene.with_marks(run.instance_of(kind, seed), np.array(motion.qpos))
        out.append(
            pictures.Motion(
                model,
                scene.DT * np.arange(len(qpos)),
                qpos,
                label=f"{kind}: score {kept.run(kind, seed).score:.2f}",
                lookat=(-0.235, -0.53, 1.45),
                distance=0.3,
                azimuth=120,
                elevation=-70,
                moments=(0.0, 1.0, 2.0, 3.0, 4.0, 5.0),
                plain=True,
            )
        )
    return out
