"""diffmj.jax: the same bits as rollout and backward, under every transformation of JAX."""

import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time

import diffmj
import diffmj.jax
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from conftest import (
    CUBE,
    DIVERGES,
    PENDULUM,
    SLIDER,
    ZOO,
    fallen,
    load,
    load_myo,
    resident,
    tighten,
)
from diffmj import _diffmj

jax.config.update("jax_enable_x64", True)
from jax.test_util import check_grads  # noqa: E402


@pytest.fixture(scope="module")
def humanoid() -> diffmj.Simulator:
    """On the floor, with what its keyframe leaves to differences at machine precision."""
    return diffmj.Simulator(load("humanoid", tight=True))


def unit_quaternion(qpos: jax.Array) -> jax.Array:
    """The gradient is that of the function which normalises; differences must do it, too."""
    q = qpos[3:7]
    return jnp.concatenate((qpos[:3], q / jnp.linalg.norm(q), qpos[7:]))


def test_check_grads_of_a_pendulum(pendulum):
    rollout = diffmj.jax.Rollout(pendulum, ("qpos", "qvel", "xpos"), params=("dof_damping",))

    def f(qpos, qvel, ctrl, damping):
        return rollout(qpos, qvel, ctrl=ctrl, params={"dof_damping": damping})

    args = (jnp.array([0.3]), jnp.array([-0.2]), 0.1 * jnp.ones((30, 1)), jnp.array([0.1]))
    check_grads(f, args, order=1, modes=["rev"], eps=1e-5)
    check_grads(jax.jit(f), args, order=1, modes=["rev"], eps=1e-5)


def test_check_grads_of_a_humanoid_on_the_floor(humanoid):
    rollout = diffmj.jax.Rollout(humanoid, ("qpos", "qvel", "subtree_com"))
    start = fallen(humanoid)
    assert humanoid.rollout(start, nstep=1).steps.ncon[0] > 3
    ctrl = 0.1 * np.random.default_rng(1).standard_normal((4, humanoid.nu))

    def f(qpos, qvel, ctrl):
        return rollout(unit_quaternion(qpos), qvel, ctrl=ctrl)

    args = (jnp.asarray(start), jnp.zeros(humanoid.nv), jnp.asarray(ctrl))
    check_grads(f, args, order=1, modes=["rev"], eps=1e-7, rtol=1e-4, atol=1e-4)


def test_check_grads_of_a_hand_with_muscles():
    model = tighten(load_myo("hand"))
    sim = diffmj.Simulator(model, fallback=False)
    rollout = diffmj.jax.Rollout(sim, ("qpos", "qvel", "act", "site_xpos"))
    rng = np.random.default_rng(0)
    # the model's own position is at kinks; a moving hand is not
    start = sim.rollout(ctrl=rng.uniform(0.2, 0.6, sim.nu), nstep=300)
    ctrl = rng.uniform(0.2, 0.6, (3, sim.nu))
    args = [jnp.asarray(x) for x in (start.qpos[-1], start.qvel[-1], start.act[-1], ctrl)]
    check_grads(rollout, args, order=1, modes=["rev"], eps=1e-7, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("humanoid", {}),
        ("humanoid", {"integrator": "RK4"}),
        ("humanoid", {"integrator": "implicitfast"}),
        ("humanoid", {"gradient_path": "oracle"}),
        ("hand", {}),
        ("cube", {"integrator": "tsit5", "rtol": 1e-4, "interval": 0.01}),
    ],
)
def test_gradients_have_the_bits_of_backward(model, options):
    path = CUBE if model == "cube" else str(ZOO / f"{model}.xml")
    sim = diffmj.Simulator(path, **options)
    start = vars(sim.default_state() if model == "cube" else sim.keyframe_state("test"))
    rng = np.random.default_rng(3)
    nstep = 8
    state = {name: start[name] for name in ("qpos", "qvel", "act")}
    ctrl = start["ctrl"] + 0.01 * rng.standard_normal((nstep, sim.nu))
    force = 0.01 * rng.standard_normal((nstep, sim.nv))
    traj = sim.rollout(**state, ctrl=ctrl, qfrc_applied=force)
    names = ("qpos", "qvel", "act", "xpos", "geom_xmat", "body_linvel")
    bars = {name: rng.standard_normal(getattr(traj, name).shape) for name in names}
    expected = traj.backward(**bars, params=["body_mass", "geom_friction"])

    mj = mujoco.MjModel.from_xml_string(CUBE) if model == "cube" else load(model)
    params = {"body_mass": mj.body_mass, "geom_friction": mj.geom_friction}
    rollout = diffmj.jax.Rollout(sim, names, params=tuple(params))
    f = jax.jit(lambda *args: rollout(*args))
    out, vjp = jax.vjp(f, *state.values(), ctrl, force, params)
    for name in names:
        np.testing.assert_array_equal(getattr(out, name), getattr(traj, name))
    arguments = (*state, "ctrl", "qfrc_applied", "params")
    found = dict(zip(arguments, vjp(type(out)(**bars)), strict=True))
    for name in (*state, "ctrl", "qfrc_applied"):
        np.testing.assert_array_equal(found[name], getattr(expected, name), err_msg=name)
    for name in params:
        np.testing.assert_array_equal(found["params"][name], expected.params[name], err_msg=name)


