"""Every wrong input raises the right class, and the message names the thing."""

import pickle
import subprocess
import sys

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import CUBE, PENDULUM, ZOO

BODY = '<body><joint name="j"/><geom size="0.1"/></body>'


def mjcf(inside: str, body: str = BODY) -> str:
    return f"<mujoco>{inside}<worldbody>{body}</worldbody></mujoco>"


def test_classes():
    parents = {
        diffmj.InputError: ValueError,
        diffmj.UnsupportedError: NotImplementedError,
        diffmj.MujocoError: RuntimeError,
        diffmj.RolloutError: RuntimeError,
        diffmj.OutOfMemoryError: MemoryError,
    }
    for error, parent in parents.items():
        assert issubclass(error, diffmj.Error)
        assert issubclass(error, parent)
        assert error.__module__ == "diffmj"


# --- models


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        ("no/such/file.xml", diffmj.InputError, "no/such/file.xml"),
        (str(ZOO), diffmj.InputError, "not a file"),
        ("<mujoco><wrold/></mujoco>", diffmj.MujocoError, "wrold"),
        ("<mujoco><worldbody>", diffmj.MujocoError, "XML"),
        (mjcf('<option integrator="Heun"/>'), diffmj.MujocoError, "Heun"),
        (mjcf("", '<body name="b"><joint/></body>'), diffmj.MujocoError, "mass and inertia"),
        ("<mujoco/>", diffmj.InputError, r"no degrees of freedom \(nv = 0\)"),
        (mjcf('<option><flag sleep="enable"/></option>'), diffmj.UnsupportedError, "sleep"),
        (7, diffmj.InputError, "model is a int"),
        (None, diffmj.InputError, "MjModel"),
        (mujoco.MjSpec(), diffmj.InputError, r"MjSpec.*compile\(\)"),
        ("", diffmj.InputError, "''"),
    ],
)
def test_bad_model(model, error, message):
    with pytest.raises(error, match=message):
        diffmj.Simulator(model)


def test_plugin_is_refused_by_name():
    model = """<mujoco>
      <extension>
        <plugin plugin="mujoco.pid">
          <instance name="pid"><config key="kp" value="4"/></instance>
        </plugin>
      </extension>
      <worldbody><body><joint name="hinge"/><geom size="0.1"/></body></worldbody>
      <actuator>
        <plugin name="drive" joint="hinge" plugin="mujoco.pid" instance="pid"/>
      </actuator>
    </mujoco>"""
    with pytest.raises(diffmj.UnsupportedError, match="plugin of actuator 'drive'"):
        diffmj.Simulator(model)


def test_malformed_file(tmp_path):
    for name, text in (("bad.xml", "<mujoco><wrold/></mujoco>"), ("bad.mjb", "not a model")):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(diffmj.MujocoError, match=name):
            diffmj.Simulator(path)


@pytest.mark.smoke
@pytest.mark.parametrize("kind", ["dyntype", "gaintype", "biastype"])
def test_user_defined_actuator_is_refused(kind):
    actuator = f'<actuator><general name="mine" joint="j" {kind}="user"/></actuator>'
    with pytest.raises(diffmj.UnsupportedError, match="mine"):
        diffmj.Simulator(mjcf(actuator))


@pytest.mark.smoke
def test_unknown_integrator():
    with pytest.raises(diffmj.InputError, match=r"'RK45' is not known.*RK4, implicit"):
        diffmj.Simulator(PENDULUM, integrator="RK45")


@pytest.mark.parametrize("value", [-1, 1.5, "two"])
def test_bad_nthread(value):
    with pytest.raises(diffmj.InputError, match="nthread"):
        diffmj.Simulator(PENDULUM, nthread=value)


def test_unknown_keyframe(pendulum):
    with pytest.raises(diffmj.InputError, match=r"'home'.*tilted"):
        pendulum.keyframe_state("home")
    for key in (1, -1):
        with pytest.raises(diffmj.InputError, match=str(key)):
            pendulum.keyframe_state(key)


@pytest.mark.smoke
def test_callback_is_refused(pendulum):
    traj = pendulum.rollout(nstep=3)
    mujoco.set_mjcb_control(lambda model, data: None)
    try:
        with pytest.raises(diffmj.UnsupportedError, match="mjcb_control"):
            pendulum.rollout(nstep=3)
        with pytest.raises(diffmj.UnsupportedError, match="mjcb_control"):
            traj.backward(qpos=np.zeros((4, 1)))
    finally:
        mujoco.set_mjcb_control(None)
    assert pendulum.rollout(nstep=3).ok


# --- shapes and numbers

