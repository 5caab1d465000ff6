"""Linearly implicit steps, the choice of the method, and the onset of contacts."""

import warnings

import diffmj
import mujoco
import numpy as np
import pytest

SERVO = """<mujoco><option gravity="0 0 0"/>
<worldbody><body><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body>
</worldbody>
<actuator><position name="servo" joint="x" kp="%g" kv="%g"/></actuator></mujoco>"""

# a light joint with much damping beside one that swings
DAMPED = """<mujoco><worldbody>
<body><joint name="swing" axis="0 1 0"/><geom type="capsule" size=".03" fromto="0 0 0 0 0 -.5"/>
  <body pos="0 0 -.5"><joint name="tip" axis="0 1 0" damping="2" stiffness="5"/>
    <geom type="capsule" size=".01" fromto="0 0 0 .1 0 0"/></body></body>
</worldbody></mujoco>"""

BOX = """<mujoco><worldbody><geom name="floor" type="plane" size="5 5 .1"/>
<body pos="0 0 %g"><freejoint/><geom name="box" type="box" size=".1 .1 .1"/></body>
</worldbody></mujoco>"""


def exponential(matrix, t):
    values, vectors = np.linalg.eig(matrix)
    return ((vectors * np.exp(t * values)) @ np.linalg.inv(vectors)).real


def last_row(traj, params=(), **part):
    bars = {}
    for name, value in part.items():
        rows = traj.qvel.shape[0]
        bars[name] = np.zeros((rows, np.size(value)))
        bars[name][-1] = value
    return traj.backward(**bars, params=list(params))


def flat(gradient):
    return np.concatenate([getattr(gradient, k).ravel() for k in ("qpos_tangent", "qvel", "ctrl")])


@pytest.fixture(autouse=True)
def no_gradient_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", diffmj.GradientWarning)
        yield


@pytest.mark.parametrize("integrator", ["rodas4p", "auto"])
@pytest.mark.parametrize(("kp", "kv"), [(1000, 100), (5000, 1000), (1e6, 5e4)])
@pytest.mark.parametrize("speed", [0.0, 1e-3])
def test_servo_has_the_gradient_of_its_closed_form(integrator, kp, kv, speed):
    sim = diffmj.Simulator(SERVO % (kp, kv), integrator=integrator, interval=0.01)
    traj = sim.rollout(qvel=[speed], nstep=50)
    gradient = last_row(traj, qpos=1)
    flow = exponential(np.array([[0, 1], [-kp, -kv]]), 0.5)
    np.testing.assert_allclose(gradient.qvel, flow[0, 1:], rtol=1e-3)
    np.testing.assert_allclose(gradient.qpos, flow[0, :1], rtol=1e-3)
    np.testing.assert_allclose(gradient.ctrl.sum(), 1 - flow[0, 0], rtol=1e-3)
    # far beyond what an explicit method could do
    if kv >= 1000:
        assert traj.integrator.implicit.any()
        assert traj.integrator.accepted < 120
        assert traj.integrator.largest_step * kv > 5


def test_servo_at_rest_by_every_adjoint():
    flow = exponential(np.array([[0, 1], [-5000, -1000]]), 0.5)
    assert flow[0, 1] == pytest.approx(8.188e-5, rel=1e-3)
    for options in (
        {"integrator": "tsit5", "adjoint": "discrete"},
        {"integrator": "tsit5", "adjoint": "interpolated"},
        {"integrator": "tsit5", "adjoint": "backsolve"},
        {"integrator": "rodas4p"},
        {"integrator": "auto", "adjoint": "interpolated"},
    ):
        sim = diffmj.Simulator(SERVO % (5000, 1000), interval=0.01, **options)
        gradient = last_row(sim.rollout(nstep=50), qpos=1)
        assert gradient.qvel[0] == pytest.approx(8.188e-5, rel=1e-3)


def test_backsolve_of_a_moving_servo_is_right_or_refused():
    """Solved backwards over a long interval, what the servo damps grows beyond all numbers."""
    options = {"integrator": "tsit5", "adjoint": "backsolve"}
    sim = diffmj.Simulator(SERVO % (5000, 1000), interval=0.01, **options)
    gradient = last_row(sim.rollout(qvel=[1e-3], nstep=50), qpos=1)
    assert gradient.qvel[0] == pytest.approx(8.188e-5, rel=1e-3)
    sim = diffmj.Simulator(SERVO % (5000, 1000), interval=0.5, **options)
    with pytest.raises(diffmj.RolloutError, match=r"backsolve .* use the discrete adjoint"):
        last_row(sim.rollout(qvel=[1e-3], nstep=1), qpos=1)