def test_sensors_and_body_forces_have_the_bits_of_backward():
    sim = diffmj.Simulator(SLIDER)
    rng = np.random.default_rng(0)
    force = rng.standard_normal((5, sim.nbody, 6))
    mocap = np.array([[0.2, 0.1, 0.0]])
    traj = sim.rollout(xfrc_applied=force, mocap_pos=mocap)
    bar = rng.standard_normal(traj.sensordata.shape)
    rollout = diffmj.jax.Rollout(sim, ("sensordata", "xpos"))
    out, vjp = jax.vjp(lambda x: rollout(xfrc_applied=x, mocap_pos=mocap), force)
    np.testing.assert_array_equal(out.sensordata, traj.sensordata)
    np.testing.assert_array_equal(out.xpos, traj.xpos)
    (found,) = vjp(out._replace(sensordata=bar, xpos=np.zeros_like(traj.xpos)))
    np.testing.assert_array_equal(found, traj.backward(sensordata=bar).xfrc_applied)
    with pytest.raises(diffmj.UnsupportedError, match="no gradient in mocap_pos"):
        jax.grad(lambda x: jnp.sum(rollout(mocap_pos=x, nstep=2).xpos))(mocap)


def test_jit_vmap_grad_of_humanoids_is_one_batch(humanoid):
    rollout = diffmj.jax.Rollout(humanoid, ("qpos",))
    rng = np.random.default_rng(0)
    B, nstep = 64, 5
    ctrl = 0.1 * rng.standard_normal((nstep, humanoid.nu))
    qvel = 0.1 * rng.standard_normal((B, humanoid.nv))
    weights = rng.standard_normal((nstep + 1, humanoid.nq))

    def loss(qvel, ctrl):
        return jnp.sum(weights * rollout(fallen(humanoid), qvel, ctrl=ctrl).qpos)

    found = jax.jit(jax.vmap(jax.grad(loss, (0, 1)), in_axes=(0, None)))(qvel, ctrl)
    traj = humanoid.rollout(fallen(humanoid), qvel, ctrl=ctrl)
    expected = traj.backward(qpos=np.broadcast_to(weights, traj.qpos.shape))
    np.testing.assert_array_equal(found[0], expected.qvel)
    np.testing.assert_array_equal(found[1], expected.ctrl)
    # one call of each, whatever the batch
    text = str(jax.make_jaxpr(jax.vmap(jax.grad(loss), in_axes=(0, None)))(qvel, ctrl))
    assert text.count("target_name=diffmj_rollout\n") == 1
    assert text.count("target_name=diffmj_rollout_pullback\n") == 1


