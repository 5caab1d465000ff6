"""Simulators and trajectories in another process: pickle gives the same bits."""

import pickle
import subprocess
import sys
from pathlib import Path

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import ARM, CUBE, PENDULUM

OPTIONS = {
    "Euler": {},
    "RK4": {"integrator": "RK4"},
    "tsit5 through contact": {"integrator": "tsit5", "interval": 0.05},
    "checkpoints": {"integrator": "dopri5", "interval": 0.05, "checkpoints": 2},
    "interpolated": {"integrator": "tsit5", "interval": 0.05, "adjoint": "interpolated"},
    "from distance": {"cfd": diffmj.Cfd(width=0.3, geoms={"box": diffmj.Cfd(width=0.2)})},
}
FIELDS = ("qpos", "qvel", "ctrl", "qfrc_applied")

# falls on the floor within the rollout
DROP = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 .1"/>
    <body pos="0 0 .15"><freejoint/><geom name="box" type="box" size=".1 .1 .1"/></body>
  </worldbody>
</mujoco>
"""


def drop(**options):
    sim = diffmj.Simulator(DROP, **options)
    nstep = 3 if sim._model.is_adaptive else 30
    return sim, sim.rollout(qvel=[0.3, 0, -1, 0.5, 1, 0], nstep=nstep)


def gradient(traj):
    bar = np.random.default_rng(0).standard_normal(traj.qpos.shape)
    return traj.backward(qpos=bar, params=["geom_size"])


def assert_same(a, b):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name, value in a.params.items():
        np.testing.assert_array_equal(value, b.params[name])


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_trajectories_keep_their_gradients(options):
    _, traj = drop(**options)
    copy = pickle.loads(pickle.dumps(traj))
    np.testing.assert_array_equal(copy.qpos, traj.qpos)
    np.testing.assert_array_equal(copy.steps.ncon, traj.steps.ncon)
    assert copy.steps.ncon.max() > 0  # contacts are part of the record
    assert_same(gradient(copy), gradient(traj))
    again = copy._sim.rollout(qvel=traj.qvel[0], nstep=traj.nstep)
    np.testing.assert_array_equal(again.qpos, traj.qpos)
    if traj.integrator is not None:
        assert [e.what for e in copy.integrator.events] == [e.what for e in traj.integrator.events]


def test_simulators_keep_their_options():
    sim = diffmj.Simulator(
        ARM, "tsit5", nthread=3, rtol=1e-5, pid=(0.1, 0.3, 0.05), collisions="smooth"
    )
    copy = pickle.loads(pickle.dumps(sim))
    assert repr(copy) == repr(sim)
    assert copy.nthread == 3
    assert copy.collisions == "smooth"
    for name in ("rtol", "pid", "adjoint"):
        assert copy._model.options.get(name) == sim._model.options.get(name)
    tight = pickle.loads(pickle.dumps(diffmj.Simulator(CUBE).tightened()))
    np.testing.assert_array_equal(
        tight.rollout(nstep=50).qpos, diffmj.Simulator(CUBE).tightened().rollout(nstep=50).qpos
    )


def test_a_slower_path_is_not_told_again(recwarn):
    model = mujoco.MjSpec.from_string(CUBE)
    model.option.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
    with pytest.warns(diffmj.FallbackWarning):
        sim = diffmj.Simulator(model.compile())
    recwarn.clear()
    assert pickle.loads(pickle.dumps(sim)).gradient_path == sim.gradient_path
    assert not recwarn


def test_batches_and_failures():
    sim = diffmj.Simulator(PENDULUM)
    batch = sim.rollout(qpos=np.linspace(-1, 1, 4)[:, None], nstep=5)
    copy = pickle.loads(pickle.dumps(batch))
    assert copy.batch == 4
    np.testing.assert_array_equal(copy.qpos, batch.qpos)
    stiff = diffmj.Simulator(PENDULUM, "tsit5", max_steps=2, rtol=1e-12)
    with pytest.raises(diffmj.StepBudgetError) as caught:
        stiff.rollout(qvel=[5.0], nstep=50)
    failed = pickle.loads(pickle.dumps(caught.value.trajectory))
    assert failed.outcome == "budget exhausted"
    assert failed.message == caught.value.trajectory.message


def test_another_process(tmp_path):
    _, traj = drop(integrator="tsit5", interval=0.05)
    path = tmp_path / "trajectory.pickle"
    path.write_bytes(pickle.dumps(traj))
    code = (
        "import pickle, sys, numpy as np\n"
        "traj = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        "bar = np.random.default_rng(0).standard_normal(traj.qpos.shape)\n"
        "grad = traj.backward(qpos=bar, params=['geom_size'])\n"
        "open(sys.argv[1], 'wb').write(pickle.dumps(grad))\n"
    )
    package = Path(diffmj.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert_same(pickle.loads(path.read_bytes()), gradient(traj))


def test_what_does_not_fit_is_refused():
    sim, traj = drop()
    model, [record] = sim._model, traj._record.to_bytes(sim._model, [])

    def read(model, record, nstep):
        return diffmj._diffmj.TrajectoryBatch.from_bytes(model, [record], nstep, [])

    other = diffmj.Simulator(CUBE)._model
    with pytest.raises(diffmj.InputError, match="another model"):
        read(other, record, traj.nstep)
    with pytest.raises(diffmj.InputError, match="another integrator"):
        read(diffmj.Simulator(DROP, "RK4")._model, record, traj.nstep)
    with pytest.raises(diffmj.InputError, match="another model"):
        traj._record.to_bytes(other, [])
    for end in (len(record) - 1, len(record) // 2, 80):
        with pytest.raises(diffmj.InputError, match="not complete"):
            read(model, record[:end], traj.nstep)
    with pytest.raises(diffmj.InputError, match="behind the last"):
        read(model, record + b"x", traj.nstep)
    with pytest.raises(diffmj.InputError, match="not trajectories"):
        read(model, b"nothing", traj.nstep)
    old = record.replace(diffmj.__version__.encode(), b"0.0.9", 1)
    with pytest.raises(diffmj.InputError, match=r'written by "diffmj 0.0.9 .*roll out again'):
        read(model, old, traj.nstep)
    with pytest.raises(diffmj.InputError, match="7 bytes are not a model"):
        diffmj._diffmj.Model.from_bytes(b"nothing", sim._options.record())