def test_record_says_which_steps_are_implicit():
    names = ("tsit5", "rodas4p", "auto")
    sims = {x: diffmj.Simulator(DAMPED, integrator=x, interval=0.02) for x in names}
    trajs = {x: sim.rollout(qpos=[0.5, 0], nstep=50) for x, sim in sims.items()}
    assert not trajs["tsit5"].integrator.implicit.any()
    assert trajs["rodas4p"].integrator.implicit.all()
    implicit = trajs["auto"].integrator.implicit
    assert implicit.dtype == bool
    assert implicit.shape == (trajs["auto"].integrator.accepted,)
    assert implicit[-1]
    assert not implicit[0]
    assert trajs["auto"].integrator.accepted < 0.3 * trajs["tsit5"].integrator.accepted
    gradients = {
        x: flat(last_row(t, qpos_tangent=[1, 0.5], qvel=[0.2, 0])) for x, t in trajs.items()
    }
    for name in ("rodas4p", "auto"):
        np.testing.assert_allclose(trajs[name].qpos, trajs["tsit5"].qpos, rtol=0, atol=1e-5)
        scale = np.abs(gradients["tsit5"]).max()
        np.testing.assert_allclose(gradients[name], gradients["tsit5"], rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize(("damping", "rtol"), [(0.3, 1e-5), (0.5, 1e-6), (1, 1e-6)])
def test_auto_is_implicit_also_where_the_error_is_not_tiny(damping, rtol):
    """A fast swing beside the damped joint: stability allows a third of what the tolerance does."""
    model = DAMPED.replace('damping="2"', f'damping="{damping}"')
    options = {"interval": 0.02, "rtol": rtol, "atol": rtol / 10}
    a, b = (
        diffmj.Simulator(model, integrator=x, **options).rollout(qpos=[1.5, 0], nstep=50)
        for x in ("auto", "tsit5")
    )
    assert a.integrator.implicit.any()
    assert a.integrator.evaluations < 0.6 * b.integrator.evaluations
    np.testing.assert_allclose(a.qpos, b.qpos, rtol=0, atol=30 * rtol)


def test_auto_is_tsit5_where_nothing_is_stiff():
    model = DAMPED.replace('damping="2"', 'damping="1e-3"')
    a, b = (
        diffmj.Simulator(model, integrator=x, interval=0.02).rollout(qpos=[0.5, 0], nstep=20)
        for x in ("auto", "tsit5")
    )
    np.testing.assert_array_equal(a.qpos, b.qpos)
    assert not a.integrator.implicit.any()


@pytest.mark.parametrize("checkpoints", [1, 3, 1000])
def test_checkpoints_give_the_same_bits(checkpoints):
    gradients = []
    for n in (None, checkpoints):
        sim = diffmj.Simulator(DAMPED, integrator="auto", interval=0.02, checkpoints=n)
        traj = sim.rollout(qpos=[0.5, 0.1], nstep=10)
        gradients.append(flat(last_row(traj, qpos_tangent=[1, 0.5])))
    np.testing.assert_array_equal(*gradients)


def test_steps_of_are_made_by_the_same_methods():
    sim = diffmj.Simulator(DAMPED, integrator="auto", interval=0.02)
    traj = sim.rollout(qpos=[0.5, 0.1], nstep=10)
    again = sim.rollout(qpos=[0.5, 0.1], nstep=10, steps_of=traj)
    np.testing.assert_array_equal(traj.qpos, again.qpos)
    np.testing.assert_array_equal(traj.integrator.implicit, again.integrator.implicit)


def test_linearize_along_implicit_steps():
    sims = [diffmj.Simulator(DAMPED, integrator=x, interval=0.02) for x in ("rodas4p", "dopri8")]
    a, b = (sim.rollout(qpos=[0.5, 0.1], nstep=3).linearize()[0] for sim in sims)
    np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max())


@pytest.mark.parametrize("integrator", ["rodas4p", "auto"])
@pytest.mark.parametrize(
    ("adjoint", "why"), [("discrete", "second derivatives"), ("backsolve", "solved backwards")]
)
def test_other_adjoints_are_refused_with_the_reason(integrator, adjoint, why):
    with pytest.raises(diffmj.InputError, match=f"adjoint is '{adjoint}'.*{why}"):
        diffmj.Simulator(SERVO % (1, 1), integrator=integrator, adjoint=adjoint)


def test_auto_has_no_constant_step():
    with pytest.raises(diffmj.InputError, match="step is given, but integrator auto"):
        diffmj.Simulator(SERVO % (1, 1), integrator="auto", step=1e-3)


