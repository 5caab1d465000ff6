"""Steps of explicit methods at and beyond their limit of stability."""

import warnings

import diffmj
import numpy as np
import pytest

SERVO = """<mujoco><option gravity="0 0 0"/>
<worldbody><body><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body>
</worldbody>
<actuator><position name="servo" joint="x" kp="%g" kv="%g"/></actuator></mujoco>"""

DAMPER = """<mujoco><option gravity="0 0 0"/>
<worldbody>
  <body><joint name="base" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/>
    <body pos="0 .3 0">
      <joint name="tip" type="slide" axis="1 0 0" damping="20" stiffness="40"/>
      <geom size=".05" mass=".01"/></body></body>
</worldbody></mujoco>"""

SPRING = """<mujoco><option gravity="0 0 0"/>
<worldbody>
  <site name="wall" pos="-1 0 0"/>
  <body><joint name="a" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/>
    <site name="hook"/></body>
</worldbody>
<tendon><spatial name="wire" stiffness="2e6" damping="800" springlength="1">
  <site site="wall"/><site site="hook"/></spatial></tendon></mujoco>"""

CONTACT = """<mujoco><option timestep="0.001"/>
<default><geom solref="%g 1"/></default>
<worldbody><geom name="floor" type="plane" size="1 1 .1"/>
  <body pos="0 0 .1"><freejoint/><geom name="box" type="box" size=".1 .1 .1" mass="1"/></body>
</worldbody></mujoco>"""

LIMIT = """<mujoco><option timestep="1e-4"/>
<worldbody><body><joint name="x" type="slide" axis="0 0 1" range="-.2 .5" limited="true"
  solreflimit="5e-4 1"/><geom size=".05" mass="1"/></body></worldbody></mujoco>"""

MUSCLE = """<mujoco><option gravity="0 0 0"/>
<worldbody><body><joint name="elbow" axis="0 1 0"/><geom size=".05" pos=".1 0 0" mass=".5"/></body>
</worldbody>
<actuator>
  <muscle name="flexor" joint="elbow" lengthrange="-1 1" timeconst="2e-4 3e-4" force="2"/>
</actuator></mujoco>"""

WORM = """<mujoco><option gravity="0 0 0"/>
<worldbody><body><joint name="slow" type="slide"/><geom size=".1" mass="1"/></body></worldbody>
<actuator><general name="gate" joint="slow" dyntype="%s" dynprm="1e-3" gainprm="2"/></actuator>
</mujoco>"""


def exponential(matrix, t):
    """exp(t A) of a matrix with distinct eigenvalues."""
    values, vectors = np.linalg.eig(matrix)
    return ((vectors * np.exp(t * values)) @ np.linalg.inv(vectors)).real


