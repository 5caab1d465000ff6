"""Derivatives of steps as matrices, and tangents pushed through rollouts."""

import diffmj
import mujoco
import numpy as np
import pytest

BALLS = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="1 1 0.1"/>
    <body pos="0 0 0.099">
      <freejoint/>
      <geom name="box" type="box" size="0.1 0.07 0.1"/>
      <body pos="0.2 0 0">
        <joint name="ball" type="ball" damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 0.1" size="0.03"/>
      </body>
    </body>
    <body pos="0.5 0.5 0.5">
      <joint name="hinge" axis="0 1 0" damping="0.2"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
    </body>
  </worldbody>
  <actuator>
    <position joint="hinge" kp="5"/>
    <general joint="hinge" dyntype="filter" dynprm="0.1" gainprm="2"/>
  </actuator>
</mujoco>"""


@pytest.fixture(scope="module")
def sim():
    return diffmj.Simulator(BALLS)


@pytest.fixture(scope="module")
def trajectory(sim):
    rng = np.random.default_rng(0)
    return sim.rollout(
        qvel=0.1 * rng.standard_normal(sim.nv), act=[0.3], ctrl=rng.standard_normal((6, sim.nu))
    )


@pytest.mark.smoke
def test_matrices_are_those_of_mujoco(sim):
    model = mujoco.MjModel.from_xml_string(BALLS)
    data = mujoco.MjData(model)
    data.ctrl[:] = 0.4, -0.2
    for _ in range(20):
        mujoco.mj_step(model, data)
    A, B = sim.linearize(qpos=data.qpos, qvel=data.qvel, act=data.act, ctrl=data.ctrl)
    theirs = np.zeros_like(A), np.zeros_like(B)
    model.opt.tolerance, model.opt.iterations = 0, 200
    mujoco.mjd_transitionFD(model, data, 1e-6, True, *theirs, None, None)
    np.testing.assert_allclose(A, theirs[0], atol=1e-5 * np.abs(A).max())
    np.testing.assert_allclose(B, theirs[1], atol=1e-5 * np.abs(B).max())


def test_a_trajectory_has_the_matrices_of_its_states(sim, trajectory):
    A, B = trajectory.linearize()
    assert A.shape == (6, 2 * sim.nv + sim.na, 2 * sim.nv + sim.na)
    states = {name: getattr(trajectory, name)[:-1] for name in ("qpos", "qvel", "act")}
    rng = np.random.default_rng(0)
    rng.standard_normal(sim.nv)
    ctrl = rng.standard_normal((6, sim.nu))
    many_A, many_B = sim.linearize(**states, ctrl=ctrl)
    # their solver starts from nothing, that of the rollout from the step before
    np.testing.assert_allclose(many_A, A, atol=1e-6 * np.abs(A).max())
    np.testing.assert_allclose(many_B, B, atol=1e-6)
    one_A, _ = sim.linearize(**{name: x[3] for name, x in states.items()}, ctrl=ctrl[3])
    np.testing.assert_array_equal(one_A, many_A[3])


def test_tangents_are_the_transpose_of_the_gradient(sim, trajectory):
    rng = np.random.default_rng(1)
    bar = {name: rng.standard_normal(getattr(trajectory, name).shape) for name in ("qpos", "qvel")}
    params = ["body_mass", "actuator_gainprm", "geom_friction"]
    gradient = trajectory.backward(**bar, params=params)
    change = {
        "qpos": rng.standard_normal((4, sim.nq)),
        "qvel": rng.standard_normal((4, sim.nv)),
        "act": rng.standard_normal((4, sim.na)),
        "ctrl": rng.standard_normal((4, 6, sim.nu)),
        "qfrc_applied": rng.standard_normal((4, 6, sim.nv)),
    }
    fields = {name: rng.standard_normal((4, *gradient.params[name].shape)) for name in params}
    out = trajectory.forward(**change, params=fields)
    forward = [
        np.sum(bar["qpos"] * out.qpos[k]) + np.sum(bar["qvel"] * out.qvel[k]) for k in range(4)
    ]
    backward = [
        sum(np.sum(getattr(gradient, name) * x[k]) for name, x in change.items())
        + sum(np.sum(gradient.params[name] * x[k]) for name, x in fields.items())
        for k in range(4)
    ]
    np.testing.assert_allclose(forward, backward, rtol=1e-10, atol=1e-9)


def test_one_tangent_and_batches(sim):
    rng = np.random.default_rng(2)
    qvel, change = 0.1 * rng.standard_normal((3, sim.nv)), rng.standard_normal((3, 5, sim.nv))
    batch = sim.rollout(qvel=qvel, nstep=4)
    out = batch.forward(qvel=change)
    assert out.qpos.shape == (3, 5, 5, sim.nq)
    assert batch.linearize()[0].shape[:2] == (3, 4)
    single = sim.rollout(qvel=qvel[1], nstep=4)
    one = single.forward(qvel=change[1, 2])
    assert one.qvel.shape == (5, sim.nv)
    # products of a matrix with one column and with many round differently
    np.testing.assert_allclose(one.qvel, out.qvel[1, 2], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(one.qpos, out.qpos[1, 2], rtol=1e-12, atol=1e-14)


def test_a_failed_rollout_of_a_batch_is_named(sim):
    force = np.zeros((2, 4, sim.nv))
    force[1] = 1e9
    with pytest.warns(RuntimeWarning, match="rollout 1"):
        batch = sim.rollout(qfrc_applied=force)
    with pytest.raises(diffmj.InputError, match="linearize: rollout 1 of the batch did not reach"):
        batch.linearize()
    with pytest.raises(diffmj.InputError, match="forward: rollout 1 of the batch did not reach"):
        batch.forward(qvel=np.ones((2, sim.nv)))


def test_what_is_wrong_is_named(sim, trajectory):
    with pytest.raises(diffmj.InputError, match=r"qvel has shape \(3,\), expected \(K, 10\)"):
        trajectory.forward(qvel=np.ones(3))
    with pytest.raises(diffmj.InputError, match="act has no dimension of tangents"):
        trajectory.forward(qvel=np.ones((2, sim.nv)), act=np.ones(sim.na))
    with pytest.raises(diffmj.InputError, match="ctrl has 3 tangents, other arguments have 2"):
        trajectory.forward(qvel=np.ones((2, sim.nv)), ctrl=np.ones((3, 6, sim.nu)))
    with pytest.raises(diffmj.InputError, match="give at least one of"):
        trajectory.forward()
    with pytest.raises(diffmj.InputError, match="params is a list, expected a dict"):
        trajectory.forward(params=["body_mass"])
    with pytest.raises(diffmj.InputError, match="no parameter 'mass'"):
        trajectory.forward(params={"mass": np.ones(3)})
    with pytest.raises(diffmj.InputError, match="not finite"):
        trajectory.forward(qvel=np.full(sim.nv, np.nan))
    with pytest.raises(diffmj.InputError, match=r"linearize: .* 2 steps, expected one"):
        sim.linearize(ctrl=np.ones((3, 2, sim.nu)))
    with pytest.raises(diffmj.InputError, match="qpos has shape"):
        sim.linearize(qpos=np.ones(3))
    adaptive = diffmj.Simulator(BALLS, integrator="tsit5")
    steps = adaptive.rollout(nstep=2)
    with pytest.raises(diffmj.UnsupportedError, match="body_mass is unavailable where steps"):
        steps.forward(params={"body_mass": np.ones(4)})
