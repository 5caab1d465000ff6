"""diffmj.torch: the same bits as rollout and backward, under every transformation of PyTorch.

`make test-torch` runs it, in an environment with PyTorch; `make test` has none.
"""

import copy
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

if "DIFFMJ_REQUIRE_TORCH" not in os.environ:
    pytest.importorskip("torch", reason="no PyTorch here: make test-torch runs these tests")

import diffmj.torch
import torch
from diffmj import _torch_operators
from torch.autograd import gradcheck
from torch.func import grad, jacfwd, jacrev, vmap

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning:torch.*")


@pytest.fixture(scope="module")
def humanoid() -> diffmj.Simulator:
    """On the floor, with what its keyframe leaves to differences at machine precision."""
    return diffmj.Simulator(load("humanoid", tight=True))


@pytest.fixture(autouse=True)
def fresh_compiler():
    yield
    torch._dynamo.reset()


def variable(x) -> torch.Tensor:
    return torch.tensor(np.asarray(x, dtype=np.float64), requires_grad=True)


def tensor(x) -> torch.Tensor:
    return torch.tensor(np.asarray(x, dtype=np.float64))


def equal(found: torch.Tensor, expected: np.ndarray, name: str = "") -> None:
    np.testing.assert_array_equal(found.detach().numpy(), expected, err_msg=name)


def compiled(f):
    """Without a graph break, or it raises."""
    return torch.compile(f, fullgraph=True)


def unit_quaternion(qpos: torch.Tensor) -> torch.Tensor:
    """The gradient is that of the function which normalises; differences must do it, too."""
    q = qpos[3:7]
    return torch.cat((qpos[:3], q / q.norm(), qpos[7:]))


def test_gradcheck_of_a_pendulum(pendulum):
    rollout = diffmj.torch.Rollout(pendulum, ("qpos", "qvel", "xpos"), params=("dof_damping",))

    def f(qpos, qvel, ctrl, damping):
        return tuple(rollout(qpos, qvel, ctrl=ctrl, params={"dof_damping": damping}))

    args = variable([0.3]), variable([-0.2]), variable(np.full((30, 1), 0.1)), variable([0.1])
    assert gradcheck(f, args)


def test_gradcheck_of_a_humanoid_on_the_floor(humanoid):
    rollout = diffmj.torch.Rollout(humanoid, ("qpos", "qvel"))
    start = fallen(humanoid)
    assert humanoid.rollout(start, nstep=1).steps.ncon[0] > 3
    ctrl = 0.1 * np.random.default_rng(1).standard_normal((3, humanoid.nu))

    def f(qpos, qvel, ctrl):
        return tuple(rollout(unit_quaternion(qpos), qvel, ctrl=ctrl))

    args = variable(start), variable(np.zeros(humanoid.nv)), variable(ctrl)
    assert gradcheck(f, args, eps=1e-7, rtol=1e-4, atol=1e-4)