def test_nested_batches_and_batches_of_parameters(pendulum):
    rollout = diffmj.jax.Rollout(pendulum, ("qpos",), params=("dof_damping", "opt.gravity"))

    def f(qpos, damping, ctrl):
        gravity = jnp.array([0.0, 0.0, -9.0])
        params = {"dof_damping": damping, "opt.gravity": gravity}
        return rollout(qpos, ctrl=ctrl, params=params, nstep=6).qpos[-1, 0]

    qpos, damping = jnp.linspace(0.1, 1, 3)[:, None], jnp.linspace(0, 0.5, 4)[:, None]
    ctrl = 0.1 * jnp.arange(5.0)[:, None]
    grid = jax.vmap(jax.vmap(jax.vmap(f, (None, None, 0)), (None, 0, None)), (0, None, None))
    slopes = jax.vmap(
        jax.vmap(jax.vmap(jax.grad(f, (1, 2)), (None, None, 0)), (None, 0, None)), (0, None, None)
    )
    values, (by_damping, by_ctrl) = grid(qpos, damping, ctrl), slopes(qpos, damping, ctrl)
    for i, j, k in [(0, 0, 0), (2, 1, 3), (1, 3, 4)]:
        sim = pendulum.with_parameters({"dof_damping": damping[j], "opt.gravity": [0, 0, -9]})
        traj = sim.rollout(qpos[i], ctrl=ctrl[k], nstep=6)
        assert values[i, j, k] == traj.qpos[-1, 0]
        grad = traj.backward(final={"qpos": [1.0]}, params=["dof_damping"])
        np.testing.assert_array_equal(by_damping[i, j, k], grad.params["dof_damping"])
        np.testing.assert_allclose(by_ctrl[i, j, k], grad.ctrl.sum(0), rtol=1e-13)


def test_jacrev_and_checkpoint(pendulum):
    rollout = diffmj.jax.Rollout(pendulum, ("qpos", "qvel"))

    def final(qvel):
        out = rollout(jnp.array([0.4]), qvel, nstep=10)
        return jnp.concatenate((out.qpos[-1], out.qvel[-1]))

    qvel = jnp.array([0.1])
    jacobian = jax.jacrev(final)(qvel)
    traj = pendulum.rollout([0.4], qvel, nstep=10)
    expected = [traj.backward(final={name: [1.0]}).qvel for name in ("qpos", "qvel")]
    np.testing.assert_array_equal(jacobian, expected)
    np.testing.assert_array_equal(jax.jacrev(jax.checkpoint(final))(qvel), expected)


def test_steps_in_a_scan_have_the_bits_of_a_rollout():
    sim = diffmj.Simulator(load("humanoid"))  # not tight: warm starts count
    step = diffmj.jax.Step(sim, ("xpos",))
    rollout = diffmj.jax.Rollout(sim, ("qpos", "qvel", "xpos"))
    ctrl = 0.1 * np.random.default_rng(5).standard_normal((6, sim.nu))
    weights = np.random.default_rng(6).standard_normal(sim.nq)

    def by_steps(ctrl, body=lambda f: f):
        def one(state, u):
            state, out = step(state, u)
            return state, out.xpos

        state, xpos = jax.lax.scan(body(one), step.state(fallen(sim)), ctrl)
        return weights @ state.qpos, (state, xpos)

    def by_rollout(ctrl):
        out = rollout(fallen(sim), ctrl=ctrl)
        return weights @ out.qpos[-1], out

    (value, (state, xpos)), slope = jax.jit(jax.value_and_grad(by_steps, has_aux=True))(ctrl)
    (expected, out), expected_slope = jax.value_and_grad(by_rollout, has_aux=True)(ctrl)
    np.testing.assert_array_equal(state.qvel, out.qvel[-1])
    np.testing.assert_array_equal(xpos, out.xpos[1:])
    assert value == expected
    # the cotangents of quaternions go by way of four numbers between steps, which rounds
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-9, atol=1e-13)
    again = jax.grad(lambda x: by_steps(x, jax.checkpoint)[0])(ctrl)
    np.testing.assert_allclose(again, slope, rtol=1e-12, atol=1e-15)


