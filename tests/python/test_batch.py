"""Batches: threads change nothing, and a rollout that fails does not touch the others."""

import threading

import diffmj
import numpy as np
import pytest
from conftest import ZOO, load, may_fall_back

FIELDS = ("time", "qpos", "qvel", "act", "qacc")
GRADIENTS = ("qpos", "qpos_tangent", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied")


@pytest.mark.smoke
@pytest.mark.parametrize("nthread", [1, 2, 3])
@pytest.mark.parametrize("name", ["hand", "contact_plane"])
@may_fall_back
def test_batch_equals_singles_bitwise(name, nthread):
    sim = diffmj.Simulator(load(name), nthread=nthread)
    size, nstep = 5, 20
    state, rng = sim.keyframe_state("test"), np.random.default_rng(0)
    inputs = {
        "qpos": np.tile(state.qpos, (size, 1)),
        "qvel": state.qvel + 0.01 * rng.standard_normal((size, sim.nv)),
        "act": np.tile(state.act, (size, 1)),
        "ctrl": 0.1 * rng.standard_normal((size, nstep, sim.nu)),
        "qfrc_applied": 0.01 * rng.standard_normal((size, nstep, sim.nv)),
        "xfrc_applied": 0.01 * rng.standard_normal((size, nstep, sim.nbody, 6)),
        "time": np.arange(size) / 10,
    }
    batch = sim.rollout(**inputs)
    assert batch.batch == size
    weights = rng.standard_normal(batch.qpos.shape)
    gradients = batch.backward(qpos=weights)
    assert gradients.ctrl.shape == (size, nstep, sim.nu)
    assert gradients.xfrc_applied.shape == (size, nstep, sim.nbody, 6)
    for i in range(size):
        single = sim.rollout(**{k: v[i] for k, v in inputs.items()})
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(batch, field)[i], getattr(single, field))
        np.testing.assert_array_equal(batch.steps[i], single.steps)
        gradient = single.backward(qpos=weights[i])
        for field in GRADIENTS:
            np.testing.assert_array_equal(getattr(gradients, field)[i], getattr(gradient, field))


def test_shapes_and_shared_inputs(pendulum):
    qpos = np.array([[0.1], [0.2], [0.3]])
    batch = pendulum.rollout(qpos=qpos, qvel=[0.5], ctrl=np.linspace(0, 1, 4)[:, None])
    assert batch.time.shape == (3, 5)
    assert batch.qpos.shape == (3, 5, 1)
    assert batch.act.shape == (3, 5, 0)
    assert batch.qacc.shape == (3, 4, 1)
    assert batch.steps.shape == batch.steps.ncon.shape == (3, 4)
    np.testing.assert_array_equal(batch.ok, [True] * 3)
    np.testing.assert_array_equal(batch.completed, [4] * 3)
    assert batch.outcome == ["success"] * 3
    assert batch.message == [""] * 3
    assert batch.warnings == [[]] * 3
    assert "batch=3" in repr(batch)
    single = pendulum.rollout(qpos=[0.2], qvel=[0.5], ctrl=np.linspace(0, 1, 4)[:, None])
    np.testing.assert_array_equal(batch.qpos[1], single.qpos)


def test_two_dimensional_ctrl_is_always_steps(pendulum):
    batch = pendulum.rollout(qpos=np.zeros((3, 1)), ctrl=np.zeros((3, 1)))
    assert (batch.batch, batch.nstep) == (3, 3)
    with pytest.raises(diffmj.InputError, match=r"ctrl has shape \(3, 1\).*nstep = 5"):
        pendulum.rollout(qpos=np.zeros((3, 1)), ctrl=np.zeros((3, 1)), nstep=5)


def test_batch_of_one(pendulum):
    batch = pendulum.rollout(qpos=[[0.1]], nstep=4)
    assert batch.qpos.shape == (1, 5, 1)
    assert batch.backward(qpos=np.ones((1, 5, 1))).qpos.shape == (1, 1)


@pytest.mark.smoke
def test_failure_does_not_spoil_the_others(cube):
    nstep = 100
    force = np.zeros((4, nstep, 6))
    force[1, 10:, 2] = 1e10
    force[3, 90:, 2] = 1e10
    with pytest.warns(RuntimeWarning, match=r"2 of 4 rollouts failed \(rollout 1, 3\).*diverged"):
        batch = cube.rollout(qfrc_applied=force)
    np.testing.assert_array_equal(batch.ok, [True, False, True, False])
    assert batch.outcome == ["success", "not finite", "success", "not finite"]
    assert "free" in batch.message[1]
    assert batch.message[0] == ""
    done = batch.completed
    assert 10 <= done[1] < 90 <= done[3] < 100
    for i in (1, 3):
        for x in (batch.time, batch.qpos, batch.qvel):
            assert np.isfinite(x[i, : done[i] + 1]).all()
            assert np.isnan(x[i, done[i] + 1 :]).all()
        assert np.isnan(batch.qacc[i, done[i] :]).all()
        assert (batch.steps.ncon[i, done[i] :] == -1).all()
    alone = cube.rollout(qfrc_applied=force[0])
    np.testing.assert_array_equal(batch.qpos[0], alone.qpos)

    # a loss of the states is NaN for those that failed: it must not hurt the others
    gradient = batch.backward(qpos=2 * batch.qpos)
    expected = alone.backward(qpos=2 * alone.qpos)
    for field in ("qpos", "qvel", "qfrc_applied"):
        x = getattr(gradient, field)
        assert np.isnan(x[[1, 3]]).all()
        np.testing.assert_array_equal(x[0], getattr(expected, field))


def test_batch_of_one_that_fails(cube):
    force = np.full((1, 100, 6), 1e10)
    with pytest.warns(RuntimeWarning, match="1 of 1"):
        batch = cube.rollout(qfrc_applied=force)
    assert batch.qpos.shape == (1, 101, 7)
    assert np.isnan(batch.backward(qpos=np.zeros((1, 101, 7))).qpos).all()


def test_one_simulator_in_several_python_threads():
    sim = diffmj.Simulator(ZOO / "contact_plane.xml", nthread=1)
    state = sim.keyframe_state("test")
    expected = sim.rollout(**vars(state), nstep=200)
    wrong = []

    def work():
        for _ in range(5):
            traj = sim.rollout(**vars(state), nstep=200)
            if not np.array_equal(traj.qpos, expected.qpos):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