def test_gradcheck_of_a_hand_with_muscles():
    sim = diffmj.Simulator(tighten(load_myo("hand")), fallback=False)
    rollout = diffmj.torch.Rollout(sim, ("qpos", "qvel", "act"))
    rng = np.random.default_rng(0)
    # the model's own position is at kinks; a moving hand is not
    start = sim.rollout(ctrl=rng.uniform(0.2, 0.6, sim.nu), nstep=300)
    ctrl = rng.uniform(0.2, 0.6, (2, sim.nu))
    args = [variable(x) for x in (start.qpos[-1], start.qvel[-1], start.act[-1], ctrl)]
    # the largest entries of this Jacobian are above 100
    assert gradcheck(lambda *x: tuple(rollout(*x)), args, eps=1e-7, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("way", ["eager", "compiled"])
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
def test_gradients_have_the_bits_of_backward(model, options, way):
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
    params = {"body_mass": variable(mj.body_mass), "geom_friction": variable(mj.geom_friction)}
    rollout = diffmj.torch.Rollout(sim, names, params=tuple(params))
    args = {name: variable(x) for name, x in (state | {"ctrl": ctrl}).items()}
    args["qfrc_applied"] = variable(force)
    f = compiled(lambda x: rollout(**x)) if way == "compiled" else lambda x: rollout(**x)
    out = f({**args, "params": params})
    for name in names:
        equal(getattr(out, name), getattr(traj, name), name)
    torch.autograd.backward(list(out), [tensor(bars[name]) for name in names])
    for name, x in args.items():
        equal(x.grad, getattr(expected, name), name)
    for name, x in params.items():
        equal(x.grad, expected.params[name], name)


def test_sensors_and_body_forces_have_the_bits_of_backward():
    sim = diffmj.Simulator(SLIDER)
    rng = np.random.default_rng(0)
    force = rng.standard_normal((5, sim.nbody, 6))
    mocap = np.array([[0.2, 0.1, 0.0]])
    traj = sim.rollout(xfrc_applied=force, mocap_pos=mocap)
    bar = rng.standard_normal(traj.sensordata.shape)
    rollout = diffmj.torch.Rollout(sim, ("sensordata", "xpos"))
    x = variable(force)
    out = rollout(xfrc_applied=x, mocap_pos=mocap)
    equal(out.sensordata, traj.sensordata)
    equal(out.xpos, traj.xpos)
    (found,) = torch.autograd.grad(out.sensordata, x, tensor(bar))
    equal(found, traj.backward(sensordata=bar).xfrc_applied)


@pytest.mark.parametrize("name", ["mocap_pos", "mocap_quat"])
def test_gradients_in_mocap_bodies_are_refused(name):
    sim = diffmj.Simulator(SLIDER)
    rollout = diffmj.torch.Rollout(sim, ("xpos",))
    value = {"mocap_pos": [[0.2, 0.1, 0.0]], "mocap_quat": [[1.0, 0.0, 0.0, 0.0]]}[name]
    with pytest.raises(diffmj.UnsupportedError, match=f"no gradient in {name}; pass {name}.detach"):
        rollout(nstep=2, **{name: variable(value)})
    with pytest.raises(diffmj.UnsupportedError, match=f"no gradient in {name}"):
        grad(lambda x: rollout(nstep=2, **{name: x}).xpos.sum())(tensor(value))
    assert rollout(nstep=2, **{name: variable(value).detach()}).xpos.shape == (3, 3, 3)


class Calls:
    """Counts calls of the extension."""

    def __init__(self, monkeypatch):
        self.names, self.arrays, self.kept = [], [], []
        for name in ("rollout", "pullback"):
            monkeypatch.setattr(_torch_operators, f"{name}_call", self._spy(name))

    def _spy(self, name):
        inner = getattr(_torch_operators, f"{name}_call")

        def call(array, nstep, inputs, outputs, *kept):
            self.names.append(name)
            self.arrays.append((inputs, outputs))
            self.kept.append(kept)
            return inner(array, nstep, inputs, outputs, *kept)

        return call


def test_vmap_of_humanoids_is_one_batch(humanoid, monkeypatch):
    rollout = diffmj.torch.Rollout(humanoid, ("qpos",))
    rng = np.random.default_rng(0)
    B, nstep = 64, 5
    ctrl = 0.1 * rng.standard_normal((nstep, humanoid.nu))
    qvel = 0.1 * rng.standard_normal((B, humanoid.nv))
    weights = rng.standard_normal((nstep + 1, humanoid.nq))
    start = fallen(humanoid)
    traj = humanoid.rollout(start, qvel, ctrl=ctrl)
    expected = traj.backward(qpos=np.broadcast_to(weights, traj.qpos.shape))

    def loss(qvel, ctrl):
        return (tensor(weights) * rollout(tensor(start), qvel, ctrl=ctrl).qpos).sum()

    calls = Calls(monkeypatch)
    found = vmap(grad(loss, (0, 1)), in_dims=(0, None))(tensor(qvel), tensor(ctrl))
    assert calls.names == ["rollout", "pullback"]
    equal(found[0], expected.qvel)
    equal(found[1], expected.ctrl)

    # the batch inside of the gradient: what it shares has the sum of the gradients
    for way in (lambda f: f, compiled):
        calls.names.clear()
        v, u = variable(qvel), variable(ctrl)
        way(vmap(loss, in_dims=(0, None)))(v, u).sum().backward()
        assert calls.names == ["rollout", "pullback"]
        equal(v.grad, expected.qvel)
        np.testing.assert_allclose(u.grad, expected.ctrl.sum(0), rtol=1e-12, atol=1e-14)
    by_func = grad(lambda u: vmap(loss, in_dims=(0, None))(tensor(qvel), u).sum())(tensor(ctrl))
    np.testing.assert_allclose(by_func, u.grad, rtol=1e-12, atol=1e-14)


def test_nested_batches_and_batches_of_parameters(pendulum):
    rollout = diffmj.torch.Rollout(pendulum, ("qpos",), params=("dof_damping", "opt.gravity"))

    def f(qpos, damping, ctrl):
        params = {"dof_damping": damping, "opt.gravity": tensor([0.0, 0.0, -9.0])}
        return rollout(qpos, ctrl=ctrl, params=params, nstep=6).qpos[-1, 0]

    qpos, damping = np.linspace(0.1, 1, 3)[:, None], np.linspace(0, 0.5, 4)[:, None]
    ctrl = 0.1 * np.arange(5.0)[:, None]
    axes = ((None, None, 0), (None, 0, None), (0, None, None))

    def over_the_grid(f):
        for dims in axes:
            f = vmap(f, dims)
        return f(tensor(qpos), tensor(damping), tensor(ctrl))

    values, (by_damping, by_ctrl) = over_the_grid(f), over_the_grid(grad(f, (1, 2)))
    assert values.shape == (3, 4, 5)
    for i, j, k in [(0, 0, 0), (2, 1, 3), (1, 3, 4)]:
        sim = pendulum.with_parameters({"dof_damping": damping[j], "opt.gravity": [0, 0, -9]})
        traj = sim.rollout(qpos[i], ctrl=ctrl[k], nstep=6)
        assert values[i, j, k] == traj.qpos[-1, 0]
        expected = traj.backward(final={"qpos": [1.0]}, params=["dof_damping"])
        equal(by_damping[i, j, k], expected.params["dof_damping"])
        np.testing.assert_allclose(by_ctrl[i, j, k], expected.ctrl.sum(0), rtol=1e-13)


def test_batches_along_other_dimensions(pendulum):
    rollout = diffmj.torch.Rollout(pendulum, ("qpos",))
    ctrl = np.random.default_rng(0).standard_normal((6, 4, 1))  # the batch in the middle
    out = vmap(lambda u: rollout(ctrl=u).qpos, in_dims=1, out_dims=1)(tensor(ctrl))
    equal(out, pendulum.rollout(ctrl=ctrl.swapaxes(0, 1)).qpos.swapaxes(0, 1))


def test_jacrev_and_checkpoint(pendulum):
    rollout = diffmj.torch.Rollout(pendulum, ("qpos", "qvel"))

    def final(qvel):
        out = rollout(tensor([0.4]), qvel, nstep=10)
        return torch.cat((out.qpos[-1], out.qvel[-1]))

    traj = pendulum.rollout([0.4], [0.1], nstep=10)
    expected = [traj.backward(final={name: [1.0]}).qvel for name in ("qpos", "qvel")]
    equal(jacrev(final)(tensor([0.1])), expected)
    qvel = variable([0.1])
    out = torch.utils.checkpoint.checkpoint(final, qvel, use_reentrant=False)
    rows = [torch.autograd.grad(x, qvel, retain_graph=True)[0].numpy() for x in out]
    np.testing.assert_array_equal(rows, expected)
    equal(torch.autograd.functional.jacobian(final, tensor([0.1])), expected)


def test_a_rollout_is_kept_for_its_backward_pass(humanoid):
    rollout = diffmj.torch.Rollout(humanoid, ("qpos",))
    start, nstep = tensor(fallen(humanoid)), 5
    weights = np.random.default_rng(0).standard_normal((2, nstep + 1, humanoid.nq))
    traj = humanoid.rollout(fallen(humanoid), nstep=nstep)
    expected = [traj.backward(qpos=w).qvel for w in weights]

    def call():
        qvel = variable(np.zeros(humanoid.nv))
        return qvel, rollout(start, qvel, nstep=nstep).qpos

    def tape(x):
        return x.grad_fn.saved_tensors[-1]

    qvel, qpos = call()
    assert tape(qpos).numel() == 0
    for _ in range(2):  # what is kept stays with the graph
        equal(
            torch.autograd.grad(qpos, qvel, tensor(weights[0]), retain_graph=True)[0], expected[0]
        )
    # a gradient with a graph of its own is the operator's, which runs the rollout again
    (slope,) = torch.autograd.grad(qpos, qvel, tensor(weights[1]), create_graph=True)
    equal(slope, expected[1])
    # hooks may move what is saved to anywhere, and bring back other tensors
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: x.detach().numpy().copy(), torch.from_numpy
    ):
        qvel, qpos = call()
    assert tape(qpos).numel() > 0
    equal(torch.autograd.grad(qpos, qvel, tensor(weights[1]))[0], expected[1])


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_steps_in_a_loop_have_the_bits_of_a_rollout(way):
    sim = diffmj.Simulator(load("humanoid"))  # not tight: warm starts count
    step = diffmj.torch.Step(sim, ("xpos",))
    rollout = diffmj.torch.Rollout(sim, ("qpos", "qvel", "xpos"))
    rng = np.random.default_rng(5)
    ctrl, weights = 0.1 * rng.standard_normal((6, sim.nu)), tensor(rng.standard_normal(sim.nq))

    def by_steps(start, ctrl):
        state, xpos = start, []
        for u in ctrl:
            state, out = step(state, u)
            xpos.append(out.xpos)
        return state, torch.stack(xpos)

    u = variable(ctrl)
    start = step.state(tensor(fallen(sim)))
    state, xpos = (compiled(by_steps) if way == "compiled" else by_steps)(start, u)
    assert not state.qacc_warmstart.requires_grad
    (weights @ state.qpos).backward()
    again = variable(ctrl)
    out = rollout(tensor(fallen(sim)), ctrl=again)
    (weights @ out.qpos[-1]).backward()
    equal(state.qvel, out.qvel[-1].detach())
    equal(xpos, out.xpos[1:].detach())
    # the cotangents of quaternions go by way of four numbers between steps, which rounds
    np.testing.assert_allclose(u.grad, again.grad, rtol=1e-9, atol=1e-13)