def stiff_warnings(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = call()
    return out, [w for w in caught if issubclass(w.category, diffmj.StiffWarning)]


def last_row(trajectory, **part):
    bars = {}
    for name, value in part.items():
        bar = np.zeros_like(getattr(trajectory, name))
        bar[-1] = value
        bars[name] = bar
    return trajectory.backward(**bars)


def flat(gradient):
    return np.concatenate([getattr(gradient, k).ravel() for k in ("qpos_tangent", "qvel", "act")])


@pytest.mark.parametrize(("kp", "kv"), [(1000, 100), (5000, 1000), (1e6, 5e4)])
@pytest.mark.parametrize("speed", [0.0, 1e-3])
@pytest.mark.parametrize("adjoint", ["discrete", "interpolated"])
def test_servo_has_the_gradient_of_its_closed_form(kp, kv, speed, adjoint):
    sim = diffmj.Simulator(SERVO % (kp, kv), integrator="tsit5", interval=0.01, adjoint=adjoint)
    n = 50 if kp < 1e5 else 20
    traj, caught = stiff_warnings(lambda: sim.rollout(qvel=[speed], nstep=n))
    gradient = last_row(traj, qpos=1)
    # x'' = kp (u - x) - kv x'
    flow = exponential(np.array([[0, 1], [-kp, -kv]]), 0.01 * n)
    np.testing.assert_allclose(gradient.qpos, flow[0, :1], rtol=2e-5)
    np.testing.assert_allclose(gradient.qvel, flow[0, 1:], rtol=2e-5)
    np.testing.assert_allclose(gradient.ctrl.sum(), 1 - flow[0, 0], rtol=1e-6)
    # the slow one has steps as long as an interval, and nothing to say
    assert bool(caught) == (kp > 1000)
    fastest = (kv + np.sqrt(kv**2 - 4 * kp)) / 2
    assert traj.integrator.largest_step <= 3.507 / fastest


def test_servo_is_named_once_with_remedies():
    sim = diffmj.Simulator(SERVO % (5000, 1000), integrator="tsit5", interval=0.01)
    traj, caught = stiff_warnings(lambda: sim.rollout(nstep=50))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    for part in ("joint 'x', by actuator 'servo'", "995 /s", "tsit5", 'integrator="model"', "kv"):
        assert part in text
    (warning,) = traj.warnings
    assert warning.text == text
    assert warning.kind == "stiff"
    assert warning.first_step == 0
    assert 100 < warning.count <= traj.integrator.accepted
    report = sim.check(nstep=50)
    assert report.verdict == "passed"
    assert [w.text for w in report.warnings] == [warning.text]


def test_batch_warns_once():
    sim = diffmj.Simulator(SERVO % (5000, 1000), integrator="tsit5", interval=0.01)
    traj, caught = stiff_warnings(lambda: sim.rollout(qvel=[[0], [1e-3], [0]], nstep=50))
    assert len(caught) == 1
    assert str(caught[0].message).startswith("3 of 3 rollouts; rollout 0: stiff: ")
    assert [len(w) for w in traj.warnings] == [1, 1, 1]


@pytest.mark.parametrize("method", ["tsit5", "dopri5", "dopri8", "bosh3", "heun", "midpoint"])
def test_every_method_has_its_own_limit(method):
    real = {"tsit5": 3.507, "dopri5": 3.307, "dopri8": 5.167, "bosh3": 2.513}.get(method, 2.0002)
    sim = diffmj.Simulator(SERVO % (5000, 1000), integrator=method, interval=0.01)
    traj = stiff_warnings(lambda: sim.rollout(nstep=20))[0]
    fastest = (1000 + np.sqrt(1000**2 - 4 * 5000)) / 2
    # close to it, not beyond
    assert 0.5 * real < fastest * traj.integrator.largest_step < real
    flow = exponential(np.array([[0, 1], [-5000, -1000]]), 0.2)
    # bosh3, heun and midpoint are no more accurate than that at their limit
    np.testing.assert_allclose(last_row(traj, qpos=1).qvel, flow[0, 1:], rtol=2e-3)


def test_an_oscillation_at_rest_does_not_grow():
    """Without damping tsit5 has no limit but a small growth: 3e5 of its radians here."""
    sim = diffmj.Simulator(SERVO % (1e8, 0), integrator="tsit5", interval=0.01)
    traj = stiff_warnings(lambda: sim.rollout(nstep=100))[0]
    assert 1e4 * traj.integrator.largest_step < 0.98
    gradient = last_row(traj, qpos=1)
    # |exp(tA)| in the norm of the energy is 1
    assert np.hypot(gradient.qpos[0], 1e4 * gradient.qvel[0]) < 2


@pytest.mark.parametrize("adjoint", ["discrete", "interpolated"])
@pytest.mark.parametrize("speed", [0.0, 0.01])
def test_damper_of_a_light_joint(adjoint, speed):
    sim = diffmj.Simulator(DAMPER, integrator="tsit5", interval=0.01, adjoint=adjoint)
    traj, caught = stiff_warnings(lambda: sim.rollout(qvel=[0, speed], nstep=50))
    assert "joint 'tip', by its damping" in str(caught[0].message)
    # M (a, b) with M = [[1.01, .01], [.01, .01]] and a force -40 x - 20 v on the tip
    inverse = np.linalg.inv([[1.01, 0.01], [0.01, 0.01]])
    force = np.array([[0, 0], [0, -1]])
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [40 * inverse @ force, 20 * inverse @ force]])
    A += 1e-9 * np.diag([1, 2, 3, 4])  # distinct eigenvalues
    flow = exponential(A, 0.5)
    gradient = last_row(traj, qpos=[1, 2])
    np.testing.assert_allclose(gradient.qvel, [1, 2] @ flow[:2, 2:], rtol=1e-5)
    np.testing.assert_allclose(gradient.qpos, [1, 2] @ flow[:2, :2], rtol=1e-5)


