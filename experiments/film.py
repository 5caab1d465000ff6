"""Pictures of a motion, rendered off-screen: a strip of a few moments, and a short film.

film() of an experiment's film.py returns what to show: a Motion, or a list of them, which are shown
beside each other.

usage: python -m experiments.film EXPERIMENT FOLDER
"""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIZE = (240, 320)  # height, width of a picture
GAP = 6  # pixels between the pictures of a strip
FRAMES_PER_SECOND = 25


@dataclass
class Motion:
    model: mujoco.MjModel
    time: np.ndarray  # [s]
    qpos: np.ndarray  # len(time) x nq
    lookat: tuple[float, float, float] = (0, 0, 0)
    distance: float = 1.0
    azimuth: float = 180.0
    elevation: float = -15.0
    slower: float = 1.0  # how much slower than the motion the film runs
    moments: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the strip [s]
    label: str = ""  # at the bottom of every picture
    plain: bool = False  # no shadows, no smooth edges: a tenth of the time in a large scene


def backend() -> str:
    """The first of MuJoCo's off-screen renderers that works on this machine, or ''.

    MuJoCo chooses when it is imported, and one that does not work may end the process: they are
    tried in processes of their own.
    """
    chosen = os.environ.get("MUJOCO_GL")
    code = "import mujoco; mujoco.Renderer(mujoco.MjModel.from_xml_string('<mujoco/>'), 8, 8)"
    for name in [chosen] if chosen else ["egl", "osmesa"]:
        environment = os.environ | variables(name)
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
        if done.returncode == 0:
            return name
    return ""


def variables(renderer: str) -> dict[str, str]:
    return {"MUJOCO_GL": renderer, "PYOPENGL_PLATFORM": renderer}


def stage(spec: mujoco.MjSpec, floor: str, shown: str) -> mujoco.MjModel:
    """A scene with light, a chequered floor on which motion is seen, and a geom that stands out."""
    spec.visual.headlight.ambient = [0.45, 0.45, 0.45]
    spec.visual.headlight.diffuse = [0.4, 0.4, 0.4]
    spec.worldbody.add_light(pos=[0.3, 0.2, 2], dir=[-0.15, -0.1, -1], diffuse=[0.4, 0.4, 0.4])
    flat, checker = mujoco.mjtBuiltin.mjBUILTIN_FLAT, mujoco.mjtBuiltin.mjBUILTIN_CHECKER
    sky, plane = mujoco.mjtTexture.mjTEXTURE_SKYBOX, mujoco.mjtTexture.mjTEXTURE_2D
    colours = {"rgb1": [0.9, 0.92, 0.94], "rgb2": [0.78, 0.81, 0.84]}
    spec.add_texture(name="sky", type=sky, builtin=flat, width=16, height=96, **colours)
    spec.add_texture(name="squares", type=plane, builtin=checker, width=256, height=256, **colours)
    material = spec.add_material(name="squares", texrepeat=[5, 5], texuniform=True)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "squares"
    spec.geom(floor).material = "squares"
    spec.geom(shown).rgba = [0.9, 0.42, 0.05, 1]
    return spec.compile()


def pictures(*motions: Motion) -> tuple[bytes, bytes]:
    """The strip (PNG), with a row for each motion, and the film (animated WebP)."""
    begin, end = motions[0].time[0], max(x.time[-1] for x in motions)
    times = np.linspace(begin, end, round(motions[0].slower * FRAMES_PER_SECOND * (end - begin)))
    # together: a large scene takes seconds until its first picture
    rendered = [_render(x, [*x.moments, *times]) for x in motions]
    strip = _grid([x[: -len(times)] for x in rendered])
    film = [_grid([row]) for row in zip(*(x[-len(times) :] for x in rendered), strict=True)]
    still, moving = io.BytesIO(), io.BytesIO()
    strip.save(still, "PNG", optimize=True)
    duration = 1000 // FRAMES_PER_SECOND
    film[0].save(
        moving, "WEBP", save_all=True, append_images=film[1:], duration=duration, loop=0, quality=70
    )
    return still.getvalue(), moving.getvalue()


def _grid(rows: Sequence[Sequence[Image.Image]]) -> Image.Image:
    """Pictures in rows, with gaps between them."""
    height, width = (x + GAP for x in SIZE)
    size = width * max(map(len, rows)) - GAP, height * len(rows) - GAP
    out = Image.new("RGB", size, "white")
    for i, row in enumerate(rows):
        for k, picture in enumerate(row):
            out.paste(picture, (k * width, i * height))
    return out


def _render(motion: Motion, times) -> list[Image.Image]:
    """A motion that is over keeps its last state."""
    data = mujoco.MjData(motion.model)
    camera = mujoco.MjvCamera()
    camera.lookat[:] = motion.lookat
    camera.distance, camera.azimuth = motion.distance, motion.azimuth
    camera.elevation = motion.elevation
    text = {"font": ImageFont.load_default(size=16), "fill": "black"}
    text |= {"stroke_width": 2, "stroke_fill": "white"}  # on a dark floor
    if motion.plain:
        motion.model.vis.quality.offsamples = 0
    out = []
    with mujoco.Renderer(motion.model, *SIZE) as renderer:
        for time in times:
            data.qpos = motion.qpos[np.argmin(np.abs(motion.time - time))]
            mujoco.mj_forward(motion.model, data)
            renderer.update_scene(data, camera)
            if motion.plain:
                renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
                renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
            picture = Image.fromarray(renderer.render())
            words = ImageDraw.Draw(picture)
            words.text((8, 6), f"{min(time, motion.time[-1]):.2f} s", **text)
            words.multiline_text((8, SIZE[0] - 6), motion.label, anchor="ld", **text)
            out.append(picture)
    return out


if __name__ == "__main__":
    experiment, folder = sys.argv[1:]
    shown = importlib.import_module(f"experiments.{experiment}.film").film()
    still, moving = pictures(*(shown if isinstance(shown, list) else [shown]))
    (Path(folder) / "strip.png").write_bytes(still)
    (Path(folder) / "film.webp").write_bytes(moving)