def test_single_precision_rounds_arguments_and_results_only(pendulum):
    rollout = diffmj.torch.Rollout(pendulum, ("qpos",))
    qpos, ctrl = np.float32([0.3]), np.float32(0.1) * np.ones((40, 1), np.float32)
    q, u = torch.tensor(qpos, requires_grad=True), torch.tensor(ctrl, requires_grad=True)
    out = rollout(q, ctrl=u).qpos
    traj = pendulum.rollout(qpos, ctrl=ctrl)
    assert out.dtype == torch.float32
    equal(out, traj.qpos.astype(np.float32))
    out.sum().backward()
    expected = traj.backward(qpos=np.ones_like(traj.qpos))
    for found, name in ((q.grad, "qpos"), (u.grad, "ctrl")):
        assert found.dtype == torch.float32
        equal(found, getattr(expected, name).astype(np.float32))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"qpos": np.float32([0.1]), "qvel": np.zeros(1)}, torch.float64),
        ({"qpos": torch.zeros(1, dtype=torch.float16)}, torch.float32),
        ({"qpos": torch.zeros(1, dtype=torch.bfloat16)}, torch.float32),
        ({"qpos": torch.zeros(1, dtype=torch.int64)}, torch.float32),
        ({"qpos": torch.zeros(1, dtype=torch.int64), "qvel": np.zeros(1)}, torch.float64),
        ({"qpos": [1]}, torch.float32),
        ({}, torch.float32),
    ],
)
def test_types_of_results(pendulum, given, expected):
    rollout = diffmj.torch.Rollout(pendulum)
    assert rollout(nstep=2, **given).qpos.dtype == expected
    torch.set_default_dtype(torch.float64)
    try:
        assert rollout(nstep=2).qpos.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_contiguous_tensors_of_doubles_are_not_copied(pendulum, monkeypatch):
    calls = Calls(monkeypatch)
    rollout = diffmj.torch.Rollout(pendulum)
    ctrl = variable(np.ones((7, 1)))
    out = rollout(ctrl=ctrl)
    bar = torch.ones_like(out.qpos)
    (slope,) = torch.autograd.grad(out.qpos, ctrl, bar)
    at = [
        [x.ctypes.data for x in arrays if x is not None]
        for call in calls.arrays
        for arrays in call
        if len(arrays)
    ]
    inputs, outputs, cotangents, gradients = at
    assert ctrl.data_ptr() in inputs and ctrl.data_ptr() in cotangents
    assert out.qpos.data_ptr() in outputs and out.qvel.data_ptr() in outputs
    assert bar.data_ptr() in cotangents and slope.data_ptr() in gradients