def test_spring_of_a_tendon():
    sims = [
        diffmj.Simulator(SPRING, integrator="tsit5", interval=0.01, adjoint=adjoint)
        for adjoint in ("discrete", "interpolated")
    ]
    (first, caught), (second, _) = [stiff_warnings(lambda s=s: s.rollout(nstep=20)) for s in sims]
    assert "joint 'a', by tendon 'wire' with its " in str(caught[0].message)
    flow = exponential(np.array([[0, 1], [-2e6, -800]]), 0.2)
    for traj in (first, second):
        gradient = last_row(traj, qpos=1, qvel=1e-3)
        # e^-80: what is left is nothing, and nothing has grown
        expected = [flow[0, 0] + 1e-3 * flow[1, 0], flow[0, 1] + 1e-3 * flow[1, 1]]
        assert np.allclose([gradient.qpos[0], gradient.qvel[0]], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (CONTACT % 0.02, None),  # the default
        (CONTACT % 0.002, "the contact of geom 'floor' and geom 'box'"),
        (LIMIT, "joint 'x', by the limit of joint 'x'"),
        (MUSCLE, "the activation of actuator 'flexor'"),
        (WORM % "filter", "the activation of actuator 'gate'"),
        (WORM % "filterexact", None),
    ],
)
def test_at_rest_adjoints_agree_and_the_cause_is_named(model, what):
    gradients = []
    # settled: a second of the model's own steps
    own = diffmj.Simulator(model)
    settled = own.rollout(nstep=round(1 / own.timestep) if "filter" not in model else 1)
    start = {"qpos": settled.qpos[-1], "qvel": settled.qvel[-1], "act": settled.act[-1]}
    for adjoint in ("discrete", "interpolated"):
        sim = diffmj.Simulator(model, integrator="tsit5", interval=0.02, adjoint=adjoint)
        traj, caught = stiff_warnings(lambda sim=sim: sim.rollout(**start, nstep=25))
        gradients.append(flat(last_row(traj, qpos=1, qvel=0.1)))
        assert bool(caught) == (what is not None)
        if what:
            assert what in str(caught[0].message)
    scale = np.abs(gradients[1]).max()
    # what a limit holds leaves nothing at all
    assert np.abs(gradients[0] - gradients[1]).max() < 1e-4 * max(scale, 1e-3)
    assert scale < 10


def test_differences_of_the_same_steps():
    sim = diffmj.Simulator(DAMPER, integrator="tsit5", interval=0.01)
    traj = stiff_warnings(lambda: sim.rollout(nstep=10))[0]
    gradient = last_row(traj, qpos=[1, 2])
    for k in range(2):
        v = np.zeros(2)
        v[k] = 1e-3
        ends = [sim.rollout(qvel=s * v, nstep=10, steps_of=traj).qpos[-1] for s in (1, -1)]
        difference = (ends[0] - ends[1]) @ [1, 2] / 2e-3
        np.testing.assert_allclose(gradient.qvel[k], difference, rtol=1e-7)


def test_checkpoints_give_the_same_bits_and_steps():
    gradients = []
    for checkpoints in (None, 1, 4, 20):
        sim = diffmj.Simulator(
            SERVO % (5000, 1000), integrator="tsit5", interval=0.01, checkpoints=checkpoints
        )
        traj = stiff_warnings(lambda sim=sim: sim.rollout(qvel=[1e-3], nstep=20))[0]
        gradients.append((traj.integrator.accepted, *flat(last_row(traj, qpos=1))))
    assert len(set(gradients)) == 1


def test_constant_steps_beyond_the_limit():
    def run(step):
        sim = diffmj.Simulator(SERVO % (5000, 1000), integrator="tsit5", interval=0.01, step=step)
        return stiff_warnings(lambda: sim.rollout(nstep=20))

    traj, caught = run(0.005)
    assert traj.integrator.accepted == 40  # as they were asked for
    text = str(caught[0].message)
    assert "steps are beyond the limit of stability of tsit5" in text
    assert "joint 'x', by actuator 'servo'" in text
    assert 'adjoint="interpolated"' in text
    assert not run(0.0033)[1]


def test_what_is_not_stiff_is_left_alone():
    """A pendulum that hangs still, and a spring that is as fast as what is asked of it."""
    pendulum = """<mujoco><worldbody><body><joint axis="0 1 0"/>
      <geom type="capsule" size=".05" fromto="0 0 0 0 0 -.5"/></body></worldbody></mujoco>"""
    for model, interval in ((pendulum, 0.01), (SERVO % (100, 1), 0.01), (pendulum, 1.0)):
        sim = diffmj.Simulator(model, integrator="tsit5", interval=interval)
        traj, caught = stiff_warnings(lambda sim=sim: sim.rollout(nstep=30))
        assert not caught
        assert not traj.warnings


def test_a_budget_that_stability_spends_says_so():
    sim = diffmj.Simulator(SERVO % (1e6, 5e4), integrator="tsit5", interval=0.01, max_steps=500)
    with (
        pytest.warns(diffmj.StiffWarning, match="actuator 'servo'"),
        pytest.raises(diffmj.StepBudgetError, match=r"stability of tsit5 limits steps to 6.*e-05"),
    ):
        sim.rollout(nstep=50)
