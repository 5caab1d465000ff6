"""What sensors measure along a trajectory, and losses that use it."""

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import key_data, load, ridders

NSTEP = 5


def start(name: str = "sensors", **options) -> tuple[diffmj.Simulator, dict[str, np.ndarray]]:
    sim = diffmj.Simulator(load(name), **options)
    return sim, vars(sim.keyframe_state("test"))


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["sensors", "sensors_tendon"])
def test_values_are_those_of_mujoco(name):
    model = load(name)
    sim, state = start(name)
    traj = sim.rollout(**state, nstep=NSTEP)
    assert traj.sensordata.shape == (NSTEP + 1, model.nsensordata) == (NSTEP + 1, sim.nsensordata)
    data = key_data(model)
    for row in traj.sensordata[:-1]:
        mujoco.mj_step(model, data)
        assert np.array_equal(row, data.sensordata)
    mujoco.mj_forward(model, data)
    assert np.array_equal(traj.sensordata[-1], data.sensordata)
    assert np.array_equal(
        traj.sensordata, sim.rollout(**state, nstep=NSTEP, sensors=True).sensordata
    )
    with pytest.raises(ValueError, match="read-only"):
        traj.sensordata[0, 0] = 1


def test_by_name():
    sim, state = start()
    traj = sim.rollout(**state, nstep=NSTEP, sensors=True)
    gyro = traj.sensor("gyro")
    assert gyro.shape == (NSTEP + 1, 3)
    rng = np.random.default_rng(0)
    bar, scalar = rng.standard_normal(gyro.shape), rng.standard_normal(NSTEP + 1)
    whole = np.zeros_like(traj.sensordata)
    model = load("sensors")
    whole[:, model.sensor("gyro").adr[0] + np.arange(3)] = bar
    whole[:, model.sensor("jointpos").adr[0]] = scalar
    named = traj.backward(sensordata={"gyro": bar, "jointpos": scalar})
    assert np.array_equal(named.qvel, traj.backward(sensordata=whole).qvel)
    # the last row alone
    only_last = np.zeros_like(whole)
    only_last[-1] = whole[-1]
    last = traj.backward(final={"sensordata": {"gyro": bar[-1], "jointpos": scalar[-1]}})
    assert np.array_equal(last.qvel, traj.backward(sensordata=only_last).qvel)
    assert np.array_equal(last.qvel, traj.backward(final={"sensordata": whole[-1]}).qvel)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_gradient_of_an_imu(integrator):
    sim, state = start(integrator=integrator)
    tight = sim.tightened()
    rng = np.random.default_rng(1)
    weights = {
        name: rng.standard_normal((NSTEP + 1, 3)) for name in ("accelerometer", "gyro", "force")
    }
    direction = rng.standard_normal(sim.nv)

    def loss(h: float) -> float:
        moved = tight.rollout(**{**state, "qvel": state["qvel"] + h * direction}, nstep=NSTEP)
        return sum(np.sum(w * moved.sensor(name)) for name, w in weights.items())

    grad = tight.rollout(**state, nstep=NSTEP).backward(sensordata=weights)
    expected, error = ridders(loss, 1e-4)
    assert grad.qvel @ direction == pytest.approx(expected, rel=1e-6, abs=10 * error)


def test_batch():
    sim, state = start()
    batch = sim.rollout(**{**state, "qvel": np.stack([state["qvel"]] * 3)}, nstep=NSTEP)
    one = sim.rollout(**state, nstep=NSTEP)
    assert np.array_equal(batch.sensordata, np.stack([one.sensordata] * 3))
    bar = np.ones_like(one.sensor("gyro"))
    grad = batch.backward(sensordata={"gyro": np.stack([bar] * 3)})
    assert np.array_equal(grad.qvel[2], one.backward(sensordata={"gyro": bar}).qvel)