SHAPES = {  # of CUBE: nq 7, nv 6, na 0, nu 0, nbody 2; one motor is added
    "qpos": [(6,), (2, 6), (2, 3, 7), ()],
    "qvel": [(7,), (2, 7), (2, 3, 6)],
    "act": [(1,), (2, 1)],
    "ctrl": [(2,), (10, 2), (2, 10, 2), (2, 2, 10, 1), (9, 1), (2, 9, 1), ()],
    "qfrc_applied": [(7,), (10, 7), (9, 6)],
    "xfrc_applied": [(2,), (12,), (10, 12), (9, 2, 6), (2, 5)],
    "mocap_pos": [(3,), (1, 3)],
    "mocap_quat": [(1, 4)],
    "time": [(2, 2)],
}


@pytest.fixture
def cube_with_motor() -> diffmj.Simulator:
    motor = '<actuator><motor joint="free" gear="0 0 1 0 0 0"/></actuator></mujoco>'
    return diffmj.Simulator(CUBE.replace("</mujoco>", motor))


@pytest.mark.parametrize(
    ("name", "shape"), [(name, shape) for name, shapes in SHAPES.items() for shape in shapes]
)
def test_wrong_shape(cube_with_motor, name, shape):
    with pytest.raises(diffmj.InputError) as caught:
        cube_with_motor.rollout(**{name: np.zeros(shape)}, nstep=10)
    assert f"{name} has shape {shape}" in str(caught.value)
    assert "expected" in str(caught.value)


@pytest.mark.smoke
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e11])
@pytest.mark.parametrize("name", ["qpos", "qvel", "ctrl", "qfrc_applied", "xfrc_applied"])
def test_not_finite(cube_with_motor, name, bad):
    sim = cube_with_motor
    shapes = {"qpos": 7, "qvel": 6, "ctrl": (4, 1), "qfrc_applied": (4, 6)}
    x = np.ones(shapes.get(name, (4, 2, 6)))
    x.flat[-1] = bad
    with pytest.raises(diffmj.InputError, match=name):
        sim.rollout(**{name: x}, nstep=4)
    with pytest.raises(diffmj.InputError, match=f"rollout 1 of the batch.*{name}"):
        sim.rollout(**{name: np.stack((np.ones_like(x), x))}, nstep=4)


def test_not_finite_in_the_other_inputs():
    servo = diffmj.Simulator(ZOO / "act_basic.xml")
    act = servo.keyframe_state("test").act
    act[1] = np.nan
    with pytest.raises(diffmj.InputError, match=r"act\[1\] is nan"):
        servo.rollout(act=act, nstep=4)
    with pytest.raises(diffmj.InputError, match="time"):
        servo.rollout(time=np.inf, nstep=4)
    mocap = mjcf("", BODY + '<body mocap="true"><geom size="0.1"/></body>')
    for name, size in (("mocap_pos", 3), ("mocap_quat", 4)):
        with pytest.raises(diffmj.InputError, match=name):
            diffmj.Simulator(mocap).rollout(**{name: np.full((1, size), np.nan)}, nstep=4)


def test_zero_quaternion(cube):
    with pytest.raises(diffmj.InputError, match=r"quaternion of joint 'free'"):
        cube.rollout(qpos=np.zeros(7), nstep=4)


@pytest.mark.parametrize(
    "value", ["abc", [[1], [2, 3]], {"a": 1}, 1j * np.ones(7), [None] * 7, object()]
)
def test_not_an_array(cube, value):
    with pytest.raises(diffmj.InputError, match="qpos"):
        cube.rollout(qpos=value, nstep=4)


def test_nstep(pendulum):
    with pytest.raises(diffmj.InputError, match="nstep is not given"):
        pendulum.rollout()
    with pytest.raises(diffmj.InputError, match="nstep is not given"):
        pendulum.rollout(ctrl=[0.1])
    for bad in (-1, 1.5, "ten"):
        with pytest.raises(diffmj.InputError, match="nstep is"):
            pendulum.rollout(nstep=bad)
    with pytest.raises(diffmj.InputError, match=r"qfrc_applied.*5 steps.*ctrl.*4 steps"):
        pendulum.rollout(ctrl=np.zeros((4, 1)), qfrc_applied=np.zeros((5, 1)))


def test_batch_sizes_disagree(pendulum):
    with pytest.raises(diffmj.InputError, match=r"qvel.*batch of 3.*qpos.*batch of 2"):
        pendulum.rollout(qpos=np.zeros((2, 1)), qvel=np.zeros((3, 1)), nstep=4)
    with pytest.raises(diffmj.InputError, match="batch is empty"):
        pendulum.rollout(qpos=np.zeros((0, 1)), nstep=4)


