"""Costs, planners and the loop around them."""

import contextlib
import os
import signal
import threading
import time

import diffmj
import numpy as np
import pytest
from conftest import REACHING_ARM
from diffmj import view

METHODS = ("gradient", "sampling", "hybrid", "ilqr")


@pytest.fixture(scope="module")
def sim() -> diffmj.Simulator:
    return diffmj.Simulator(REACHING_ARM)


REACH = [diffmj.SiteDistance("tip", "goal"), diffmj.JointVelocity(weight=1e-3)]
TASK = {"horizon": 60, "knots": 12, "iterations": 8, "rate": 0.1, "samples": 16}


@pytest.mark.smoke
@pytest.mark.parametrize("method", METHODS)
def test_planners_reduce_the_cost(sim, method):
    seen = []
    planner = diffmj.Planner(sim, diffmj.Cost(REACH), method=method, noise="brown", **TASK)
    plan = planner.plan(qpos=[0.1, 0.2], progress=seen.append)
    assert plan.ctrl.shape == (60, 2)
    assert np.all(np.abs(plan.ctrl) <= [12, 6])
    assert plan.cost < 0.7 * plan.history[0].cost
    assert seen == plan.history
    assert sum(plan.terms.values()) == pytest.approx(plan.cost)
    assert list(plan.terms) == ["Distance(tip, goal)", "JointVelocity"]
    assert plan.diverged == 0 and not plan.interrupted
    # the cost is that of the plan's rollout
    traj = sim.rollout([0.1, 0.2], ctrl=plan.ctrl)
    assert diffmj.Cost(REACH).evaluate(traj).sum() == plan.cost
    # the last plan is the start of the next
    assert planner.plan(qpos=[0.1, 0.2]).cost <= plan.cost
    # the same seed, whatever the threads
    again = diffmj.Planner(sim, REACH, method=method, noise="brown", nthread=3, **TASK)
    assert np.array_equal(again.plan(qpos=[0.1, 0.2]).ctrl, plan.ctrl)


def test_ilqr_reaches_in_a_few_iterations_and_its_gains_hold_the_plan(sim):
    plan = diffmj.Planner(sim, REACH, "ilqr", horizon=60, iterations=10).plan([0.1, 0.2])
    adam = diffmj.Planner(sim, REACH, horizon=60, iterations=40, rate=0.1).plan([0.1, 0.2])
    assert plan.cost < adam.cost
    cost = [diffmj.JointPosition(target=[0.4, 0.5]), diffmj.ControlEffort(weight=1e-3)]
    plan = diffmj.Planner(sim, cost, "ilqr", horizon=60, iterations=10).plan([0.1, 0.2])
    assert plan.gains.shape == (60, 2, 4)
    # from beside the start, with and without them
    planned, ends = sim.rollout([0.1, 0.2], ctrl=plan.ctrl), []
    for gains in (plan.gains, np.zeros_like(plan.gains)):
        qpos, qvel = np.array([0.15, 0.1]), np.array([0.0, -0.5])
        for i in range(60):
            dx = np.concatenate([qpos - planned.qpos[i], qvel - planned.qvel[i]])
            ctrl = np.clip(plan.ctrl[i] + gains[i] @ dx, [-12, -6], [12, 6])
            step = sim.rollout(qpos, qvel, ctrl=ctrl[None])
            qpos, qvel = step.qpos[-1], step.qvel[-1]
        ends.append(np.linalg.norm(qpos - planned.qpos[-1]))
    assert ends[0] < 0.3 * ends[1]
    # knots have none
    assert diffmj.Planner(sim, cost, "ilqr", horizon=60, knots=6).plan().gains is None


def test_ilqr_in_the_loop_reaches_and_goes_on_with_the_same_bits(sim):
    def planner():
        return diffmj.Planner(sim, REACH, "ilqr", horizon=50, knots=10, iterations=2)

    run = diffmj.run_mpc(planner(), qpos=[0.1, 0.2], nstep=200, execute=20)
    assert run.plans[-1].cost < 0.1 * run.plans[0].history[0].cost
    half = diffmj.run_mpc(planner(), qpos=[0.1, 0.2], nstep=100, execute=20)
    whole = diffmj.run_mpc(planner(), qpos=[0.1, 0.2], nstep=200, execute=20, resume=half)
    assert np.array_equal(whole.qpos, run.qpos)