def test_tensors_that_are_not_contiguous(pendulum):
    rollout = diffmj.torch.Rollout(pendulum)
    ctrl = np.random.default_rng(0).standard_normal((6, 1))
    expected = pendulum.rollout(ctrl=ctrl)
    slope = expected.backward(qpos=np.ones_like(expected.qpos)).ctrl
    wide = tensor(np.repeat(ctrl, 3, axis=1))
    for u in (wide[:, 1:2], wide.T[:1].T, tensor(np.repeat(ctrl, 2, axis=0))[::2]):
        u = u.detach().requires_grad_()
        out = rollout(ctrl=u)
        equal(out.qpos, expected.qpos)
        out.qpos.sum().backward()  # whose cotangent has stride 0
        equal(u.grad, slope)
    shared = tensor([0.3]).expand(6, 1)
    equal(rollout(ctrl=shared).qpos, pendulum.rollout(ctrl=np.full((6, 1), 0.3)).qpos)
    batch = tensor([0.3]).expand(4, 6, 1)
    equal(vmap(lambda u: rollout(ctrl=u).qpos)(batch)[3], rollout(ctrl=shared).qpos.numpy())


def test_nothing_to_do(pendulum):
    rollout = diffmj.torch.Rollout(pendulum)
    qpos = variable([0.3])
    out = rollout(qpos, nstep=0)
    assert out.qpos.shape == (1, 1)
    out.qpos.sum().backward()
    equal(qpos.grad, [1.0])
    assert rollout(ctrl=torch.zeros(0, 1)).qvel.shape == (1, 1)
    assert vmap(lambda q: rollout(q, nstep=3).qpos)(torch.zeros(0, 1)).shape == (0, 4, 1)
    # a gradient that is not asked for
    u = variable(np.zeros((3, 1)))
    rollout(qpos, ctrl=u).qvel.sum().backward(inputs=[u])
    assert u.grad.shape == (3, 1)


