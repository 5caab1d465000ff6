"""The tossed cube of the experiments: its model, its tosses, and the error of whole tosses."""

import diffmj
import mujoco
import numpy as np
import pytest

from experiments import tossed_cube
from experiments.cube_all.film import turned
from experiments.tossed_cube import SIDE, TUNED


def test_model_is_the_scene_with_the_values_in_it():
    scene = mujoco.MjModel.from_xml_path(str(tossed_cube.SCENE))
    same = tossed_cube.build()({})
    for name in ("geom_size", "geom_solref", "geom_solimp", "geom_friction", "body_mass"):
        np.testing.assert_allclose(getattr(same, name), getattr(scene, name), err_msg=name)
    np.testing.assert_allclose(same.body_inertia, scene.body_inertia, rtol=1e-12)
    np.testing.assert_array_equal(same.body_ipos, scene.body_ipos)
    other = tossed_cube.build("elliptic")({"side": 0.12, "inertia": 1.5, "solimp[3]": 0.4})
    assert other.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert other.geom("cube").size.tolist() == [0.06] * 3
    assert other.body("cube").inertia == pytest.approx(1.5 * 0.37 * 0.12**2 / 6)
    assert other.geom_solimp[:, 3].tolist() == [0.4, 0.4]


def test_rotation_entries_are_those_of_mujoco():
    quat = np.random.default_rng(0).standard_normal((5, 4))
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    for x, row in zip(quat, tossed_cube.rotation_entries(quat), strict=True):
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, x)
        np.testing.assert_allclose(row, matrix, atol=1e-14)


@pytest.fixture(scope="module")
def tosses():
    return tossed_cube.synthetic(6, TUNED | {"side": SIDE}, "pyramidal", rows=70)


def test_synthetic_tosses_lose_energy_and_come_down(tosses):
    for x in tosses:
        energy = 9.81 * x.qpos[:, 2] + (x.qvel[:, :3] ** 2).sum(1) / 2
        energy += SIDE**2 / 12 * (x.qvel[:, 3:] ** 2).sum(1)
        assert energy.max() < 1.05 * energy[0]
        assert x.qpos[-1, 2] < x.qpos[0, 2]


def test_whole_tosses(tosses):
    """The right cube is near, another one is not, and the error is what it says."""
    right = tossed_cube.whole_tosses(
        tossed_cube.simulator(TUNED | {"side": SIDE}, "pyramidal"), tosses
    )
    wrong = tossed_cube.whole_tosses(
        tossed_cube.simulator(TUNED | {"side": 0.08}, "pyramidal"), tosses
    )
    assert wrong.error > 3 * right.error
    assert wrong.position > 3 * right.position
    (path,) = tossed_cube.replay(tossed_cube.simulator(TUNED, "pyramidal"), tosses[:1])
    assert len(path) == len(tosses[0]) - 1
    np.testing.assert_array_equal(path[0], tosses[0].qpos[1])


def test_error_of_a_toss_that_is_moved(tosses, monkeypatch):
    """By half a side in x: one of twelve numbers is off by 1."""
    qpos = tosses[0].qpos[1:].copy()
    qpos[:, 0] += SIDE / 2
    monkeypatch.setattr(tossed_cube, "replay", lambda *_: [qpos])
    far = tossed_cube.whole_tosses(None, tosses[:1])
    assert far.error == pytest.approx(1 / 12)
    assert far.position == pytest.approx(1e3 * SIDE / 2)
    assert far.each == pytest.approx([1 / 12])


def test_weights_are_those_of_the_matrix_entries():
    """½ Σ weight residual² against ½ (|Δp|²/(5 cm)² + |ΔR|²) for a small turn."""
    (x,) = tossed_cube.weighted(tossed_cube.synthetic(1, TUNED, "pyramidal", rows=3))
    angle = 1e-3
    turn = np.array([np.cos(angle / 2), np.sin(angle / 2), 0, 0])
    apart = tossed_cube.rotation_entries(turn[None]) - np.eye(3).reshape(1, 9)
    assert x.weights["qpos"][0, 3] * angle**2 == pytest.approx((apart**2).sum(), rel=1e-5)


def test_without_a_folder_tosses_are_synthetic_and_say_so(monkeypatch, tmp_path):
    monkeypatch.delenv(tossed_cube.FOLDER, raising=False)
    data = tossed_cube.tosses(2, TUNED, "pyramidal")
    assert data.synthetic and len(data.recordings) == 2
    assert data.note.startswith("Not real tosses") and "DAIRLab/contact-nets" in data.note
    monkeypatch.setenv(tossed_cube.FOLDER, str(tmp_path))
    with pytest.raises(diffmj.InputError, match="there are no files"):
        tossed_cube.tosses(2, TUNED, "pyramidal")


def test_a_turned_toss_moves_towards_the_camera(tosses):
    qpos = tosses[0].qpos
    out = turned(qpos, qpos)
    path = out[-1, :2] - out[0, :2]
    assert path[0] > 0 and path[1] == pytest.approx(0, abs=1e-12)
    assert path[0] == pytest.approx(np.linalg.norm(qpos[-1, :2] - qpos[0, :2]))
    # one rotation for all
    relative = [np.empty(4), np.empty(4)]
    for where, x in zip(relative, (qpos, out), strict=True):
        inverse = np.empty(4)
        mujoco.mju_negQuat(inverse, x[0, 3:].copy())
        mujoco.mju_mulQuat(where, inverse, x[-1, 3:].copy())
    np.testing.assert_allclose(*relative, atol=1e-12)