def test_single_precision_rounds_arguments_and_results_only(pendulum):
    rollout = diffmj.jax.Rollout(pendulum, ("qpos",))
    qpos, ctrl = np.float32([0.3]), np.float32(0.1) * np.ones((40, 1), np.float32)
    out, vjp = jax.vjp(lambda q, u: rollout(q, ctrl=u).qpos, qpos, ctrl)
    traj = pendulum.rollout(qpos, ctrl=ctrl)
    assert out.dtype == jnp.float32
    np.testing.assert_array_equal(out, traj.qpos.astype(np.float32))
    grad = traj.backward(qpos=np.ones_like(traj.qpos))
    for found, expected in zip(vjp(jnp.ones_like(out)), (grad.qpos, grad.ctrl), strict=True):
        np.testing.assert_array_equal(found, expected.astype(np.float32))
    assert rollout(qpos, np.zeros(1), nstep=2).qpos.dtype == jnp.float64


def test_without_double_precision():
    code = f"""
import diffmj, diffmj.jax, jax, numpy as np
sim = diffmj.Simulator('''{PENDULUM}''')
f = diffmj.jax.Rollout(sim)
slope = jax.grad(lambda u: f(ctrl=u).qpos[-1, 0])(np.ones((20, 1)))
traj = sim.rollout(ctrl=np.ones((20, 1)))
assert slope.dtype == np.float32
np.testing.assert_array_equal(slope, traj.backward(final={{"qpos": [1.0]}}).ctrl.astype(np.float32))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_rollout_that_fails_raises():
    sim = diffmj.Simulator(SLIDER)
    rollout = diffmj.jax.Rollout(sim)
    f = jax.jit(lambda u: rollout(ctrl=u, nstep=50).qpos[-1, 0])
    with pytest.raises(diffmj.DivergedError) as expected:
        sim.rollout(ctrl=[DIVERGES], nstep=50)
    with pytest.raises(diffmj.DivergedError) as found:
        rollout(ctrl=[DIVERGES], nstep=50)
    assert str(found.value) == str(expected.value)
    with pytest.raises(jax.errors.JaxRuntimeError, match="rollout: the rollout diverged"):
        jax.block_until_ready(f(jnp.array([DIVERGES])))
    with pytest.raises(diffmj.DivergedError, match="joint 'x'"), diffmj.jax.errors():
        jax.block_until_ready(jax.grad(f)(jnp.array([DIVERGES])).sum())
    with pytest.raises(diffmj.DivergedError, match="rollout 1 of the batch"), diffmj.jax.errors():
        jax.block_until_ready(jax.vmap(f)(jnp.array([[0.0], [DIVERGES]])))
    # and the next call works
    assert f(jnp.zeros(1)) == 0


def test_rollouts_that_fail_are_nan_if_asked_for():
    sim = diffmj.Simulator(SLIDER)
    rollout = diffmj.jax.Rollout(sim, ("qpos", "site_xpos"), on_failure="nan")
    forces = jnp.array([[0.1], [DIVERGES], [0.3], [jnp.nan]])

    def masked(u):
        out = rollout(ctrl=u, nstep=50)
        return jnp.where(out.ok, out.qpos[-1, 0], 0.0)

    out = jax.jit(jax.vmap(lambda u: rollout(ctrl=u, nstep=50)))(forces)
    assert out.ok.tolist() == [True, False, True, False]
    assert jnp.isnan(out.qpos[1]).all() and jnp.isnan(out.site_xpos[3]).all()
    good = sim.rollout(ctrl=np.asarray(forces)[[0, 2]][:, None].repeat(50, 1))
    np.testing.assert_array_equal(out.qpos[np.array([0, 2])], good.qpos)
    slope = jax.vmap(jax.grad(masked))(forces)
    assert slope[1] == 0 and slope[3] == 0 and slope[0] > 0
    plain = jax.vmap(jax.grad(lambda u: rollout(ctrl=u, nstep=50).qpos[-1, 0]))(forces)
    assert jnp.isnan(plain[:, 0]).tolist() == [False, True, False, True]
    assert plain[0] == slope[0]


def test_a_loop_of_steps_goes_on_after_a_failure():
    step = diffmj.jax.Step(diffmj.Simulator(SLIDER), on_failure="nan")

    def run(u):
        def one(state, _):
            state, out = step(state, u)
            return state, out.ok

        return jax.lax.scan(one, step.state(), length=30)

    state, ok = jax.vmap(run)(jnp.array([[0.5], [DIVERGES]]))
    assert ok[0].all() and not ok[1, -1] and jnp.isnan(state.qpos[1]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda r: r(qpos=np.zeros(2), nstep=3),
            r"Rollout: qpos has shape \(2,\), expected",
        ),
        (lambda r: r(ctrl=np.zeros((3, 2))), r"ctrl has shape \(3, 2\).*or \(nstep, 1"),
        (lambda r: r(ctrl=np.zeros((4, 3, 1))), "for a batch use jax.vmap"),
        (lambda r: r(ctrl=np.zeros((3, 1)), nstep=4), "ctrl has 3 rows, but nstep has 4"),
        (lambda r: r(qpos="a", nstep=3), "qpos is 'a', expected an array of numbers"),
        (lambda r: r(), "give nstep"),
        (lambda r: r(nstep=-1), "nstep"),
        (lambda r: r(nstep=3, params={"body_mass": 1}), r"params has \['body_mass'\], expected"),
        (lambda r: r(qpos=[np.nan], nstep=3), r"rollout: qpos\[0\] is nan; it must be finite"),
    ],
)
def test_wrong_arguments(pendulum, call, message):
    with pytest.raises(diffmj.InputError, match=message):
        call(diffmj.jax.Rollout(pendulum))


def test_wrong_options(pendulum):
    for options, message in [
        ({"outputs": ("qpso",)}, "outputs has 'qpso', expected names among qpos, qvel"),
        ({"outputs": "qpos"}, "expected a tuple of names"),
        ({"params": ("body_mas",)}, "body_mas"),
        ({"on_failure": "ignore"}, "on_failure is 'ignore'"),
    ]:
        with pytest.raises(diffmj.InputError, match=message):
            diffmj.jax.Rollout(pendulum, **options)
    batch = pendulum.with_parameters({"dof_damping": [[0.1], [0.2]]})
    with pytest.raises(diffmj.InputError, match="Rollout: the simulator has parameters"):
        diffmj.jax.Rollout(batch)
    with pytest.raises(diffmj.InputError, match="state is a tuple"):
        diffmj.jax.Step(pendulum)(())


def test_handles_end_with_their_rollout(pendulum):
    jax.clear_caches()  # of other tests
    gc.collect()
    before = _diffmj.ArrayRollout.count()
    rollout = diffmj.jax.Rollout(pendulum)
    assert _diffmj.ArrayRollout.count() == before + 1

    def compile_alone(f):
        return jax.jit(lambda u: f(ctrl=u).qpos).lower(jnp.ones((3, 1))).compile()

    compiled = compile_alone(rollout)
    assert compiled(jnp.ones((3, 1))).shape == (4, 1)
    del rollout
    jax.clear_caches()
    gc.collect()
    assert _diffmj.ArrayRollout.count() == before
    with pytest.raises(diffmj.InputError, match="no longer exists; keep it alive"):
        with diffmj.jax.errors():
            jax.block_until_ready(compiled(jnp.ones((3, 1))))


def test_copies_by_pickle(pendulum):
    rollout = diffmj.jax.Rollout(pendulum, ("qpos",), on_failure="nan")
    out = rollout(nstep=5)
    again = pickle.loads(pickle.dumps(rollout))(nstep=5)
    np.testing.assert_array_equal(again.qpos, out.qpos)
    assert type(again) is type(out) is type(pickle.loads(pickle.dumps(out)))


def test_memory_stays_flat(pendulum):
    rollout = diffmj.jax.Rollout(pendulum)
    slope = jax.jit(jax.vmap(jax.grad(lambda u: jnp.sum(rollout(ctrl=u).qpos))))
    forward = jax.jit(lambda u: rollout(ctrl=u).qpos)
    u = jnp.ones((4, 50, 1))  # 60 kB of tape in each call

    def calls(n: int) -> None:
        for _ in range(n):
            slope(u).block_until_ready()
            # a backward pass that never comes
            jax.vjp(forward, u[0])

    calls(200)
    before = resident()
    calls(3400)  # of three calls each
    assert resident() - before < 20


def test_threads_of_python(humanoid):
    rollout = diffmj.jax.Rollout(humanoid, ("qpos",))
    slope = jax.jit(jax.grad(lambda v: jnp.sum(rollout(fallen(humanoid), v, nstep=5).qpos)))
    starts = 0.1 * np.random.default_rng(0).standard_normal((2, humanoid.nv))
    expected = [np.asarray(slope(v)) for v in starts]
    wrong = []

    def work(i: int) -> None:
        for _ in range(20):
            if not np.array_equal(slope(starts[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


INTERRUPT = """
import sys
import diffmj, diffmj.jax, jax, jax.numpy as jnp, numpy as np
from conftest import PENDULUM

