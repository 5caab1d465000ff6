"""Films of motions."""

import os
import subprocess
import sys

import diffmj
import mujoco
import numpy as np
import pytest
from diffmj import film

from experiments.film import backend, variables

SLIDER = (
    "<mujoco><worldbody><body><joint type='slide'/><geom size='0.1'/></body></worldbody></mujoco>"
)
WRITE = """import sys, mujoco, numpy as np
from diffmj import film
model = mujoco.MjModel.from_xml_string(sys.argv[1])
film.write(sys.argv[2], model, [0, 1], np.array([[0.0], [1.0]]), size=(40, 60))"""


def test_a_wrong_shape_is_named(tmp_path):
    model = mujoco.MjModel.from_xml_string(SLIDER)
    with pytest.raises(diffmj.InputError, match=r"expected \(n,\) and \(n, 1\)"):
        film.write(tmp_path / "film.webp", model, [0, 1], np.zeros((2, 2)))


def test_a_film_is_written(tmp_path):
    renderer = backend()
    if not renderer:
        pytest.skip("neither EGL nor OSMesa: MuJoCo cannot render")
    path = tmp_path / "film.webp"
    subprocess.run(
        [sys.executable, "-c", WRITE, SLIDER, str(path)],
        env=os.environ | variables(renderer),
        check=True,
    )
    assert path.read_bytes()[8:12] == b"WEBP"