def test_linearize():
    sim, state = start()
    del state["time"]
    A, B, C, D = sim.linearize(**state, sensors=True)
    assert np.array_equal(A, sim.linearize(**state)[0])
    assert B.shape == (A.shape[0], sim.nu)
    assert C.shape == (sim.nsensordata, A.shape[0])
    assert D.shape == (sim.nsensordata, sim.nu)
    force = load("sensors").sensor("actuatorfrc").adr[0]
    assert D[force, 0] == pytest.approx(20)  # kp of the servo


def test_errors_name_the_sensor():
    sim, state = start()
    traj = sim.rollout(**state, nstep=NSTEP)
    with pytest.raises(diffmj.InputError, match="no sensor 'lidar'; it has accelerometer"):
        traj.sensor("lidar")
    with pytest.raises(diffmj.InputError, match="no sensor 'lidar'"):
        traj.backward(sensordata={"lidar": np.zeros(NSTEP + 1)})
    with pytest.raises(diffmj.InputError, match=r"sensordata\['gyro'\] has shape \(6,\).*\(6, 3\)"):
        traj.backward(sensordata={"gyro": np.zeros(NSTEP + 1)})
    with pytest.raises(diffmj.InputError, match="3 is not the name of a sensor"):
        traj.sensor(3)
    with pytest.raises(diffmj.InputError, match=r"sensordata has shape \(2,\)"):
        traj.backward(sensordata=[1, 2])
    with pytest.raises(diffmj.InputError, match=r"sensordata\[0, 0\] is nan"):
        traj.backward(sensordata=np.full_like(traj.sensordata, np.nan))

    spec = mujoco.MjSpec.from_string("""<mujoco><worldbody><geom type="plane" size="1 1 1"/>
      <body pos="0 0 1"><freejoint/><geom size=".1"/><site name="eye"/></body></worldbody>
      <sensor><rangefinder name="laser" site="eye"/></sensor></mujoco>""")
    ray = diffmj.Simulator(spec.compile()).rollout(nstep=1)
    assert ray.sensor("laser").shape == (2, 1)
    ray.backward(sensordata={"laser": [0, 0]})
    with pytest.raises(diffmj.UnsupportedError, match="sensor 'laser' has no derivative"):
        ray.backward(sensordata={"laser": [0, 1]})


def test_parameters():
    """The weight of a hand on a force sensor grows with its mass."""
    xml = """<mujoco><worldbody><body><geom size=".1" mass="2"/><joint axis="0 0 1"/>
      <site name="wrist"/></body></worldbody>
      <sensor><force name="wrist" site="wrist"/></sensor></mujoco>"""
    sim = diffmj.Simulator(xml)
    traj = sim.rollout(nstep=0)
    assert traj.sensor("wrist")[0] == pytest.approx([0, 0, 2 * 9.81])
    grad = traj.backward(sensordata={"wrist": [[0, 0, 1]]}, params=["body_mass", "opt.gravity"])
    assert grad.params["body_mass"][1] == pytest.approx(9.81)
    assert grad.params["opt.gravity"] == pytest.approx([0, 0, -2])


@pytest.mark.parametrize("adjoint", ["discrete", "interpolated"])
def test_adaptive_steps(adjoint):
    sim, state = start(integrator="tsit5", interval=0.004, rtol=1e-9, atol=1e-10, adjoint=adjoint)
    rng = np.random.default_rng(2)
    traj = sim.rollout(**state, nstep=3)
    weights = {
        "accelerometer": rng.standard_normal((4, 3)),
        "framepos": rng.standard_normal((4, 3)),
    }
    direction = rng.standard_normal(sim.nv)
    grad = traj.backward(sensordata=weights)

    def loss(h: float) -> float:
        moved = sim.rollout(
            **{**state, "qvel": state["qvel"] + h * direction}, nstep=3, steps_of=traj
        )
        return sum(np.sum(w * moved.sensor(name)) for name, w in weights.items())

    expected, _ = ridders(loss, 1e-3)
    assert grad.qvel @ direction == pytest.approx(expected, rel=1e-5)
