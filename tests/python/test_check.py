"""Simulator.check: the certificate."""

import diffmj
import numpy as np
import pytest
from conftest import CUBE, PENDULUM, ZOO, may_fall_back


@pytest.mark.smoke
def test_passes_on_a_smooth_model(pendulum):
    report = pendulum.check(qpos=[0.4], ctrl=[0.3])
    assert report.passed is True
    assert report.verdict == "passed"
    assert len(report.directions) == 8
    for d in report.directions:
        assert d.verdict == "agrees"
        assert d.error < 1e-5
        assert d.adjoint == pytest.approx(d.differences, rel=1e-4)
    assert report.solver_residual < 1e-10
    assert report.adjoint_residual < 1e-8
    assert report.path == "analytic"
    assert report.nearest_kink.step == -1
    assert report.nstep == 10
    text = str(report)
    assert 0 <= report.oracle_difference < 1e-6
    words = (
        "PASSED: the gradient is right here",
        "8 of 8",
        "agrees",
        "residual",
        "nearest kink",
        "features",
    )
    for word in (*words, "analytic", "difference to the oracle"):
        assert word in text
    assert max(len(line) for line in text.splitlines()) <= 100


@may_fall_back
def test_passes_in_contact():
    sim = diffmj.Simulator(ZOO / "act_servo.xml")
    report = sim.check(**vars(sim.keyframe_state("test")), nstep=5, directions=3)
    assert report.passed, report


def test_analytic_in_contact(cube):
    report = cube.check(qvel=[0, 0, -2, 0, 0, 0], nstep=60, directions=2)
    assert np.any(cube.rollout(qvel=[0, 0, -2, 0, 0, 0], nstep=60).steps.ncon > 0)
    assert report.path == "analytic"
    assert 0 < report.oracle_difference < 1e-5


def test_other_paths():
    for path in ("oracle", "differences"):
        sim = diffmj.Simulator(PENDULUM, gradient_path=path)
        report = sim.check(qpos=[0.4], nstep=3, directions=2)
        assert report.passed, report
        assert report.path == path
        assert report.oracle_difference == -1
        assert path in str(report)
        assert "to the oracle" not in str(report)


