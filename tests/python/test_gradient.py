"""Gradients against differences of mj_step."""

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import (
    CUBE,
    PENDULUM,
    Problem,
    along,
    key_data,
    load,
    may_fall_back,
    step_differences,
    tighten,
)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("name", "nstep"), [("act_basic", 20), ("humanoid", 5), ("joints_ball", 20), ("solver_cg", 5)]
)
def test_matches_differences_of_mj_step(name, nstep):
    model = load(name, tight=True)
    problem = Problem(model, nstep)
    traj = diffmj.Simulator(model).rollout(**problem.start())
    grad = traj.backward(**problem.weights)
    conclusive = 0
    for _ in range(4):
        direction = problem.direction()
        numeric, error_bar = problem.difference(direction)
        adjoint = along(grad, direction)
        scale = max(abs(adjoint), abs(numeric), 1)
        if error_bar < 1e-6 * scale:
            conclusive += 1
            assert abs(adjoint - numeric) < 1e-6 * scale + error_bar
    assert conclusive >= 2


@pytest.mark.parametrize("name", ["joints_ball", "contact_plane"])
def test_ambient_and_tangent_cotangents_agree(name):
    model = load(name)
    sim = diffmj.Simulator(model)
    traj = sim.rollout(**vars(sim.keyframe_state("test")), nstep=20)
    rng = np.random.default_rng(0)
    ambient = rng.standard_normal(traj.qpos.shape)
    # the chain rule, by differences of mj_integratePos: d(qpos)/d(tangent)
    h, tangent = 1e-6, np.zeros_like(traj.qvel)
    for i, qpos in enumerate(traj.qpos):
        for j, unit in enumerate(np.eye(sim.nv)):
            plus, minus = qpos.copy(), qpos.copy()
            mujoco.mj_integratePos(model, plus, unit, h)
            mujoco.mj_integratePos(model, minus, unit, -h)
            tangent[i, j] = ambient[i] @ (plus - minus) / (2 * h)
    a, b = traj.backward(qpos=ambient), traj.backward(qpos_tangent=tangent)
    both = traj.backward(qpos=ambient, qpos_tangent=tangent)
    for field in ("qpos", "qpos_tangent", "qvel", "ctrl"):
        x, y, z = (getattr(g, field) for g in (a, b, both))
        scale = 1 + np.abs(x).max(initial=0)
        np.testing.assert_allclose(x / scale, y / scale, atol=1e-7)
        np.testing.assert_allclose(z / scale, (x + y) / scale, atol=1e-10)


def test_ambient_gradient_of_a_quaternion():
    sim = diffmj.Simulator(CUBE).tightened()
    qpos = sim.default_state().qpos
    traj = sim.rollout(qpos=qpos, qvel=[0.1, 0, -1, 1, 2, 3], nstep=30)
    weights = np.random.default_rng(0).standard_normal(traj.qpos.shape)
    grad = traj.backward(qpos=weights)
    # orthogonal to the quaternion: its length does not matter
    assert abs(grad.qpos[3:] @ qpos[3:]) < 1e-10 * np.abs(grad.qpos).max()
    # and the derivative of the loss when each coordinate is moved, then normalised
    h = 1e-6
    for i in range(7):
        loss = []
        for step in (h, -h):
            moved = qpos.copy()
            moved[i] += step
            moved[3:] /= np.linalg.norm(moved[3:])
            rows = sim.rollout(qpos=moved, qvel=[0.1, 0, -1, 1, 2, 3], nstep=30).qpos
            loss.append(np.sum(weights * rows))
        assert (loss[0] - loss[1]) / (2 * h) == pytest.approx(grad.qpos[i], rel=1e-4, abs=1e-4)


def test_closed_form_of_a_free_fall():
    mjcf = """<mujoco><option timestep="0.01"/><worldbody><body><joint type="slide" axis="0 0 1"/>
      <geom size="0.1" mass="2"/></body></worldbody></mujoco>"""
    sim, n, h = diffmj.Simulator(mjcf), 50, 0.01
    traj = sim.rollout(nstep=n)
    final = np.zeros_like(traj.qpos)
    final[-1] = 1
    grad = traj.backward(qpos=final)
    np.testing.assert_allclose(grad.qpos, [1], rtol=1e-12)
    np.testing.assert_allclose(grad.qvel, [n * h], rtol=1e-12)
    # a force in step i acts on the positions after it: h² (n - i) / mass
    expected = h * h * (n - np.arange(n)) / 2
    np.testing.assert_allclose(grad.qfrc_applied[:, 0], expected, rtol=1e-8)


def test_shapes_and_optional_parts(pendulum):
    traj = pendulum.rollout(ctrl=np.zeros((5, 1)))
    grad = traj.backward(qvel=np.ones((6, 1)))
    assert isinstance(grad, diffmj.Gradient)
    assert [grad.qpos.shape, grad.qpos_tangent.shape, grad.qvel.shape] == [(1,)] * 3
    assert grad.act.shape == (0,)
    assert grad.ctrl.shape == grad.qfrc_applied.shape == (5, 1)
    assert grad.xfrc_applied is None
    forced = pendulum.rollout(xfrc_applied=np.zeros((5, 2, 6))).backward(qvel=np.ones((6, 1)))
    assert forced.xfrc_applied.shape == (5, 2, 6)
    np.testing.assert_allclose(forced.ctrl, grad.ctrl, rtol=1e-12)
    assert np.abs(forced.xfrc_applied).max() > 0


