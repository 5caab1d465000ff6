"""Films of motions, rendered off-screen.

    diffmj.film.write("film.webp", model, time, qpos)

`python -m diffmj.film FOLDER` makes a film of the output of `diffmj plan` in a folder.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from ._errors import InputError
from ._recording import Recording
from ._simulator import Simulator


def write(
    path: str | os.PathLike[str],
    model: mujoco.MjModel,
    time: npt.ArrayLike,
    qpos: npt.ArrayLike,
    *,
    camera: str | int = -1,
    size: tuple[int, int] = (360, 480),
    frames_per_second: float = 25,
    slower: float = 1.0,
) -> None:
    """Writes a film of a motion, in a format that Pillow animates: .webp, .gif, .png.

    Args:
        path: of the film; its extension determines the format.
        model: as of the motion.
        time: (n,) [s]
        qpos: (n, nq)
        camera: name or number; -1: MuJoCo's free camera.
        size: height and width of a picture.
        frames_per_second: of the film.
        slower: how much slower than the motion the film runs.

    Raises:
        InputError: a wrong shape, or Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise InputError("film: needs Pillow; pip install pillow") from None
    times, rows = np.asarray(time, dtype=float), np.asarray(qpos, dtype=float)
    if times.ndim != 1 or rows.shape != (len(times), model.nq) or len(times) < 2:
        raise InputError(
            f"film: time and qpos have shapes {times.shape} and {rows.shape}, expected (n,) and "
            f"(n, {model.nq}), n at least 2"
        )
    count = max(2, round(slower * frames_per_second * (times[-1] - times[0])))
    data = mujoco.MjData(model)
    pictures = []
    # a model may ask for a smaller buffer
    model.vis.global_.offheight = max(model.vis.global_.offheight, size[0])
    model.vis.global_.offwidth = max(model.vis.global_.offwidth, size[1])
    with mujoco.Renderer(model, *size) as renderer:
        for now in np.linspace(times[0], times[-1], count):
            data.qpos = rows[min(int(np.searchsorted(times, now)), len(rows) - 1)]
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera)
            pictures.append(Image.fromarray(renderer.render()))
    pictures[0].save(
        path,
        save_all=True,
        append_images=pictures[1:],
        duration=round(1000 / frames_per_second),
        loop=0,
    )


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m diffmj.film FOLDER")
    folder = Path(sys.argv[1])
    run = json.loads((folder / "run.json").read_text())
    model = mujoco.MjModel.from_xml_path(run["model"])
    states = Recording.from_csv(folder / "states.csv", Simulator(model))
    if states.qpos is None:
        sys.exit(f"film: {folder / 'states.csv'} has no qpos")
    write(folder / "film.webp", model, states.time, states.qpos)


if __name__ == "__main__":
    main()