@pytest.mark.smoke
@pytest.mark.parametrize("nstep", [2 * 10**9, 10**12])
def test_memory(pendulum, nstep):
    with pytest.raises(diffmj.OutOfMemoryError, match="fewer steps"):
        pendulum.rollout(nstep=nstep)
    with pytest.raises(MemoryError):
        pendulum.rollout(qpos=np.zeros((100, 1)), nstep=nstep // 100)


# --- backward


def test_bad_cotangents(pendulum):
    traj = pendulum.rollout(nstep=4)
    with pytest.raises(diffmj.InputError, match="at least one"):
        traj.backward()
    for shape in ((1,), (4, 1), (5, 2), (1, 5, 1)):
        with pytest.raises(diffmj.InputError, match=r"one row per state.*final state"):
            traj.backward(qpos=np.zeros(shape))
    with pytest.raises(diffmj.InputError, match=r"act has shape.*\(nstep \+ 1, na\) = \(5, 0\)"):
        traj.backward(act=np.zeros((5, 1)))
    for name in ("qpos", "qpos_tangent", "qvel"):
        bad = np.zeros((5, 1))
        bad[3] = np.nan
        text = rf"backward: {name}\[3, 0\] is nan, expected finite"
        with pytest.raises(diffmj.InputError, match=text):
            traj.backward(**{name: bad})
    batch = pendulum.rollout(qpos=np.zeros((2, 1)), nstep=4)
    with pytest.raises(diffmj.InputError, match=r"\(B, nstep \+ 1, nq\) = \(2, 5, 1\)"):
        batch.backward(qpos=np.zeros((5, 1)))


def test_masked_arrays_are_refused(pendulum):
    masked = np.ma.masked_array([0.5], mask=[True])
    with pytest.raises(diffmj.InputError, match=r"rollout: qpos has 1 masked entries.*filled"):
        pendulum.rollout(qpos=masked, nstep=1)
    traj = pendulum.rollout(qpos=np.ma.masked_array([0.5], mask=[False]), nstep=4)
    assert traj.qpos[0, 0] == 0.5
    with pytest.raises(diffmj.InputError, match="backward: qpos has 5 masked entries"):
        traj.backward(qpos=np.ma.masked_all((5, 1)))


# --- linearize


def test_bad_linearize(pendulum):
    with pytest.raises(diffmj.InputError, match=r"linearize: ctrl has shape \(4,\)"):
        pendulum.linearize(ctrl=np.zeros(4))
    with pytest.raises(diffmj.InputError, match=r"linearize: .* a batch of 3, but .* of 2"):
        pendulum.linearize(qpos=np.zeros((2, 1)), qvel=np.zeros((3, 1)))
    with pytest.raises(diffmj.InputError, match="qvel"):
        pendulum.linearize(qvel=[np.nan])


# --- rollouts that fail on the way


@pytest.mark.smoke
def test_divergence(cube):
    force = np.zeros((100, 6))
    force[20:, 2] = 1e10
    with pytest.raises(diffmj.RolloutError) as caught:
        cube.rollout(qfrc_applied=force)
    text = str(caught.value)
    assert "diverged" in text
    assert "step" in text
    assert "'free'" in text
    traj = caught.value.trajectory
    assert traj.ok is False
    assert traj.outcome == "not finite"
    assert traj.message in text
    assert 20 <= traj.nstep < 100
    assert traj.nstep == traj.completed
    assert traj.qpos.shape == (traj.nstep + 1, 7)
    assert np.isfinite(traj.qpos).all()
    np.testing.assert_array_equal(traj.qpos[:20], cube.rollout(nstep=19).qpos)
    with pytest.raises(diffmj.InputError, match="did not reach its last step"):
        traj.backward(qpos=np.zeros_like(traj.qpos))
    assert str(pickle.loads(pickle.dumps(caught.value))) == text  # worker processes need it


def test_divergence_by_timestep():
    sim = diffmj.Simulator(CUBE.replace('timestep="0.002"', 'timestep="1e5"'))
    with pytest.raises(diffmj.RolloutError, match="smaller timestep"):
        sim.rollout(nstep=1000)


def test_error_of_mujoco_does_not_end_the_process():
    # so little memory that mj_step runs out of it and calls mju_error
    code = """
import diffmj
from conftest import CUBE
sim = diffmj.Simulator(CUBE.replace('<option timestep="0.002"/>', '<size memory="9K"/>'))
try:
    sim.rollout(nstep=300)
except diffmj.RolloutError as error:
    assert error.trajectory.outcome == "MuJoCo error", error
    print("raised:", error)
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ZOO.parent.parent / "python",
    )
    assert run.returncode == 0, run.stderr
    assert "raised:" in run.stdout