def test_without_gradients_there_is_no_tape(pendulum, monkeypatch):
    calls = Calls(monkeypatch)
    rollout = diffmj.torch.Rollout(pendulum)
    ctrl = variable(np.ones((5, 1)))
    expected = rollout(ctrl=ctrl).qpos.detach().numpy()
    assert calls.kept[-1] == (True,)  # the rollout itself
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            out = rollout(ctrl=ctrl).qpos
            assert not out.requires_grad
            equal(out, expected)
            assert calls.arrays[-1][1][-1].size == 0
            assert calls.kept[-1] == (False,)
    with torch.inference_mode():
        inside = torch.ones((5, 1), dtype=torch.float64)
        equal(vmap(lambda u: rollout(ctrl=u).qpos)(inside[None])[0], expected)


def test_a_rollout_that_fails_raises():
    sim = diffmj.Simulator(SLIDER)
    rollout = diffmj.torch.Rollout(sim)

    def f(u):
        return rollout(ctrl=u, nstep=50).qpos[-1, 0]

    with pytest.raises(diffmj.DivergedError) as expected:
        sim.rollout(ctrl=[DIVERGES], nstep=50)
    for way in (f, grad(f), compiled(f)):
        with pytest.raises(diffmj.DivergedError) as found:
            way(tensor([DIVERGES]))
        assert str(found.value) == str(expected.value)
    with pytest.raises(diffmj.DivergedError, match="rollout 1 of the batch"):
        vmap(f)(tensor([[0.0], [DIVERGES]]))
    # and the next call works
    assert f(tensor([0.0])) == 0


def test_rollouts_that_fail_are_nan_if_asked_for():
    sim = diffmj.Simulator(SLIDER)
    rollout = diffmj.torch.Rollout(sim, ("qpos", "site_xpos"), on_failure="nan")
    forces = tensor([[0.1], [DIVERGES], [0.3], [np.nan]])

    def masked(u):
        out = rollout(ctrl=u, nstep=50)
        return torch.where(out.ok, out.qpos[-1, 0], 0.0)

    for way in (lambda f: f, compiled):
        out = way(vmap(lambda u: rollout(ctrl=u, nstep=50)))(forces)
        assert out.ok.tolist() == [True, False, True, False]
        assert out.qpos[1].isnan().all() and out.site_xpos[3].isnan().all()
        good = sim.rollout(ctrl=forces[[0, 2]].numpy()[:, None].repeat(50, 1))
        equal(out.qpos[[0, 2]], good.qpos)
    slope = vmap(grad(masked))(forces)
    assert slope[1] == 0 and slope[3] == 0 and slope[0] > 0
    plain = vmap(grad(lambda u: rollout(ctrl=u, nstep=50).qpos[-1, 0]))(forces)
    assert plain[:, 0].isnan().tolist() == [False, True, False, True]
    assert plain[0] == slope[0]


