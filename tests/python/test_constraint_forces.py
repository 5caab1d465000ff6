"""Constraint forces along a trajectory, and losses that use them."""

import dataclasses

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import key_data, load, may_fall_back, ridders, tighten

# A sphere that a motor presses onto the floor: it rests on one contact.
SPHERE = """
<mujoco>
  <option timestep="0.002" cone="{cone}"/>
  <default><geom solref="0.02 1" solimp="0 0.95 0.01 0.5 2"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1"/>
    <body name="ball" pos="0 0 0.0995"><freejoint name="free"/>
      <geom name="sphere" type="sphere" size="0.1" mass="0.7"/></body>
  </worldbody>
  <actuator><motor name="press" joint="free" gear="0 0 1 0 0 0"/></actuator>
</mujoco>
"""
WEIGHT = 0.7 * 9.81
CONES = ("pyramidal", "elliptic")


def sphere_model(cone: str = "elliptic") -> mujoco.MjModel:
    return tighten(mujoco.MjModel.from_xml_string(SPHERE.format(cone=cone)))


@pytest.fixture
def sphere() -> diffmj.Simulator:
    return diffmj.Simulator(sphere_model())


@pytest.mark.smoke
@pytest.mark.parametrize("cone", CONES)
def test_resting_sphere_carries_its_weight(cone):
    sim = diffmj.Simulator(sphere_model(cone))
    traj = sim.rollout(nstep=1000)
    forces = traj.constraint_forces(999)
    assert isinstance(forces, diffmj.ConstraintForces)
    (contact,) = forces.contacts
    assert isinstance(contact, diffmj.Contact)
    np.testing.assert_allclose(contact.force[0], WEIGHT, rtol=1e-3)
    np.testing.assert_allclose(contact.force[1:], 0, atol=1e-6)
    assert contact.geom == (0, 1)  # the normal points from the floor to the sphere
    np.testing.assert_allclose(contact.frame[0], [0, 0, 1])
    np.testing.assert_allclose(contact.frame @ contact.frame.T, np.eye(3), atol=1e-14)
    # halfway between the floor and the lowest point of the sphere, which sinks in
    np.testing.assert_allclose(contact.pos, [0, 0, (traj.qpos[999, 2] - 0.1) / 2], atol=1e-12)
    assert (contact.row, contact.dim) == (0, 3)
    # rows: normal and two tangents, or four edges whose sum is the normal force
    constraint = mujoco.mjtConstraint
    if cone == "elliptic":
        assert forces.force.shape == (3,)
        assert (forces.type == constraint.mjCNSTR_CONTACT_ELLIPTIC).all()
        np.testing.assert_array_equal(forces.force, contact.force[:3])
    else:
        assert forces.force.shape == (4,)
        assert (forces.type == constraint.mjCNSTR_CONTACT_PYRAMIDAL).all()
        np.testing.assert_allclose(forces.force.sum(), contact.force[0])
    np.testing.assert_array_equal(forces.id, 0)
    # a motor that presses adds to it
    pressed = sim.rollout(ctrl=[-3.0], nstep=1000).constraint_forces(999)
    np.testing.assert_allclose(pressed.contacts[0].force[0], WEIGHT + 3, rtol=1e-3)


@pytest.mark.smoke
@pytest.mark.parametrize(
    "name", ["contact_plane", "contact_plane_ell", "limits", "eq_weld", "hand", "humanoid"]
)
@may_fall_back
def test_forces_are_those_of_mujoco(name):
    model = load(name, tight=True)
    sim = diffmj.Simulator(model)
    assert sim.integrator != "RK4"
    state = sim.keyframe_state("test")
    traj = sim.rollout(**vars(state), nstep=5)
    for step in range(traj.nstep):
        data = key_data(model)
        data.time = traj.time[step]
        data.qpos[:], data.qvel[:], data.act[:] = (
            traj.qpos[step],
            traj.qvel[step],
            traj.act[step],
        )
        mujoco.mj_forward(model, data)
        forces = traj.constraint_forces(step)
        assert data.nefc > 0
        assert forces.force.shape == (data.nefc,) == (traj.steps.nefc[step],)
        size = max(1, np.abs(data.efc_force).max())
        np.testing.assert_allclose(forces.force, data.efc_force, rtol=0, atol=1e-6 * size)
        np.testing.assert_array_equal(forces.type, data.efc_type)
        np.testing.assert_array_equal(forces.id, data.efc_id)
        assert len(forces.contacts) == data.ncon == traj.steps.ncon[step]
        for i, contact in enumerate(forces.contacts):
            wrench = np.zeros(6)
            mujoco.mj_contactForce(model, data, i, wrench)
            np.testing.assert_allclose(contact.force, wrench, rtol=0, atol=1e-6 * size)
            np.testing.assert_array_equal(contact.pos, data.contact.pos[i])
            np.testing.assert_array_equal(contact.frame.ravel(), data.contact.frame[i])
            assert contact.geom == tuple(data.contact.geom[i])
            assert contact.row == data.contact.efc_address[i]
            assert contact.dim == data.contact.dim[i]