def test_held_control_is_the_sum_over_steps(pendulum):
    weights = np.random.default_rng(0).standard_normal((6, 1))
    held = pendulum.rollout(ctrl=[0.3], nstep=5).backward(qpos=weights)
    rows = pendulum.rollout(ctrl=np.full((5, 1), 0.3)).backward(qpos=weights)
    assert held.ctrl.shape == (5, 1)
    np.testing.assert_array_equal(held.ctrl, rows.ctrl)
    h = 1e-6
    loss = [np.sum(weights * pendulum.rollout(ctrl=[0.3 + s], nstep=5).qpos) for s in (h, -h)]
    assert (loss[0] - loss[1]) / (2 * h) == pytest.approx(held.ctrl.sum(), rel=1e-6)


def test_linear_in_the_cotangent(cube):
    traj = cube.rollout(nstep=150)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, *traj.qvel.shape))
    ga, gb, gab = (traj.backward(qvel=x).qvel for x in (a, b, 2 * a - b))
    np.testing.assert_allclose(gab, 2 * ga - gb, rtol=1e-9, atol=1e-9 * np.abs(ga).max())
    np.testing.assert_array_equal(traj.backward(qvel=a).qvel, ga)


def test_changing_inputs_after_the_rollout_has_no_effect(pendulum):
    qpos, qvel, ctrl = np.array([0.4]), np.array([0.1]), np.full((5, 1), 0.2)
    weights = np.ones((6, 1))
    traj = pendulum.rollout(qpos, qvel, ctrl=ctrl)
    before = traj.backward(qpos=weights)
    for x in (qpos, qvel, ctrl):
        x[:] = 77
    after = traj.backward(qpos=weights)
    np.testing.assert_array_equal(before.ctrl, after.ctrl)
    np.testing.assert_array_equal(before.qpos, after.qpos)
    with pytest.raises(ValueError, match="read-only"):
        traj.qpos[:] = 0


def test_trajectory_keeps_what_it_needs(pendulum):
    traj = diffmj.Simulator(PENDULUM).rollout(qpos=[0.4], nstep=5)  # the simulator is gone
    expected = pendulum.rollout(qpos=[0.4], nstep=5).backward(qpos=np.ones((6, 1)))
    np.testing.assert_array_equal(traj.backward(qpos=np.ones((6, 1))).qpos, expected.qpos)


LINEARIZED = ["act_basic", "joints_ball", "humanoid", "hand"]


def assert_linearization(model, expected_a, expected_b):
    sim = diffmj.Simulator(model)
    a, b = sim.linearize(**vars(sim.keyframe_state("test")))
    assert a.shape == expected_a.shape
    assert b.shape == expected_b.shape
    np.testing.assert_allclose(a, expected_a, atol=1e-6 * np.abs(expected_a).max())
    np.testing.assert_allclose(b, expected_b, atol=1e-6 * np.abs(expected_b).max())


@pytest.mark.smoke
@pytest.mark.parametrize("name", LINEARIZED)
@may_fall_back
def test_linearize_matches_differences_of_mj_step(name):
    model = load(name, tight=True)
    assert_linearization(model, *step_differences(model))


@pytest.mark.skipif(
    int(mujoco.__version__.split(".")[0]) < 4,
    reason="mjd_transitionFD of 3.17 disagrees with differences of mj_step on act_basic (ctrl 9) "
    "and hand (act)",
)
@pytest.mark.parametrize("name", LINEARIZED)
@may_fall_back
def test_linearize_matches_mjd_transition_fd(name):
    model = load(name, tight=True)
    n = 2 * model.nv + model.na
    a, b = np.zeros((n, n)), np.zeros((n, model.nu))
    mujoco.mjd_transitionFD(model, key_data(model), 1e-6, True, a, b, None, None)
    assert_linearization(model, a, b)


def test_linearize_is_the_gradient_of_one_step():
    model = tighten(mujoco.MjModel.from_xml_string(CUBE))
    sim = diffmj.Simulator(model)
    qpos = sim.default_state().qpos
    qpos[2] = 0.06
    a, b = sim.linearize(qpos=qpos)
    assert b.shape == (12, 0)
    traj = sim.rollout(qpos=qpos, nstep=1)
    assert traj.steps.ncon[0] > 0
    for i in range(6):
        unit = np.zeros((2, 6))
        unit[1, i] = 1
        grad = traj.backward(qpos_tangent=unit)
        row = np.concatenate((grad.qpos_tangent, grad.qvel))
        np.testing.assert_allclose(a[i], row, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("height", [1e-6, 1e-7, 1e-8, -1e-8, -1e-7, -1e-6])
def test_contact_about_to_open_or_close(height):
    # nearer than any step of differences: the derivative is that of the side the state is on
    ball = CUBE.replace('type="box" size="0.05 0.05 0.05"', 'type="sphere" size="0.05"')
    model = tighten(mujoco.MjModel.from_xml_string(ball))
    data = mujoco.MjData(model)
    data.qpos[2] = 0.05 + height
    data.qvel[:] = [0.3, 0, 0.1, 0, 2, 0]
    a, _ = diffmj.Simulator(model).linearize(qpos=data.qpos, qvel=data.qvel)
    expected = np.zeros((12, 12))
    mujoco.mjd_transitionFD(model, data, 1e-9, True, expected, None, None, None)
    np.testing.assert_allclose(a, expected, atol=1e-4 * np.abs(expected).max())