def test_a_loop_of_steps_goes_on_after_a_failure():
    step = diffmj.torch.Step(diffmj.Simulator(SLIDER), on_failure="nan")

    def run(u):
        state, ok = step.state(), []
        for _ in range(30):
            state, out = step(state, u)
            ok.append(out.ok)
        return state, torch.stack(ok)

    state, ok = vmap(run)(tensor([[0.5], [DIVERGES]]))
    assert ok[0].all() and not ok[1, -1] and state.qpos[1].isnan().all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda r: r(qpos=np.zeros(2), nstep=3),
            r"Rollout: qpos has shape \(2,\), expected",
        ),
        (lambda r: r(ctrl=np.zeros((3, 2))), r"ctrl has shape \(3, 2\).*or \(nstep, 1"),
        (lambda r: r(ctrl=np.zeros((4, 3, 1))), "for a batch use torch.func.vmap"),
        (lambda r: r(ctrl=np.zeros((3, 1)), nstep=4), "ctrl has 3 rows, but nstep has 4"),
        (lambda r: r(), "give nstep"),
        (lambda r: r(nstep=-1), "nstep"),
        (lambda r: r(nstep=3, params={"body_mass": 1}), r"params has \['body_mass'\], expected"),
        (lambda r: r(qpos=[np.nan], nstep=3), r"rollout: qpos\[0\] is nan; it must be finite"),
        (
            lambda r: r(qpos=torch.zeros(1, device="meta"), nstep=3),
            r"qpos is on the device meta, but MuJoCo runs on the CPU; pass qpos\.cpu\(\)",
        ),
        (lambda r: r(qpos=torch.zeros(1).to_sparse(), nstep=3), r"pass qpos\.to_dense\(\)"),
        (lambda r: r(qpos=torch.zeros(1) * 1j, nstep=3), "qpos has complex numbers"),
        (lambda r: r(qpos="a", nstep=3), "qpos is 'a', expected an array of numbers"),
        (lambda r: r(qpos=[None], nstep=3), r"qpos is \[None\], expected an array of numbers"),
    ],
)
def test_wrong_arguments(pendulum, call, message):
    with pytest.raises(diffmj.InputError, match=message):
        call(diffmj.torch.Rollout(pendulum))


def test_too_long_for_the_memory(pendulum):
    rollout, nstep = diffmj.torch.Rollout(pendulum), 1_000_000_000
    with pytest.raises(diffmj.OutOfMemoryError, match=r"the record needs .* GB"):
        rollout(nstep=nstep)
    with pytest.raises(diffmj.OutOfMemoryError, match=r"memory|the record needs"):
        rollout(qpos=torch.zeros(1, requires_grad=True), nstep=nstep)