def test_types(sphere):
    forces = sphere.rollout(nstep=2).constraint_forces(np.int64(1))
    assert forces.force.dtype == np.float64
    assert forces.type.dtype.kind == forces.id.dtype.kind == "i"
    (contact,) = forces.contacts
    assert (contact.pos.shape, contact.frame.shape, contact.force.shape) == ((3,), (3, 3), (6,))
    assert [type(x) for x in (*contact.geom, contact.row, contact.dim)] == [int] * 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        forces.force = np.zeros(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        contact.row = 1


def test_step_without_constraints(arm):
    traj = arm.rollout(qvel=np.ones(arm.nv), nstep=3)
    forces = traj.constraint_forces(2)
    assert forces.force.shape == forces.type.shape == forces.id.shape == (0,)
    assert forces.contacts == []
    gradient = traj.backward(efc_force={2: []})
    assert not gradient.qvel.any() and not gradient.ctrl.any()


def normal_force(traj: diffmj.Trajectory, step: int) -> float:
    (contact,) = traj.constraint_forces(step).contacts
    return contact.force[0]


@pytest.mark.smoke
@pytest.mark.parametrize("path", ["analytic", "oracle"])
@pytest.mark.parametrize("cone", CONES)
def test_gradient_of_a_normal_force_matches_differences(cone, path):
    sim = diffmj.Simulator(sphere_model(cone), gradient_path=path)
    nstep, step = 6, 4
    start = {
        "qpos": sim.default_state().qpos,
        "qvel": np.array([0.02, -0.01, -0.05, 0.1, 0.2, 0.1]),
        "ctrl": np.linspace(-1, 1, nstep)[:, None],
    }
    traj = sim.rollout(**start)
    # d(normal force)/d(row): the first row, or all edges of the pyramid
    weights = np.array([1.0, 0, 0]) if cone == "elliptic" else np.ones(4)
    gradient = traj.backward(efc_force={step: weights})

    def difference(name: str, index: tuple[int, ...]) -> float:
        def force(h: float) -> float:
            moved = start[name].copy()
            moved[index] += h
            return normal_force(sim.rollout(**(start | {name: moved})), step)

        numeric, error_bar = ridders(force, step=1e-4 if name == "qpos" else 1e-2)
        assert error_bar < 1e-5 * max(abs(numeric), 1), (name, index, error_bar)
        return numeric

    height = difference("qpos", (2,))
    assert height < -100  # deeper is stiffer
    np.testing.assert_allclose(gradient.qpos[2], height, rtol=1e-5)
    np.testing.assert_allclose(gradient.qvel[2], difference("qvel", (2,)), rtol=1e-5)
    for i in range(nstep):
        numeric = difference("ctrl", (i, 0))
        assert (numeric != 0) == (
            i <= step
        )  # the motor of the same step matters, later ones do not
        np.testing.assert_allclose(gradient.ctrl[i, 0], numeric, rtol=1e-5, atol=1e-8)
    # the cotangents of rows that are tangents count too, along a random direction
    rng = np.random.default_rng(0)
    rows = {i: rng.standard_normal(traj.steps.nefc[i]) for i in (1, 4, 5)}
    gradient = traj.backward(efc_force=rows)
    d = {name: rng.standard_normal(x.shape) for name, x in start.items() if name != "qpos"}

    def loss(h: float) -> float:
        moved = {name: start[name] + h * x for name, x in d.items()}
        t = sim.rollout(qpos=start["qpos"], **moved)
        return sum(w @ t.constraint_forces(i).force for i, w in rows.items())

    numeric, error_bar = ridders(loss, step=1e-3)
    assert error_bar < 1e-5 * abs(numeric)
    adjoint = gradient.qvel @ d["qvel"] + np.sum(gradient.ctrl * d["ctrl"])
    np.testing.assert_allclose(adjoint, numeric, rtol=1e-5)


def test_adds_to_other_cotangents(sphere):
    traj = sphere.rollout(ctrl=np.full((5, 1), -0.5))
    states = np.random.default_rng(0).standard_normal(traj.qpos.shape)
    forces = {3: [1, 0.2, -0.3], np.int64(0): np.float32([1, 0, 0])}
    total = traj.backward(qpos=states, efc_force=forces, params=["opt.gravity"])
    parts = (
        traj.backward(qpos=states, params=["opt.gravity"]),
        traj.backward(efc_force=forces, params=["opt.gravity"]),
    )
    for field in ("qpos", "qpos_tangent", "qvel", "ctrl", "qfrc_applied"):
        expected = sum(getattr(part, field) for part in parts)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(getattr(total, field), expected, atol=1e-11 * scale)
    expected = sum(part.params["opt.gravity"] for part in parts)
    np.testing.assert_allclose(total.params["opt.gravity"], expected, rtol=1e-6, atol=1e-6)
    # missing steps are zero, and a dict without steps is all of them
    zeros = traj.backward(efc_force={i: np.zeros(3) for i in range(5)})
    for gradient in (zeros, traj.backward(efc_force={})):
        assert not gradient.qpos.any() and not gradient.ctrl.any()
    again = traj.backward(efc_force={i: forces.get(i, np.zeros(3)) for i in range(5)})
    np.testing.assert_array_equal(again.ctrl, parts[1].ctrl)


@pytest.mark.smoke
def test_batch(sphere):
    heights = np.zeros((3, 7)) + sphere.default_state().qpos
    heights[:, 2] += [0, -0.0002, 1]  # the last one flies
    ctrl = np.full((5, 1), -0.5)
    batch = sphere.rollout(qpos=heights, ctrl=ctrl)
    rows = [{2: [1, 0, 0], 4: [0, 1, 0.5]}, {0: [1, 1, 0]}, None]
    gradients = batch.backward(efc_force=rows)
    for i, qpos in enumerate(heights):
        single = sphere.rollout(qpos=qpos, ctrl=ctrl)
        for step in range(5):
            x, y = batch.constraint_forces(step, rollout=i), single.constraint_forces(step)
            np.testing.assert_array_equal(x.force, y.force)
            np.testing.assert_array_equal(x.type, y.type)
            assert len(x.contacts) == len(y.contacts) == (i < 2)
        gradient = single.backward(efc_force=rows[i] or {})
        for field in ("qpos", "qpos_tangent", "qvel", "ctrl", "qfrc_applied"):
            np.testing.assert_array_equal(getattr(gradients, field)[i], getattr(gradient, field))
    assert gradients.qpos[:2].any() and not gradients.qpos[2].any()
    # a tuple will do, and one rollout can be a batch
    one = sphere.rollout(qpos=heights[:1], ctrl=ctrl).backward(efc_force=(rows[0],))
    np.testing.assert_array_equal(one.qpos, gradients.qpos[:1])


def test_failed_rollout_of_a_batch(cube):
    force = np.zeros((2, 50, 6))
    force[0, 10:, 2] = 1e10
    with pytest.warns(RuntimeWarning, match="1 of 2"):
        batch = cube.rollout(qfrc_applied=force)
    done = batch.completed[0]
    batch.constraint_forces(done - 1, rollout=0)
    with pytest.raises(diffmj.InputError, match=f"step is {done}, expected 0 to {done - 1}"):
        batch.constraint_forces(done, rollout=0)
    rows = [{40: [1, 2, 3]}, {49: np.ones(batch.steps.nefc[1, 49])}]
    gradient = batch.backward(efc_force=rows)
    assert np.isnan(gradient.qvel[0]).all()
    expected = cube.rollout(qfrc_applied=force[1]).backward(efc_force=rows[1])
    np.testing.assert_array_equal(gradient.qvel[1], expected.qvel)


def test_wrong_step_or_rollout(sphere):
    single = sphere.rollout(nstep=3)
    batch = sphere.rollout(qvel=np.zeros((2, 6)), nstep=3)
    for wrong, match in [
        (3, r"constraint_forces: step is 3, expected 0 to 2"),
        (-1, r"step is -1, expected 0 to 2"),
        (2**40, r"expected 0 to 2"),
        (0.5, r"step is 0.5, expected an integer"),
    ]:
        with pytest.raises(diffmj.InputError, match=match):
            single.constraint_forces(wrong)
        with pytest.raises(diffmj.InputError, match=match):
            batch.constraint_forces(wrong, rollout=1)
    with pytest.raises(diffmj.InputError, match="rollout is 0, but there is no batch"):
        single.constraint_forces(0, rollout=0)
    with pytest.raises(diffmj.InputError, match=r"rollout is not given.*batch of 2"):
        batch.constraint_forces(0)
    with pytest.raises(diffmj.InputError, match="rollout is 2, expected 0 to 1"):
        batch.constraint_forces(0, rollout=2)
    with pytest.raises(diffmj.InputError, match="step is 0, but there is none"):
        sphere.rollout(nstep=0).constraint_forces(0)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({3: np.ones(3)}, r"a step of efc_force is 3, expected 0 to 2"),
        ({-1: np.ones(3)}, r"a step of efc_force is -1, expected 0 to 2"),
        ({"1": np.ones(3)}, r"a step of efc_force is '1', expected an integer"),
        ({1: np.ones(4)}, r"efc_force\[1\] has shape \(4,\), expected \(nefc,\) = \(3,\)"),
        ({1: []}, r"efc_force\[1\] has shape \(0,\), expected \(nefc,\) = \(3,\)"),
        ({1: np.ones((1, 3))}, r"efc_force\[1\] has shape \(1, 3\), expected \(nefc,\) = \(3,\)"),
        ({1: "abc"}, r"efc_force\[1\] cannot be converted"),
        ({1: [0, np.nan, 0]}, r"backward: efc_force\[1\]\[1\] is nan, expected finite"),
        ([np.ones(3)] * 3, r"efc_force is a list, expected a dict"),
        (np.ones((3, 3)), r"efc_force is a ndarray, expected a dict"),
    ],
)
def test_wrong_cotangent(sphere, wrong, match):
    with pytest.raises(diffmj.InputError, match=match):
        sphere.rollout(nstep=3).backward(efc_force=wrong)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({0: np.ones(3)}, r"efc_force is a dict, expected a list.*B = 2"),
        ([{}], r"efc_force has 1 entries, expected a list with one entry per rollout, B = 2"),
        ([{}, 1], r"efc_force\[1\] is a int, expected a dict"),
        ([{}, {3: np.ones(3)}], r"a step of efc_force\[1\] is 3, expected 0 to 2"),
        ([{}, {0: np.ones(2)}], r"efc_force\[1\]\[0\] has shape \(2,\).* = \(3,\)"),
        ([None, {0: np.full(3, np.inf)}], r"efc_force\[1\]\[0\]\[0\] is inf, expected finite"),
    ],
)
def test_wrong_cotangent_of_a_batch(sphere, wrong, match):
    with pytest.raises(diffmj.InputError, match=match):
        sphere.rollout(qvel=np.zeros((2, 6)), nstep=3).backward(efc_force=wrong)


def test_no_cotangent_names_efc_force(sphere):
    with pytest.raises(diffmj.InputError, match=r"at least one of qpos.*and efc_force"):
        sphere.rollout(nstep=3).backward()


@may_fall_back
def test_unsupported():
    rk4 = diffmj.Simulator(sphere_model(), integrator="RK4")
    for start in ({}, {"qvel": np.zeros((2, 6))}):
        traj = rk4.rollout(**start, nstep=2)
        forces = {0: np.ones(np.ravel(traj.steps.nefc)[0])}
        with pytest.raises(diffmj.UnsupportedError, match=r"efc_force.*RK4"):
            traj.backward(efc_force=[forces, None] if start else forces)
        with pytest.raises(diffmj.UnsupportedError, match=r"constraint_forces.*RK4"):
            traj.constraint_forces(0, rollout=0 if start else None)
    discrete = diffmj.Simulator(sphere_model(), integrator="discrete")
    traj = discrete.rollout(nstep=2)
    with pytest.raises(diffmj.UnsupportedError, match=r"efc_force.*differences"):
        traj.backward(efc_force={0: np.ones(traj.steps.nefc[0])})
    with pytest.raises(diffmj.UnsupportedError, match="integrator discrete"):
        traj.constraint_forces(0)