def test_compares_on_the_side_of_a_kink():
    # the lowest corner is 1e-9 m in the floor, at MuJoCo's default contacts: a difference step to
    # the other side jumps, and the gradient is that of this side
    sim = diffmj.Simulator(CUBE.replace("0 0.95", "0.9 0.95"))
    qpos = sim.default_state().qpos
    corners = 0.05 * (np.indices((2, 2, 2)).reshape(3, 8).T * 2 - 1)
    w, x, y, z = qpos[3:] / np.linalg.norm(qpos[3:])
    third_row = [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    qpos[2] = -min(corners @ third_row) - 1e-9
    report = sim.check(qpos=qpos, qvel=[0.3, 0, 0, 1, 2, 3], nstep=1)
    assert report.passed, report
    assert report.reason == ""
    assert {d.method for d in report.directions} == {"one-sided"}
    assert report.nearest_kink.step == 0
    assert abs(report.nearest_kink.distance) < 1e-6
    assert "floor" in report.nearest_kink.what
    assert "one-sided" in str(report)


WEDGED = """
<mujoco>
  <worldbody><body><joint name="x" type="slide"/><geom size="0.1"/></body></worldbody>
  <actuator>
    <motor name="wedged" joint="x" ctrllimited="true" ctrlrange="0 1e-12"/>
  </actuator>
</mujoco>
"""


def test_does_not_pass_at_a_kink():
    # whichever way the control moves, it is clamped
    report = diffmj.Simulator(WEDGED).check(ctrl=[5e-13], nstep=2, directions=2)
    assert not report.passed
    assert report.verdict == "inconclusive"
    for d in report.directions:
        assert d.verdict == "at a kink"
        assert d.kink == "control of actuator 'wedged' is clamped"
        assert d.step in (0, 1)
    assert "control of actuator 'wedged'" in report.reason
    assert "at a kink" in str(report)
    assert report.reason.split()[-1] in str(report)


FINGERS = """
<mujoco>
  <worldbody>
    <body pos="0 0 1">
      <joint name="wrist" axis="0 1 0" damping="0.1"/>
      <geom size="0.05" pos="0.1 0 0"/>
      <body>
        <joint name="left" type="slide" limited="true" range="0 0.04" damping="10"/>
        <geom size="0.01" contype="0" conaffinity="0"/>
      </body>
      <body>
        <joint name="right" type="slide" axis="-1 0 0" limited="true" range="0 0.04" damping="10"/>
        <geom size="0.01" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position joint="left" kp="100" ctrlrange="0 0.04"/>
    <position joint="right" kp="100" ctrlrange="0 0.04"/>
  </actuator>
</mujoco>
"""


@pytest.mark.smoke
def test_fingers_at_the_ends_of_their_ranges():
    # 1e-9 m from their limits, on either side, and controls at their bounds: every direction
    # crosses something, and each step is compared by itself
    sim = diffmj.Simulator(FINGERS)
    report = sim.check(qpos=[0.3, 0.04 - 1e-9, 0.04 + 1e-9], ctrl=[0.04, 0.04], nstep=5)
    assert report.passed, report
    assert "stepwise" in {d.method for d in report.directions}
    for d in report.directions:
        assert d.kink == ""
        assert d.adjoint == pytest.approx(d.differences, rel=1e-4, abs=1e-4)


ELLIPSOID = """
<mujoco>
  <option ccd_tolerance="{tolerance}"/>
  <worldbody>
    <geom name="table" type="box" size="0.5 0.5 0.1" pos="0 0 -0.1"/>
    <body pos="0 0 0.0198"><freejoint/>
      <geom name="egg" type="ellipsoid" size="0.03 0.04 0.02"/></body>
  </worldbody>
</mujoco>
"""


def test_colliders_that_iterate():
    # the gradient is that of contacts at machine precision; MuJoCo's own are further off
    sim = diffmj.Simulator(ELLIPSOID.format(tolerance="1e-6"))
    report = sim.check(qvel=[0, 0, 0, 0.3, 0.2, 0.1], nstep=5)
    assert report.passed, report
    assert report.collider_difference > 1e-5
    words = "geom 'egg' and geom 'table' by iteration, to ccd_tolerance 1e-06"
    assert any(words in line for line in report.advice), report.advice
    assert "ccd_tolerance" in str(report)
    tight = diffmj.Simulator(ELLIPSOID.format(tolerance="1e-14"))
    report = tight.check(qvel=[0, 0, 0, 0.3, 0.2, 0.1], nstep=5)
    assert report.passed, report
    assert 0 <= report.collider_difference < 1e-5
    assert not any("to ccd_tolerance" in line for line in report.advice)


def test_no_collider_iterates(cube):
    assert cube.check(nstep=1, directions=1).collider_difference == -1


def test_advice_is_that_of_the_integrator(cube):
    hard = CUBE.replace("0 0.95", "0.9 0.95")
    own = diffmj.Simulator(hard).check(nstep=1, directions=1).advice
    assert any("not that of the motion" in line for line in own)
    for events, word in ((True, "has the term of its moment"), (False, "missing without events")):
        sim = diffmj.Simulator(hard, integrator="tsit5", events=events)
        advice = sim.check(nstep=1, directions=1).advice
        assert any(word in line for line in advice), advice
        assert not any("as the step goes to zero" in line for line in advice), advice


LIMITS = """
<mujoco>
  <option timestep="0.001" gravity="0 0 0"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" gap="0.01"/>
    <body pos="0 0 0.105"><freejoint/><geom name="ball" size="0.1"/></body>
    {hinges}
  </worldbody>
</mujoco>
"""
HINGE = """<body pos="{i} 0 2">
  <joint name="hinge{i}" axis="0 1 0" limited="true" range="-{i}0 {i}0"/>
  <geom size="0.1" contype="0" conaffinity="0"/></body>"""


def test_kinks_of_every_constraint():
    hinges = "".join(HINGE.format(i=i) for i in range(1, 8))
    sim = diffmj.Simulator(LIMITS.format(hinges=hinges))
    report = sim.check(qvel=[0, 0, -0.1, *np.zeros(10)], nstep=3, directions=1)
    assert len(report.kinks) == 8
    contact = report.kinks[0]
    assert contact.constraint == "contact of geom 'floor' and geom 'ball'"
    assert contact.zone is None
    assert contact.activation.step == 2
    assert contact.activation.distance == pytest.approx(0.005 - 2 * 1e-4)
    assert contact.activation.unit == "m"
    assert contact.activation.what == report.nearest_kink.what
    # nearest first
    assert [k.constraint for k in report.kinks[1:]] == [
        f"limit of joint 'hinge{i}'" for i in range(1, 8)
    ]
    assert report.kinks[1].activation.distance == pytest.approx(np.deg2rad(10))
    text = str(report)
    assert "by constraint" in text
    assert "and 3 more in report.kinks" in text
    assert "hinge4" in text
    assert "hinge5" not in text
    assert max(len(line) for line in text.splitlines()) <= 100


def test_no_constraint_no_kinks(pendulum):
    report = pendulum.check(nstep=2, directions=1)
    assert report.kinks == []
    assert "by constraint" not in str(report)


def test_arguments(pendulum):
    few = pendulum.check(nstep=3, directions=2, seed=5, tolerance=1e-4)
    assert len(few.directions) == 2
    assert few.tolerance == 1e-4
    again = pendulum.check(nstep=3, directions=2, seed=5)
    other = pendulum.check(nstep=3, directions=2, seed=6)
    assert [d.adjoint for d in few.directions] == [d.adjoint for d in again.directions]
    assert [d.adjoint for d in few.directions] != [d.adjoint for d in other.directions]
    for bad in (-1, 0, float("nan"), float("inf")):
        with pytest.raises(diffmj.InputError, match=r"check: tolerance is -?[0-9a-z]+, expected"):
            pendulum.check(tolerance=bad)
    for bad in ({"directions": 0}, {"seed": -1}, {"nstep": -2}, {"qpos": np.zeros((2, 1))}):
        with pytest.raises(diffmj.InputError, match="check"):
            pendulum.check(**bad)
    with pytest.raises(diffmj.InputError):
        pendulum.check(ctrl=np.zeros((4, 1)), nstep=10)
    # without nstep the rows of ctrl say how long the rollout is
    assert pendulum.check(ctrl=np.zeros((20, 1)), directions=1).nstep == 20
    assert pendulum.check(directions=1).nstep == 10


def test_progress(pendulum):
    shares = []
    pendulum.check(directions=3, progress=shares.append)
    assert shares
    assert shares == sorted(shares)
    assert shares[-1] == 1

    def stop(share):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        pendulum.check(progress=stop)


def test_rollout_that_fails(cube):
    with pytest.raises(diffmj.InputError, match="diverged"):
        cube.check(qfrc_applied=np.full(6, 1e10), nstep=50)