def test_calls_at_once_and_through_operators_have_the_same_bits(pendulum):
    rollout = diffmj.torch.Rollout(pendulum, params=("dof_damping",), on_failure="nan")

    def results(call):
        qpos = torch.tensor([0.3], dtype=torch.float32, requires_grad=True)
        held = torch.tensor([0.1], dtype=torch.float64, requires_grad=True)
        damping = torch.tensor([0.2], dtype=torch.float64, requires_grad=True)
        out = call(qpos, held, damping)
        gradients = torch.autograd.grad(out.qpos.square().sum(), [qpos, held, damping])
        return [*out, *gradients]

    def eager(qpos, ctrl, damping):
        return rollout(qpos=qpos, ctrl=ctrl, params={"dof_damping": damping}, nstep=7)

    def operators(*args):
        class Watch(torch.utils._python_dispatch.TorchDispatchMode):
            seen = 0

            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                Watch.seen += "diffmj" in str(function)
                return function(*args, **(kwargs or {}))

        with Watch():
            out = eager(*args)
        assert Watch.seen == 1
        return out

    for x, y in zip(results(eager), results(operators), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        assert torch.equal(x, y)


def test_wrong_arguments_of_compiled_functions(pendulum):
    rollout = diffmj.torch.Rollout(pendulum)
    wrong = torch.zeros((3, 2))
    with pytest.raises(Exception, match=r"ctrl has shape|InputError"):
        compiled(lambda u: rollout(ctrl=u).qpos)(wrong)
    with pytest.raises(diffmj.InputError, match=r"ctrl has shape \(3, 2\)"):
        torch.compile(lambda u: rollout(ctrl=u).qpos)(wrong)


def test_arguments_that_are_no_tensors_are_on_the_cpu(pendulum):
    step = diffmj.torch.Step(pendulum)
    with torch.device("meta"):  # as torch.set_default_device does
        state, _ = step(step.state([0.1]), np.ones(1))
    assert state.qpos.device.type == "cpu"


def test_wrong_options(pendulum):
    for options, message in [
        ({"outputs": ("qpso",)}, "outputs has 'qpso', expected names among qpos, qvel"),
        ({"outputs": "qpos"}, "expected a tuple of names"),
        ({"on_failure": "ignore"}, "on_failure is 'ignore'"),
    ]:
        with pytest.raises(diffmj.InputError, match=message):
            diffmj.torch.Rollout(pendulum, **options)
    with pytest.raises(diffmj.InputError, match="state is a tuple"):
        diffmj.torch.Step(pendulum)(())


def test_what_has_no_derivative_says_so(pendulum):
    rollout = diffmj.torch.Rollout(pendulum)

    def f(u):
        return rollout(ctrl=u, nstep=5).qpos.sum()

    u = variable([0.1])
    (slope,) = torch.autograd.grad(f(u), u, create_graph=True)
    with pytest.raises(diffmj.UnsupportedError, match="no second derivative"):
        slope.sum().backward()
    for wrong in (grad(lambda u: grad(f)(u).sum()), torch.func.hessian(f), jacfwd(f)):
        with pytest.raises(diffmj.UnsupportedError, match=r"no (second derivative|forward mode)"):
            wrong(tensor([0.1]))
    # PyTorch's compiler would take 0 for the tangent; its exception has diffmj's text
    with pytest.raises(Exception, match="no forward mode"):
        compiled(jacfwd(f))(tensor([0.1]))
    with pytest.raises(Exception, match=r"cannot compile torch\.func\.grad of an operator"):
        compiled(grad(f))(tensor([0.1]))


def test_compiled_functions_of_other_lengths(pendulum):
    rollout = diffmj.torch.Rollout(pendulum)
    f = torch.compile(lambda u: rollout(ctrl=u).qpos.square().sum(), fullgraph=True, dynamic=True)
    for nstep in (5, 6, 9):
        ctrl = np.random.default_rng(nstep).standard_normal((nstep, 1))
        u = variable(ctrl)
        f(u).backward()
        traj = pendulum.rollout(ctrl=ctrl)
        np.testing.assert_allclose(u.grad, traj.backward(qpos=2 * traj.qpos).ctrl, rtol=1e-14)


def test_compiled_functions_with_another_rollout(pendulum):
    other = pendulum.with_parameters({"dof_damping": [3.0]})
    f = torch.compile(lambda r, u: r(ctrl=u).qpos, fullgraph=True)
    for sim in (pendulum, other, pendulum):
        rollout = diffmj.torch.Rollout(sim)
        equal(f(rollout, torch.ones((4, 1)).double()), sim.rollout(ctrl=np.ones((4, 1))).qpos)


def test_operators_keep_the_rules_of_pytorch(pendulum):
    rollout = diffmj.torch.Rollout(pendulum)

    def numbers(n):
        return torch.ones((2, n), dtype=torch.float64)

    inputs = [numbers(1).requires_grad_(), numbers(3).requires_grad_()]
    given = [0, 3]  # qpos, ctrl
    handle = rollout._call.handle
    ops = torch.ops.diffmj
    torch.library.opcheck(ops.rollout.default, (handle, 3, inputs, given, True))
    inputs = [x.detach() for x in inputs]
    *outputs, _, tape = ops.rollout(handle, 3, inputs, given, True)
    bars = [torch.ones_like(x) for x in outputs]
    args = (bars, [0, 1], [1])
    torch.library.opcheck(ops.rollout_pullback.default, (handle, 3, inputs, given, tape, *args))
    (found,) = ops.rollout_pullback(handle, 3, inputs, given, tape, *args)
    # a tape is not needed: the rollout is run again
    (again,) = ops.rollout_pullback(handle, 3, inputs, given, tape[:, :0].contiguous(), *args)
    assert found.shape == (2, 3)
    equal(found, again.numpy())


class Policy(torch.nn.Module):
    def __init__(self, sim: diffmj.Simulator):
        super().__init__()
        self.rollout = diffmj.torch.Rollout(sim, ("qpos",), on_failure="nan")
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x):
        return self.rollout(ctrl=self.layer(x))


def test_modules_can_be_copied_and_pickled(pendulum):
    module, x = Policy(pendulum), torch.ones((5, 1))
    expected = module(x).qpos
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(x).qpos, expected)
        other.layer.weight.data.zero_()
    assert torch.equal(module(x).qpos, expected)
    result = pickle.loads(pickle.dumps(module(x)))
    assert torch.equal(result.qpos, expected) and type(result) is type(module(x))
    step = pickle.loads(pickle.dumps(diffmj.torch.Step(pendulum, ("xpos",))))
    assert step(step.state())[1].xpos.shape == (2, 3)


