"""Poses along a trajectory, and losses that use them."""

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import ARM, PENDULUM, key_data, load, may_fall_back, ridders

POSES = ("xpos", "xquat", "site_xpos", "subtree_com")


def start(sim: diffmj.Simulator, nstep: int = 20, seed: int = 0) -> dict[str, np.ndarray]:
    """A state in motion, and controls."""
    rng = np.random.default_rng(seed)
    return {
        "qpos": sim.default_state().qpos,
        "qvel": rng.standard_normal(sim.nv),
        "ctrl": 0.1 * rng.standard_normal((nstep, sim.nu)),
    }


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["joints_ball", "humanoid", "eq_weld", "contact_plane"])
@may_fall_back
def test_poses_are_those_of_mujoco(name):
    model = load(name)
    sim = diffmj.Simulator(model)
    traj = sim.rollout(**vars(sim.keyframe_state("test")), nstep=20)
    data = key_data(model)
    assert traj.xpos.shape == traj.subtree_com.shape == (21, sim.nbody, 3)
    assert traj.xquat.shape == (21, sim.nbody, 4)
    assert traj.site_xpos.shape == (21, sim.nsite, 3)
    assert sim.nsite == model.nsite
    for i, qpos in enumerate(traj.qpos):
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        for pose in POSES:
            np.testing.assert_array_equal(getattr(traj, pose)[i], getattr(data, pose))


def test_arrays(arm):
    traj = arm.rollout(**start(arm))
    for pose in POSES:
        x = getattr(traj, pose)
        assert x.dtype == np.float64
        assert x.flags.c_contiguous
        assert not x.flags.writeable
        assert getattr(traj, pose) is x
    tip = arm.rollout(**start(arm)).site_xpos  # the trajectory is gone
    for _ in range(3):  # memory that could be reused
        arm.rollout(**start(arm, seed=1)).site_xpos.sum()
    np.testing.assert_array_equal(tip, traj.site_xpos)
    assert diffmj.Simulator(PENDULUM).rollout(nstep=3).site_xpos.shape == (4, 0, 3)


def test_batch(arm):
    inputs = start(arm)
    speeds = np.stack([inputs["qvel"], -inputs["qvel"], 0 * inputs["qvel"]])
    batch = arm.rollout(**(inputs | {"qvel": speeds}))
    assert batch.xpos.shape == (3, 21, 4, 3)
    assert batch.site_xpos.shape == (3, 21, 2, 3)
    weights = np.random.default_rng(1).standard_normal(batch.site_xpos.shape)
    gradients = batch.backward(site_xpos=weights)
    for i, qvel in enumerate(speeds):
        single = arm.rollout(**(inputs | {"qvel": qvel}))
        for pose in POSES:
            np.testing.assert_array_equal(getattr(batch, pose)[i], getattr(single, pose))
        gradient = single.backward(site_xpos=weights[i])
        np.testing.assert_array_equal(gradients.qvel[i], gradient.qvel)
        np.testing.assert_array_equal(gradients.ctrl[i], gradient.ctrl)


def test_rows_that_a_failed_rollout_did_not_reach(cube):
    force = np.zeros((2, 50, 6))
    force[0, 10:, 2] = 1e10
    with pytest.warns(RuntimeWarning, match="1 of 2"):
        batch = cube.rollout(qfrc_applied=force)
    done = batch.completed[0]
    assert batch.xpos.shape == (2, 51, 2, 3)
    for pose in POSES:
        x = getattr(batch, pose)
        assert np.isfinite(x[0, : done + 1]).all()
        assert np.isnan(x[0, done + 1 :]).all()
        assert np.isfinite(x[1]).all()
    # as with a loss of the states: NaN for the one that failed, and no harm to the other
    gradient = batch.backward(xpos=2 * batch.xpos, params=["body_mass"])
    alone = cube.rollout(qfrc_applied=force[1])
    expected = alone.backward(xpos=2 * alone.xpos, params=["body_mass"])
    assert np.isnan(gradient.qvel[0]).all()
    assert np.isnan(gradient.params["body_mass"][0]).all()
    np.testing.assert_array_equal(gradient.qvel[1], expected.qvel)
    np.testing.assert_array_equal(gradient.params["body_mass"][1], expected.params["body_mass"])