sim = diffmj.Simulator(PENDULUM, nthread=2)
rollout = diffmj.jax.Rollout(sim, ("qpos",))
long = jax.jit(lambda q: rollout(q, nstep=3_000_000).qpos[-1, 0])
batch = jax.jit(jax.vmap(lambda q: rollout(q, nstep=1_000_000).qpos[-1, 0]))
slope = jax.jit(jax.grad(lambda u: jnp.sum(rollout(ctrl=u).qpos)))
u = jnp.zeros((200_000, 1))
jax.block_until_ready(slope(u[:2]))
work = {
    "plain": lambda: rollout(nstep=3_000_000),
    "jit": lambda: jax.block_until_ready(long(jnp.zeros(1))),
    "batch": lambda: np.asarray(batch(jnp.zeros((4, 1)))),
    "gradient": lambda: slope(u).block_until_ready(),
}[sys.argv[1]]
print("ready", flush=True)
try:
    with diffmj.jax.errors():
        while True:
            work()
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    assert rollout(nstep=10).qpos.shape == (11, 1)  # everything still works
"""


@pytest.mark.parametrize("what", ["plain", "jit", "batch", "gradient"])
def test_interrupt(what):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPT, what],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=os.path.dirname(__file__),
    )
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(0.5)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "KeyboardInterrupt" in out
    assert time.monotonic() - sent < 5


def test_a_signal_handler_that_raises_nothing_stops_nothing():
    code = """
import os, signal, threading
import diffmj, diffmj.jax, jax
from conftest import PENDULUM
count = 0
def handle(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, handle)
rollout = diffmj.jax.Rollout(diffmj.Simulator(PENDULUM), ("qpos",))
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
assert rollout(nstep=1_000_000).qpos.shape == (1_000_001, 1)
assert count == 1
assert signal.getsignal(signal.SIGINT) is handle
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=os.path.dirname(__file__))


def test_without_jax_the_error_says_what_to_install():
    code = "import sys; sys.modules['jax'] = None\nimport diffmj\nimport diffmj.jax"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode != 0
    assert "diffmj.jax needs JAX: pip install 'diffmj[jax]'" in run.stderr


def test_examples_of_the_documentation_run():
    text = (ZOO.parents[2] / "docs" / "jax.md").read_text()
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(code, names)
    assert names["slopes"].shape == (64, 6) and jnp.isfinite(names["slopes"]).all()
    assert names["xpos"].shape == (50, 2, 3)
