"""Explicit Runge-Kutta methods: options, failures, batches, adjoints, statistics."""

import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import ARM, CUBE, PENDULUM, ZOO, ridders

METHODS = [
    "explicit_euler", "heun", "midpoint", "ralston", "bosh3", "tsit5", "dopri5", "dopri8",
]  # fmt: skip
ADJOINTS = ["discrete", "interpolated", "backsolve"]
GRADIENTS = ("qpos", "qpos_tangent", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied")

# a ball joint on a spring, a free body that tumbles, activations of three kinds; no constraint acts
SMOOTH = """
<mujoco>
  <option timestep="0.05"/>
  <worldbody>
    <body name="upper"><joint name="ball" type="ball" stiffness="3" damping=".1"/>
      <geom type="box" size=".1 .05 .02" pos=".1 .05 0" density="500"/>
      <site name="tip" pos=".2 0 .03"/>
      <body name="lower" pos=".2 0 0">
        <joint name="hinge" axis="0 1 0" stiffness="1" damping=".02"/>
        <geom type="capsule" size=".02" fromto="0 0 0 .1 .02 .05" density="800"/></body></body>
    <body name="free" pos="1 0 0"><freejoint/><geom type="box" size=".1 .2 .3"/></body>
    <site name="anchor" pos="0 .3 .3"/>
  </worldbody>
  <tendon><spatial name="t"><site site="anchor"/><site site="tip"/></spatial></tendon>
  <actuator>
    <muscle name="m" tendon="t" ctrllimited="false" lengthrange=".2 .6" force="5"
      timeconst=".1 .2" tausmooth="5"/>
    <general name="f" joint="hinge" dyntype="filterexact" dynprm=".03" gainprm=".2"/>
    <general name="i" joint="hinge" dyntype="integrator" gainprm=".1"/>
  </actuator>
</mujoco>
"""
SMOOTH_START = {
    "qvel": np.array([1, -2, 1.5, 0.5, 0.2, -0.3, 0.1, 2, -1, 3]),
    "act": np.array([0.3, 0.1, 0.2]),
    "ctrl": np.array([[0.6, -0.4, 0.7], [0.5, 0.3, -0.2], [0.9, -0.1, 0.1], [0.2, 0.6, 0.4]]),
}


def smooth(integrator="tsit5", **options):
    return diffmj.Simulator(SMOOTH, integrator, **options)


def cotangents(traj, seed=0):
    rng = np.random.default_rng(seed)
    return {x: rng.standard_normal(getattr(traj, x).shape) for x in ("qpos", "qvel", "act")}


def assert_equal_gradients(a, b):
    for name in GRADIENTS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.params.keys() == b.params.keys()
    for name, x in a.params.items():
        np.testing.assert_array_equal(x, b.params[name])


def assert_close_gradients(a, b, tolerance):
    for name in GRADIENTS:
        x, y = getattr(a, name), getattr(b, name)
        if x is None or not x.size:
            continue
        assert np.abs(x - y).max() <= tolerance * max(np.abs(x).max(), 1e-3), name
    for name, x in a.params.items():
        assert np.abs(x - b.params[name]).max() <= tolerance * np.abs(x).max(), name


def assert_matches_differences(
    sim, inputs, bars, names, tolerance=1e-6, seed=3, base=None, step=1e-3
):
    """The gradient along a random direction in the inputs `names`, against differences of the same
    steps. bars: cotangents by the name of what they are of."""
    rng = np.random.default_rng(seed)
    base = sim.rollout(**inputs) if base is None else base
    gradient = base.backward(**bars)
    direction = {name: rng.standard_normal(np.shape(inputs[name])) for name in names}

    def loss(h):
        moved = {name: inputs[name] + h * d for name, d in direction.items()}
        traj = sim.rollout(**(inputs | moved), steps_of=base)
        return sum(float(np.sum(bar * getattr(traj, name))) for name, bar in bars.items())

    numeric, error = ridders(loss, step=step)
    adjoint = sum(float(np.sum(getattr(gradient, name) * d)) for name, d in direction.items())
    scale = max(abs(adjoint), abs(numeric), 1)
    assert error <= tolerance * scale
    assert abs(adjoint - numeric) <= tolerance * scale


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rtol", 1e-3),
        ("atol", 1e-5),
        ("max_steps", 77),
        ("step", 0.002),
        ("interval", 0.03),
        ("control", "linear"),
        ("adjoint", "interpolated"),
        ("adjoint", "backsolve"),
        ("checkpoints", 5),
        ("adjoint_rtol", 1e-4),
        ("adjoint_atol", 1e-9),
        ("min_step", 1e-9),
        ("max_step", 0.004),
        ("safety", 0.8),
    ],
)
def test_every_option_arrives(name, value):
    sim = diffmj.Simulator(PENDULUM, "tsit5", **{name: value})
    assert sim._model.options.get(name) == value
    assert sim.tightened()._model.options.get(name) == value
    with pytest.raises(diffmj.InputError, match=rf"{name} is for diffmj's.*'Euler'"):
        diffmj.Simulator(PENDULUM, "Euler", **{name: value})
    with pytest.raises(diffmj.InputError, match=rf"{name} is for diffmj's.*'model'"):
        diffmj.Simulator(PENDULUM, **{name: value})


def test_options_of_several_numbers_arrive():
    sim = diffmj.Simulator(PENDULUM, "tsit5", pid=(0.1, 0.3, 0.05), step_ratio=[0.3, 4])
    options = sim._model.options
    assert options.get("pid") == [0.1, 0.3, 0.05]
    assert options.get("step_ratio") == [0.3, 4]
    with pytest.raises(diffmj.InputError, match="rtol, pid are for diffmj's"):
        diffmj.Simulator(PENDULUM, "RK4", rtol=1, pid=(1, 1, 1))