def test_onset_makes_a_landing_continuous():
    """A box that lands flat: the gradient is that of differences, without any event."""
    sim = diffmj.Simulator(
        BOX % 0.12, integrator="auto", interval=0.01, onset=1e-4, rtol=1e-8, atol=1e-8
    )
    tight = {"nstep": 12}
    start = sim.default_state()
    traj = sim.rollout(qvel=[0.1, 0, -0.5, 0, 0, 0], **tight)
    assert traj.integrator.events == []
    gradient = last_row(traj, qpos_tangent=[0, 0, 1, 0, 0, 0])
    step = 1e-5
    ends = []
    for sign in (1, -1):
        qpos = start.qpos.copy()
        qpos[2] += sign * step
        ends.append(sim.rollout(qpos=qpos, qvel=[0.1, 0, -0.5, 0, 0, 0], **tight).qpos[-1, 2])
    assert gradient.qpos_tangent[2] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=2e-3)


def sole() -> str:
    """A pole that sways on a foot. The sole has 16 corners whose heights differ by up to 20 µm."""
    angle = 2 * np.pi * np.arange(16) / 16
    rim = np.stack([0.1 * np.cos(angle), 0.05 * np.sin(angle)], axis=1)
    low = -0.02 + 2e-5 * np.random.default_rng(3).random(16)
    corners = np.concatenate([np.c_[rim, low], np.c_[rim, np.full(16, 0.02)]])
    vertices = " ".join(f"{x:.7f}" for x in corners.ravel())
    return f"""<mujoco><asset><mesh name="sole" vertex="{vertices}"/></asset><worldbody>
<geom name="floor" type="plane" size="1 1 1"/><body pos="0 0 .025"><freejoint/>
<geom name="sole" type="mesh" mesh="sole" mass=".2"/>
<body><joint axis="0 1 0" stiffness="40" damping="1"/>
<geom type="capsule" fromto="0 0 0 0 0 .3" size=".02" mass="1"/></body></body>
</worldbody></mujoco>"""


def test_contacts_that_jump():
    """MuJoCo keeps four corners of a sole, and others from one pose to the next: forces jump, and
    the gradient is not that of the motion. Smooth collisions are the remedy."""
    options = {"integrator": "auto", "interval": 0.01, "onset": 1e-4, "rtol": 1e-7, "atol": 1e-8}
    start = np.array([0, 0, 0, 0.05, 0, 0, 0.3])
    with pytest.warns(diffmj.JumpWarning, match="'floor' and geom 'sole' jumps.*\"smooth\""):
        rough = diffmj.Simulator(sole(), **options).rollout(qvel=start, nstep=30)
    sim = diffmj.Simulator(sole(), **options, collisions="smooth")
    with warnings.catch_warnings():
        warnings.simplefilter("error", diffmj.JumpWarning)
        traj = sim.rollout(qvel=start, nstep=30)
    assert traj.integrator.rejected < 0.3 * rough.integrator.rejected
    rng = np.random.default_rng(1)
    weight, direction = rng.standard_normal((2, sim.nv))
    slope = last_row(traj, qvel=weight).qvel @ direction
    step = 1e-4
    ends = [sim.rollout(qvel=start + x * direction, nstep=30).qvel[-1] for x in (step, -step)]
    assert slope == pytest.approx(weight @ (ends[0] - ends[1]) / (2 * step), rel=5e-3)


TUMBLING_BOX = """<mujoco><option cone="%s"/><worldbody>
<geom name="floor" type="plane" size="5 5 1"/>
<body pos="0 0 .12" euler="10 20 0"><freejoint/>
<geom type="box" size=".1 .08 .05" friction=".4"/></body></worldbody></mujoco>"""


def tumbling_box(cone: str, onset: float, **options):
    """Corners that touch, slide and stick: p' jumps where they do."""
    sim = diffmj.Simulator(
        TUMBLING_BOX % cone,
        integrator="auto",
        interval=0.02,
        rtol=1e-8,
        atol=1e-9,
        onset=onset,
        **options,
    )
    traj = sim.rollout(qvel=[1, 0.3, 0, 0, 1, 0], nstep=20)
    return traj, last_row(traj, qpos_tangent=np.ones(6), qvel=np.ones(6))


@pytest.mark.parametrize("onset", [1e-3, 0])
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_adjoint_resolves_changes_of_contact(cone, onset):
    gradients = []
    for rtol in (1e-5, 1e-10):
        traj, gradient = tumbling_box(cone, onset, adjoint_rtol=rtol, adjoint_atol=rtol / 10)
        gradients.append(flat(gradient))
        if rtol == 1e-5:
            # 1.6 to 2.3 where corners of the field are not located
            nstep = gradient.statistics["accepted"] + gradient.statistics["rejected"]
            assert nstep < 1.5 * traj.integrator.accepted
    # 2e-5 to 9e-5; 1e-3 where steps across such corners are judged like others
    np.testing.assert_allclose(*gradients, atol=2e-4 * np.abs(gradients[1]).max())


