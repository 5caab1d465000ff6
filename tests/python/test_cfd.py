"""Contacts from distance: gradients that point towards contact, rollouts that do not know."""

import functools
import warnings

import diffmj
import numpy as np
import pytest
from conftest import BALLS_IN_A_ROW, cap_is_said

BALLS = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <default><geom solimp="0.008 0.95 0.01 0.5 2" mass="0.2"/></default>
  {custom}
  <worldbody>
    <body><freejoint/><geom name="a" size=".05"/></body>
    <body pos=".15 .03 0"><freejoint/><geom name="b" size=".05"/></body>
  </worldbody>
</mujoco>
"""
QVEL = np.eye(12)[0]


def gradient(custom="", qvel=QVEL, nstep=10, **options):
    """d(x velocity of the second ball)/d(input)."""
    traj = diffmj.Simulator(BALLS.format(custom=custom), **options).rollout(qvel=qvel, nstep=nstep)
    bar = np.zeros_like(traj.qvel)
    bar[..., -1, 6] = 1
    return traj, traj.backward(qvel=bar)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "RK4", "tsit5"])
def test_gradient_points_towards_contact(integrator):
    plain, none = gradient(integrator=integrator)
    traj, grad = gradient(integrator=integrator, cfd=diffmj.Cfd())
    np.testing.assert_array_equal(traj.qpos, plain.qpos)
    np.testing.assert_array_equal(traj.qvel, plain.qvel)
    assert none.qvel[0] == 0
    assert grad.qvel[0] > 1e-5  # faster: a harder push
    assert grad.qpos_tangent[0] > 1e-5  # nearer: too
    assert grad.qpos_tangent[1] > 1e-6  # and less of a miss


@pytest.mark.parametrize("adjoint", ["discrete", "interpolated", "backsolve"])
def test_adjoints_agree(adjoint):
    settings = {"integrator": "tsit5", "rtol": 1e-10, "atol": 1e-10, "cfd": diffmj.Cfd()}
    _, grad = gradient(adjoint=adjoint, **settings)
    _, constant = gradient(integrator="tsit5", step=1e-4, cfd=diffmj.Cfd())
    np.testing.assert_allclose(grad.qvel, constant.qvel, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(grad.qpos_tangent, constant.qpos_tangent, rtol=1e-6, atol=1e-9)


def test_width_zero_is_the_ordinary_gradient():
    qvel = 30 * QVEL  # they meet
    _, plain = gradient(qvel=qvel)
    _, none = gradient(qvel=qvel, cfd=diffmj.Cfd(width=0))
    assert abs(plain.qvel[0]) > 0.1
    np.testing.assert_allclose(none.qvel, plain.qvel, rtol=1e-6, atol=1e-9)


def test_laws_of_geoms_pairs_and_of_the_model():
    _, grad = gradient(cfd=diffmj.Cfd(width=0.2, d_0=0.005, power=4, softplus=0.01))
    same = diffmj.Cfd(width=0.2, d_0=0.005, power=4, softplus=0.01)
    off = diffmj.Cfd(width=0)
    for cfd, custom in (
        (diffmj.Cfd(width=0, geoms={"a": same}), ""),
        (diffmj.Cfd(geoms={"a": off}, pairs={("b", "a"): same}), ""),
        (diffmj.Cfd(), '<custom><numeric name="cfd" data="0.2 0 0.005 1 4 0.01"/></custom>'),
    ):
        _, other = gradient(custom, cfd=cfd)
        np.testing.assert_array_equal(other.qvel, grad.qvel)
    _, none = gradient(cfd=diffmj.Cfd(pairs={("a", "b"): off}))
    assert none.qvel[0] == 0


def test_forward_is_another_motion():
    # not physical: the second ball is pushed from a distance
    traj, _ = gradient(cfd=diffmj.Cfd(forward=True))
    assert traj.qvel[-1, 6] > 1e-4


def test_forward_is_what_the_gradient_is_of():
    cfd = diffmj.Cfd(forward=True)
    for integrator in ("Euler", "implicitfast", "RK4"):
        _, grad = gradient(integrator=integrator, cfd=cfd)
        speed = [
            gradient(qvel=(1 + h) * QVEL, integrator=integrator, cfd=cfd)[0].qvel[-1, 6]
            for h in (1e-5, -1e-5)
        ]
        assert (speed[0] - speed[1]) / 2e-5 == pytest.approx(grad.qvel[0], rel=1e-5)


def test_cap_is_said():
    balls = "".join(
        f'<body pos="{0.12 * i} 0 0"><freejoint/><geom size=".05"/></body>' for i in range(6)
    )
    model = f"<mujoco><worldbody>{balls}</worldbody></mujoco>"
    for most, says in ((2, True), (30, False)):
        sim = diffmj.Simulator(model, cfd=diffmj.Cfd(width=1, max_contacts=most))
        traj = sim.rollout(nstep=3)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            traj.backward(qvel=np.ones_like(traj.qvel))
        assert bool(said) == says
        if says:
            assert "3 of 3 states" in str(said[0].message)
            assert "max_contacts" in str(said[0].message)


@pytest.mark.parametrize("method", ["gradient", "hybrid"])
def test_planners_say_it_too(method):
    for most, says in ((1, True), (30, False)):
        sim = diffmj.Simulator(BALLS_IN_A_ROW, cfd=diffmj.Cfd(width=1, max_contacts=most))
        cost = [diffmj.JointPosition(["x0"], [0.1])]
        planner = diffmj.Planner(sim, cost, method, horizon=3, iterations=2, samples=2, refined=1)
        assert cap_is_said(planner.plan) == says
        run = functools.partial(diffmj.run_mpc, planner, nstep=6, execute=3)
        assert cap_is_said(run) == says


@pytest.mark.parametrize("method", ["adam", "lbfgs"])
def test_fits_say_it_too(method):
    traj = diffmj.Simulator(BALLS_IN_A_ROW).rollout(qvel=[0.1, 0, 0, 0], nstep=5)
    ctrl = np.zeros((6, 1))
    data = [diffmj.Recording(traj.time, qpos=traj.qpos, qvel=traj.qvel, ctrl=ctrl)]
    for most, says in ((1, True), (30, False)):
        given = {"method": method, "iterations": 2}
        simulator = {"cfd": diffmj.Cfd(width=1, max_contacts=most)}
        fit = functools.partial(diffmj.identify, BALLS_IN_A_ROW, {"ball0/mass": 1.1}, data, **given)
        assert cap_is_said(functools.partial(fit, simulator=simulator)) == says


def test_controls_steps():
    settings = {"integrator": "tsit5", "interval": 0.3, "rtol": 1e-5, "atol": 1e-5, "nstep": 1}
    plain, _ = gradient(cfd=diffmj.Cfd(), **settings)
    finer, _ = gradient(cfd=diffmj.Cfd(controls_steps=True), **settings)
    assert finer.integrator.accepted > plain.integrator.accepted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": -1}, "width is -1"),
        ({"d_0": 2}, "d_0 is 2"),
        ({"midpoint": 0}, "midpoint is 0"),
        ({"power": 0}, "power is 0"),
        ({"softplus": -3}, "softplus is -3"),
        ({"d_0": -1}, "d_0 is -1, expected an impedance from 0 to 0.9999"),
        ({"max_contacts": 0}, "max_contacts is 0"),
        ({"max_contacts": "a"}, "Cfd: max_contacts is 'a', expected an integer"),
        ({"max_contacts": 2**40}, "max_contacts is 1099511627776, expected an integer up to"),
        ({"width": "wide"}, "width is 'wide'"),
        ({"geoms": {"c": diffmj.Cfd()}}, "no geom 'c'"),
        ({"geoms": {"a": 0.1}}, "expected a diffmj.Cfd"),
        ({"geoms": {"a": diffmj.Cfd(forward=True)}}, "has more than"),
    ],
)
def test_errors_name_the_number(options, message):
    with pytest.raises(diffmj.InputError, match=message):
        diffmj.Simulator(BALLS.format(custom=""), cfd=diffmj.Cfd(**options))


def test_refuses_other_paths():
    with pytest.raises(diffmj.UnsupportedError, match="analytic"):
        diffmj.Simulator(BALLS.format(custom=""), gradient_path="oracle", cfd=diffmj.Cfd())
    with pytest.raises(diffmj.InputError, match="expected a diffmj"):
        diffmj.Simulator(BALLS.format(custom=""), cfd=0.1)


def test_parameters_match_differences():
    """Of the forward diagnostic, in what a contact is made of."""
    import mujoco

    cfd = diffmj.Cfd(forward=True)
    names = ["geom_size", "geom_solref", "geom_solimp", "geom_margin"]

    def speed(model):
        traj = diffmj.Simulator(model, cfd=cfd).tightened().rollout(qvel=QVEL, nstep=5)
        return traj, traj.qvel[-1, 6]

    model = mujoco.MjModel.from_xml_string(BALLS.format(custom=""))
    traj, _ = speed(model)
    bar = np.zeros_like(traj.qvel)
    bar[-1, 6] = 1
    grad = traj.backward(qvel=bar, params=names)
    for name in names:
        field = getattr(model, name)
        entry = (1,) if field.ndim == 1 else (1, 0)
        h = 1e-6 * max(abs(field[entry]), 1e-2)
        value = field[entry]
        ends = []
        for sign in (1, -1):
            field[entry] = value + sign * h
            ends.append(speed(model)[1])
        field[entry] = value
        expected = (ends[0] - ends[1]) / (2 * h)
        assert grad.params[name][entry] == pytest.approx(expected, rel=1e-4, abs=1e-9), name