def test_failed_rollout_is_readable(cube):
    with pytest.raises(diffmj.RolloutError) as caught:
        cube.rollout(qfrc_applied=np.full(6, 1e10), nstep=50)
    traj = caught.value.trajectory
    assert traj.xpos.shape == (traj.nstep + 1, 2, 3)
    np.testing.assert_array_equal(traj.xpos[:, 1], traj.qpos[:, :3])


@pytest.mark.smoke
@pytest.mark.parametrize("pose", POSES)
def test_gradient_matches_differences(arm, pose):
    inputs, rng = start(arm), np.random.default_rng(2)
    traj = arm.rollout(**inputs)
    weights = rng.standard_normal(getattr(traj, pose).shape)
    grad = traj.backward(**{pose: weights})
    model = mujoco.MjModel.from_xml_string(ARM)
    for _ in range(3):
        d = {name: rng.standard_normal(x.shape) for name, x in inputs.items() if name != "qpos"}
        d["qpos"] = rng.standard_normal(arm.nv)

        def loss(h, d=d):
            moved = {name: x + h * d[name] for name, x in inputs.items() if name != "qpos"}
            qpos = inputs["qpos"].copy()
            mujoco.mj_integratePos(model, qpos, d["qpos"], h)
            return np.sum(weights * getattr(arm.rollout(qpos=qpos, **moved), pose))

        numeric, error_bar = ridders(loss, step=1e-2)
        adjoint = grad.qpos_tangent @ d["qpos"] + grad.qvel @ d["qvel"]
        adjoint += np.sum(grad.ctrl * d["ctrl"])
        scale = max(abs(adjoint), abs(numeric), 1)
        assert error_bar < 1e-7 * scale
        assert abs(adjoint - numeric) < 1e-6 * scale


def test_pose_and_state_cotangents_add(arm):
    traj = arm.rollout(**start(arm))
    rng = np.random.default_rng(3)
    names = ("qpos", "qvel", *POSES)
    weights = {name: rng.standard_normal(getattr(traj, name).shape) for name in names}
    total = traj.backward(**weights)
    parts = [traj.backward(**{name: w}) for name, w in weights.items()]
    for field in ("qpos", "qpos_tangent", "qvel", "ctrl", "qfrc_applied"):
        expected = sum(getattr(part, field) for part in parts)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(getattr(total, field), expected, atol=1e-11 * scale)


def test_closed_form_of_a_pendulum(pendulum):
    # no step: the derivative of the centre of mass of a rod, 0.25 (-sin q, 0, -cos q)
    traj = pendulum.rollout(qpos=[0.4], nstep=0)
    np.testing.assert_allclose(
        traj.subtree_com[0, 1], [-0.25 * np.sin(0.4), 0, -0.25 * np.cos(0.4)]
    )
    np.testing.assert_allclose(traj.xquat[0, 1], [np.cos(0.2), 0, np.sin(0.2), 0], atol=1e-15)
    for pose, row, expected in [
        ("subtree_com", [1, 0, 0], -0.25 * np.cos(0.4)),
        ("subtree_com", [0, 0, 1], 0.25 * np.sin(0.4)),
        ("xquat", [1, 0, 0, 0], -0.5 * np.sin(0.2)),
        ("xpos", [1, 1, 1], 0),
    ]:
        weights = np.zeros_like(getattr(traj, pose))
        weights[0, 1] = row
        grad = traj.backward(**{pose: weights})
        np.testing.assert_allclose(grad.qpos, [expected], atol=1e-12)


@pytest.mark.parametrize(
    ("pose", "row"),
    [
        ("xpos", "nbody, 3"),
        ("xquat", "nbody, 4"),
        ("site_xpos", "nsite, 3"),
        ("subtree_com", "nbody, 3"),
    ],
)
def test_wrong_shape(arm, pose, row):
    traj = arm.rollout(**start(arm, nstep=3))
    right = getattr(traj, pose)
    for wrong in (right[1:], right[..., :2], right.reshape(4, -1), right[None]):
        with pytest.raises(diffmj.InputError, match=f"{pose} has shape.*\\(nstep \\+ 1, {row}\\)"):
            traj.backward(**{pose: wrong})
    batch = arm.rollout(qvel=np.zeros((2, arm.nv)), nstep=3)
    with pytest.raises(diffmj.InputError, match=rf"\(B, nstep \+ 1, {row}\) = \(2, 4, "):
        batch.backward(**{pose: right})
    with pytest.raises(diffmj.InputError, match=pose):
        traj.backward(**{pose: np.full_like(right, np.nan)})