def test_located_corners_are_the_same_with_checkpoints():
    kept, few = (flat(tumbling_box("pyramidal", 1e-3, **x)[1]) for x in ({}, {"checkpoints": 5}))
    np.testing.assert_array_equal(few, kept)


def test_onset_converges_to_none():
    ends = []
    for onset in (0, 1e-6, 1e-4):
        sim = diffmj.Simulator(
            BOX % 0.12, integrator="auto", interval=0.01, rtol=1e-8, atol=1e-8, onset=onset
        )
        ends.append(sim.rollout(qvel=[0.1, 0, -0.5, 0, 0, 0], nstep=20).qpos[-1, 2])
    assert abs(ends[1] - ends[0]) < 2e-6
    assert abs(ends[1] - ends[0]) < abs(ends[2] - ends[0]) < 2e-4


@pytest.mark.parametrize(
    ("name", "index", "size"),
    [
        ("geom_solimp", 0, 1e-4),
        ("geom_solimp", 1, 1e-4),
        ("geom_solref", 0, 1e-5),
        ("geom_margin", 0, 1e-6),
    ],
)
def test_onset_of_parameters(name, index, size):
    """A box that starts within the width; every geom is changed alike."""
    options = {
        "integrator": "auto",
        "interval": 0.01,
        "onset": 5e-4,
        "rtol": 1e-9,
        "atol": 1e-9,
    }

    def end(change):
        model = mujoco.MjModel.from_xml_string(BOX % 0.0999)
        field = getattr(model, name).reshape(model.ngeom, -1)
        field[:, index] += change
        return diffmj.Simulator(model, **options).rollout(nstep=5)

    gradient = last_row(end(0), qpos_tangent=[0, 0, 1, 0, 0, 0], params=[name])
    entries = gradient.params[name].reshape(2, -1)[:, index]
    difference = (end(size).qpos[-1, 2] - end(-size).qpos[-1, 2]) / (2 * size)
    assert abs(difference) > 1e-6
    assert entries.sum() == pytest.approx(difference, rel=1e-3)


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("jacobian", ["dense", "sparse"])
def test_onset_with_a_no_slip_pass(cone, jacobian):
    """A box that lands and slides: the gradient is that of differences."""
    option = f'<option noslip_iterations="3" cone="{cone}" jacobian="{jacobian}"/>'
    model = mujoco.MjModel.from_xml_string(
        (BOX % 0.11).replace("<worldbody>", option + "<worldbody>")
    )
    sim = diffmj.Simulator(
        model, integrator="auto", interval=0.01, onset=5e-4, rtol=1e-9, atol=1e-9
    )
    speed = np.array([0.7, 0.2, -0.3, 0.3, 0.2, 0.5])
    traj = sim.rollout(qvel=speed, nstep=8)
    assert traj.integrator.events == []
    assert traj.steps.nefc.max() > 0
    gradient = last_row(traj, qpos_tangent=[0.3, 0.1, 1, 0, 0.2, 0])
    direction = np.array([0.5, -0.3, 1, 0.2, 0.1, -0.4])

    def end(size):
        other = sim.rollout(qvel=speed + size * direction, nstep=8)
        out = np.zeros(sim.nv)
        mujoco.mj_differentiatePos(model, out, 1, traj.qpos[-1], other.qpos[-1])
        return out @ [0.3, 0.1, 1, 0, 0.2, 0]

    # rollouts that choose their own steps differ by 1e-9: smaller steps show that
    difference = (end(1e-4) - end(-1e-4)) / 2e-4
    assert gradient.qvel @ direction == pytest.approx(difference, rel=1e-3)


def test_onset_is_refused_where_it_cannot_be():
    with pytest.raises(diffmj.UnsupportedError, match=r"onset .* contacts from distance"):
        diffmj.Simulator(BOX % 0.1, integrator="auto", onset=1e-3, cfd=diffmj.Cfd())
    with pytest.raises(diffmj.InputError, match="onset"):
        diffmj.Simulator(BOX % 0.1, onset=1e-5)
    with pytest.raises(diffmj.InputError, match=r"onset is 1e-05, .* at least 5 \(rtol \+ atol\)"):
        diffmj.Simulator(BOX % 0.1, integrator="auto", onset=1e-5, rtol=1e-5)
    with pytest.raises(diffmj.InputError, match="onset is -1"):
        diffmj.Simulator(BOX % 0.1, integrator="auto", onset=-1)