def test_defaults():
    sim = diffmj.Simulator(PENDULUM, "tsit5")
    options = {x: sim._model.options.get(x) for x in ("rtol", "atol", "max_steps", "pid")}
    assert options == {"rtol": 1e-6, "atol": 1e-8, "max_steps": 100_000, "pid": [0.2, 0.6, 0]}
    names = ("control", "adjoint", "checkpoints")
    assert [sim._model.options.get(x) for x in names] == ["hold", None, None]
    assert (sim.integrator, sim.interval, sim.adjoint) == ("tsit5", 0.01, "discrete")
    assert diffmj.Simulator(PENDULUM, "auto").adjoint == "interpolated"
    assert diffmj.Simulator(PENDULUM).rollout(nstep=1).integrator is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rtol": -1}, r"rtol is -1.*expected a number ≥ 0"),
        ({"rtol": np.nan}, r"rtol is nan"),
        ({"rtol": "small"}, r"rtol is 'small', expected a number"),
        ({"rtol": [1e-3]}, r"rtol is \[0.001\], expected a number"),
        ({"atol": np.inf}, r"atol is inf"),
        ({"rtol": 0, "atol": 0}, r"rtol and atol are 0, expected one of them > 0"),
        ({"max_steps": 0}, r"max_steps is 0, expected an integer ≥ 1"),
        ({"max_steps": 1e3}, r"max_steps is 1000.0, expected an integer"),
        ({"step": 0}, r"step is 0, expected a time > 0"),
        ({"step": -0.1}, r"step is -0.1, expected a time > 0"),
        ({"step": np.inf}, r"step is inf"),
        ({"interval": 0}, r"interval is 0, expected a time > 0"),
        ({"interval": np.nan}, r"interval is nan, expected a time > 0"),
        ({"control": "cubic"}, r"control 'cubic' is not known; use hold or linear"),
        ({"adjoint": "x"}, r"adjoint 'x' is not known; use discrete, interpolated or backsolve"),
        ({"checkpoints": 0}, r"checkpoints is 0, expected an integer ≥ 1"),
        ({"checkpoints": 2.5}, r"checkpoints is 2.5, expected an integer"),
        ({"adjoint_rtol": -1e-9}, r"adjoint_rtol is -1e-09, expected a number ≥ 0"),
        ({"adjoint_atol": np.nan}, r"adjoint_atol is nan"),
        (
            {"adjoint": "backsolve", "adjoint_rtol": 0, "adjoint_atol": 0},
            r"adjoint_rtol and adjoint_atol are 0, expected one of them > 0",
        ),
        ({"min_step": -1}, r"min_step is -1.*expected a time ≥ 0"),
        ({"max_step": 0}, r"max_step is 0.*expected a time > 0"),
        ({"min_step": 1, "max_step": 0.1}, r"max_step is 0.1.*not below min_step"),
        ({"safety": 1}, r"safety is 1.*between 0 and 1"),
        ({"pid": (1, 2)}, r"pid is \(1, 2\), expected 3 numbers"),
        ({"pid": 3}, r"pid is 3, expected 3 numbers"),
        ({"pid": (0.2, 0, 0)}, r"i .of pid. is 0.*expected a number > 0"),
        ({"step_ratio": "no"}, r"step_ratio is 'no', expected 2 numbers"),
        ({"step_ratio": (2, 10)}, r"shrink .of step_ratio. is 2.*between 0 and 1"),
        ({"step_ratio": (0.2, 1)}, r"grow .of step_ratio. is 1.*expected a number > 1"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(diffmj.InputError, match=message):
        diffmj.Simulator(PENDULUM, "tsit5", **options)


def test_models_that_are_refused():
    with pytest.raises(diffmj.InputError, match=r"explicit_euler has no estimate.*constant step"):
        diffmj.Simulator(PENDULUM, "explicit_euler")
    cloth = (
        "<mujoco><option noslip_iterations='3'/><worldbody><flexcomp name='cloth' type='grid' "
        "count='2 2 1' spacing='.1 .1 .1' radius='.01' mass='1'/></worldbody></mujoco>"
    )
    with pytest.raises(diffmj.UnsupportedError, match=r"cloth.*noslip.*use one of MuJoCo's"):
        diffmj.Simulator(cloth, "tsit5")
    with pytest.raises(diffmj.UnsupportedError, match="path differences has none"):
        diffmj.Simulator(PENDULUM, "tsit5", gradient_path="differences")
    with pytest.raises(diffmj.InputError, match=r"'tsit6' is not known; did you mean 'tsit5'\?"):
        diffmj.Simulator(PENDULUM, "tsit6")


# ---------------------------------------------------------------- rollouts


@pytest.mark.smoke
@pytest.mark.parametrize("method", METHODS)
def test_methods_and_intervals(method):
    constant = method == "explicit_euler"
    options = {"step": 1e-5} if constant else {"rtol": 1e-8, "atol": 1e-8}
    spring = """<mujoco><option gravity="0 0 0" timestep="0.002"/><worldbody><body>
      <joint name="x" type="slide" axis="1 0 0" stiffness="2"/><geom size="0.1" mass="0.5"/>
      </body></worldbody></mujoco>"""
    sim = diffmj.Simulator(spring, method, interval=0.1, **options)
    traj = sim.rollout(qpos=[0.3], qvel=[-0.4], nstep=7, time=0.25)
    assert sim.interval == 0.1
    assert traj.qpos.shape == traj.qvel.shape == (8, 1)
    assert traj.qacc.shape == (7, 1)
    np.testing.assert_allclose(traj.time, 0.25 + 0.1 * np.arange(8), rtol=1e-15)
    # q'' = -4 q
    t = traj.time - 0.25
    exact = 0.3 * np.cos(2 * t) - 0.2 * np.sin(2 * t)
    np.testing.assert_allclose(traj.qpos[:, 0], exact, atol=2e-5 if constant else 1e-6)
    np.testing.assert_allclose(traj.qacc[:, 0], -4 * traj.qpos[:-1, 0], rtol=1e-12)
    assert (traj.integrator.rejected == 0) or not constant


def test_bounds_of_steps_hold():
    traj = smooth(max_step=0.004).rollout(**SMOOTH_START)
    assert np.diff(traj.integrator.time).max() <= 0.004 * (1 + 1e-9)
    steps = np.diff(smooth(step=0.03).rollout(**SMOOTH_START).integrator.time)
    np.testing.assert_allclose(steps, 0.025, rtol=1e-12)  # an interval is a whole number of them
    ratio = smooth(step_ratio=(0.5, 1.5), rtol=1e-9).rollout(**SMOOTH_START).integrator
    inside = np.diff(ratio.time[: ratio.first_step[1] - 1])
    assert (inside[1:] / inside[:-1]).max() <= 1.5 * (1 + 1e-9)


def test_tolerances_bound_the_error():
    exact = smooth("dopri8", rtol=1e-13, atol=1e-13).rollout(**SMOOTH_START)
    errors, steps = [], []
    for tolerance in (1e-4, 1e-6, 1e-8):
        traj = smooth(rtol=tolerance, atol=tolerance).rollout(**SMOOTH_START)
        errors.append(np.abs(traj.qvel - exact.qvel).max())
        steps.append(traj.integrator.accepted)
        assert errors[-1] < 100 * tolerance
    assert errors[0] > errors[1] > errors[2]
    assert steps[0] < steps[1] < steps[2]


def test_statistics():
    traj = smooth().rollout(**SMOOTH_START, time=2.0)
    s = traj.integrator
    sizes = np.diff(s.time)
    assert len(sizes) == s.accepted == s.first_step[-1]
    assert s.first_step.shape == (traj.nstep + 1,)
    assert (np.diff(s.first_step) >= 1).all()
    assert s.rejected >= 0
    np.testing.assert_array_equal(s.time[s.first_step], traj.time)
    assert (s.smallest_step, s.largest_step) == (sizes.min(), sizes.max())
    assert (s.end_time, s.time[0]) == (traj.time[-1], 2.0)
    np.testing.assert_array_equal(s.end_qpos, traj.qpos[-1])
    np.testing.assert_array_equal(s.end_qvel, traj.qvel[-1])
    np.testing.assert_array_equal(s.end_act, traj.act[-1])
    # six stages a step, the first is the last of the step before unless the control has changed;
    # the first step is found with two more
    assert s.evaluations == 6 * (s.accepted + s.rejected) + 2 + (traj.nstep - 1)
    stages = {"position", "velocity", "actuation", "acceleration", "constraint"}
    assert s.seconds.keys() == stages | {"total"}
    assert all(x >= 0 for x in s.seconds.values())
    assert 0 < sum(s.seconds[x] for x in stages) <= s.seconds["total"]


def test_repeated_rollouts_are_bitwise_equal():
    sim = diffmj.Simulator(CUBE, "tsit5", interval=0.01)
    a, b = (sim.rollout(qvel=[0, 0, -3, 1, 2, 3], nstep=20) for _ in range(2))
    np.testing.assert_array_equal(a.qpos, b.qpos)
    np.testing.assert_array_equal(a.integrator.time, b.integrator.time)
    assert a.integrator.rejected > 0


# ---------------------------------------------------------------- failures


def test_step_budget():
    sim = diffmj.Simulator(PENDULUM, "tsit5", interval=0.1, max_steps=30)
    with pytest.raises(diffmj.StepBudgetError, match=r"max_steps = 30.*larger max_steps") as info:
        sim.rollout(qpos=[1.0], nstep=20)
    traj = info.value.trajectory
    assert (traj.ok, traj.outcome) == (False, "budget exhausted")
    assert 0 < traj.nstep == traj.completed < 20
    assert traj.qpos.shape == (traj.nstep + 1, 1)
    assert np.isfinite(traj.qpos).all() and np.isfinite(traj.xpos).all()
    s = traj.integrator
    assert s.accepted + s.rejected == 30
    assert traj.time[-1] <= s.end_time < traj.time[-1] + 0.1
    assert s.time[-1] == s.end_time
    assert s.end_qpos.shape == s.end_qvel.shape == (1,)
    assert s.first_step.shape == (traj.nstep + 1,)
    with pytest.raises(diffmj.InputError, match="did not reach its last step: max_steps"):
        traj.backward(qpos=np.zeros_like(traj.qpos))
    # what was made is what a rollout that ends there has
    whole = sim.rollout(qpos=[1.0], nstep=traj.nstep)
    np.testing.assert_array_equal(traj.qpos, whole.qpos)


def test_step_budget_is_of_work_too():
    """Twenty boxes on a floor, by steps so short that their budget alone would allow them."""
    bodies = "".join(
        f'<body pos="{0.3 * i} 0 .0999"><freejoint/><geom type="box" size=".1 .1 .1"/></body>'
        for i in range(20)
    )
    model = f'<mujoco><worldbody><geom type="plane" size="9 9 1"/>{bodies}</worldbody></mujoco>'
    sim = diffmj.Simulator(model, integrator="tsit5", max_step=1e-6, onset=1e-4, interval=0.5)
    with pytest.raises(diffmj.StepBudgetError) as caught:
        sim.rollout(nstep=2)
    text = str(caught.value)
    assert re.match(r"rollout: \d+ steps \(\d+ accepted, \d+ rejected\) reached time ", text)
    # six evaluations per microsecond
    assert "1.2e+04 times the evaluations of MuJoCo's own steps" in text
    assert "use a larger tolerance" in text
    assert caught.value.trajectory.integrator.accepted <= 4000


def test_step_budget_of_constant_steps():
    sim = diffmj.Simulator(PENDULUM, "tsit5", interval=0.1, step=0.01, max_steps=25)
    with pytest.raises(diffmj.StepBudgetError, match=r"max_steps = 25 .*a larger step") as info:
        sim.rollout(qpos=[1.0], nstep=4)
    traj = info.value.trajectory
    assert (traj.nstep, traj.integrator.accepted) == (2, 25)
    assert traj.integrator.end_time == pytest.approx(0.25)
    assert sim.rollout(qpos=[1.0], nstep=2).integrator.accepted == 20
    # more steps than an integer counts
    sim = diffmj.Simulator(PENDULUM, "tsit5", interval=1.0, step=1e-12, max_steps=50)
    with pytest.raises(diffmj.StepBudgetError, match=r"max_steps = 50 .50 accepted") as info:
        sim.rollout(qpos=[1.0], nstep=1)
    assert info.value.trajectory.integrator.end_time == pytest.approx(50e-12)


def test_step_size():
    sim = diffmj.Simulator(CUBE, "tsit5", interval=0.02, min_step=1e-3, rtol=1e-9)
    with pytest.raises(diffmj.StepSizeError, match=r"smallest step, 0.001 s.*larger tol") as info:
        sim.rollout(qvel=[0, 0, -3, 0, 0, 0], nstep=20)
    traj = info.value.trajectory
    assert traj.outcome == "step too small"
    assert traj.nstep >= 1
    assert traj.integrator.end_time >= traj.time[-1]
    assert traj.integrator.rejected > 0
    assert isinstance(info.value, diffmj.RolloutError)


def test_divergence():
    sim = diffmj.Simulator(CUBE, "tsit5", interval=0.1)
    force = np.zeros((30, 6))
    force[5:, 2] = 1e9
    with pytest.raises(diffmj.DivergedError, match=r"diverged.*exceed 1e10.*smaller step") as info:
        sim.rollout(qfrc_applied=force)
    traj = info.value.trajectory
    assert traj.outcome == "not finite"
    assert 5 <= traj.nstep < 30
    assert np.isfinite(traj.qpos).all() and np.isfinite(traj.integrator.end_qpos).all()
    assert traj.integrator.end_time >= traj.time[-1]


@pytest.mark.parametrize("kind", [diffmj.StepBudgetError, diffmj.StepSizeError])
def test_errors_survive_pickling(kind):
    error = pickle.loads(pickle.dumps(kind("no more steps", None)))
    assert type(error) is kind
    assert str(error) == "no more steps"


@pytest.mark.smoke
def test_batch_in_which_one_exceeds_its_budget():
    # the second one tumbles on the floor, the others fly
    sim = diffmj.Simulator(CUBE, "tsit5", interval=0.02, max_steps=60, nthread=2)
    qvel = np.array([[0, 0, 2, 1, 2, 3], [0, 0, -4, 1, 2, 3], [0, 0, 1, 0, 0, 0.0]])
    force = np.zeros((10, 6))
    with pytest.warns(RuntimeWarning, match=r"1 of 3 rollouts failed \(rollout 1\).*max_steps"):
        batch = sim.rollout(qvel=qvel, qfrc_applied=force)
    np.testing.assert_array_equal(batch.ok, [True, False, True])
    assert batch.outcome == ["success", "budget exhausted", "success"]
    done = batch.completed[1]
    assert 0 < done < 10
    assert np.isfinite(batch.qpos[1, : done + 1]).all()
    assert np.isnan(batch.qpos[1, done + 1 :]).all()
    assert batch.integrator[1].accepted + batch.integrator[1].rejected == 60
    bars = np.random.default_rng(0).standard_normal(batch.qpos.shape)
    gradient = batch.backward(qpos=bars, params=["body_mass"])
    for i in range(3):
        parts = [gradient.qpos[i], gradient.qvel[i], gradient.qfrc_applied[i]]
        parts.append(gradient.params["body_mass"][i])
        if i == 1:
            assert all(np.isnan(x).all() for x in parts)
            continue
        alone = sim.rollout(qvel=qvel[i], qfrc_applied=force)
        np.testing.assert_array_equal(batch.qpos[i], alone.qpos)
        np.testing.assert_array_equal(gradient.qvel[i], alone.backward(qpos=bars[i]).qvel)
        assert all(np.isfinite(x).all() for x in parts)


@pytest.mark.parametrize("adjoint", ADJOINTS)
def test_batch_has_its_own_steps_whatever_the_threads(adjoint):
    qvel = np.array([[0, 0, 1, 1, 2, 3], [0, 0, -4, 1, 2, 3], [0, 0, -2, 3, 0, 0.0], [0] * 6])
    results = []
    for nthread in (1, 2, 4):
        sim = diffmj.Simulator(CUBE, "tsit5", interval=0.02, adjoint=adjoint, nthread=nthread)
        batch = sim.rollout(qvel=qvel, nstep=5)
        results.append((batch, batch.backward(qpos=np.ones_like(batch.qpos), params=["geom_size"])))
    first, gradient = results[0]
    assert len({len(s.time) for s in first.integrator}) > 2
    for other, other_gradient in results[1:]:
        np.testing.assert_array_equal(first.qpos, other.qpos)
        assert_equal_gradients(gradient, other_gradient)
        for a, b in zip(first.integrator, other.integrator, strict=True):
            np.testing.assert_array_equal(a.time, b.time)
            np.testing.assert_array_equal(a.first_step, b.first_step)
        assert gradient.statistics == other_gradient.statistics
    # and they are those of rollouts alone
    for i in range(4):
        alone = sim.rollout(qvel=qvel[i], nstep=5)
        np.testing.assert_array_equal(first.integrator[i].time, alone.integrator.time)
        one = alone.backward(qpos=np.ones_like(alone.qpos), params=["geom_size"])
        np.testing.assert_array_equal(gradient.qvel[i], one.qvel)
        np.testing.assert_array_equal(gradient.params["geom_size"][i], one.params["geom_size"])


def test_adjoints_that_cannot_be_solved():
    # the first one flies
    options = {"max_steps": 300, "adjoint_rtol": 1e-12, "adjoint_atol": 1e-14, "interval": 0.02}
    sim = diffmj.Simulator(CUBE, "tsit5", adjoint="interpolated", **options)
    qvel = np.array([[0, 0, 2, 0, 0, 1.0], [0, 0, -4, 1, 2, 3]])
    batch = sim.rollout(qvel=qvel, nstep=6)
    with pytest.warns(RuntimeWarning, match=r"1 of 2 rollouts are NaN \(rollout 1\).*max_steps"):
        gradient = batch.backward(qpos=np.ones_like(batch.qpos))
    assert np.isfinite(gradient.qvel[0]).all() and np.isnan(gradient.qvel[1]).all()
    single = sim.rollout(qvel=qvel[1], nstep=6)
    with pytest.raises(diffmj.RolloutError, match=r"interpolated adjoint.*larger adjoint_rtol"):
        single.backward(qpos=np.ones_like(single.qpos))


# ---------------------------------------------------------------- steps of another rollout


@pytest.mark.parametrize("method", ["heun", "tsit5", "dopri8"])
def test_steps_of_gives_the_same_bits(method):
    for sim, inputs in (
        (smooth(method, rtol=1e-4), SMOOTH_START),
        (
            diffmj.Simulator(CUBE, method, rtol=1e-4, interval=0.01),
            {"qvel": [0, 0, -3, 1, 2, 3], "nstep": 15, "time": 0.7},
        ),
        (
            diffmj.Simulator(CUBE, method, rtol=1e-4, interval=0.01, events=False),
            {"qvel": [0, 0, -3, 1, 2, 3], "nstep": 15, "time": 0.7},
        ),
    ):
        free = sim.rollout(**inputs)
        again = sim.rollout(**inputs, steps_of=free)
        for name in ("time", "qpos", "qvel", "act", "qacc"):
            np.testing.assert_array_equal(getattr(free, name), getattr(again, name))
        np.testing.assert_array_equal(free.integrator.time, again.integrator.time)
        assert again.integrator.rejected == 0
        bars = cotangents(free)
        # with the steps held, events have no time to move
        assert not again.integrator.events
        if not free.integrator.events:
            assert_equal_gradients(free.backward(**bars), again.backward(**bars))


def test_steps_of_serves_a_batch_and_another_start_time():
    sim = smooth(rtol=1e-4)
    free = sim.rollout(**SMOOTH_START)
    qvel = SMOOTH_START["qvel"] * np.array([[1.0], [1.1]])
    batch = sim.rollout(**(SMOOTH_START | {"qvel": qvel}), steps_of=free)
    np.testing.assert_array_equal(batch.qpos[0], free.qpos)
    np.testing.assert_array_equal(batch.integrator[1].time, free.integrator.time)
    later = sim.rollout(**SMOOTH_START, time=1.0, steps_of=free)
    np.testing.assert_allclose(later.integrator.time, free.integrator.time + 1, rtol=1e-15)
    np.testing.assert_allclose(later.qpos, free.qpos, rtol=1e-12)


def test_wrong_steps_of(cube):
    sim = diffmj.Simulator(CUBE, "tsit5")
    free = sim.rollout(nstep=3)
    with pytest.raises(diffmj.InputError, match="steps_of has 3 intervals, expected nstep = 4"):
        sim.rollout(nstep=4, steps_of=free)
    with pytest.raises(diffmj.InputError, match="steps_of is given, but integrator Euler"):
        cube.rollout(nstep=3, steps_of=free)
    with pytest.raises(diffmj.InputError, match=r"steps_of.* of an adaptive integrator"):
        sim.rollout(nstep=3, steps_of=cube.rollout(nstep=3))
    longer = diffmj.Simulator(CUBE, "tsit5", interval=0.1).rollout(nstep=3)
    with pytest.raises(diffmj.InputError, match=r"steps_of is 0.1 s long, one of this model 0.002"):
        sim.rollout(nstep=3, steps_of=longer)
    other = diffmj.Simulator(PENDULUM, "tsit5").rollout(nstep=3)
    with pytest.raises(diffmj.InputError, match=r"another model .* = 1, 1, 0, 2, expected 7, 6, 0"):
        sim.rollout(nstep=3, steps_of=other)
    with pytest.raises(diffmj.InputError, match="steps_of is a batch"):
        sim.rollout(nstep=3, steps_of=sim.rollout(qvel=np.zeros((2, 6)), nstep=3))
    with pytest.raises(diffmj.InputError, match="steps_of is a float, expected a Trajectory"):
        sim.rollout(nstep=3, steps_of=0.1)


# ---------------------------------------------------------------- gradients


@pytest.mark.smoke
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("control", ["hold", "linear"])
def test_discrete_adjoint_matches_differences_of_the_same_steps(method, control):
    # tolerances so loose that the choice of steps would be seen
    options = {"step": 0.01} if method == "explicit_euler" else {"rtol": 1e-3, "atol": 1e-3}
    sim = smooth(method, control=control, **options)
    rng = np.random.default_rng(1)
    inputs = SMOOTH_START | {
        "qfrc_applied": 0.1 * rng.standard_normal((4, sim.nv)),
        "xfrc_applied": 0.1 * rng.standard_normal((4, sim.nbody, 6)),
    }
    base = sim.rollout(**inputs)
    bars = cotangents(base)
    for names in (["qvel", "act"], ["ctrl"], ["qfrc_applied"], ["xfrc_applied"]):
        assert_matches_differences(sim, inputs, bars, names, base=base)


def test_contact_matches_differences_of_the_same_steps():
    sim = diffmj.Simulator(CUBE, "tsit5", interval=0.02, events=False).tightened()
    inputs = {
        "qvel": np.array([0, 0, -3, 1, 2, 3.0]),
        "qfrc_applied": np.zeros((4, 6)),
        "xfrc_applied": np.zeros((4, 2, 6)),
    }
    base = sim.rollout(**inputs)
    assert base.steps.ncon.max() > 0
    bars = cotangents(base)
    assert_matches_differences(
        sim, inputs, bars, ["qvel", "qfrc_applied", "xfrc_applied"], base=base, step=1e-6
    )


def test_initial_position():
    model = mujoco.MjModel.from_xml_string(SMOOTH)
    sim = smooth(rtol=1e-3)
    base = sim.rollout(**SMOOTH_START)
    bars = cotangents(base)
    gradient = base.backward(**bars)
    direction = np.random.default_rng(5).standard_normal(sim.nv)

    def loss(h):
        qpos = base.qpos[0].copy()
        mujoco.mj_integratePos(model, qpos, direction, h)
        traj = sim.rollout(qpos=qpos, **SMOOTH_START, steps_of=base)
        return sum(float(np.sum(bar * getattr(traj, name))) for name, bar in bars.items())

    numeric, error = ridders(loss, step=1e-3)
    assert error < 1e-7
    assert abs(gradient.qpos_tangent @ direction - numeric) < 1e-6 * max(1, abs(numeric))


@pytest.mark.parametrize("adjoint", ADJOINTS)
def test_poses(adjoint):
    sim = diffmj.Simulator(ARM, "tsit5", rtol=1e-8, atol=1e-8, interval=0.02, adjoint=adjoint)
    inputs = {"qvel": np.linspace(-1, 1, sim.nv), "ctrl": np.full((3, sim.nu), 0.3)}
    base = sim.rollout(**inputs)
    rng = np.random.default_rng(2)
    names = ("xpos", "xquat", "site_xpos", "subtree_com", "geom_xpos", "xmat", "site_xmat")
    names += ("geom_xmat", "body_linvel", "body_angvel", "site_linvel", "site_angvel")
    bars = {name: rng.standard_normal(getattr(base, name).shape) for name in names}
    tolerance = 1e-6 if adjoint == "discrete" else 1e-5
    assert_matches_differences(sim, inputs, bars, ["qvel", "ctrl"], tolerance, base=base)


@pytest.mark.parametrize("adjoint", ADJOINTS)
@pytest.mark.parametrize(
    "name",
    ["body_mass", "dof_damping", "jnt_stiffness", "site_pos", "actuator_gear", "opt.gravity"],
)
def test_parameters(adjoint, name):
    model = mujoco.MjModel.from_xml_string(ARM)
    options = {"rtol": 1e-8, "atol": 1e-8, "interval": 0.02, "adjoint": adjoint}
    inputs = {"qvel": np.linspace(-1, 1, model.nv), "ctrl": np.full((3, model.nu), 0.3)}
    base = diffmj.Simulator(model, "tsit5", **options).rollout(**inputs)
    rng = np.random.default_rng(2)
    bars = {x: rng.standard_normal(getattr(base, x).shape) for x in ("qpos", "qvel", "site_xpos")}
    gradient = base.backward(**bars, params=[name]).params[name]
    field = model.opt.gravity if name == "opt.gravity" else getattr(model, name)
    start, direction = field.copy(), rng.standard_normal(field.shape)
    assert gradient.shape == field.shape
    if name == "dof_damping":
        direction *= start > 0  # a damper that is not there has a corner
    if name == "body_mass":
        direction *= 0.1

    def loss(h):
        field[...] = start + h * direction
        moved = diffmj.Simulator(model, "tsit5", **options).rollout(**inputs, steps_of=base)
        return sum(float(np.sum(bar * getattr(moved, x))) for x, bar in bars.items())

    numeric, error = ridders(loss, step=1e-3)
    field[...] = start
    adjoint_value = float(np.sum(gradient * direction))
    tolerance = 1e-6 if adjoint == "discrete" else 1e-5
    assert error <= tolerance * max(1, abs(numeric))
    assert abs(adjoint_value - numeric) <= tolerance * max(1, abs(numeric))


# the muscle's curves have bends in their slope, where the discrete adjoint converges slowly: 1e-6;
# without them 1e-10
@pytest.mark.parametrize("control", ["hold", "linear"])
@pytest.mark.parametrize(("xml", "tolerance"), [(SMOOTH, 1e-5), (ARM, 1e-9)])
def test_adjoints_agree(xml, tolerance, control):
    params = ["body_mass", "dof_damping", "actuator_gear", "opt.gravity"]
    gradients = {}
    for adjoint in ADJOINTS:
        options = {"rtol": 1e-10, "atol": 1e-10, "interval": 0.05, "control": control}
        sim = diffmj.Simulator(xml, "dopri5", adjoint=adjoint, **options)
        assert sim.adjoint == adjoint
        rng = np.random.default_rng(4)
        traj = sim.rollout(
            qvel=rng.standard_normal(sim.nv),
            act=0.5 * rng.random(sim.na),
            ctrl=rng.random((4, sim.nu)),
            xfrc_applied=np.zeros((4, sim.nbody, 6)),
        )
        gradients[adjoint] = traj.backward(**cotangents(traj), params=params)
    for adjoint in ADJOINTS[1:]:
        assert_close_gradients(gradients["discrete"], gradients[adjoint], tolerance)
        statistics = gradients[adjoint].statistics
        assert statistics["accepted"] > 4
        assert statistics["evaluations"] > 4 * statistics["accepted"]
    nothing = {"recomputed": 0, "accepted": 0, "rejected": 0, "evaluations": 0}
    assert gradients["discrete"].statistics == nothing


def test_tolerances_of_the_adjoint():
    """Its error falls with its own tolerance, and does not touch the rollout."""
    options = {"rtol": 1e-11, "atol": 1e-11}
    traj = smooth(**options).rollout(**SMOOTH_START)
    exact = traj.backward(**cotangents(traj))
    errors, steps = [], []
    for tolerance in (1e-3, 1e-6, 1e-9):
        own = {"adjoint_rtol": tolerance, "adjoint_atol": tolerance}
        other = smooth(adjoint="backsolve", **own, **options).rollout(**SMOOTH_START)
        np.testing.assert_array_equal(other.qpos, traj.qpos)
        gradient = other.backward(**cotangents(traj))
        errors.append(np.abs(gradient.qvel - exact.qvel).max())
        steps.append(gradient.statistics["accepted"])
    assert errors[0] > errors[1] > errors[2]
    assert steps[0] < steps[1] < steps[2]


@pytest.mark.parametrize("adjoint", ["discrete", "interpolated"])
@pytest.mark.parametrize("checkpoints", [1, 2, 5, 1000])
def test_checkpoints_give_the_same_bits(adjoint, checkpoints):
    for xml, inputs in (
        (SMOOTH, SMOOTH_START),
        (CUBE, {"qvel": [0, 0, -3, 1, 2, 3], "nstep": 20}),
    ):
        options = {"adjoint": adjoint, "interval": 0.01, "rtol": 1e-4}
        every = diffmj.Simulator(xml, "tsit5", **options).rollout(**inputs)
        some = diffmj.Simulator(xml, "tsit5", checkpoints=checkpoints, **options)
        traj = some.rollout(**inputs)
        np.testing.assert_array_equal(traj.qpos, every.qpos)
        bars = cotangents(every)
        expected = every.backward(**bars, params=["body_mass"])
        gradient = traj.backward(**bars, params=["body_mass"])
        assert_equal_gradients(gradient, expected)
        assert expected.statistics["recomputed"] == 0
        recomputed = gradient.statistics["recomputed"]
        if every.integrator.accepted <= checkpoints:
            assert recomputed == 0
        else:
            assert recomputed > 0
        # a second way back from the same record
        assert_equal_gradients(traj.backward(**bars, params=["body_mass"]), expected)


# ---------------------------------------------------------------- controls in time


def test_linear_control_is_the_limit_of_held_ones():
    traj = smooth(rtol=1e-11, atol=1e-11, control="linear").rollout(**SMOOTH_START)
    ctrl = SMOOTH_START["ctrl"]
    nstep, T = len(ctrl), 0.05

    def held(n):
        # the values in the middle of n pieces of each interval; the last row is held
        share = (np.arange(n) + 0.5) / n
        rows = [
            ctrl[i] + share[:, None] * (ctrl[min(i + 1, nstep - 1)] - ctrl[i]) for i in range(nstep)
        ]
        sim = smooth(rtol=1e-11, atol=1e-11, interval=T / n)
        return sim.rollout(**(SMOOTH_START | {"ctrl": np.concatenate(rows)}))

    errors = []
    for n in (10, 20, 40):
        fine = held(n)
        errors.append(np.abs(fine.qvel[::n] - traj.qvel).max())
        np.testing.assert_allclose(fine.act[::n], traj.act, atol=1 / n**2)
    # second order
    assert errors[2] < 1e-4
    np.testing.assert_allclose(np.array(errors[:2]) / errors[1:], 4, rtol=0.1)
    # a held row is the same in both
    constant = SMOOTH_START | {"ctrl": ctrl[0], "nstep": 3}
    a, b = (smooth(control=x).rollout(**constant) for x in ("hold", "linear"))
    np.testing.assert_allclose(a.qpos, b.qpos, atol=1e-12)


@pytest.mark.parametrize("adjoint", ADJOINTS)
def test_gradient_of_linear_control(adjoint):
    """Of every row by itself, and in closed form for an integrator."""
    tolerance = 1e-6 if adjoint == "discrete" else 1e-5
    sim = smooth(rtol=1e-9, atol=1e-9, control="linear", adjoint=adjoint)
    base = sim.rollout(**SMOOTH_START)
    bars = cotangents(base)
    for seed in range(3):
        assert_matches_differences(
            sim, SMOOTH_START, bars, ["ctrl"], tolerance, seed=seed, base=base
        )
    # act = ∫ u dt: half of the interval before and after each row, all of the last interval
    last = np.zeros_like(base.act)
    last[-1, 2] = 1
    gradient = base.backward(act=last).ctrl
    np.testing.assert_allclose(gradient[:, 2], 0.05 * np.array([0.5, 1, 1, 1.5]), atol=1e-9)
    np.testing.assert_allclose(gradient[:, :2], 0, atol=1e-12)


# ---------------------------------------------------------------- the rest of the interface


def test_linearize():
    sim = smooth(rtol=1e-9, atol=1e-9)
    state = SMOOTH_START | {"ctrl": SMOOTH_START["ctrl"][0]}
    A, B = sim.linearize(**state)
    traj = sim.rollout(**state, nstep=1)
    bars = cotangents(traj)
    for x in bars.values():
        x[0] = 0
    gradient = traj.backward(qvel=bars["qvel"], act=bars["act"])
    last = np.concatenate((np.zeros(sim.nv), bars["qvel"][1], bars["act"][1]))
    np.testing.assert_allclose(
        last @ A, np.concatenate((gradient.qpos_tangent, gradient.qvel, gradient.act)), atol=1e-12
    )
    np.testing.assert_allclose(last @ B, gradient.ctrl[0], atol=1e-12)
    # of the steps, whatever else a gradient would keep or solve
    for options in ({"adjoint": "backsolve"}, {"adjoint": "interpolated"}, {"checkpoints": 1}):
        again = smooth(rtol=1e-9, atol=1e-9, **options).linearize(**state)
        np.testing.assert_array_equal(again[0], A)
        np.testing.assert_array_equal(again[1], B)


def test_linearize_through_an_impact():
    sim = diffmj.Simulator(CUBE, "tsit5", rtol=1e-8, interval=0.05)
    start = {"qvel": [0, 0, -3, 1, 2, 3]}
    traj = sim.rollout(**start, nstep=1)
    assert traj.integrator.events
    A, _ = sim.linearize(**start)
    bar = np.zeros((2, 6))
    bar[1] = np.arange(1, 7)
    gradient = traj.backward(qvel=bar)
    expected = np.concatenate((gradient.qpos_tangent, gradient.qvel))
    np.testing.assert_allclose(bar[1] @ A[6:], expected, atol=1e-5 * np.abs(expected).max())


def test_a_humanoid_steps_down():
    m = mujoco.MjModel.from_xml_path(str(ZOO / "humanoid.xml"))
    even = np.arange(m.nv) % 2 == 0
    qpos, qvel = m.key("stand").qpos.copy(), np.where(even, 0.1, -0.1)
    qpos[2] += 0.02
    qvel[2:6] = [-0.5, 0.3, -0.2, 0.1]
    rng = np.random.default_rng(0)
    weight, direction = rng.normal(size=(2, m.nv)), rng.normal(size=(2, m.nv))

    def land(integrator, tolerance, h=0.0, **options):
        sim = diffmj.Simulator(
            m, integrator, rtol=tolerance, atol=tolerance, interval=0.06, **options
        )
        q = qpos.copy()
        mujoco.mj_integratePos(m, q, direction[0], h)
        return sim.rollout(qpos=q, qvel=qvel + h * direction[1], nstep=1)

    base = land("dopri8", 1e-12)
    # both feet, heels and toes
    assert len(base.integrator.events) == 8

    def loss(h):
        traj = land("dopri8", 1e-12, h)
        dq = np.zeros(m.nv)
        mujoco.mj_differentiatePos(m, dq, 1, base.qpos[1], traj.qpos[1])
        return weight[0] @ dq + weight[1] @ (traj.qvel[1] - base.qvel[1])

    expected = (loss(1e-5) - loss(-1e-5)) / 2e-5
    bars = {"qpos_tangent": np.zeros((2, m.nv)), "qvel": np.zeros((2, m.nv))}
    bars["qpos_tangent"][1], bars["qvel"][1] = weight
    for adjoint in ("discrete", "interpolated", "backsolve"):
        gradient = land("tsit5", 1e-10, adjoint=adjoint).backward(**bars)
        along = gradient.qpos_tangent @ direction[0] + gradient.qvel @ direction[1]
        assert along == pytest.approx(expected, rel=1e-6), adjoint


def test_check_tells_the_share_of_jumps():
    ball = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.3">
      <joint type="slide" axis="0 0 1"/><geom size="0.1"/></body></worldbody></mujoco>"""
    options = {"rtol": 1e-6, "interval": 0.05}
    start = {"qvel": [-1.0], "directions": 1}
    # it touches after 0.12 s
    report = diffmj.Simulator(ball, "tsit5", **options).check(**start, nstep=5)
    assert report.events == 1
    assert report.jump_share > 0.5
    assert "1 events, jump terms" in str(report)
    report = diffmj.Simulator(ball, "tsit5", **options).check(**start, nstep=2)
    assert (report.events, report.jump_share) == (0, 0)
    report = diffmj.Simulator(ball, "tsit5", events=False, **options).check(**start, nstep=5)
    assert (report.events, report.jump_share) == (0, -1)


def test_check():
    sim = diffmj.Simulator(CUBE, "tsit5", rtol=1e-4, interval=0.01, adjoint="interpolated")
    report = sim.check(qvel=[0, 0, -3, 1, 2, 3], nstep=6, directions=3)
    assert report.passed, report
    assert any("tsit5, adaptive with rtol 0.0001" in x for x in report.features)
    assert any("the check compares the discrete adjoint" in x for x in report.advice)
    assert 0 <= report.oracle_difference < 1e-6


def test_forces_at_the_start_of_intervals():
    sim = diffmj.Simulator(CUBE, "tsit5", interval=0.05)
    traj = sim.rollout(nstep=40)
    contacts = traj.constraint_forces(39).contacts
    weight = sum(x.force[0] for x in contacts)
    np.testing.assert_allclose(weight, 9.81 * 0.1, rtol=0.05)  # it rests
    with pytest.raises(diffmj.UnsupportedError, match="efc_force is unavailable with integrator"):
        traj.backward(efc_force={39: np.zeros(traj.steps.nefc[39])})


def test_plot_steps(cube):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sim = diffmj.Simulator(CUBE, "tsit5", interval=0.02)
    batch = sim.rollout(qvel=np.array([[0, 0, -3, 0, 0, 0], [0, 0, 0, 1, 2, 3.0]]), nstep=5)
    ax = diffmj.plot_steps(batch)
    assert isinstance(ax, plt.Axes)
    assert len(ax.patches) == 2
    assert (ax.get_yscale(), ax.get_xlabel()) == ("log", "time [s]")
    single = sim.rollout(nstep=5)
    assert diffmj.plot_steps(single, ax=ax, color="k", label="one") is ax
    assert len(ax.patches) == 3
    values, edges, _ = ax.patches[2].get_data()
    np.testing.assert_array_equal(edges, single.integrator.time)
    np.testing.assert_array_equal(values, np.diff(single.integrator.time))
    # one that failed before its first step has nothing to draw
    with pytest.raises(diffmj.StepSizeError) as info:
        diffmj.Simulator(CUBE, "tsit5", rtol=0, atol=1e-30).rollout(nstep=1)
    diffmj.plot_steps(info.value.trajectory, ax=ax).figure.canvas.draw()
    with pytest.raises(diffmj.InputError, match=r"steps of one size.*integrator='tsit5'"):
        diffmj.plot_steps(cube.rollout(nstep=2))
    plt.close("all")


INTERRUPTED = """
import sys
import numpy as np
import diffmj
from conftest import PENDULUM

# all steps in one interval, so that the signal arrives within it; few states are kept
what, adjoint = sys.argv[1:]
start = {"qpos": np.ones((3, 1)) if what == "batch" else [1.0], "nstep": 1}
options = {"step": 0.01, "adjoint": adjoint, "nthread": 2, "max_steps": 2_000_000_000}
options["checkpoints"] = None if what == "backward" else 3
options["interval"] = 1e7 if what in ("rollout", "batch") else 1000.0
sim = diffmj.Simulator(PENDULUM, "tsit5", **options)
if what in ("rollout", "batch"):
    work = lambda: sim.rollout(**start)
elif what == "check":
    work = lambda: sim.check(**start, directions=100)
else:
    record = sim.rollout(**start)
    work = lambda: record.backward(qpos=np.ones_like(record.qpos))
print("ready", flush=True)
try:
    while True:
        work()
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    assert diffmj.Simulator(PENDULUM, "tsit5").rollout(nstep=10).ok
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("what", "adjoint"),
    [
        ("rollout", "discrete"),
        ("batch", "discrete"),
        ("backward", "discrete"),
        ("backward", "interpolated"),
        ("backward", "backsolve"),
        ("checkpoints", "discrete"),
        ("check", "discrete"),
    ],
)
def test_interrupt(what, adjoint):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, what, adjoint],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "KeyboardInterrupt" in out
    assert time.monotonic() - sent < 5
