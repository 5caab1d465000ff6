"""Rollouts: MuJoCo's own steps, bit for bit, and what of them can be read."""

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import CUBE, PENDULUM, ZOO, key_data, load, may_fall_back, mj_rollout, supported_zoo


@pytest.mark.smoke
@pytest.mark.parametrize("name", supported_zoo())
@may_fall_back
def test_bitwise_mj_step(name):
    model = load(name)
    sim = diffmj.Simulator(model)
    traj = sim.rollout(**vars(sim.keyframe_state("test")), nstep=1000)
    expected = mj_rollout(model, key_data(model), 1000)
    for field in ("time", "qpos", "qvel", "act", "qacc"):
        np.testing.assert_array_equal(getattr(traj, field), expected[field], err_msg=field)


@pytest.mark.parametrize("name", ["humanoid", "hand", "rk4_mixed"])
@may_fall_back
def test_bitwise_with_controls_and_forces(name):
    model, nstep = load(name), 100
    sim, state = diffmj.Simulator(model), diffmj.Simulator(model).keyframe_state("test")
    rng = np.random.default_rng(1)
    ctrl = 0.1 * rng.standard_normal((nstep, sim.nu))
    qfrc = 0.01 * rng.standard_normal((nstep, sim.nv))
    xfrc = 0.01 * rng.standard_normal((nstep, sim.nbody, 6))
    inputs = vars(state) | {"ctrl": ctrl, "qfrc_applied": qfrc, "xfrc_applied": xfrc}
    traj = sim.rollout(**inputs)

    data = key_data(model)
    for i in range(nstep):
        data.ctrl[:], data.qfrc_applied[:], data.xfrc_applied[:] = ctrl[i], qfrc[i], xfrc[i]
        mujoco.mj_step(model, data)
        np.testing.assert_array_equal(traj.qpos[i + 1], data.qpos)
        np.testing.assert_array_equal(traj.qvel[i + 1], data.qvel)


@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicit", "implicitfast"])
def test_integrator_argument(integrator):
    model = mujoco.MjModel.from_xml_string(PENDULUM)
    sim = diffmj.Simulator(model, integrator=integrator)
    assert sim.integrator == integrator
    traj = sim.rollout(qpos=[0.3], nstep=50)
    model.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    data = mujoco.MjData(model)
    data.qpos[:] = 0.3
    np.testing.assert_array_equal(traj.qpos, mj_rollout(model, data, 50)["qpos"])


@pytest.mark.smoke
def test_model_from_object_path_and_string(tmp_path):
    model = mujoco.MjModel.from_xml_string(CUBE)
    xml, mjb = tmp_path / "cube.xml", tmp_path / "cube.mjb"
    xml.write_text(CUBE)
    mujoco.mj_saveModel(model, str(mjb))
    sources = [model, xml, str(xml), mjb, CUBE, "\n  " + CUBE]
    rows = [diffmj.Simulator(source).rollout(nstep=300).qpos for source in sources]
    for row in rows[1:]:
        np.testing.assert_array_equal(row, rows[0])


