"""MyoSuite's models, and muscles."""

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import Problem, along, load, mj_rollout

# an arm whose muscle is stretched beyond lmax, where it is slack, under a heavy hand
SLACK = """
<mujoco>
  <option timestep="0.005" gravity="0 0 0"/>
  <worldbody>
    <body>
      <joint name="elbow" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/>
    </body>
  </worldbody>
  <actuator>
    <muscle joint="elbow" lengthrange="-1 1" force="10" fpmax="0.001" ctrllimited="false"/>
  </actuator>
</mujoco>
"""


def test_rollouts_of_myosuite_are_mj_step(myo_model):
    sim = diffmj.Simulator(myo_model, fallback=False)
    data = mujoco.MjData(myo_model)
    if myo_model.nkey:
        mujoco.mj_resetDataKeyframe(myo_model, data, 0)
    ctrl = np.random.default_rng(0).uniform(0, 0.5, (20, sim.nu))
    start = {"qpos": data.qpos.copy(), "qvel": data.qvel.copy(), "act": data.act.copy()}
    mocap = {"mocap_pos": data.mocap_pos.copy(), "mocap_quat": data.mocap_quat.copy()}
    traj = sim.rollout(**start, ctrl=ctrl, **(mocap if myo_model.nmocap else {}))
    rows = mj_rollout(myo_model, data, len(ctrl), ctrl)
    for name in ("qpos", "qvel", "act"):
        np.testing.assert_array_equal(getattr(traj, name), rows[name])


@pytest.mark.smoke
def test_muscles_match_differences():
    model = load("act_muscle_joint", tight=True)
    problem = Problem(model, 5)
    sim = diffmj.Simulator(model, fallback=False)
    grad = sim.rollout(**problem.start()).backward(**problem.weights)
    for _ in range(4):
        direction = problem.direction()
        numeric, error_bar = problem.difference(direction)
        scale = max(abs(numeric), 1)
        assert error_bar < 1e-6 * scale
        assert abs(along(grad, direction) - numeric) < 1e-6 * scale + error_bar


@pytest.mark.parametrize("name", ["actuator_dynprm", "actuator_lengthrange", "actuator_acc0"])
def test_parameters_of_muscles(name):
    model = load("act_muscle_joint", tight=True)
    analytic, oracle = (
        diffmj.Simulator(model, gradient_path=path)
        .rollout(**Problem(model, 2).start())
        .backward(**Problem(model, 2).weights, params=[name])
        .params[name]
        for path in ("analytic", "oracle")
    )
    assert analytic.shape == getattr(model, name).shape
    # acc0 scales the force of one muscle, which is too short to have one
    assert np.abs(analytic).max() > 1e-3 or name == "actuator_acc0"
    np.testing.assert_allclose(analytic, oracle, rtol=0, atol=1e-6 * (1 + np.abs(oracle).max()))


def test_smoothing_gives_a_slack_muscle_a_gradient():
    start = {"qpos": [6.0], "qvel": [0.0], "act": [0.5]}  # L = 1.8, and lmax is 1.6
    ctrl = np.full((10, 1), 0.8)
    trajectories, gradients = [], []
    for width in (0, 1e-9, 0.2):
        sim = diffmj.Simulator(SLACK, muscle_smoothing=width)
        assert sim.muscle_smoothing == width
        traj = sim.rollout(**start, ctrl=ctrl)
        bar = np.zeros_like(traj.qpos)
        bar[-1] = 1
        trajectories.append(traj.qpos)
        gradients.append(traj.backward(qpos=bar).ctrl)
    np.testing.assert_array_equal(trajectories[0], trajectories[2])
    assert np.all(gradients[0] == 0)
    np.testing.assert_array_equal(gradients[0], gradients[1])
    # more control, more force, a shorter muscle
    assert np.all(gradients[2][:-2] < 0)
    assert np.all(np.isfinite(gradients[2]))


def test_smoothing_is_refused_where_it_has_no_effect():
    with pytest.raises(diffmj.InputError, match="muscle_smoothing is -1"):
        diffmj.Simulator(SLACK, muscle_smoothing=-1)
    with pytest.raises(diffmj.UnsupportedError, match="'analytic'"):
        diffmj.Simulator(SLACK, muscle_smoothing=0.1, gradient_path="oracle")


def test_check_is_of_the_exact_gradient():
    sim = diffmj.Simulator(SLACK, muscle_smoothing=0.2)
    report = sim.check(qpos=[0.3], qvel=[0.1], act=[0.5], ctrl=[0.8], nstep=3)
    assert report.passed
    assert any("muscle_smoothing" in line for line in report.advice)