class Rollouts(torch.utils.data.Dataset):
    def __init__(self, sim):
        self.rollout = diffmj.torch.Rollout(sim)

    def __len__(self):
        return 4

    def __getitem__(self, i):
        ctrl = torch.full((3, 6, 1), 0.1 * i, dtype=torch.float64, requires_grad=True)
        out = vmap(lambda u: self.rollout(ctrl=u).qpos)(ctrl)  # on threads of its own
        out.sum().backward()
        return ctrl.grad[0]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_data_loader(pendulum, method):
    data = Rollouts(pendulum)
    expected = [data[i] for i in range(len(data))]
    loader = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=2, multiprocessing_context=method
    )
    for found, one in zip(loader, expected, strict=True):
        assert torch.equal(found, one)


def test_handles_end_with_their_rollout(pendulum):
    gc.collect()
    before = _diffmj.ArrayRollout.count()
    rollout = diffmj.torch.Rollout(pendulum)
    handle = rollout._call.handle
    assert _diffmj.ArrayRollout.count() == before + 1
    u = variable(np.ones((3, 1)))
    out = rollout(ctrl=u).qpos.sum()
    del rollout
    gc.collect()
    out.backward()  # the graph keeps it
    assert u.grad.shape == (3, 1)
    del out
    gc.collect()
    assert _diffmj.ArrayRollout.count() == before
    with pytest.raises(diffmj.InputError, match="no longer exists; keep it alive"):
        torch.ops.diffmj.rollout(handle, 3, [u], [3], False)


def test_memory_stays_flat(pendulum):
    rollout = diffmj.torch.Rollout(pendulum)
    u = variable(np.ones((4, 50, 1)))  # 60 kB of tape in each call
    batch = vmap(lambda u: rollout(ctrl=u).qpos)

    def calls(n: int) -> None:
        for _ in range(n):
            torch.autograd.grad(batch(u).sum(), u)
            # a backward pass that never comes
            rollout(ctrl=u[0])

    calls(200)
    before = resident()
    calls(3400)  # of three calls each
    assert resident() - before < 20


def test_threads_of_python(humanoid):
    rollout = diffmj.torch.Rollout(humanoid, ("qpos",))
    starts = 0.1 * np.random.default_rng(0).standard_normal((2, humanoid.nv))

    def slope(v):
        x = variable(v)
        rollout(fallen(humanoid), x, nstep=5).qpos.sum().backward()
        return x.grad

    expected = [slope(v) for v in starts]
    wrong = []

    def work(i: int) -> None:
        for _ in range(20):
            if not torch.equal(slope(starts[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


INTERRUPT = """
import sys
import diffmj, diffmj.torch, torch
from conftest import PENDULUM

sim = diffmj.Simulator(PENDULUM, nthread=2)
rollout = diffmj.torch.Rollout(sim, ("qpos",))
q = torch.zeros(4, 1, dtype=torch.float64)
u = torch.zeros(200_000, 1, dtype=torch.float64, requires_grad=True)
loss = rollout(ctrl=u).qpos.sum()
work = {
    "rollout": lambda: rollout(nstep=3_000_000),
    "batch": lambda: torch.func.vmap(lambda q: rollout(q, nstep=1_000_000).qpos)(q),
    "backward": lambda: loss.backward(retain_graph=True),
}[sys.argv[1]]
print("ready", flush=True)
try:
    while True:
        work()
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    assert rollout(nstep=10).qpos.shape == (11, 1)  # everything still works
"""


@pytest.mark.parametrize("what", ["rollout", "batch", "backward"])
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


def test_examples_of_the_documentation_run():
    text = (ZOO.parents[2] / "docs" / "torch.md").read_text()
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(code, names)
    assert names["slopes"].shape == (64, 6) and names["slopes"].isfinite().all()
    assert names["xpos"].shape == (50, 2, 3)


def test_both_frameworks_in_one_process():
    code = f"""
import diffmj, diffmj.jax, diffmj.torch, jax, numpy as np, torch
jax.config.update("jax_enable_x64", True)
sim = diffmj.Simulator('''{PENDULUM}''')
u = np.ones((20, 1))
a = jax.grad(lambda u: diffmj.jax.Rollout(sim)(ctrl=u).qpos[-1, 0])(u)
b = torch.func.grad(lambda u: diffmj.torch.Rollout(sim)(ctrl=u).qpos[-1, 0])(torch.tensor(u))
np.testing.assert_array_equal(a, b)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