def test_ilqr_swings_a_pole_up_without_bounds_or_effort():
    # the last control of each plan is a kick: held while the plan moves on, it would throw the cart
    pole = diffmj.Simulator(
        """<mujoco><option timestep="0.02"/><default><geom contype="0" conaffinity="0"/></default>
        <worldbody><body><joint name="cart" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/>
        <body><joint name="pole" axis="0 1 0" damping="0.01"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.6" mass="0.2"/></body></body>
        </worldbody><actuator><motor joint="cart"/></actuator></mujoco>"""
    )
    cost = [
        diffmj.JointPosition(["pole"], target=[np.pi], terminal=5),
        diffmj.JointVelocity(weight=0.01, terminal=0.5),
        diffmj.JointPosition(["cart"], weight=0.05),
    ]
    planner = diffmj.Planner(pole, cost, "ilqr", horizon=80, iterations=3)
    run = diffmj.run_mpc(planner, nstep=200, execute=5)
    assert abs(run.qpos[-1, 1] - np.pi) < 0.01
    assert abs(run.qpos[-1, 0]) < 0.5
    assert run.plans[-1].cost < 1e-3


def test_ilqr_says_what_it_does_not_do(sim):
    def refused(text, cost=REACH, error=diffmj.InputError, **options):
        with pytest.raises(error, match=text):
            diffmj.Planner(sim, cost, "ilqr", **options)

    refused("decides controls only, not forces", decide=("ctrl", "qfrc_applied"))
    refused("decides controls only, not velocity", decide=("ctrl", "qvel"))
    refused("interpolation linear or zero", knots=5, interpolation="cubic")
    refused("regularization is -1", regularization=-1)
    refused("regularization is nan", regularization=float("nan"))
    refused("at most 63 starts", starts=64)
    own = [diffmj.OwnCost(lambda batch: (np.zeros(len(batch)), {}), name="mine")]
    refused("needs residuals, but own cost 'mine' has none", own, diffmj.UnsupportedError)
    still = diffmj.Simulator(
        "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    with pytest.raises(diffmj.InputError, match="the model has no controls"):
        diffmj.Planner(still, [diffmj.JointVelocity()], "ilqr")


def test_costs_agree_with_numpy(sim):
    rng = np.random.default_rng(0)
    ctrl = rng.standard_normal((20, 2))
    traj = sim.rollout([0.3, -0.2], [1, 2], ctrl=ctrl, sensors=True)
    cost = diffmj.Cost(
        [
            diffmj.Distance("site:tip", [0.1, 0, 0.5], norm="l2", scale=0.2, terminal=3.0),
            diffmj.Distance("com:forearm", "geom:rod", axes=(1, 0, 2)),
            diffmj.Orientation("body:forearm", [1, 0, 0, 0]),
            diffmj.JointPosition("elbow", 0.5),
            diffmj.JointVelocity(["elbow"], [1.0], norm="huber", scale=0.1),
            diffmj.FrameVelocity("site:tip"),
            diffmj.ControlEffort("b", 0.2),
            diffmj.ControlRate(weight=1e-4),
            diffmj.SensorValue("gyro", norm="cosh", scale=3.0),
        ]
    )
    tip = np.linalg.norm(traj.site_xpos[1:, 1] - [0.1, 0, 0.5], axis=1)
    l2 = np.sqrt(tip**2 + 0.04) - 0.2
    com = (traj.subtree_com[1:, 2] - traj.geom_xpos[1:, 1]) * [1, 0, 2]
    velocity = np.abs(traj.qvel[1:, 1] - 1)
    expected = [
        l2.mean() + 3 * l2[-1],
        (com**2).sum(1).mean(),
        (traj.qpos[1:].sum(1) ** 2).mean(),
        ((traj.qpos[1:, 1] - 0.5) ** 2).mean(),
        np.where(velocity < 0.1, velocity**2, 0.2 * velocity - 0.01).mean(),
        (traj.site_linvel[1:, 1] ** 2).sum(1).mean(),
        ((ctrl[:, 1] - 0.2) ** 2).mean(),
        1e-4 * ((np.diff(ctrl, axis=0) / 0.005) ** 2).sum() / 20,
        18 * (np.cosh(traj.sensor("gyro")[1:] / 3) - 1).sum(1).mean(),
    ]
    assert cost.evaluate(traj) == pytest.approx(expected)
    assert len(cost.names(sim)) == 9
    batch = sim.rollout(np.zeros((3, 2)), ctrl=np.zeros((20, 2)))
    assert cost.evaluate(batch).shape == (3, 9)


def test_own_cost_is_the_same_as_a_term(sim):
    calls = []

    def reach(batch):
        """2 |tip - goal|² at the end, and a hundredth of the controls'."""
        calls.append(batch.gradient)
        difference = batch.site_xpos[:, -1, 0] - batch.site_xpos[:, -1, 1]
        value = 2 * (difference**2).sum(1) + 0.01 * (batch.ctrl**2).sum((1, 2)) / batch.nstep
        bar = np.zeros_like(batch.site_xpos)
        bar[:, -1, 0] = 4 * difference
        bar[:, -1, 1] = -4 * difference
        return value, {"site_xpos": bar, "ctrl": 0.02 * batch.ctrl / batch.nstep}

    own = diffmj.Cost([diffmj.OwnCost(reach, observables=["site_xpos"])])
    same = diffmj.Cost(
        [
            diffmj.SiteDistance("tip", "goal", weight=0, terminal=2),
            diffmj.ControlEffort(weight=0.01),
        ]
    )
    for method in METHODS[:3]:  # iLQR has no own costs
        plans = [diffmj.Planner(sim, x, method=method, **TASK).plan() for x in (own, same)]
        assert plans[0].cost == pytest.approx(plans[1].cost, rel=1e-6)
        assert plans[0].ctrl == pytest.approx(plans[1].ctrl, abs=1e-4)
    assert True in calls and False in calls


def test_targets_over_time(sim):
    """The same as a cost of the whole trajectory, and the time goes on from plan to plan."""
    time = np.linspace(0, 2, 41)
    angle = 2 * np.pi * time
    path = np.stack([0.5 + 0.1 * np.cos(angle), 0 * angle, 0.7 + 0.1 * np.sin(angle)], axis=1)
    follow = diffmj.Cost([diffmj.Distance("site:tip", diffmj.Reference(time, path))])
    traj = sim.rollout([0.1, 0.2], nstep=50, time=0.3)
    target = np.stack([np.interp(traj.time[1:], time, x) for x in path.T], axis=1)
    tip = traj.site_xpos[1:, 1]  # the first site is the goal
    assert follow.evaluate(traj).sum() == pytest.approx(((tip - target) ** 2).sum(1).mean())

    planner = diffmj.Planner(sim, follow, horizon=40, iterations=12, rate=0.2)
    run = diffmj.run_mpc(planner, [1.2, 0.5], nstep=300, execute=10)
    tips = sim.rollout(run.qpos[0], run.qvel[0], ctrl=run.ctrl).site_xpos[100:, 1]
    target = np.stack([np.interp(run.time[100:], time, x) for x in path.T], axis=1)
    assert np.linalg.norm(tips - target, axis=1).mean() < 0.02


def test_references_that_are_wrong_are_named(sim):
    def refused(text, **arguments):
        with pytest.raises(diffmj.InputError, match=text):
            diffmj.Planner(sim, [diffmj.JointPosition(**arguments)])

    refused(r"target has times of shape \(2,\)", target=diffmj.Reference([0, 1], [[1], [2], [3]]))
    refused(r"target.values\[1\] is nan", target=diffmj.Reference([0, 1], [1, np.nan]))
    refused("must increase", joints="elbow", target=diffmj.Reference([0, 0], [1, 2]))
    refused("expected 2 at each", target=diffmj.Reference([0, 1], [1, 2]))
    with pytest.raises(diffmj.InputError, match=r"values of shape \(2, 2\), expected .* \(n, 3\)"):
        diffmj.Cost([diffmj.Distance("site:tip", diffmj.Reference([0, 1], [[1, 2], [3, 4]]))])


def test_own_cost_that_is_wrong_is_named(sim):
    def planner(function):
        return diffmj.Planner(sim, [diffmj.OwnCost(function, name="mine")], **TASK)

    with pytest.raises(diffmj.InputError, match=r"'mine'.*shape"):
        planner(lambda batch: (np.zeros(7), {})).plan()
    with pytest.raises(diffmj.InputError, match=r"cotangent of 'site_xpos'"):
        planner(lambda batch: (np.zeros(1), {"site_xpos": 0})).plan()
    with pytest.raises(diffmj.InputError, match=r"cotangent of qvel has shape"):
        planner(lambda batch: (np.zeros(1), {"qvel": np.zeros(3)})).plan()
    with pytest.raises(ZeroDivisionError):
        planner(lambda batch: 1 / 0).plan()


def test_gradient_of_the_velocity_of_the_start_throws_a_ball():
    ball = """<mujoco><option timestep="0.01"/><worldbody><body name="ball"><freejoint/>
      <geom size="0.1" mass="1"/></body></worldbody></mujoco>"""
    planner = diffmj.Planner(
        diffmj.Simulator(ball),
        [diffmj.Distance("body:ball", [1, 0.5, 0.2], weight=0, terminal=1)],
        decide="qvel",
        horizon=50,
        iterations=150,
        rate=0.3,
    )
    plan = planner.plan()
    assert plan.cost < 1e-4
    assert plan.qvel[0] == pytest.approx(2, abs=0.1)
    assert plan.qfrc_applied is None and plan.ctrl.shape == (50, 0)


def test_run_mpc_reaches_and_goes_on(sim):
    seen = []
    planner = diffmj.Planner(sim, REACH, **TASK)
    run = diffmj.run_mpc(planner, nstep=160, execute=16, progress=seen.append)
    assert run.nstep == 160 and len(run.plans) == len(seen) == 10
    assert run.qpos.shape == (161, 2) and run.ctrl.shape == (160, 2) and run.act.shape == (161, 0)
    assert run.costs.shape == (10,) and run.costs[-1] < 0.5 * run.costs[0]
    assert run.simulated == pytest.approx(0.8)
    assert run.seconds == pytest.approx(sum(x.seconds for x in run.plans))
    first = sim.rollout(ctrl=run.ctrl[:16])
    assert np.array_equal(first.qpos, run.qpos[:17])
    # on from there, on a finer model, until the tip is there
    fine = diffmj.Simulator(REACHING_ARM.replace("0.005", "0.0025"))

    def there(run):
        tip = fine.rollout(run.qpos[-1], nstep=0).site_xpos[0]
        return np.linalg.norm(tip[0] - tip[1]) < 0.05

    more = diffmj.run_mpc(
        planner, run.qpos[-1], run.qvel[-1], nstep=960, execute=32, sim=fine, done=there
    )
    assert more.done and there(more) and more.message == ""


def test_run_mpc_in_real_time(sim):
    planner = diffmj.Planner(sim, REACH, seconds=0.02, **TASK)
    run = diffmj.run_mpc(
        planner, ctrl=[0.5, 0], nstep=300, execute=4, realtime=True, ctrl_noise=0.01, seed=1
    )
    assert run.nstep == 300
    assert all(x.time >= x.step * 0.005 - 1e-9 for x in run.plans)
    assert run.plans[0].expected == 0.02
    assert run.plans[-1].cost < run.plans[0].cost


def test_diverging_rollouts_are_left_out_with_a_warning():
    wild = """<mujoco><option gravity="0 0 0" timestep="0.01"/><worldbody><body>
      <joint type="slide" name="x"/><geom size="0.1" mass="1"/></body></worldbody><actuator>
      <general joint="x" gainprm="1e12" ctrllimited="true" ctrlrange="-1 1"/></actuator></mujoco>"""
    sim = diffmj.Simulator(wild)
    planner = diffmj.Planner(sim, [diffmj.JointPosition()], method="sampling", **TASK)
    with pytest.warns(RuntimeWarning, match="rollouts of the plan diverged"):
        plan = planner.plan()
    assert 0 < plan.diverged < plan.rollouts and np.isfinite(plan.cost)
    planner.reset()
    with pytest.raises(diffmj.RolloutError, match=r"all .* rollouts diverged"):
        planner.plan(qvel=[9e9], ctrl=[1])


@pytest.mark.parametrize("what", ["plan", "run"])
def test_ctrl_c_keeps_the_best(sim, what):
    planner = diffmj.Planner(sim, REACH, **{**TASK, "iterations": 10**6 if what == "plan" else 4})
    timer = threading.Thread(target=lambda: (time.sleep(0.7), os.kill(os.getpid(), signal.SIGINT)))
    timer.start()
    if what == "plan":
        result = planner.plan()
        assert len(result.history) > 1
    else:
        result = diffmj.run_mpc(planner, nstep=10**6)
        assert result.nstep > 0
    timer.join()
    assert result.interrupted


def test_what_makes_no_sense_is_refused(sim):
    for arguments, match in (
        ({"method": "newton"}, "method 'newton' is not known"),
        ({"noise": "blue"}, "noise 'blue' is not known"),
        ({"horizon": 0}, "horizon is 0"),
        ({"knots": 61}, "knots is 61"),
        ({"decide": "qpos"}, "decide has 'qpos'"),
        ({"rate": -1}, "rate"),
        ({"seed": -1}, "seed is -1"),
    ):
        with pytest.raises(diffmj.InputError, match=match):
            diffmj.Planner(sim, REACH, **{**TASK, **arguments})
    for term, match in (
        (diffmj.SiteDistance("top", "goal"), "the model has no site 'top'"),
        (diffmj.JointPosition("elbow", [1, 2]), "target has 2"),
        (diffmj.SensorValue("imu"), "the model has no sensor 'imu'"),
    ):
        with pytest.raises(diffmj.InputError, match=match):
            diffmj.Planner(sim, [term], **TASK)
    with pytest.raises(diffmj.InputError, match=r"'tip'.*site:tip"):
        diffmj.Cost([diffmj.Distance("tip", "goal")])
    with pytest.raises(diffmj.InputError, match="norm 'l1' is not known"):
        diffmj.Cost([diffmj.SiteDistance("tip", "goal", norm="l1")])
    planner = diffmj.Planner(sim, REACH, **TASK)
    with pytest.raises(diffmj.InputError, match="batch"):
        planner.plan(qpos=np.zeros((2, 2)))
    with pytest.raises(diffmj.InputError, match="ctrl"):
        planner.plan(ctrl=np.zeros((7, 2)))
    with pytest.raises(diffmj.InputError, match="disturbance"):
        diffmj.run_mpc(planner, nstep=10, disturbance=np.zeros((3, 3)))


def _hybrid(sim):
    return diffmj.Planner(sim, REACH, "hybrid", horizon=40, iterations=2, samples=6, seed=2)


def test_a_run_resumes_with_the_bits_of_one(sim, tmp_path):
    options = {"execute": 6, "realtime": True, "plan_seconds": 0.03, "ctrl_noise": 0.01}
    whole = diffmj.run_mpc(_hybrid(sim), nstep=60, **options)
    part = diffmj.run_mpc(_hybrid(sim), nstep=33, **options)
    part.save(tmp_path / "run")
    read = diffmj.MpcRun.load(tmp_path / "run")
    np.testing.assert_array_equal(read.qpos, part.qpos)
    run = diffmj.run_mpc(_hybrid(sim), nstep=60, resume=read, **options)
    np.testing.assert_array_equal(run.qpos, whole.qpos)
    np.testing.assert_array_equal(run.costs, whole.costs)
    with pytest.raises(diffmj.InputError, match="another problem"):
        diffmj.run_mpc(diffmj.Planner(sim, REACH, horizon=40), nstep=60, resume=read)
    with pytest.raises(diffmj.InputError, match="is not one of a run"):
        diffmj.MpcRun.load(__file__)


class Window:
    """What `mujoco.viewer.launch_passive` gives, as far as it is used."""

    def __init__(self, model, data, **_):
        self.data, self.shown, self.open, self.closed = data, [], True, False

    def lock(self):
        return contextlib.nullcontext()

    def is_running(self):
        return self.open

    def sync(self):
        self.shown.append((self.data.time, *self.data.qpos))

    def close(self):
        self.closed = True


def test_a_live_view_keeps_pace_with_the_motion(sim):
    windows, waits, now = [], [], [0.0]

    def launch(*arguments, **options):
        windows.append(Window(*arguments, **options))
        return windows[-1]

    def sleep(seconds):
        waits.append(seconds)
        now[0] += seconds

    times = np.arange(0, 0.5, 0.005)
    qpos = np.linspace(0, 1, len(times))[:, None] * np.ones(sim.nq)
    with view.LiveView(sim, launch=launch, now=lambda: now[0], sleep=sleep) as window:
        window.show(times, qpos)
        (opened,) = windows
        # about sixty pictures a second, the states as they are
        assert 20 <= len(opened.shown) <= 31
        np.testing.assert_allclose(opened.shown[0], [0, *qpos[0]])
        assert now[0] == pytest.approx(opened.shown[-1][0])
        # planning took longer than the motion: nothing to wait for
        now[0] += 10
        waits.clear()
        window.show([0.6], qpos[-1:])
        assert not waits
        opened.open = False
        count = len(opened.shown)
        window.show([0.7], qpos[-1:])
        assert len(opened.shown) == count
    assert opened.closed


def test_run_mpc_shows_what_it_executes(sim, monkeypatch):
    windows = []

    def launch(*arguments, **options):
        windows.append(Window(*arguments, **options))
        return windows[-1]

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("mujoco.viewer.launch_passive", launch)
    run = diffmj.run_mpc(_hybrid(sim), nstep=24, execute=8, view=True)
    (window,) = windows
    assert window.closed
    assert {x[0] for x in window.shown} <= set(run.time)
    assert window.shown[0] == (0, *run.qpos[0])


def test_a_view_without_a_display_says_so(sim, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(diffmj.InputError, match="there is no display"):
        diffmj.run_mpc(_hybrid(sim), nstep=24, view=True)


def test_states_come_as_text():
    shown = []

    class Recorder:
        def show(self, time, qpos):
            shown.append((list(time), list(qpos)))

    view.follow(Recorder(), ["0 1 2\n", "0.5 3 4\n"])
    assert shown == [([0.0], [1.0, 2.0]), ([0.5], [3.0, 4.0])]