def test_urdf(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(
        """<robot name="arm"><link name="base"/>
        <link name="tip"><inertial><mass value="1"/><origin xyz="0 0 -0.3"/>
          <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="j" type="continuous"><parent link="base"/><child link="tip"/>
          <axis xyz="0 1 0"/></joint></robot>"""
    )
    assert diffmj.Simulator(path).nv == 1


def test_later_changes_of_the_model_have_no_effect():
    model = mujoco.MjModel.from_xml_string(PENDULUM)
    sim = diffmj.Simulator(model)
    before = sim.rollout(qpos=[0.3], nstep=20).qpos
    model.opt.gravity[:] = 0
    model.opt.timestep = 1
    model.body_mass[:] *= 3
    after = sim.rollout(qpos=[0.3], nstep=20).qpos
    del model
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(before, sim.rollout(qpos=[0.3], nstep=20).qpos)


@pytest.mark.smoke
def test_properties(pendulum):
    sizes = ("nq", "nv", "na", "nu", "nbody", "nmocap", "nsite")
    assert [getattr(pendulum, x) for x in sizes] == [1, 1, 0, 1, 2, 0, 0]
    assert pendulum.timestep == 0.01
    assert pendulum.integrator == "Euler"
    assert pendulum.gradient_path == "analytic"
    assert pendulum.gradient_path_reason == ""
    assert "nv=1" in repr(pendulum)
    with pytest.warns(diffmj.FallbackWarning, match="integrator discrete"):
        discrete = diffmj.Simulator(ZOO / "limits.xml", integrator="discrete")
    assert discrete.gradient_path == "differences"
    assert "integrator discrete" in discrete.gradient_path_reason


def test_states(pendulum):
    state = pendulum.default_state()
    assert state.time == 0
    np.testing.assert_array_equal(state.qpos, [0])
    np.testing.assert_array_equal(state.ctrl, [0])
    for key in ("tilted", 0):
        state = pendulum.keyframe_state(key)
        assert state.time == 0.5
        rows = (state.qpos, state.qvel, state.act, state.ctrl)
        np.testing.assert_array_equal(np.concatenate(rows), [0.3, -0.2, 0.1])
    traj = pendulum.rollout(**vars(state), nstep=3)
    assert traj.time[0] == 0.5
    np.testing.assert_array_equal(traj.qpos[0], [0.3])


def test_mocap():
    model = load("eq_weld")
    if not model.nmocap:
        pytest.skip("the model has no mocap body")
    sim = diffmj.Simulator(model)
    state = sim.keyframe_state("test")
    moved = state.mocap_pos + 0.05
    traj = sim.rollout(**(vars(state) | {"mocap_pos": moved}), nstep=50)
    data = key_data(model)
    data.mocap_pos[:] = moved
    np.testing.assert_array_equal(traj.qpos, mj_rollout(model, data, 50)["qpos"])


def test_arrays(cube):
    traj = cube.rollout(nstep=200)
    assert traj.time.shape == (201,)
    assert traj.qpos.shape == (201, 7)
    assert traj.qvel.shape == (201, 6)
    assert traj.act.shape == (201, 0)
    assert traj.qacc.shape == (200, 6)
    assert traj.steps.shape == (200,)
    for x in (traj.time, traj.qpos, traj.qvel, traj.qacc):
        assert x.dtype == np.float64
        assert x.flags.c_contiguous
        assert not x.flags.writeable
    assert traj.qpos is traj.qpos
    assert traj.steps.ncon[0] == 0
    assert traj.steps.ncon.max() >= 1
    assert traj.steps.nefc.max() >= 4
    assert traj.steps.solver_niter.max() >= 1
    assert traj.ok is True
    assert traj.outcome == "success"
    assert traj.message == ""
    assert traj.warnings == []
    assert (traj.nstep, traj.completed, traj.batch) == (200, 200, None)


def test_arrays_outlive_the_trajectory(cube):
    qpos = cube.rollout(nstep=1000).qpos
    copy = qpos.copy()
    for _ in range(3):  # memory that could be reused
        cube.rollout(nstep=1000)
    np.testing.assert_array_equal(qpos, copy)


def test_what_counts_as_an_array(pendulum):
    expected = pendulum.rollout(qpos=np.array([0.5]), ctrl=np.full((4, 1), 2.0)).qpos
    wide = np.full((4, 6), 2.0)[:, ::6]
    for qpos, ctrl in [
        ([0.5], [[2]] * 4),
        ((0.5,), np.full((4, 1), 2, dtype=np.int32)),
        (np.float32([0.5]), np.full((4, 1), 2, dtype=np.float32)),
        (np.array([0.5, 1.0])[::2], wide),
        (np.array([0.5]), np.asfortranarray(np.full((4, 1), 2.0))),
    ]:
        np.testing.assert_array_equal(pendulum.rollout(qpos=qpos, ctrl=ctrl).qpos, expected)
    np.testing.assert_array_equal(pendulum.rollout([0.5], ctrl=[2.0], nstep=4).qpos, expected)


def test_nstep_is_inferred(pendulum):
    assert pendulum.rollout(ctrl=np.zeros((7, 1))).nstep == 7
    assert pendulum.rollout(qfrc_applied=np.zeros((6, 1))).nstep == 6
    assert pendulum.rollout(xfrc_applied=np.zeros((5, 2, 6))).nstep == 5
    assert pendulum.rollout(ctrl=np.zeros((3, 4, 1))).nstep == 4
    assert pendulum.rollout(nstep=0).qpos.shape == (1, 1)


def test_warnings_of_mujoco_are_data(capfd):
    box = '<body pos="%d 0 0.04"><freejoint/><geom type="box" size="0.05 0.05 0.05"/></body>'
    boxes = "".join(box % i for i in range(10))
    sim = diffmj.Simulator(
        f"""<mujoco><size memory="20K"/><worldbody><geom type="plane" size="20 1 1"/>{boxes}
        </worldbody></mujoco>"""
    )
    traj = sim.rollout(nstep=3)
    assert "contacts" in traj.warnings[0].text
    assert traj.warnings[0].first_step == 0
    assert traj.warnings[0].count >= 1
    batch = sim.rollout(qvel=np.zeros((2, sim.nv)), nstep=3)
    assert batch.warnings[1] == traj.warnings
    assert capfd.readouterr() == ("", "")  # nothing is printed
